//! A short list of what was used last.

use ottava_hal::Result;

/// At most `bound` values by key; the one that was not used for longest goes first.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    items: Vec<(K, V)>,
    bound: usize,
}

impl<K: PartialEq, V: Clone> Lru<K, V> {
    /// An empty list.
    pub(crate) fn new(bound: usize) -> Self {
        Self { items: Vec::with_capacity(bound), bound }
    }

    /// The value of a key, made if it is not there; whether it was.
    pub(crate) fn get_or(&mut self, key: K, make: impl FnOnce() -> Result<V>) -> Result<V> {
        let at = match self.items.iter().position(|(k, _)| *k == key) {
            Some(at) => at,
            None => {
                let value = make()?;
                if self.items.len() == self.bound {
                    self.items.pop();
                }
                self.items.push((key, value));
                self.items.len() - 1
            }
        };
        self.items[..=at].rotate_right(1);
        Ok(self.items[0].1.clone())
    }

    #[cfg(test)]
    fn keys(&self) -> Vec<&K> {
        self.items.iter().map(|(k, _)| k).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Error;

    #[test]
    fn what_was_used_last_stays() {
        let mut lru = Lru::new(2);
        for key in [1, 2, 1, 3] {
            assert_eq!(lru.get_or(key, || Ok(key * 10)), Ok(key * 10));
        }
        assert_eq!(lru.keys(), [&3, &1]);
        assert_eq!(lru.get_or(1, || Err(Error::invalid("it is there"))), Ok(10));
        assert!(lru.get_or(7, || Err(Error::invalid("it is not"))).is_err());
        assert_eq!(lru.keys(), [&1, &3]);
    }
}

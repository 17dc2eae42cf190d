//! Unique, deterministic names.
use std::collections::{HashMap, HashSet};

/// Names that are taken, and where the search for the next free one goes on.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    next: HashMap<String, usize>,
}

impl Names {
    /// Takes `name` as it is; whether it was free.
    pub fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Takes `wanted`, or the first free one of `wanted_1`, `wanted_2`, ...
    pub fn unique(&mut self, wanted: &str) -> String {
        if self.take(wanted) {
            return wanted.to_owned();
        }
        loop {
            let n = self.next.entry(wanted.to_owned()).or_insert(0);
            *n += 1;
            let name = format!("{wanted}_{n}");
            if self.take(&name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_the_first_free_number() {
        let mut names = Names::default();
        assert!(names.take("x_2"));
        let got: Vec<_> = (0..4).map(|_| names.unique("x")).collect();
        assert_eq!(got, ["x", "x_1", "x_3", "x_4"]);
        assert!(!names.take("x_4"));
    }
}

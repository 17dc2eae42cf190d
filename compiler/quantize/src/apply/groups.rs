//! Groups of values that share their parameters: what a mover reads and writes, and what a concatenation joins.

use ottava_hal::ValueId;

/// A union-find over values. The representative of a group is its smallest value, so results do not depend on the order
/// of the unions.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    parent: Vec<usize>,
}

impl Groups {
    pub(crate) fn new(values: usize) -> Self {
        Self { parent: (0..values).collect() }
    }

    /// The representative of a value's group.
    pub(crate) fn find(&self, id: ValueId) -> usize {
        let mut at = id.0;
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    /// Joins two groups.
    pub(crate) fn union(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.find(a), self.find(b));
        let root = a.min(b);
        self.parent[a.max(b)] = root;
        // Halves the paths, so that long chains of movers stay cheap to follow.
        self.parent[a] = root;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_do_not_depend_on_the_order_of_unions() {
        let pairs = [(5, 2), (2, 9), (0, 1), (9, 1)];
        let build = |order: &[usize]| {
            let mut groups = Groups::new(10);
            order.iter().for_each(|&i| groups.union(ValueId(pairs[i].0), ValueId(pairs[i].1)));
            (0..10).map(|v| groups.find(ValueId(v))).collect::<Vec<_>>()
        };
        assert_eq!(build(&[0, 1, 2, 3]), build(&[3, 1, 0, 2]));
        assert_eq!(build(&[0, 1, 2, 3]), [0, 0, 0, 3, 4, 0, 6, 7, 8, 0]);
    }
}

//! Where buffers of working memory lie: a first fit over lifetimes, the largest buffers first.

/// A buffer that lives from its first to its last step, both included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub bytes: usize,
    pub first: usize,
    pub last: usize,
}

/// An offset per lease, multiples of `alignment`, and the bytes of the whole. Leases that live at the same time do not
/// overlap.
pub(crate) fn plan(leases: &[Lease], alignment: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..leases.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(leases[i].bytes), leases[i].first, i));
    let mut offsets = vec![0; leases.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(leases.len());
    let mut total = 0;
    for i in order {
        let lease = leases[i];
        let meets = |j: &&usize| leases[**j].first <= lease.last && lease.first <= leases[**j].last;
        let mut taken: Vec<(usize, usize)> =
            placed.iter().filter(meets).map(|&j| (offsets[j], offsets[j] + leases[j].bytes)).collect();
        taken.sort_unstable();
        let mut at: usize = 0;
        for (begin, end) in taken {
            if begin >= at + lease.bytes {
                break;
            }
            at = at.max(end.next_multiple_of(alignment));
        }
        offsets[i] = at;
        total = total.max(at + lease.bytes);
        placed.push(i);
    }
    (offsets, total.next_multiple_of(alignment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_live_together_do_not_overlap_and_others_share() {
        let lease = |bytes, first, last| Lease { bytes, first, last };
        let leases = [lease(100, 0, 1), lease(60, 1, 2), lease(100, 2, 3), lease(8, 0, 3)];
        let (at, total) = plan(&leases, 64);
        for (i, a) in leases.iter().enumerate() {
            for (j, b) in leases.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let apart = at[i] + a.bytes <= at[j] || at[j] + b.bytes <= at[i];
                assert!(!together || apart, "{i} and {j}");
            }
        }
        assert!(at.iter().all(|a| a % 64 == 0));
        assert_eq!(at[0], at[2], "the third takes the place of the first");
        assert_eq!(total, 256);
    }
}

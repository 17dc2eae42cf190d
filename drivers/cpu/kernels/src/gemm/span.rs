//! Which activation bytes a filter reads: spans of neighbouring bytes, cut into groups of the width that a form reads.

/// `len` neighbouring bytes of the activation row from `offset` on, which meet the weights `k .. k + len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: usize,
    pub(crate) k: usize,
    pub(crate) len: usize,
}

/// Bytes that one step reads from `offset` on; byte `first + i`, `i < n`, meets the weight `k + i`, the others weigh nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) offset: usize,
    pub(super) first: usize,
    pub(super) k: usize,
    pub(super) n: usize,
}

impl Span {
    /// Groups of `width` bytes that cover the span. The last one is moved back to end where the span ends, so that only spans shorter
    /// than a group read beyond themselves.
    pub(super) fn groups(self, width: usize) -> impl Iterator<Item = Group> {
        (0..self.len).step_by(width).map(move |at| {
            let n = width.min(self.len - at);
            let back = (width - n).min(at);
            Group { offset: self.offset + at - back, first: back, k: self.k + at, n }
        })
    }

    /// Bytes from the start of the row that groups of `width` read.
    pub(super) fn reach(self, width: usize) -> usize {
        self.offset + self.len.max(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_each_byte_once_and_end_with_the_span() {
        for (len, width) in (1..70).flat_map(|len| [4, 8, 16].map(|width| (len, width))) {
            let span = Span { offset: 5, k: 100, len };
            let mut seen = vec![0; len];
            for group in span.groups(width) {
                assert!(group.offset >= 5 && group.offset + width <= span.reach(width));
                assert!(group.first + group.n <= width);
                for i in 0..group.n {
                    assert_eq!(group.offset + group.first + i - 5, group.k + i - 100);
                    seen[group.k + i - 100] += 1;
                }
            }
            assert_eq!(seen, vec![1; len], "{len} in groups of {width}");
        }
    }
}

//! Copies along strides: one loop for Transpose, Expand and Slice of any rank.

use ottava_hal::{Error, Result, Status};

/// Reads a tensor along strides and writes it densely. Neighbouring axes that can be walked as one are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Extents of the result, merged, without the innermost run.
    dims: Vec<usize>,
    /// Byte strides of the source for `dims`.
    strides: Vec<usize>,
    /// First byte read.
    start: usize,
    /// Bytes that lie together in source and result.
    run: usize,
}

impl Walk {
    /// A walk over a result of extents `dims`, whose axis `i` moves `strides[i]` elements of `width` bytes in the source.
    pub(crate) fn new(dims: &[usize], strides: &[usize], width: usize) -> Self {
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(dims.len());
        for (&n, &s) in dims.iter().zip(strides).filter(|(n, _)| **n != 1) {
            match merged.last_mut() {
                Some((m, outer)) if *outer == s.saturating_mul(n) => (*m, *outer) = (*m * n, s),
                _ => merged.push((n, s)),
            }
        }
        let mut run = width;
        if let Some(&(n, 1)) = merged.last() {
            run *= n;
            merged.pop();
        }
        let (dims, strides) = merged.into_iter().map(|(n, s)| (n, s.saturating_mul(width))).unzip();
        Self { dims, strides, start: 0, run }
    }

    /// The same walk from a later first byte.
    pub(crate) fn starting_at(self, start: usize) -> Self {
        Self { start, ..self }
    }

    /// Whether the walk reads the source in order from its start.
    pub(crate) fn is_identity(&self) -> bool {
        self.dims.is_empty() && self.start == 0
    }

    /// Copies; an error if a read leaves the source or the result has another size.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let n = self.bytes();
        if n != to.len() || (n > 0 && self.end() > from.len()) {
            return Err(Error::failed(Status::Internal, "a strided copy leaves its tensor"));
        }
        if n > 0 {
            self.axis(0, self.start, from, &mut { to });
        }
        Ok(())
    }

    /// The other direction: spreads dense elements over the strides of a larger tensor.
    pub(crate) fn scatter(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        if self.bytes() != from.len() || (!from.is_empty() && self.end() > to.len()) {
            return Err(Error::failed(Status::Internal, "a strided copy leaves its tensor"));
        }
        if !from.is_empty() {
            self.spread(0, self.start, &mut { from }, to);
        }
        Ok(())
    }

    fn spread(&self, depth: usize, at: usize, from: &mut &[u8], to: &mut [u8]) {
        match self.dims.get(depth) {
            Some(n) => (0..*n).for_each(|i| self.spread(depth + 1, at + i * self.strides[depth], from, to)),
            None => {
                let (head, tail) = from.split_at(self.run);
                to[at..at + self.run].copy_from_slice(head);
                *from = tail;
            }
        }
    }

    /// Bytes of the dense side.
    fn bytes(&self) -> usize {
        self.dims.iter().fold(self.run, |n, d| n.saturating_mul(*d))
    }

    /// End of the last run on the strided side.
    fn end(&self) -> usize {
        let steps = self.dims.iter().zip(&self.strides);
        let reach = steps.map(|(n, s)| n.saturating_sub(1).saturating_mul(*s)).fold(0, usize::saturating_add);
        self.start.saturating_add(reach).saturating_add(self.run)
    }

    fn axis(&self, depth: usize, at: usize, from: &[u8], to: &mut &mut [u8]) {
        match self.dims.len() - depth {
            0 => self.one(at, from, to),
            1 => self.row(at, from, to),
            _ => {
                for i in 0..self.dims[depth] {
                    self.axis(depth + 1, at + i * self.strides[depth], from, to);
                }
            }
        }
    }

    fn one(&self, at: usize, from: &[u8], to: &mut &mut [u8]) {
        let (head, tail) = std::mem::take(to).split_at_mut(self.run);
        head.copy_from_slice(&from[at..at + self.run]);
        *to = tail;
    }

    /// The innermost axis, specialised for single elements.
    fn row(&self, at: usize, from: &[u8], to: &mut &mut [u8]) {
        let (n, stride) = (self.dims[self.dims.len() - 1], self.strides[self.dims.len() - 1]);
        let (head, tail) = std::mem::take(to).split_at_mut(n * self.run);
        match self.run {
            1 => head.iter_mut().enumerate().for_each(|(i, y)| *y = from[at + i * stride]),
            4 => gather::<4>(at, stride, from, head),
            run => {
                for (i, y) in head.chunks_exact_mut(run).enumerate() {
                    y.copy_from_slice(&from[at + i * stride..][..run]);
                }
            }
        }
        *to = tail;
    }
}

fn gather<const W: usize>(at: usize, stride: usize, from: &[u8], to: &mut [u8]) {
    for (i, y) in to.chunks_exact_mut(W).enumerate() {
        y.copy_from_slice(&from[at + i * stride..][..W]);
    }
}

/// Row-major strides in elements; they saturate only for tensors without elements.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].saturating_mul(dims[i + 1]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_and_repeats() {
        let from: Vec<u8> = (0..6).collect();
        let mut to = [0; 6];
        Walk::new(&[3, 2], &[1, 3], 1).copy(&from, &mut to).unwrap();
        assert_eq!(to, [0, 3, 1, 4, 2, 5]);
        let mut wide = [0; 12];
        Walk::new(&[2, 3, 2], &[0, 2, 1], 1).copy(&from, &mut wide).unwrap();
        assert_eq!(wide, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
        let mut column = [0; 2];
        Walk::new(&[2], &[3], 1).starting_at(1).copy(&from, &mut column).unwrap();
        assert_eq!(column, [1, 4]);
    }

    #[test]
    fn scatter_is_the_other_direction() {
        let mut to = [0; 6];
        Walk::new(&[2, 2], &[3, 1], 1).starting_at(1).scatter(&[1, 2, 3, 4], &mut to).unwrap();
        assert_eq!(to, [0, 1, 2, 0, 3, 4]);
        assert!(Walk::new(&[2, 2], &[3, 1], 1).starting_at(2).scatter(&[1, 2, 3, 4], &mut to).is_err());
    }

    #[test]
    fn dense_walks_are_one_copy() {
        assert!(Walk::new(&[2, 3, 4], &[12, 4, 1], 4).is_identity());
        assert!(Walk::new(&[1, 3, 1], &[99, 1, 7], 1).is_identity());
        assert!(!Walk::new(&[2, 2], &[3, 1], 1).is_identity());
        assert!(Walk::new(&[], &[], 4).is_identity());
    }

    #[test]
    fn reads_outside_are_errors() {
        let mut to = [0; 4];
        assert!(Walk::new(&[4], &[2], 1).copy(&[0; 6], &mut to).is_err());
        assert!(Walk::new(&[3], &[1], 1).copy(&[0; 6], &mut to).is_err());
        assert!(Walk::new(&[0], &[1], 1).copy(&[], &mut []).is_ok());
    }
}

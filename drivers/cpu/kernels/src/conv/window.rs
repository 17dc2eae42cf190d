//! Which taps of a window lie inside the image.

use core::ops::Range;

use super::shape::ConvShape;

/// One spatial axis of a convolution or pooling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) input: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: usize,
}

impl Axis {
    /// Taps of output position `o` that lie inside the image; may be empty.
    #[inline]
    pub(crate) fn taps(&self, o: usize) -> Range<usize> {
        let at = o * self.stride;
        let first = self.before.saturating_sub(at).div_ceil(self.dilation);
        let last = (self.input + self.before).saturating_sub(at).div_ceil(self.dilation);
        let end = last.min(self.kernel);
        first.min(end)..end
    }

    /// Output positions, of `n`, whose taps all lie inside.
    pub(crate) fn interior(&self, n: usize) -> Range<usize> {
        let full = |o: &usize| self.taps(*o) == (0..self.kernel);
        let first = (0..n).find(full).unwrap_or(n);
        first..(first..n).find(|o| !full(o)).unwrap_or(n)
    }
}

/// Vertical and horizontal axis.
pub(crate) fn axes(s: &ConvShape) -> [Axis; 2] {
    let axis = |i: usize, input| Axis {
        input,
        kernel: s.kernel[i],
        stride: s.stride[i],
        dilation: s.dilation[i],
        before: s.pads[i],
    };
    [axis(0, s.in_h), axis(1, s.in_w)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_agree_with_the_definition() {
        for (input, kernel, stride, dilation, before) in
            [(7, 3, 1, 1, 1), (9, 7, 2, 1, 3), (5, 3, 1, 3, 2), (3, 3, 1, 1, 4), (8, 2, 3, 2, 0)]
        {
            let axis = Axis { input, kernel, stride, dilation, before };
            let n = (input + 2 * before - (kernel - 1) * dilation - 1) / stride + 1;
            for o in 0..n {
                let inside = |k: &usize| (before..input + before).contains(&(o * stride + k * dilation));
                assert_eq!(
                    axis.taps(o).collect::<Vec<_>>(),
                    (0..kernel).filter(inside).collect::<Vec<_>>(),
                    "{axis:?} {o}"
                );
            }
            assert!(axis.interior(n).all(|o| axis.taps(o).len() == kernel));
        }
    }
}

//! One call of an f32 depthwise kernel: pixels of an output line that see the same taps.

/// Neighbouring pixels of one window. Offsets count f32 elements.
pub(crate) struct DepthwiseRow<'a> {
    /// Activations from the first pixel's first tap on.
    pub(crate) a: &'a [f32],
    /// Weights `[kernel row][kernel column][channel]` from the window's first tap on.
    pub(crate) weights: &'a [f32],
    /// Channels.
    pub(crate) channels: usize,
    /// Rows and columns of taps; either may be none.
    pub(crate) taps: [usize; 2],
    /// To the activations of the next row of taps, of the next column of taps, and of the next pixel.
    pub(crate) a_steps: [usize; 3],
    /// To the weights of the next row of taps.
    pub(crate) w_step: usize,
    /// Per channel, padded by sixteen.
    pub(crate) bias: Option<&'a [f32]>,
    /// Laid out as `out`.
    pub(crate) residual: Option<&'a [f32]>,
    /// Bounds of the result.
    pub(crate) bounds: [f32; 2],
    /// `[pixel][channel]`.
    pub(crate) out: &'a mut [f32],
}

impl DepthwiseRow<'_> {
    /// The number of pixels. Panics unless all reads and writes of them lie inside the slices: the check that unsafe code rests on.
    pub(crate) fn check(&self) -> usize {
        let (n, c) = (self.out.len() / self.channels, self.channels);
        assert!(n > 0 && n * c == self.out.len(), "{} outputs are no pixels of {c} channels", self.out.len());
        assert!(self.residual.is_none_or(|r| r.len() == self.out.len()), "the residual lies differently");
        assert!(self.bias.is_none_or(|b| b.len() >= c), "the bias is too short");
        let [rows, cols] = self.taps;
        if rows > 0 && cols > 0 {
            let last = |steps: &[(usize, usize)]| {
                steps.iter().try_fold(c, |end, (n, by)| end.checked_add(n.checked_mul(*by)?))
            };
            let a = last(&[(rows - 1, self.a_steps[0]), (cols - 1, self.a_steps[1]), (n - 1, self.a_steps[2])]);
            let w = last(&[(rows - 1, self.w_step), (cols - 1, c)]);
            let inside = a.is_some_and(|a| a <= self.a.len()) && w.is_some_and(|w| w <= self.weights.len());
            assert!(inside, "taps leave the activations or the weights");
        }
        n
    }
}

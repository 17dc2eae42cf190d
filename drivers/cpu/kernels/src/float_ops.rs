//! Float operations that only the standard library has as methods, for builds without it. Each is exact or rounds once, so that
//! software gives the bits of the instruction.

/// Methods named as those of `f32`.
pub(crate) trait FloatOps {
    /// `self * a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
}

impl FloatOps for f32 {
    #[inline]
    fn mul_add(self, a: Self, b: Self) -> Self {
        libm::fmaf(self, a, b)
    }

    #[inline]
    fn sqrt(self) -> Self {
        libm::sqrtf(self)
    }
}

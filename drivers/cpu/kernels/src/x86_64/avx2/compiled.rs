//! Instances of the plain loops of [`crate::vectorize`], compiled with AVX2 and FMA.

use crate::isa::Avx2;
use crate::vectorize::Vectorize;

/// Runs `kernel` with AVX2 and FMA enabled for the code inlined into it.
pub(crate) fn compiled<V: Vectorize>(_proof: Avx2, kernel: V) -> V::Output {
    // SAFETY: the token proves AVX2 and FMA.
    unsafe { with_features(kernel) }
}

#[target_feature(enable = "avx2,fma")]
fn with_features<V: Vectorize>(kernel: V) -> V::Output {
    kernel.run()
}

//! Instances of the plain loops of [`crate::vectorize`], compiled with AVX2 and FMA.

use crate::vectorize::Vectorize;

/// Runs `kernel` with AVX2 and FMA enabled for the code inlined into it.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn compiled<V: Vectorize>(kernel: V) -> V::Output {
    kernel.run()
}

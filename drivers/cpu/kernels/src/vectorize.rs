//! Plain loops compiled once per instruction set.
//!
//! An elementwise kernel or an epilogue is a loop of IEEE operations that the compiler vectorises well. It is written once, as the
//! `inline(always)` body of [`Vectorize::run`], and instantiated inside a function of each instruction set. Rust never contracts or
//! reorders float operations, so every instance gives the same bits.

use crate::isa::Isa;

/// A loop that is compiled for each instruction set. `run` must be `#[inline(always)]`, and so must what it calls.
pub(crate) trait Vectorize {
    /// What the loop returns.
    type Output;
    /// The loop.
    fn run(self) -> Self::Output;
}

/// The instances that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loops {
    /// For what the target always has (on AArch64 that is NEON).
    Baseline,
    /// With AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// Runs `kernel` in the instance compiled for this instruction set.
    #[inline]
    pub(crate) fn run<V: Vectorize>(self, kernel: V) -> V::Output {
        match self.loops() {
            Loops::Baseline => kernel.run(),
            // SAFETY: an `Isa` exists only where its features were detected; all that use these loops include AVX2, FMA and F16C.
            #[cfg(target_arch = "x86_64")]
            Loops::Avx2 => unsafe { crate::avx2::compiled(kernel) },
        }
    }
}

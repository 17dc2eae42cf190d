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

impl Isa {
    /// Runs `kernel` in the instance compiled for this instruction set.
    #[inline]
    pub(crate) fn run<V: Vectorize>(self, kernel: V) -> V::Output {
        match self {
            Self::Portable => kernel.run(),
            Self::Avx2(proof) => crate::avx2::compiled(proof, kernel),
        }
    }
}

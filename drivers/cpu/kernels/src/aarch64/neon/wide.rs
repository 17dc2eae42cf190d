//! Steps with 16-bit weights: `ld2` takes the two k of each column apart, `smlal` by element multiplies them with widened activations.

use crate::aarch64::reader::Reader;
use crate::aarch64::simd::Neon;
use crate::gemm::{Form, Run};

/// Adds the steps of a run of [`Form::Wide`]: `acc[row][4 columns each]`.
///
/// # Safety
/// The run is one of the panel that `x` was checked for.
#[inline(always)]
pub(in crate::aarch64) unsafe fn run<S: Neon, const R: usize>(
    s: S,
    x: Reader<R>,
    run: Run<'_>,
    acc: &mut [[S::Q; 4]; R],
) {
    const { assert!(Form::Wide.blocks() == 4 && Form::Wide.width() == 4) }
    for (blocks, offset) in run.blocks.as_chunks::<4>().0.iter().zip(run.offsets) {
        let halves = [[&blocks[0], &blocks[2]], [&blocks[1], &blocks[3]]];
        for (h, [even, odd]) in halves.iter().enumerate() {
            let ([w0, w2], [w1, w3]) = (s.load_pairs(&even.0), s.load_pairs(&odd.0));
            for (r, acc) in acc.iter_mut().enumerate() {
                // SAFETY: passed on to the caller.
                let x = s.widen_low(unsafe { s.load4(x.at(r, *offset)) });
                let mut low = s.mul_add_lane_low::<0>(acc[h * 2], w0, x);
                let mut high = s.mul_add_lane_high::<0>(acc[h * 2 + 1], w0, x);
                low = s.mul_add_lane_low::<1>(low, w1, x);
                high = s.mul_add_lane_high::<1>(high, w1, x);
                low = s.mul_add_lane_low::<2>(low, w2, x);
                high = s.mul_add_lane_high::<2>(high, w2, x);
                acc[h * 2] = s.mul_add_lane_low::<3>(low, w3, x);
                acc[h * 2 + 1] = s.mul_add_lane_high::<3>(high, w3, x);
            }
        }
    }
}

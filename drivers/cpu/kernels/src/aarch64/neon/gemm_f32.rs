//! `gemm_f32_f32_f32_6x16x1_neon`, and the same with f16 and bf16 weights: six rows by four registers of four columns, one FMA by
//! element per accumulator and k.
//!
//! ```text
//! acc[row][4] = +0, or what an earlier block of k left in the output
//! for each run of taps, for each k in it, ascending:
//!     w <- 16 weights of k, widened
//!     for each row: acc[row] = fma(w, a[row][k], acc[row])
//! acc, finished or as it is -> output
//! ```
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.

use crate::aarch64::simd::Neon;
use crate::float::{GemmF32, Line, ROWS, TileRows, WeightType};
use crate::gemm::COLS;

/// Accumulators of a row.
type Columns<N> = [<N as Neon>::F; 4];

/// See [`crate::generic::gemm_f32::run`].
#[inline(always)]
pub(crate) fn run<N: Neon, L: Line>(n: N, mut job: GemmF32<'_, L>) {
    for tile in job.tiles {
        match tile.n {
            1 => one::<N, L, 1>(n, &mut job, tile),
            2 => one::<N, L, 2>(n, &mut job, tile),
            3 => one::<N, L, 3>(n, &mut job, tile),
            4 => one::<N, L, 4>(n, &mut job, tile),
            5 => one::<N, L, 5>(n, &mut job, tile),
            _ => one::<N, L, ROWS>(n, &mut job, tile),
        }
    }
}

#[inline(always)]
fn one<N: Neon, L: Line, const R: usize>(n: N, job: &mut GemmF32<'_, L>, tile: &TileRows) {
    let runs = *job.runs(tile);
    let mut acc: [Columns<N>; R] = [registers(n, &[0.0; COLS]); R];
    if !job.begin {
        for (acc, pixel) in acc.iter_mut().zip(tile.out) {
            *acc = registers(n, &job.out.load(job.out.at(pixel)));
        }
    }
    for (y, x) in (0..runs.n_outer).flat_map(|y| (0..runs.n_inner).map(move |x| (y, x))) {
        let a = runs.a + y * runs.a_outer + x * runs.a_inner;
        let b = runs.b + y * runs.b_outer + x * runs.b_inner;
        // SAFETY: `runs` has checked that `len` activations begin at each row moved by `a`.
        let rows: [*const f32; R] = core::array::from_fn(|r| unsafe { job.a.as_ptr().add(tile.at[r] as usize + a) });
        for (k, line) in job.b[b..b + runs.len].iter().enumerate() {
            let w = weights(n, line);
            for (row, acc) in rows.iter().zip(acc.iter_mut()) {
                // SAFETY: `k` is below `len`.
                let x = unsafe { *row.add(k) };
                acc.iter_mut().zip(w).for_each(|(acc, w)| *acc = n.fma(*acc, w, x));
            }
        }
    }
    for (acc, pixel) in acc.into_iter().zip(tile.out) {
        let (at, mut sums) = (job.out.at(pixel), [0.0; COLS]);
        sums.as_chunks_mut().0.iter_mut().zip(acc).for_each(|(to, acc)| n.store_f32(acc, to));
        if let Some(finish) = &job.finish {
            finish.apply(&mut sums, at, job.out.cols);
        }
        job.out.store(at, &sums);
    }
}

/// The sixteen weights of a line. The compiler widens all but f16 in registers by itself.
#[inline(always)]
fn weights<N: Neon, L: Line>(n: N, line: &L) -> Columns<N> {
    if L::TYPE != WeightType::F16 {
        return registers(n, &line.widen());
    }
    // SAFETY: a line of this type is sixteen f16 bit patterns.
    let bits = unsafe { &*core::ptr::from_ref(line).cast::<[u16; COLS]>() };
    let parts = bits.as_chunks::<4>().0;
    core::array::from_fn(|i| n.widen_f16(&parts[i]))
}

#[inline(always)]
fn registers<N: Neon>(n: N, values: &[f32; COLS]) -> Columns<N> {
    let parts = values.as_chunks::<4>().0;
    core::array::from_fn(|i| n.load_f32(&parts[i]))
}

//! `gemm_f32_f32_f32_6x16x1_avx2`, and the same with f16 and bf16 weights: six rows by two registers of eight columns, one FMA per
//! accumulator and k.
//!
//! ```text
//! acc[row][2] = +0, or what an earlier block of k left in the output
//! for each run of taps, for each k in it, ascending:
//!     w <- 16 weights of k, widened
//!     for each row: acc[row] = fma(broadcast a[row][k], w, acc[row])
//! acc + bias + residual, clipped, or as it is -> output
//! ```
//! The order of k is that of the portable kernel, and a vector FMA rounds each lane as the scalar one does: the bits are equal.
//! The weights of the panel that comes next are prefetched, one cache line per four k.

use core::arch::x86_64::*;

use crate::float::{GemmF32, Line, ROWS, TileRows, WeightType};
use crate::gemm::COLS;

/// Accumulators of `R` rows.
type Acc<const R: usize> = [[__m256; 2]; R];

/// The sixteen weights of a line.
///
/// # Safety
/// `line` is readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widen<L: Line>(line: *const L) -> [__m256; 2] {
    // SAFETY: the caller's promise; a line is 16 f32 or 16 half-precision numbers, aligned to its size.
    unsafe {
        match L::TYPE {
            WeightType::F32 => [_mm256_load_ps(line.cast()), _mm256_load_ps(line.cast::<f32>().add(8))],
            WeightType::F16 => halves(line.cast()).map(|bits| _mm256_cvtph_ps(bits)),
            WeightType::Bf16 => halves(line.cast()).map(|bits| {
                // The bits of a bf16 are the upper half of the f32.
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
            }),
        }
    }
}

/// # Safety
/// 32 readable bytes, aligned to 16.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn halves(line: *const __m128i) -> [__m128i; 2] {
    // SAFETY: the caller's promise.
    unsafe { [_mm_load_si128(line), _mm_load_si128(line.add(1))] }
}

/// See [`crate::generic::gemm_f32::run`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn run<L: Line>(mut job: GemmF32<'_, L>) {
    for (i, tile) in job.tiles.iter().enumerate() {
        match tile.n {
            1 => one::<L, 1>(&mut job, tile, i),
            2 => one::<L, 2>(&mut job, tile, i),
            3 => one::<L, 3>(&mut job, tile, i),
            4 => one::<L, 4>(&mut job, tile, i),
            5 => one::<L, 5>(&mut job, tile, i),
            _ => one::<L, ROWS>(&mut job, tile, i),
        }
    }
}

/// The `i`-th tile.
#[target_feature(enable = "avx2,fma,f16c")]
fn one<L: Line, const R: usize>(job: &mut GemmF32<'_, L>, tile: &TileRows, i: usize) {
    let runs = *job.runs(tile);
    let mut acc: Acc<R> = [[_mm256_setzero_ps(); 2]; R];
    if !job.begin {
        load(job, tile, &mut acc);
    }
    // Each of the first four tiles fetches a quarter of the next panel's lines; a prefetch of any address is harmless.
    let mut fetch = if i < 4 && !job.next.is_empty() { job.next.as_ptr() } else { job.b.as_ptr() };
    fetch = fetch.wrapping_add(runs.b + (i & 3) * (runs.n_outer * runs.n_inner * runs.len / 4));
    // A fetch step of 0 leaves the address where it is, in the panel that is being read.
    let step = usize::from(i < 4);
    for y in 0..runs.n_outer {
        for x in 0..runs.n_inner {
            let a = runs.a + y * runs.a_outer + x * runs.a_inner;
            let b = runs.b + y * runs.b_outer + x * runs.b_inner;
            // SAFETY: `runs` has checked that `len` activations begin at each row moved by `a`, and `len` lines at `b`.
            unsafe {
                let rows = core::array::from_fn(|r| job.a.as_ptr().add(tile.at[r] as usize + a));
                fetch = accumulate(rows, job.b.as_ptr().add(b), runs.len, (fetch, step), &mut acc);
            }
        }
    }
    store(job, tile, acc);
}

/// Adds the products of `n` k's; returns where prefetching goes on.
///
/// # Safety
/// At each row and at `lines`, `n` elements are readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn accumulate<L: Line, const R: usize>(
    rows: [*const f32; R],
    lines: *const L,
    n: usize,
    (mut fetch, step): (*const L, usize),
    acc: &mut Acc<R>,
) -> *const L {
    let whole = n - n % 4;
    let mut k = 0;
    while k < whole {
        _mm_prefetch::<_MM_HINT_T0>(fetch.cast());
        fetch = fetch.wrapping_add(step);
        for i in 0..4 {
            // SAFETY: `k + i` is below `n`.
            unsafe { multiply(&rows, lines, k + i, acc) };
        }
        k += 4;
    }
    while k < n {
        // SAFETY: `k` is below `n`.
        unsafe { multiply(&rows, lines, k, acc) };
        k += 1;
    }
    fetch
}

/// One k.
///
/// # Safety
/// At each row and at `lines`, element `k` is readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply<L: Line, const R: usize>(rows: &[*const f32; R], lines: *const L, k: usize, acc: &mut Acc<R>) {
    // SAFETY: the caller's promise.
    let w = unsafe { widen(lines.add(k)) };
    for (row, acc) in rows.iter().zip(acc) {
        // SAFETY: the caller's promise.
        let x = _mm256_set1_ps(unsafe { *row.add(k) });
        acc[0] = _mm256_fmadd_ps(x, w[0], acc[0]);
        acc[1] = _mm256_fmadd_ps(x, w[1], acc[1]);
    }
}

/// The sums that an earlier block of k has left.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load<L, const R: usize>(job: &mut GemmF32<'_, L>, tile: &TileRows, acc: &mut Acc<R>) {
    for (acc, pixel) in acc.iter_mut().zip(tile.out) {
        *acc = registers(&job.out.load(job.out.at(pixel)));
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store<L, const R: usize>(job: &mut GemmF32<'_, L>, tile: &TileRows, acc: Acc<R>) {
    for (mut sums, pixel) in acc.into_iter().zip(tile.out) {
        let at = job.out.at(pixel);
        if let Some(finish) = &job.finish {
            if let Some(bias) = finish.bias {
                sums = add(sums, registers(bias));
            }
            if let Some(residual) = finish.residual {
                sums = add(sums, registers(&columns(&residual[at..at + job.out.cols])));
            }
            let (lo, hi) = (_mm256_set1_ps(finish.lo), _mm256_set1_ps(finish.hi));
            // Both return their second operand when it is NaN.
            sums = sums.map(|s| _mm256_min_ps(hi, _mm256_max_ps(lo, s)));
        }
        let mut values = [0.0; COLS];
        // SAFETY: two unaligned stores of eight f32 fill sixteen.
        unsafe {
            _mm256_storeu_ps(values.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(values.as_mut_ptr().add(8), sums[1]);
        }
        job.out.store(at, &values);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
    [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn registers(values: &[f32; COLS]) -> [__m256; 2] {
    // SAFETY: two unaligned loads of eight f32 read sixteen.
    unsafe { [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))] }
}

/// Up to sixteen values, zeros behind them.
#[inline]
fn columns(values: &[f32]) -> [f32; COLS] {
    values.first_chunk().copied().unwrap_or_else(|| {
        let mut out = [0.0; COLS];
        out.iter_mut().zip(values).for_each(|(out, value)| *out = *value);
        out
    })
}

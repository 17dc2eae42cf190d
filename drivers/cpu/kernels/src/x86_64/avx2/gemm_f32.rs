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

use crate::conv::FinishF32;
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

/// The `i`-th tile. Not inlined: the instances would share one frame and spill each other's registers.
#[inline(never)]
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
    if R == ROWS && L::TYPE == WeightType::F32 {
        // SAFETY: the caller's promise; the types are those that the condition names.
        return unsafe { six_rows(&rows, lines, n, (fetch, step), acc) };
    }
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

/// [`accumulate`] for six rows and f32 weights, in assembly: compilers keep too few of the row pointers in registers.
///
/// # Safety
/// As [`accumulate`]; `L` is a line of f32, and `R` is six.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn six_rows<L: Line, const R: usize>(
    rows: &[*const f32; R],
    lines: *const L,
    n: usize,
    (mut fetch, step): (*const L, usize),
    acc: &mut Acc<R>,
) -> *const L {
    // One k: two registers of weights, then a broadcast and two FMAs per row. `d` counts the k's of an unrolled step.
    macro_rules! step {
        ($d:literal) => {
            concat!(
                "vmovaps {w0}, ymmword ptr [{lines} + 64*",
                $d,
                "]\n",
                "vmovaps {w1}, ymmword ptr [{lines} + 64*",
                $d,
                " + 32]\n",
                "vbroadcastss {x}, dword ptr [{r0} + 4*{k} + 4*",
                $d,
                "]\n",
                "vbroadcastss {y}, dword ptr [{r1} + 4*{k} + 4*",
                $d,
                "]\n",
                "vfmadd231ps {a0}, {x}, {w0}\nvfmadd231ps {b0}, {x}, {w1}\n",
                "vbroadcastss {x}, dword ptr [{r2} + 4*{k} + 4*",
                $d,
                "]\n",
                "vfmadd231ps {a1}, {y}, {w0}\nvfmadd231ps {b1}, {y}, {w1}\n",
                "vbroadcastss {y}, dword ptr [{r3} + 4*{k} + 4*",
                $d,
                "]\n",
                "vfmadd231ps {a2}, {x}, {w0}\nvfmadd231ps {b2}, {x}, {w1}\n",
                "vbroadcastss {x}, dword ptr [{r4} + 4*{k} + 4*",
                $d,
                "]\n",
                "vfmadd231ps {a3}, {y}, {w0}\nvfmadd231ps {b3}, {y}, {w1}\n",
                "vbroadcastss {y}, dword ptr [{r5} + 4*{k} + 4*",
                $d,
                "]\n",
                "vfmadd231ps {a4}, {x}, {w0}\nvfmadd231ps {b4}, {x}, {w1}\n",
                "vfmadd231ps {a5}, {y}, {w0}\nvfmadd231ps {b5}, {y}, {w1}\n",
            )
        };
    }
    // SAFETY: reads the lines and row elements that the caller promises, and writes nothing but its registers.
    unsafe {
        core::arch::asm!(
            "sub {left}, 4",
            "jb 3f",
            "2:",
            "prefetcht0 byte ptr [{fetch}]",
            "add {fetch}, {step}",
            step!("0"),
            step!("1"),
            step!("2"),
            step!("3"),
            "add {lines}, 256",
            "add {k}, 4",
            "sub {left}, 4",
            "jae 2b",
            "3:",
            "add {left}, 4",
            "jz 5f",
            "4:",
            step!("0"),
            "add {lines}, 64",
            "inc {k}",
            "dec {left}",
            "jnz 4b",
            "5:",
            lines = inout(reg) lines => _,
            k = inout(reg) 0usize => _,
            left = inout(reg) n => _,
            fetch = inout(reg) fetch,
            step = in(reg) step * size_of::<L>(),
            r0 = in(reg) rows[0],
            r1 = in(reg) rows[1],
            r2 = in(reg) rows[2],
            r3 = in(reg) rows[3],
            r4 = in(reg) rows[4],
            r5 = in(reg) rows[5],
            w0 = out(ymm_reg) _,
            w1 = out(ymm_reg) _,
            x = out(ymm_reg) _,
            y = out(ymm_reg) _,
            a0 = inout(ymm_reg) acc[0][0],
            b0 = inout(ymm_reg) acc[0][1],
            a1 = inout(ymm_reg) acc[1][0],
            b1 = inout(ymm_reg) acc[1][1],
            a2 = inout(ymm_reg) acc[2][0],
            b2 = inout(ymm_reg) acc[2][1],
            a3 = inout(ymm_reg) acc[3][0],
            b3 = inout(ymm_reg) acc[3][1],
            a4 = inout(ymm_reg) acc[4][0],
            b4 = inout(ymm_reg) acc[4][1],
            a5 = inout(ymm_reg) acc[5][0],
            b5 = inout(ymm_reg) acc[5][1],
            options(readonly, nostack),
        );
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

/// Finishes and stores a tile of a whole panel.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store<L, const R: usize>(job: &mut GemmF32<'_, L>, tile: &TileRows, acc: Acc<R>) {
    if job.out.cols < COLS {
        return store_some(job, tile, acc);
    }
    let finish = job.finish;
    for (sums, pixel) in acc.iter().zip(tile.out) {
        let at = job.out.at(pixel);
        let to = job.out.part(at).first_chunk_mut().expect("a whole panel");
        match &finish {
            Some(finish) => {
                let other = finish.residual.map(|r| registers(r[at..].first_chunk().expect("as long as the output")));
                put(to, finished(*sums, finish, other));
            }
            None => put(to, *sums),
        }
    }
}

/// The same for the last panel, if it is not whole.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn store_some<L, const R: usize>(job: &mut GemmF32<'_, L>, tile: &TileRows, acc: Acc<R>) {
    let (mut values, cols) = ([0.0; COLS], job.out.cols);
    for (mut sums, pixel) in acc.into_iter().zip(tile.out) {
        let at = job.out.at(pixel);
        if let Some(finish) = &job.finish {
            let other = finish.residual.map(|r| {
                values[..cols].copy_from_slice(&r[at..at + cols]);
                registers(&values)
            });
            sums = finished(sums, finish, other);
        }
        match job.out.part(at).first_chunk_mut::<8>().filter(|_| cols == 8) {
            // SAFETY: an unaligned store of eight f32.
            Some(half) => unsafe { _mm256_storeu_ps(half.as_mut_ptr(), sums[0]) },
            None => {
                put(&mut values, sums);
                job.out.store(at, &values);
            }
        }
    }
}

/// Bias, residual and bounds.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn finished(mut sums: [__m256; 2], finish: &FinishF32<'_>, residual: Option<[__m256; 2]>) -> [__m256; 2] {
    if let Some(bias) = finish.bias {
        let bias = registers(bias);
        sums = [_mm256_add_ps(sums[0], bias[0]), _mm256_add_ps(sums[1], bias[1])];
    }
    if let Some(other) = residual {
        sums = [_mm256_add_ps(sums[0], other[0]), _mm256_add_ps(sums[1], other[1])];
    }
    let (lo, hi) = (_mm256_set1_ps(finish.lo), _mm256_set1_ps(finish.hi));
    // Both return their second operand when it is NaN.
    [_mm256_min_ps(hi, _mm256_max_ps(lo, sums[0])), _mm256_min_ps(hi, _mm256_max_ps(lo, sums[1]))]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn put(to: &mut [f32; COLS], sums: [__m256; 2]) {
    // SAFETY: two unaligned stores of eight f32 fill sixteen.
    unsafe {
        _mm256_storeu_ps(to.as_mut_ptr(), sums[0]);
        _mm256_storeu_ps(to.as_mut_ptr().add(8), sums[1]);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn registers(values: &[f32; COLS]) -> [__m256; 2] {
    // SAFETY: two unaligned loads of eight f32 read sixteen.
    unsafe { [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))] }
}

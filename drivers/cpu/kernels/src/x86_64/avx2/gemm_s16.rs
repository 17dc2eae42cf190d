//! `gemm_s16_s16_s32_6x16x2_avx2`: six rows by sixteen columns of 16-bit words, two k's per step.
//!
//! ```text
//! acc[row][2 halves of 8 columns] = 0
//! for each step:
//!     w <- 32 words: two k's of 16 columns
//!     for each row: acc[row] += vpmaddwd(broadcast the row's 2 words, w)
//! ```
//! `vpmaddwd` adds two products in 32 bits, which is exact for any words but -2^15 squared twice; sums wrap. The loop is assembly
//! because the twelve accumulators, two weights and two temporaries are all sixteen registers: the compiler spills.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::gemm::COLS;
use crate::tile::{GemmRows, GemmTile, WORD_ROWS};

/// Words of a step.
const STEP: usize = 2 * COLS;

/// See [`crate::generic::gemm_s16::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(a: &[i16], rows: &GemmRows, b: &[i16], tile: &mut GemmTile) {
    let steps = b.as_chunks::<STEP>().0;
    rows.check(a.len(), 0, 2 * steps.len());
    let mut first = 0;
    while first < rows.n && !steps.is_empty() {
        // Rows past the last repeat it (see `Rows`), so that a tile is always six rows or one.
        let at: [usize; WORD_ROWS] = core::array::from_fn(|r| rows.at[(first + r).min(rows.n - 1)]);
        let sums: &mut [[i32; COLS]] = &mut tile.0[first..];
        // SAFETY: the check proves that two words per step may be read from every row on.
        unsafe {
            match rows.n - first {
                1 => one(a, at[0], steps, &mut sums[0]),
                n => six(a, at, steps, sums, n.min(WORD_ROWS)),
            }
        }
        first += WORD_ROWS;
    }
    if steps.is_empty() {
        *tile = GemmTile::ZERO;
    }
}

macro_rules! row {
    ($a:literal, $low:literal, $high:literal) => {
        concat!(
            "vpbroadcastd ymm14, dword ptr [{",
            $a,
            "} + {i}]\n",
            "vpmaddwd ymm15, ymm14, ymm12\n",
            "vpmaddwd ymm14, ymm14, ymm13\n",
            "vpaddd ",
            $low,
            ", ",
            $low,
            ", ymm15\n",
            "vpaddd ",
            $high,
            ", ",
            $high,
            ", ymm14\n",
        )
    };
}

/// # Safety
/// `2 * steps.len()` words may be read from each row on, and there is at least one step.
#[target_feature(enable = "avx2")]
unsafe fn six(a: &[i16], at: [usize; WORD_ROWS], steps: &[[i16; STEP]], sums: &mut [[i32; COLS]], n: usize) {
    let zero = _mm256_setzero_si256();
    let mut acc = [[zero; 2]; WORD_ROWS];
    // SAFETY: the rows lie within `a`, as the caller promises.
    let row = at.map(|at| unsafe { a.as_ptr().add(at) });
    let [[a0, a1], [b0, b1], [c0, c1], [d0, d1], [e0, e1], [f0, f1]] = &mut acc;
    // SAFETY: reads 4 bytes per row and step, and the steps, all of which exist; writes registers only.
    unsafe {
        asm!(
            "2:",
            "vmovdqu ymm12, ymmword ptr [{w}]",
            "vmovdqu ymm13, ymmword ptr [{w} + 32]",
            row!("r0", "ymm0", "ymm1"),
            row!("r1", "ymm2", "ymm3"),
            row!("r2", "ymm4", "ymm5"),
            row!("r3", "ymm6", "ymm7"),
            row!("r4", "ymm8", "ymm9"),
            row!("r5", "ymm10", "ymm11"),
            "add {i}, 4",
            "add {w}, 64",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) steps.len() => _,
            w = inout(reg) steps.as_ptr() => _,
            i = inout(reg) 0usize => _,
            r0 = in(reg) row[0],
            r1 = in(reg) row[1],
            r2 = in(reg) row[2],
            r3 = in(reg) row[3],
            r4 = in(reg) row[4],
            r5 = in(reg) row[5],
            inout("ymm0") *a0, inout("ymm1") *a1, inout("ymm2") *b0, inout("ymm3") *b1,
            inout("ymm4") *c0, inout("ymm5") *c1, inout("ymm6") *d0, inout("ymm7") *d1,
            inout("ymm8") *e0, inout("ymm9") *e1, inout("ymm10") *f0, inout("ymm11") *f1,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack, readonly),
        );
    }
    sums.iter_mut().zip(acc).take(n).for_each(|(to, acc)| store(acc, to));
}

/// # Safety
/// As of [`six`], for one row.
#[target_feature(enable = "avx2")]
unsafe fn one(a: &[i16], at: usize, steps: &[[i16; STEP]], sums: &mut [i32; COLS]) {
    let mut acc = [_mm256_setzero_si256(); 2];
    for (i, step) in steps.iter().enumerate() {
        let w = step.as_ptr().cast::<__m256i>();
        // SAFETY: a step is 32 words: two unaligned loads; words `2 i` and `2 i + 1` of the row exist.
        let (w, pair) = unsafe {
            let pair = a.as_ptr().add(at + 2 * i).cast::<i32>().read_unaligned();
            ([_mm256_loadu_si256(w), _mm256_loadu_si256(w.add(1))], _mm256_set1_epi32(pair))
        };
        acc = core::array::from_fn(|h| _mm256_add_epi32(acc[h], _mm256_madd_epi16(pair, w[h])));
    }
    store(acc, sums);
}

#[target_feature(enable = "avx2")]
fn store([low, high]: [__m256i; 2], to: &mut [i32; COLS]) {
    let to = to.as_mut_ptr().cast::<__m256i>();
    // SAFETY: a tile row is 16 i32: two unaligned 32-byte stores fill it.
    unsafe {
        _mm256_storeu_si256(to, low);
        _mm256_storeu_si256(to.add(1), high);
    }
}

//! `stripe_u8_s8_u8_8x16x16_avx2`: exact u8 x s8 product of many pixels with a packed panel, requantized without leaving registers.
//!
//! The loops of [`super::gemm_u8`] over rows that lie equally far apart, so that five registers address eight of them:
//!
//! ```text
//! for each tile of eight rows:
//!     for each half: acc[row] = bias
//!         for each run, for each of its steps: as in `gemm_u8`
//!         bytes[half] = requantized acc, a row being two groups of four bytes
//!     store the bytes of both halves, row by row
//! ```

use core::arch::asm;
use core::arch::x86_64::*;

use super::finish_q31::{DOUBLE, Eight, FLOAT, SINGLE, mode};
use super::finish_u8::Pack;
use crate::gemm::{Block, COLS, Content, Form, Panel, WINDOW_FORMS};
use crate::stripe::Stripe;
use crate::tile::GEMM_ROWS;

/// See [`crate::Isa::stripe_u8`].
#[target_feature(enable = "avx2")]
pub(crate) fn stripe(stripe: &Stripe<'_>) -> bool {
    let known = mode(stripe.scales, stripe.channel..stripe.channel + COLS);
    let Some(mode) = known.filter(|_| stripe.panel.content == Content::Windows) else { return false };
    let (a, out) = stripe.check();
    // SAFETY: the check proves every read and write; the task owns these bytes of the output alone (contract of `Stripe`).
    unsafe {
        match mode {
            FLOAT => tiles::<FLOAT>(stripe, a, out),
            DOUBLE => tiles::<DOUBLE>(stripe, a, out),
            _ => tiles::<SINGLE>(stripe, a, out),
        }
    }
    true
}

/// The accumulators of half a panel.
type Half = [__m256i; GEMM_ROWS];

/// # Safety
/// `a` and `out` come from the stripe's check, and its panel has window forms only.
#[target_feature(enable = "avx2")]
unsafe fn tiles<const MODE: u8>(stripe: &Stripe<'_>, a: *const u8, out: *mut u8) {
    let (step, stride, pack) = (stripe.step, stripe.stride, Pack::new(stripe.store));
    let most = _mm256_set1_epi32(stripe.store.hi as i32);
    let scales = [0, COLS / 2].map(|lanes| Eight::new(stripe.scales, stripe.channel + lanes));
    for tile in 0..stripe.tiles {
        // SAFETY: the rows of a tile begin inside both slices.
        let (a, to) = unsafe { (a.add(tile * GEMM_ROWS * step), out.add(tile * GEMM_ROWS * stride)) };
        let mut at = Cursor::new(stripe.panel);
        let mut bytes = [[_mm256_setzero_si256(); 2]; 2];
        for (half, bytes) in bytes.iter_mut().enumerate() {
            let lanes = half * (COLS / 2);
            // SAFETY: half of sixteen values.
            let bias = unsafe { _mm256_loadu_si256(stripe.bias.as_ptr().add(lanes).cast()) };
            let mut acc = [bias; GEMM_ROWS];
            // SAFETY: passed on to the caller.
            unsafe { at.product(a, step, half, &mut acc) };
            *bytes = requantized::<MODE>(&acc, &scales[half], most, &pack);
        }
        // SAFETY: eight rows of sixteen bytes were checked.
        unsafe { store(to, stride, bytes) };
    }
}

/// Rows 0 to 3 and 4 to 7 of eight columns: in each half of a register four columns of four rows.
#[inline]
#[target_feature(enable = "avx2")]
fn requantized<const MODE: u8>(acc: &Half, scale: &Eight, most: __m256i, pack: &Pack) -> [__m256i; 2] {
    let words = |a, b| match MODE {
        FLOAT => pack.words([scale.float(a), scale.float(b)]),
        _ => pack.words_below([scale.q31::<MODE>(a, most), scale.q31::<MODE>(b, most)]),
    };
    let four = |[a, b, c, d]: [__m256i; 4]| pack.bound(_mm256_packus_epi16(words(a, b), words(c, d)));
    let [a, b, c, d, e, f, g, h] = *acc;
    [four([a, b, c, d]), four([e, f, g, h])]
}

/// Stores eight rows of both halves.
///
/// # Safety
/// Sixteen bytes may be written at each of eight rows `stride` apart.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut u8, stride: usize, [low, high]: [[__m256i; 2]; 2]) {
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
        let two = [_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high)];
        for (j, rows) in two.into_iter().enumerate() {
            let rows = _mm256_permutevar8x32_epi32(rows, order);
            // SAFETY: passed on to the caller.
            unsafe {
                let to = to.add((i * 4 + j * 2) * stride);
                _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(rows));
                _mm_storeu_si128(to.add(stride).cast(), _mm256_extracti128_si256::<1>(rows));
            }
        }
    }
}

/// What is left of a panel.
struct Cursor {
    blocks: *const Block,
    offsets: *const u32,
    steps: *const u32,
}

/// All steps of one run: rows as `$row` says, `$count` the run's place among the counts, `$size` the bytes of a step's blocks.
macro_rules! run {
    ($row:ident, $held:tt, $count:literal, $size:literal) => {
        concat!(
            "mov {n:e}, dword ptr [{steps} + ",
            $count,
            "]\n",
            "test {n:e}, {n:e}\njz 3f\n.p2align 5\n2:\nmov {q:e}, dword ptr [{o}]\nadd {q}, {base}\n",
            hold!($held),
            "\n",
            $row!("ymm0", "{q}"),
            $row!("ymm1", "{q} + {s}"),
            $row!("ymm2", "{q} + 2*{s}"),
            $row!("ymm3", "{q} + {s3}"),
            $row!("ymm4", "{q} + 4*{s}"),
            $row!("ymm5", "{q} + {s5}"),
            $row!("ymm6", "{q} + 2*{s3}"),
            $row!("ymm7", "{q} + {s7}"),
            "add {o}, 4\nadd {d}, ",
            $size,
            "\ndec {n:e}\njnz 2b\n3:",
        )
    };
}

impl Cursor {
    fn new(panel: &Panel<'_>) -> Self {
        let steps = panel.steps[Form::QuadQuad.run()..].as_ptr();
        Self { blocks: panel.blocks.as_ptr(), offsets: panel.offsets.as_ptr(), steps }
    }

    /// Adds the products of eight rows with the half panel `half`, whose steps the cursor is at.
    ///
    /// # Safety
    /// The steps of the panel may be read at `a` and at seven further rows `s` bytes apart; halves come in order.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn product(&mut self, a: *const u8, s: usize, half: usize, acc: &mut Half) {
        const { assert!(size_of::<Block>() * Form::Pairs.blocks() == 256 && size_of::<Block>() * Form::Pick.blocks() == 64) }
        // SAFETY: a panel has as many blocks and offsets as its step counts say, and each step reads 16 bytes within reach.
        unsafe {
            asm!(
                run!(quad_quad_row, 4, "0", "256"),
                run!(quad_pairs_row, 4, "4", "256"),
                run!(pairs_row, 4, "8", "256"),
                run!(quad_row, 4, "12", "128"),
                run!(pair_row, 2, "16", "64"),
                run!(pick_row, 2, "20", "64"),
                steps = in(reg) self.steps.add(half * WINDOW_FORMS.len()),
                d = inout(reg) self.blocks,
                o = inout(reg) self.offsets,
                base = in(reg) a,
                s = in(reg) s, s3 = in(reg) s.wrapping_mul(3), s5 = in(reg) s.wrapping_mul(5), s7 = in(reg) s.wrapping_mul(7),
                q = out(reg) _, n = out(reg) _,
                inout("ymm0") acc[0], inout("ymm1") acc[1], inout("ymm2") acc[2], inout("ymm3") acc[3],
                inout("ymm4") acc[4], inout("ymm5") acc[5], inout("ymm6") acc[6], inout("ymm7") acc[7],
                in("ymm8") _mm256_set1_epi16(1),
                out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack, readonly),
            );
        }
    }
}

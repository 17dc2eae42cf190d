//! `gemm_u8_s8_s32_8x16x4_avx2`: exact u8 x s8 product of up to eight rows with a packed panel.
//!
//! Windows run in registers of eight columns, one half panel after the other:
//!
//! ```text
//! for each half: acc[row] = 0
//!     for each run, for each of its steps:
//!         for each row:
//!             x <- broadcast the 16 bytes at row + offset
//!             for each quad:  acc += vpmaddwd(vpmaddubsw(shuffle(x), w) + vpmaddubsw(shuffle'(x), w'), 1)
//!             for each pair:  acc += vpmaddwd(vpmaddubsw(shuffle(x), w), 1)
//!             for each pick:  acc += vpmaddwd(shuffle(x), w)
//! ```
//! Packing has proved for each lane that its 16-bit sums cannot saturate, so the result is the exact sum.
//!
//! The loops are assembly because what bounds them is the number of vector instructions issued, and a load that is an operand costs
//! none: the compiler would hoist those loads, spill, and issue them one by one. Weights are operands; the controls of a step stay in
//! registers.

use core::arch::asm;
use core::arch::x86_64::*;

use super::gemm_u8_dot;
use crate::gemm::{Block, Content, Form, Panel, WINDOW_FORMS};
use crate::generic;
use crate::tile::{GEMM_ROWS, GemmRows, GemmTile};

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    rows.check(a.len(), panel.reach, 0);
    // SAFETY: the check above proves every activation read, since each step reads within the panel's reach.
    unsafe {
        match panel.content {
            Content::Windows => KERNELS[rows.n - 1](a.as_ptr(), rows, panel, tile),
            Content::Dot => gemm_u8_dot::tile(a, rows, panel, tile),
            Content::Dot8 | Content::Mixed => generic::gemm_u8::tile(a, rows, panel, tile),
        }
    }
}

/// What is left of a panel.
struct Cursor {
    blocks: *const Block,
    offsets: *const u32,
}

/// All steps of one run.
macro_rules! run {
    ($row:ident, $held:tt, $form:expr, $n:expr, $at:ident, $x:ident, $acc:ident,
     [$(($i:tt $c:tt $name:ident $a:tt))*]) => {
        if $n > 0 {
            asm!(
                ".p2align 5",
                "2:",
                "mov {p:e}, dword ptr [{o}]",
                hold!($held),
                $($row!($c, $a),)*
                "add {o}, 4",
                "add {d}, {step}",
                "dec {n:e}",
                "jnz 2b",
                step = const $form.blocks() * size_of::<Block>(),
                n = inout(reg) $n => _,
                d = inout(reg) $at.blocks,
                o = inout(reg) $at.offsets,
                p = out(reg) _,
                $($name = in(reg) $x[$i], inout($c) $acc[$i],)*
                in("ymm8") _mm256_set1_epi16(1),
                out("ymm9") _, out("ymm10") _, out("ymm11") _, out("ymm12") _,
                out("ymm13") _, out("ymm14") _, out("ymm15") _,
                options(nostack, readonly),
            );
        }
    };
}

/// The kernel of one number of rows.
macro_rules! kernel {
    ($name:ident, $n:literal, $list:tt) => {
        /// # Safety
        /// `rows.check` passed for the slice at `a` and the panel's reach, `rows.n` is this kernel's number of rows, and the panel has
        /// window forms only.
        #[target_feature(enable = "avx2")]
        unsafe fn $name(a: *const u8, rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
            // SAFETY: the rows lie within the slice.
            let x: [*const u8; $n] = core::array::from_fn(|r| unsafe { a.add(rows.at[r]) });
            let mut at = Cursor { blocks: panel.blocks.as_ptr(), offsets: panel.offsets.as_ptr() };
            let first = Form::QuadQuad.run();
            for half in 0..2 {
                let mut acc = [_mm256_setzero_si256(); $n];
                let n = &panel.steps[first + half * WINDOW_FORMS.len()..][..WINDOW_FORMS.len()];
                // SAFETY: a panel has as many blocks and offsets as its step counts say, and each step reads 16 bytes within reach.
                unsafe {
                    run!(quad_quad_row, 4, Form::QuadQuad, n[0], at, x, acc, $list);
                    run!(quad_pairs_row, 4, Form::QuadPairs, n[1], at, x, acc, $list);
                    run!(pairs_row, 4, Form::Pairs, n[2], at, x, acc, $list);
                    run!(quad_row, 4, Form::Quad, n[3], at, x, acc, $list);
                    run!(pair_row, 2, Form::Pair, n[4], at, x, acc, $list);
                    run!(pick_row, 2, Form::Pick, n[5], at, x, acc, $list);
                }
                for (acc, sums) in acc.iter().zip(&mut tile.0) {
                    // SAFETY: a tile row is 16 i32, half of them 32 bytes.
                    unsafe { _mm256_storeu_si256(sums[half * 8..].as_mut_ptr().cast(), *acc) };
                }
            }
        }
    };
}

type Kernel = unsafe fn(*const u8, &GemmRows, &Panel<'_>, &mut GemmTile);

/// By number of rows, less one.
const KERNELS: [Kernel; GEMM_ROWS] = [rows1, rows2, rows3, rows4, rows5, rows6, rows7, rows8];

kernel!(rows1, 1, [(0 "ymm0" a "{a} + {p}")]);
kernel!(rows2, 2, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}")]);
kernel!(rows3, 3, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}")]);
kernel!(rows4, 4, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}") (3 "ymm3" e "{e} + {p}")]);
kernel!(rows5, 5, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}") (3 "ymm3" e "{e} + {p}") (4 "ymm4" f "{f} + {p}")]);
kernel!(rows6, 6, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}") (3 "ymm3" e "{e} + {p}") (4 "ymm4" f "{f} + {p}")
    (5 "ymm5" g "{g} + {p}")]);
kernel!(rows7, 7, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}") (3 "ymm3" e "{e} + {p}") (4 "ymm4" f "{f} + {p}")
    (5 "ymm5" g "{g} + {p}") (6 "ymm6" h "{h} + {p}")]);
kernel!(rows8, 8, [(0 "ymm0" a "{a} + {p}") (1 "ymm1" b "{b} + {p}") (2 "ymm2" c "{c} + {p}") (3 "ymm3" e "{e} + {p}") (4 "ymm4" f "{f} + {p}")
    (5 "ymm5" g "{g} + {p}") (6 "ymm6" h "{h} + {p}") (7 "ymm7" i "{i} + {p}")]);

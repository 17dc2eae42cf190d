//! A plain model of each instruction, after the pseudo-code of the Arm Architecture Reference Manual, and the kernels compiled with it.

use super::reader::Reader;
use super::simd::{DotProduct, MatrixProduct, Neon};
use super::sve::Columns;
use super::{dotprod, i8mm, neon, sve};
use crate::gemm::{COLS, Panel, Run as Steps};
use crate::table::Run;
use crate::tile::{GemmRows, GemmTile};

/// The kernels on the models, under the names of the real ones.
pub(crate) const KERNELS: &[(&str, Run)] = &[
    ("gemm_u8_s8_s32_8x16x4_neon", Run::GemmU8(|a, rows, panel, tile| neon::gemm_u8_with(Model, a, rows, panel, tile))),
    (
        "dw_u8_s16_s32_8x8x2_neon",
        Run::DepthwiseU8(|band, panel, x0, sums| neon::depthwise_u8_with(Model, band, panel, x0, sums)),
    ),
    ("gemm_f32_f32_f32_6x16x1_neon", Run::GemmF32(|job| neon::gemm_f32_with(Model, job))),
    ("gemm_f32_f16_f32_6x16x1_neon", Run::GemmF16(|job| neon::gemm_f32_with(Model, job))),
    ("gemm_f32_bf16_f32_6x16x1_neon", Run::GemmBf16(|job| neon::gemm_f32_with(Model, job))),
    (
        "gemm_u8_s8_s32_8x16x4_dotprod",
        Run::GemmU8(|a, rows, panel, tile| dotprod::gemm_u8_with(Dot::<0x80>, a, rows, panel, tile)),
    ),
    (
        "gemm_u8_s8_s32_8x16x8_i8mm",
        Run::GemmU8(|a, rows, panel, tile| i8mm::gemm_u8_with(Dot::<0>, a, rows, panel, tile)),
    ),
    ("gemm_u8_s8_s32_8x16x4_sve, 128 bits", Run::GemmU8(sve_of::<16>)),
    ("gemm_u8_s8_s32_8x16x4_sve, 256 bits", Run::GemmU8(sve_of::<32>)),
    ("gemm_u8_s8_s32_8x16x4_sve, 384 bits", Run::GemmU8(sve_of::<48>)),
    ("gemm_u8_s8_s32_8x16x4_sve, 512 bits", Run::GemmU8(sve_of::<64>)),
    ("gemm_u8_s8_s32_8x16x4_sve, 2048 bits", Run::GemmU8(sve_of::<256>)),
];

fn sve_of<const BYTES: usize>(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    sve::gemm_u8_with(Sve::<BYTES>, a, rows, panel, tile);
}

/// Models of NEON.
#[derive(Clone, Copy)]
struct Model;

type Q = [u8; 16];

fn s8(x: Q, i: usize) -> i16 {
    i16::from(x[i] as i8)
}

fn s16(x: Q) -> [i16; 8] {
    core::array::from_fn(|i| i16::from_le_bytes([x[2 * i], x[2 * i + 1]]))
}

fn of_s16(x: [i16; 8]) -> Q {
    core::array::from_fn(|i| x[i / 2].to_le_bytes()[i % 2])
}

fn s32(x: Q) -> [i32; 4] {
    core::array::from_fn(|i| i32::from_le_bytes(core::array::from_fn(|b| x[4 * i + b])))
}

fn of_s32(x: [i32; 4]) -> Q {
    core::array::from_fn(|i| x[i / 4].to_le_bytes()[i % 4])
}

/// `acc + a * b` of lanes that `pick` chooses.
fn mul_add(acc: Q, pick: impl Fn(usize) -> [i16; 2]) -> Q {
    let acc = s32(acc);
    of_s32(core::array::from_fn(|i| acc[i].wrapping_add(pick(i).map(i32::from).iter().product())))
}

impl Neon for Model {
    type Q = Q;
    type F = [f32; 4];

    fn zero(self) -> Q {
        [0; 16]
    }

    fn splat(self, byte: u8) -> Q {
        [byte; 16]
    }

    unsafe fn load(self, from: *const u8) -> Q {
        // SAFETY: passed on to the caller.
        unsafe { from.cast::<Q>().read_unaligned() }
    }

    unsafe fn load4(self, from: *const u8) -> Q {
        // SAFETY: passed on to the caller.
        let four = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        core::array::from_fn(|i| four[i % 4])
    }

    unsafe fn load8(self, low: *const u8, high: *const u8) -> Q {
        // SAFETY: passed on to the caller.
        let halves = unsafe { [low, high].map(|p| p.cast::<[u8; 8]>().read_unaligned()) };
        core::array::from_fn(|i| halves[i / 8][i % 8])
    }

    fn load_pairs(self, from: &[u8; 32]) -> [Q; 2] {
        [0, 2].map(|first| core::array::from_fn(|i| from[i / 2 * 4 + first + i % 2]))
    }

    fn load_s32(self, from: &[i32; 4]) -> Q {
        of_s32(*from)
    }

    fn store(self, x: Q, to: &mut [i32; 4]) {
        *to = s32(x);
    }

    fn low_nibbles(self, a: Q) -> Q {
        a.map(|byte| ((byte << 4) as i8 >> 4) as u8)
    }

    fn high_nibbles(self, a: Q) -> Q {
        a.map(|byte| (byte as i8 >> 4) as u8)
    }

    fn xor(self, a: Q, b: Q) -> Q {
        core::array::from_fn(|i| a[i] ^ b[i])
    }

    fn widen_low(self, a: Q) -> Q {
        of_s16(core::array::from_fn(|i| i16::from(a[i])))
    }

    fn widen_high(self, a: Q) -> Q {
        of_s16(core::array::from_fn(|i| i16::from(a[8 + i])))
    }

    fn sub(self, a: Q, b: Q) -> Q {
        of_s32(core::array::from_fn(|i| s32(a)[i].wrapping_sub(s32(b)[i])))
    }

    fn add_pairs(self, a: Q, b: Q) -> Q {
        let both = [s32(a), s32(b)];
        of_s32(core::array::from_fn(|i| both[i / 2][i % 2 * 2].wrapping_add(both[i / 2][i % 2 * 2 + 1])))
    }

    fn lows(self, a: Q, b: Q) -> Q {
        core::array::from_fn(|i| [a, b][i / 8][i % 8])
    }

    fn highs(self, a: Q, b: Q) -> Q {
        core::array::from_fn(|i| [a, b][i / 8][8 + i % 8])
    }

    fn mul_low(self, a: Q, b: Q) -> Q {
        of_s16(core::array::from_fn(|i| s8(a, i) * s8(b, i)))
    }

    fn mul_high(self, a: Q, b: Q) -> Q {
        of_s16(core::array::from_fn(|i| s8(a, 8 + i) * s8(b, 8 + i)))
    }

    fn mul_sub_low(self, t: Q, a: Q, b: Q) -> Q {
        of_s16(core::array::from_fn(|i| s16(t)[i].wrapping_sub(s8(a, i) * s8(b, i))))
    }

    fn mul_sub_high(self, t: Q, a: Q, b: Q) -> Q {
        of_s16(core::array::from_fn(|i| s16(t)[i].wrapping_sub(s8(a, 8 + i) * s8(b, 8 + i))))
    }

    fn add_widened_pairs(self, acc: Q, t: Q) -> Q {
        let (acc, t) = (s32(acc), s16(t).map(i32::from));
        of_s32(core::array::from_fn(|i| acc[i].wrapping_add(t[2 * i] + t[2 * i + 1])))
    }

    fn mul_add_low(self, acc: Q, a: Q, b: Q) -> Q {
        mul_add(acc, |i| [s16(a)[i], s16(b)[i]])
    }

    fn mul_add_high(self, acc: Q, a: Q, b: Q) -> Q {
        mul_add(acc, |i| [s16(a)[4 + i], s16(b)[4 + i]])
    }

    fn mul_add_lane_low<const L: i32>(self, acc: Q, a: Q, x: Q) -> Q {
        mul_add(acc, |i| [s16(a)[i], s16(x)[L as usize]])
    }

    fn mul_add_lane_high<const L: i32>(self, acc: Q, a: Q, x: Q) -> Q {
        mul_add(acc, |i| [s16(a)[4 + i], s16(x)[L as usize]])
    }

    fn load_f32(self, from: &[f32; 4]) -> [f32; 4] {
        *from
    }

    fn widen_f16(self, from: &[u16; 4]) -> [f32; 4] {
        from.map(crate::half::f16_to_f32)
    }

    fn store_f32(self, x: [f32; 4], to: &mut [f32; 4]) {
        *to = x;
    }

    fn fma(self, acc: [f32; 4], a: [f32; 4], x: f32) -> [f32; 4] {
        core::array::from_fn(|i| a[i].mul_add(x, acc[i]))
    }
}

/// Models of `sdot` (`FLIP` 0x80), and of `sudot` and `usmmla` (`FLIP` 0).
#[derive(Clone, Copy)]
struct Dot<const FLIP: u8>;

/// An activation byte as the instruction reads it.
fn activation<const FLIP: u8>(x: u8) -> i32 {
    if FLIP == 0 { i32::from(x) } else { i32::from(x as i8) }
}

impl<const FLIP: u8> DotProduct for Dot<FLIP> {
    type Base = Model;
    const FLIP: u8 = FLIP;

    fn base(self) -> Model {
        Model
    }

    fn dot<const L: usize>(self, acc: Q, w: Q, x: Q) -> Q {
        let term = |i: usize, k: usize| i32::from(w[4 * i + k] as i8) * activation::<FLIP>(x[4 * L + k]);
        of_s32(core::array::from_fn(|i| s32(acc)[i].wrapping_add((0..4).map(|k| term(i, k)).sum())))
    }
}

impl MatrixProduct for Dot<0> {
    fn matrix(self, acc: Q, x: Q, w: Q) -> Q {
        let term = |i: usize, k: usize| i32::from(x[i / 2 * 8 + k]) * i32::from(w[i % 2 * 8 + k] as i8);
        of_s32(core::array::from_fn(|i| s32(acc)[i].wrapping_add((0..8).map(|k| term(i, k)).sum())))
    }
}

/// A model of the SVE loop with vectors of `BYTES`.
#[derive(Clone, Copy)]
struct Sve<const BYTES: usize>;

impl<const BYTES: usize> Columns for Sve<BYTES> {
    type Base = Model;

    fn base(self) -> Model {
        Model
    }

    fn vector(self) -> usize {
        BYTES
    }

    unsafe fn dots<const R: usize>(
        self,
        x: Reader<R>,
        run: Steps<'_>,
        column: usize,
        tile: &mut [[i32; COLS]],
        zero: &mut [i32; COLS],
    ) {
        for c in column..COLS.min(column + BYTES / 4) {
            let weights = |step: usize| -> [i32; 4] {
                core::array::from_fn(|k| i32::from(run.blocks[2 * step + c / 8].0[c % 8 * 4 + k] as i8))
            };
            let dot = |step: usize, x: [u8; 4]| -> i32 {
                x.iter().zip(weights(step)).map(|(x, w)| activation::<0x80>(x ^ 0x80) * w).sum()
            };
            zero[c] = (0..run.offsets.len()).map(|step| dot(step, [0; 4])).sum();
            for (r, row) in tile.iter_mut().enumerate().take(R) {
                // SAFETY: passed on to the caller: a step reads four bytes.
                let at = |step: usize| unsafe { x.at(r, run.offsets[step]).cast::<[u8; 4]>().read_unaligned() };
                row[c] = (0..run.offsets.len()).map(|step| dot(step, at(step))).sum();
            }
        }
    }
}

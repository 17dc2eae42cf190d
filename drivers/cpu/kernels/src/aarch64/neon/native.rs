//! The instructions of [`Neon`], and the kernels compiled with them.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::aarch64::simd::Neon;
use crate::depthwise::{Band, DepthwisePanel, Sums};
use crate::float::{GemmF32, Line};
use crate::gemm::Panel;
use crate::tile::{GemmRows, GemmTile};

/// Whether this CPU has NEON; every AArch64 CPU that runs Linux does.
pub(crate) fn detect() -> bool {
    has!("neon")
}

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "neon")]
pub(crate) fn gemm_u8(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    super::gemm_u8::run(Native::new(), a, rows, panel, tile);
}

/// See [`crate::generic::depthwise_u8::tile`].
#[target_feature(enable = "neon")]
pub(crate) fn depthwise_u8(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    super::depthwise_u8::run(Native::new(), band, panel, x0, sums);
}

/// See [`crate::generic::gemm_f32::run`].
#[target_feature(enable = "neon")]
pub(crate) fn gemm_f32<L: Line>(job: GemmF32<'_, L>) {
    super::gemm_f32::run(Native::new(), job);
}

/// Proof that the CPU has NEON.
#[derive(Clone, Copy)]
pub(crate) struct Native(());

impl Native {
    /// Callable where NEON is enabled.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn new() -> Self {
        Self(())
    }
}

/// One intrinsic on reinterpreted registers; `self` proves that the CPU has it.
macro_rules! op {
    ($intrinsic:ident $(::<$lane:ident>)? ($($arg:ident as $from:ident),*) $(-> $to:ident)?) => {{
        // SAFETY: the token proves NEON.
        unsafe {
            let result = $intrinsic $(::<$lane>)? ($(op!(@from $from, $arg)),*);
            op!(@to result $(, $to)?)
        }
    }};
    (@from u8, $arg:ident) => { $arg };
    (@from low_u8, $arg:ident) => { vget_low_u8($arg) };
    (@from low_s8, $arg:ident) => { vget_low_s8(vreinterpretq_s8_u8($arg)) };
    (@from s8, $arg:ident) => { vreinterpretq_s8_u8($arg) };
    (@from low_s16, $arg:ident) => { vget_low_s16(vreinterpretq_s16_u8($arg)) };
    (@from s16, $arg:ident) => { vreinterpretq_s16_u8($arg) };
    (@from s32, $arg:ident) => { vreinterpretq_s32_u8($arg) };
    (@from u64, $arg:ident) => { vreinterpretq_u64_u8($arg) };
    (@to $result:ident) => { $result };
    (@to $result:ident, u16) => { vreinterpretq_u8_u16($result) };
    (@to $result:ident, s16) => { vreinterpretq_u8_s16($result) };
    (@to $result:ident, s32) => { vreinterpretq_u8_s32($result) };
    (@to $result:ident, u64) => { vreinterpretq_u8_u64($result) };
}

impl Neon for Native {
    type Q = uint8x16_t;
    type F = float32x4_t;

    #[inline(always)]
    fn zero(self) -> uint8x16_t {
        self.splat(0)
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { vdupq_n_u8(byte) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> uint8x16_t {
        // SAFETY: passed on to the caller.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn load4(self, from: *const u8) -> uint8x16_t {
        // SAFETY: passed on to the caller; the read is unaligned.
        unsafe { vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn load8(self, low: *const u8, high: *const u8) -> uint8x16_t {
        // SAFETY: passed on to the caller.
        unsafe { vcombine_u8(vld1_u8(low), vld1_u8(high)) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[u8; 32]) -> [uint8x16_t; 2] {
        // SAFETY: `from` is 32 bytes, and the token proves NEON.
        unsafe {
            let pairs = vld2q_s16(from.as_ptr().cast());
            [vreinterpretq_u8_s16(pairs.0), vreinterpretq_u8_s16(pairs.1)]
        }
    }

    #[inline(always)]
    fn load_s32(self, from: &[i32; 4]) -> uint8x16_t {
        // SAFETY: `from` is four lanes, and the token proves NEON.
        unsafe { vreinterpretq_u8_s32(vld1q_s32(from.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, x: uint8x16_t, to: &mut [i32; 4]) {
        // SAFETY: `to` is four lanes, and the token proves NEON.
        unsafe { vst1q_s32(to.as_mut_ptr(), vreinterpretq_s32_u8(x)) }
    }

    #[inline(always)]
    fn low_nibbles(self, a: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { vreinterpretq_u8_s8(vshrq_n_s8::<4>(vshlq_n_s8::<4>(vreinterpretq_s8_u8(a)))) }
    }

    #[inline(always)]
    fn high_nibbles(self, a: uint8x16_t) -> uint8x16_t {
        // SAFETY: the token proves NEON.
        unsafe { vreinterpretq_u8_s8(vshrq_n_s8::<4>(vreinterpretq_s8_u8(a))) }
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(veorq_u8(a as u8, b as u8))
    }

    #[inline(always)]
    fn widen_low(self, a: uint8x16_t) -> uint8x16_t {
        op!(vmovl_u8(a as low_u8) -> u16)
    }

    #[inline(always)]
    fn widen_high(self, a: uint8x16_t) -> uint8x16_t {
        op!(vmovl_high_u8(a as u8) -> u16)
    }

    #[inline(always)]
    fn sub(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vsubq_s32(a as s32, b as s32) -> s32)
    }

    #[inline(always)]
    fn add_pairs(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vpaddq_s32(a as s32, b as s32) -> s32)
    }

    #[inline(always)]
    fn lows(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vzip1q_u64(a as u64, b as u64) -> u64)
    }

    #[inline(always)]
    fn highs(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vzip2q_u64(a as u64, b as u64) -> u64)
    }

    #[inline(always)]
    fn mul_low(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmull_s8(a as low_s8, b as low_s8) -> s16)
    }

    #[inline(always)]
    fn mul_high(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmull_high_s8(a as s8, b as s8) -> s16)
    }

    #[inline(always)]
    fn mul_sub_low(self, t: uint8x16_t, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmlsl_s8(t as s16, a as low_s8, b as low_s8) -> s16)
    }

    #[inline(always)]
    fn mul_sub_high(self, t: uint8x16_t, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmlsl_high_s8(t as s16, a as s8, b as s8) -> s16)
    }

    #[inline(always)]
    fn add_widened_pairs(self, acc: uint8x16_t, t: uint8x16_t) -> uint8x16_t {
        op!(vpadalq_s16(acc as s32, t as s16) -> s32)
    }

    #[inline(always)]
    fn mul_add_low(self, acc: uint8x16_t, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmlal_s16(acc as s32, a as low_s16, b as low_s16) -> s32)
    }

    #[inline(always)]
    fn mul_add_high(self, acc: uint8x16_t, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        op!(vmlal_high_s16(acc as s32, a as s16, b as s16) -> s32)
    }

    #[inline(always)]
    fn mul_add_lane_low<const L: i32>(self, acc: uint8x16_t, a: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        op!(vmlal_laneq_s16::<L>(acc as s32, a as low_s16, x as s16) -> s32)
    }

    #[inline(always)]
    fn mul_add_lane_high<const L: i32>(self, acc: uint8x16_t, a: uint8x16_t, x: uint8x16_t) -> uint8x16_t {
        op!(vmlal_high_laneq_s16::<L>(acc as s32, a as s16, x as s16) -> s32)
    }

    #[inline(always)]
    fn load_f32(self, from: &[f32; 4]) -> float32x4_t {
        // SAFETY: `from` is four lanes, and the token proves NEON.
        unsafe { vld1q_f32(from.as_ptr()) }
    }

    #[inline(always)]
    fn widen_f16(self, from: &[u16; 4]) -> float32x4_t {
        let floats;
        // SAFETY: `from` is four lanes, and the token proves NEON, of which `fcvtl` is part.
        unsafe {
            asm!(
                "fcvtl {floats:v}.4s, {bits:v}.4h",
                floats = lateout(vreg) floats, bits = in(vreg) vld1_u16(from.as_ptr()),
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        floats
    }

    #[inline(always)]
    fn store_f32(self, x: float32x4_t, to: &mut [f32; 4]) {
        // SAFETY: `to` is four lanes, and the token proves NEON.
        unsafe { vst1q_f32(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn fma(self, acc: float32x4_t, a: float32x4_t, x: f32) -> float32x4_t {
        // SAFETY: the token proves NEON.
        unsafe { vfmaq_n_f32(acc, a, x) }
    }
}

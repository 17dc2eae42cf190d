//! The instructions that kernels are written in, as traits over a 128-bit register.
//!
//! A value of an implementing type proves that the CPU has the instructions. Registers have no element type here: each method says how
//! it reads them. `low` and `high` are the two 64-bit halves.

/// What every AArch64 CPU has.
pub(crate) trait Neon: Copy {
    /// A 128-bit register.
    type Q: Copy;

    /// All bits zero.
    fn zero(self) -> Self::Q;
    /// `byte` in all sixteen lanes.
    fn splat(self, byte: u8) -> Self::Q;
    /// Sixteen bytes.
    ///
    /// # Safety
    /// 16 bytes may be read at `from`.
    unsafe fn load(self, from: *const u8) -> Self::Q;
    /// Sixteen bytes.
    #[inline(always)]
    fn bytes(self, from: &[u8; 16]) -> Self::Q {
        // SAFETY: `from` is 16 bytes.
        unsafe { self.load(from.as_ptr()) }
    }
    /// Four bytes, four times.
    ///
    /// # Safety
    /// 4 bytes may be read at `from`.
    unsafe fn load4(self, from: *const u8) -> Self::Q;
    /// Eight bytes from each address.
    ///
    /// # Safety
    /// 8 bytes may be read at both addresses.
    unsafe fn load8(self, low: *const u8, high: *const u8) -> Self::Q;
    /// Sixteen 16-bit numbers: those at even positions, those at odd ones.
    fn load_pairs(self, from: &[u8; 32]) -> [Self::Q; 2];
    /// Four 32-bit lanes.
    fn load_s32(self, from: &[i32; 4]) -> Self::Q;
    /// Writes four 32-bit lanes.
    fn store(self, x: Self::Q, to: &mut [i32; 4]);

    /// The low half of each byte, sign-extended from four bits.
    fn low_nibbles(self, a: Self::Q) -> Self::Q;
    /// The high half of each byte, sign-extended from four bits.
    fn high_nibbles(self, a: Self::Q) -> Self::Q;
    /// Bitwise exclusive or.
    fn xor(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// Low u8 lanes to u16.
    fn widen_low(self, a: Self::Q) -> Self::Q;
    /// High u8 lanes to u16.
    fn widen_high(self, a: Self::Q) -> Self::Q;
    /// s32 subtraction.
    fn sub(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// Sums of neighbouring s32 lanes: those of `a`, then those of `b`.
    fn add_pairs(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// The low half of `a`, the low half of `b`.
    fn lows(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// The high half of `a`, the high half of `b`.
    fn highs(self, a: Self::Q, b: Self::Q) -> Self::Q;

    /// Products of low s8 lanes as s16.
    fn mul_low(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// Products of high s8 lanes as s16.
    fn mul_high(self, a: Self::Q, b: Self::Q) -> Self::Q;
    /// `t` less the products of low s8 lanes, in s16.
    fn mul_sub_low(self, t: Self::Q, a: Self::Q, b: Self::Q) -> Self::Q;
    /// `t` less the products of high s8 lanes, in s16.
    fn mul_sub_high(self, t: Self::Q, a: Self::Q, b: Self::Q) -> Self::Q;
    /// `acc` plus sums of neighbouring s16 lanes, in s32.
    fn add_widened_pairs(self, acc: Self::Q, t: Self::Q) -> Self::Q;
    /// `acc` plus products of low s16 lanes, in s32.
    fn mul_add_low(self, acc: Self::Q, a: Self::Q, b: Self::Q) -> Self::Q;
    /// `acc` plus products of high s16 lanes, in s32.
    fn mul_add_high(self, acc: Self::Q, a: Self::Q, b: Self::Q) -> Self::Q;
    /// `acc` plus products of low s16 lanes with lane `L` of `x`, in s32.
    fn mul_add_lane_low<const L: i32>(self, acc: Self::Q, a: Self::Q, x: Self::Q) -> Self::Q;
    /// `acc` plus products of high s16 lanes with lane `L` of `x`, in s32.
    fn mul_add_lane_high<const L: i32>(self, acc: Self::Q, a: Self::Q, x: Self::Q) -> Self::Q;

    /// A register of floats.
    type F: Copy;
    /// Four floats.
    fn load_f32(self, from: &[f32; 4]) -> Self::F;
    /// Four f16 bit patterns as floats, exactly.
    fn widen_f16(self, from: &[u16; 4]) -> Self::F;
    /// Writes four floats.
    fn store_f32(self, x: Self::F, to: &mut [f32; 4]);
    /// `fma(a, x, acc)` in each lane, rounded once.
    fn fma(self, acc: Self::F, a: Self::F, x: f32) -> Self::F;
}

/// A register of an instruction set with dot products.
pub(crate) type Q<S> = <<S as DotProduct>::Base as Neon>::Q;

/// Four-way dot products of 8-bit lanes.
pub(crate) trait DotProduct: Copy {
    /// What every AArch64 CPU has.
    type Base: Neon;
    /// What activations are XORed with before they are multiplied: 0x80 where the instruction takes s8 activations only.
    const FLIP: u8;

    /// The proof that the CPU has the rest.
    fn base(self) -> Self::Base;
    /// `acc` plus, per 32-bit lane, the four products of its s8 `w` with the four bytes in 32-bit lane `L` of `x`, which are u8 or,
    /// where `FLIP` is set, s8.
    fn dot<const L: usize>(self, acc: Q<Self>, w: Q<Self>, x: Q<Self>) -> Q<Self>;
}

/// Matrix products of 8-bit lanes.
pub(crate) trait MatrixProduct: DotProduct {
    /// `acc`, 2 x 2 s32 row by row, plus 2 rows x 8 of u8 in `x` times 8 x 2 columns of s8 in `w`.
    fn matrix(self, acc: Q<Self>, x: Q<Self>, w: Q<Self>) -> Q<Self>;
}

//! `vpdpbusd` and `vpdpwssd` of AVX-VNNI and AVX512-VNNI (Intel, Software Developer's Manual, volume 2): neither saturates.

use crate::dot::{COLS_BLOCKS, Dot};
use crate::gemm::{Block, COLS};

/// The instructions on sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Vnni;

impl Dot for Vnni {
    type Cols = [u32; COLS];
    type Group = [u32; COLS];

    fn zero(self) -> [u32; COLS] {
        [0; COLS]
    }

    fn weights(self, from: &[Block; COLS_BLOCKS]) -> [u32; COLS] {
        let lanes = |half: &Block, i: usize| u32::from_le_bytes(half.0.as_chunks().0[i]);
        core::array::from_fn(|c| lanes(&from[c / 8], c % 8))
    }

    unsafe fn group(self, from: *const u8) -> [u32; COLS] {
        // SAFETY: passed on to the caller.
        [u32::from_le(unsafe { from.cast::<u32>().read_unaligned() }); COLS]
    }

    fn low(self, w: [u32; COLS]) -> [u32; COLS] {
        w.map(|w| u32::from_le_bytes(w.to_le_bytes().map(|b| ((b << 4) as i8 >> 4) as u8)))
    }

    fn high(self, w: [u32; COLS]) -> [u32; COLS] {
        w.map(|w| u32::from_le_bytes(w.to_le_bytes().map(|b| (b as i8 >> 4) as u8)))
    }

    /// `vpdpbusd`: zero-extended bytes of the second operand times sign-extended bytes of the third.
    fn dot4(self, acc: [u32; COLS], x: [u32; COLS], w: [u32; COLS]) -> [u32; COLS] {
        let product = |x: u8, w: u8| i32::from(x) * i32::from(w as i8);
        let lane = |x: u32, w: u32| x.to_le_bytes().into_iter().zip(w.to_le_bytes()).map(|(x, w)| product(x, w)).sum();
        lanes(acc, x, w, lane)
    }

    fn even(self, x: [u32; COLS]) -> [u32; COLS] {
        x.map(|x| x & 0x00ff_00ff)
    }

    fn odd(self, x: [u32; COLS]) -> [u32; COLS] {
        x.map(|x| x >> 8 & 0x00ff_00ff)
    }

    /// `vpdpwssd`: signed words of both operands.
    fn dot2(self, acc: [u32; COLS], x: [u32; COLS], w: [u32; COLS]) -> [u32; COLS] {
        let word = |v: u32, high: u32| i32::from((v >> (16 * high)) as i16);
        // Only four times -32768 leaves i32, and the instruction wraps there.
        lanes(acc, x, w, |x, w| (word(x, 0) * word(w, 0)).wrapping_add(word(x, 1) * word(w, 1)))
    }

    fn add(self, a: [u32; COLS], b: [u32; COLS]) -> [u32; COLS] {
        core::array::from_fn(|c| a[c].wrapping_add(b[c]))
    }

    fn store(self, from: [u32; COLS], to: &mut [i32; COLS]) {
        *to = from.map(|v| v as i32);
    }
}

fn lanes(acc: [u32; COLS], x: [u32; COLS], w: [u32; COLS], f: impl Fn(u32, u32) -> i32) -> [u32; COLS] {
    core::array::from_fn(|c| acc[c].wrapping_add(f(x[c], w[c]) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(f: impl Fn(Vnni, [u32; COLS], [u32; COLS]) -> [u32; COLS], x: u32, w: u32) -> i32 {
        f(Vnni, [x; COLS], [w; COLS])[0] as i32
    }

    #[test]
    fn vpdpbusd_does_not_saturate() {
        let dot = |d: Vnni, x, w| d.dot4([1; COLS], x, w);
        assert_eq!(first(dot, 0xffff_ffff, 0x8080_8080), 1 - 4 * 255 * 128);
        assert_eq!(first(dot, 0xffff_ffff, 0x7f7f_7f7f), 1 + 4 * 255 * 127);
        assert_eq!(first(dot, 0x0403_0201, 0xff01_ff01), -1);
    }

    #[test]
    fn vpdpwssd_is_signed_in_both_operands() {
        let dot = |d: Vnni, x, w| d.dot2([1; COLS], x, w);
        assert_eq!(first(dot, 0x8000_0001, 0x7fff_0002), 1 + 2 - 32768 * 32767);
        assert_eq!(first(dot, 0x8000_8000, 0x8000_8000), i32::MIN + 1);
    }
}

//! Which instruction sets this CPU and its operating system allow, by CPUID and XGETBV, asked once.
//!
//! A vector register may be used only where the operating system saves it: XCR0 says which (Intel, Software Developer's Manual,
//! volume 1, section 14.3). The standard library has the same test, but this crate also runs without it.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU32, Ordering};

/// AVX2, FMA and F16C.
pub(crate) const AVX2: u32 = 1;
/// [`AVX2`] and AVX-VNNI.
pub(crate) const AVX_VNNI: u32 = 2;
/// [`AVX2`] and AVX-512 F, BW, DQ, VL, VNNI.
pub(crate) const AVX512_VNNI: u32 = 4;
/// The answer is there.
const ASKED: u32 = 8;

/// Whether this machine has all of `wanted`.
pub(crate) fn have(wanted: u32) -> bool {
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    let mut answer = ANSWER.load(Ordering::Relaxed);
    if answer & ASKED == 0 {
        answer = ask() | ASKED;
        ANSWER.store(answer, Ordering::Relaxed);
    }
    answer & wanted == wanted
}

fn ask() -> u32 {
    let bits = |register: u32, bits: &[u32]| bits.iter().all(|b| register >> b & 1 == 1);
    let (leaves, leaf1) = (__cpuid(0).eax, __cpuid(1));
    let saves = if bits(leaf1.ecx, &[26, 27]) { saved_state() } else { 0 };
    if leaves < 7 || saves & 0x06 != 0x06 {
        return 0;
    }
    let leaf7 = __cpuid_count(7, 0);
    let leaf7_1 = if leaf7.eax >= 1 { __cpuid_count(7, 1).eax } else { 0 };
    // FMA, AVX, F16C; AVX2.
    if !bits(leaf1.ecx, &[12, 28, 29]) || !bits(leaf7.ebx, &[5]) {
        return 0;
    }
    let avx_vnni = if bits(leaf7_1, &[4]) { AVX_VNNI } else { 0 };
    // F, DQ, BW, VL; VNNI; opmask and upper halves saved.
    let avx512 = bits(leaf7.ebx, &[16, 17, 30, 31]) && bits(leaf7.ecx, &[11]) && saves & 0xe6 == 0xe6;
    AVX2 | avx_vnni | if avx512 { AVX512_VNNI } else { 0 }
}

/// XCR0. The caller has seen that the operating system uses XSAVE.
fn saved_state() -> u64 {
    #[target_feature(enable = "xsave")]
    fn read() -> u64 {
        // SAFETY: register 0 always exists.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: the caller has checked the OSXSAVE bit.
    unsafe { read() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::is_x86_feature_detected as has;

    #[test]
    fn agrees_with_the_standard_library() {
        let avx2 = has!("avx2") && has!("fma") && has!("f16c");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("avx512vnni");
        assert_eq!(have(AVX2), avx2);
        assert_eq!(have(AVX_VNNI), avx2 && has!("avxvnni"));
        assert_eq!(have(AVX512_VNNI), avx2 && avx512);
    }
}

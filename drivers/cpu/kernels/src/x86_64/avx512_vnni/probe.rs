//! Whether 512-bit dot products pay on this core, measured once.
//!
//! Cores differ: some have two 512-bit multipliers, others one that takes the place of two 256-bit ones (client cores, small server
//! parts, cores that split 512 bits in halves). On the latter a 512-bit instruction does the work of two 256-bit ones in the time of
//! two, and may lower the core's clock: there 256 bits win. No CPUID bit tells them apart, but the rate of independent instructions
//! does. Either answer gives the same results.

use core::arch::asm;
use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU8, Ordering};

/// Rounds of twelve instructions per slice.
const ROUNDS: usize = 128;
/// Slices per width; the fastest counts, so that interrupts do not.
const SLICES: usize = 24;

/// Whether 512-bit instructions do more than 256-bit ones. The caller has AVX512-VNNI.
pub(crate) fn wide_pays() -> bool {
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let pays = measure();
            ANSWER.store(if pays { 2 } else { 1 }, Ordering::Relaxed);
            pays
        }
        answer => answer == 2,
    }
}

/// With two multipliers both widths take equally long, with one the wide takes twice as long: the border lies between.
fn measure() -> bool {
    let (mut wide, mut narrow) = (u64::MAX, u64::MAX);
    for _ in 0..SLICES {
        narrow = narrow.min(ticks(narrow_slice));
        wide = wide.min(ticks(wide_slice));
    }
    wide * 2 < narrow * 3
}

fn ticks(slice: fn()) -> u64 {
    // SAFETY: every x86-64 CPU has the counter.
    let now = || unsafe { _rdtsc() };
    let start = now();
    slice();
    now().wrapping_sub(start)
}

/// `ROUNDS` rounds of twelve independent instructions on registers of the given name; what they hold does not matter.
macro_rules! slice {
    ($name:ident, $register:literal) => {
        fn $name() {
            // SAFETY: only registers are touched; `wide_pays` alone leads here, after AVX512-VNNI was detected.
            unsafe {
                asm!(
                    "2:",
                    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                    concat!("{{evex}} vpdpbusd ", $register, "\\i, ", $register, "12, ", $register, "12"),
                    ".endr",
                    "dec {n}",
                    "jnz 2b",
                    n = inout(reg) ROUNDS => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

slice!(narrow_slice, "ymm");
slice!(wide_slice, "zmm");

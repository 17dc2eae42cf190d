//! The tables: one line per instruction set, one line per product kernel. Dispatch, tests, benchmarks and reports derive from them.

use crate::depthwise::DepthwisePanel;
use crate::float::{Line, RowsF32, Runs, TileF32};
use crate::gemm::Panel;
use crate::generic;
use crate::isa::IsaEntry;
use crate::tile::{GemmRows, GemmTile, Rows, Tile};
use crate::vectorize::Loops;

#[cfg(target_arch = "x86_64")]
use crate::{avx_vnni, avx2, avx512_vnni};

/// u8 activations times s8 weights (16-bit weights in wide groups) to i32; see [`generic::gemm_u8::tile`].
///
/// # Safety
/// The CPU has the features that the kernel was compiled for. The same holds for the other kinds.
pub(crate) type GemmU8Fn = unsafe fn(&[u8], &GemmRows, &Panel<'_>, &mut GemmTile);
/// Depthwise: u8 activations times 16-bit weights to i32; see [`generic::depthwise_u8::tile`].
pub(crate) type DepthwiseU8Fn = unsafe fn(&[u8], &Rows, &DepthwisePanel<'_>, &mut Tile);
/// f32 in ascending k with fused multiply-adds; see [`generic::gemm_f32::tile`].
pub(crate) type GemmF32Fn = unsafe fn(&[f32], &RowsF32, &Runs, &[Line], &mut TileF32);

/// 16-bit words of both operands, packed at run time; see [`generic::gemm_s16::tile`].
pub(crate) type GemmS16Fn = unsafe fn(&[i16], &Rows, &[i16], &mut Tile);

/// The entry of a kernel, and so what it computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    GemmU8(GemmU8Fn),
    DepthwiseU8(DepthwiseU8Fn),
    GemmF32(GemmF32Fn),
    GemmS16(GemmS16Fn),
}

/// A product kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// `<op>_<lhs>_<rhs>_<out>_<MRxNRxKR>_<isa>`.
    pub name: &'static str,
    /// Name of the instruction set, as [`crate::Isa::parse`] takes it.
    pub isa: &'static str,
    /// Integer kernels: exact for every input. f32 kernels: the bits of the definition.
    pub exact: bool,
    /// Multiply-adds per clock that the instruction sequence allows at best on a core with two multipliers; 0 where nothing is promised.
    pub peak_macs_per_clock: u32,
    /// What it computes, and how.
    pub(crate) run: Run,
}

const fn kernel(name: &'static str, isa: &'static str, peak_macs_per_clock: u32, run: Run) -> Kernel {
    Kernel { name, isa, exact: true, peak_macs_per_clock, run }
}

/// All instruction sets of the architecture, slowest first. The first runs everywhere.
#[rustfmt::skip]
pub(crate) static ISAS: &[IsaEntry] = &[
    IsaEntry { name: "portable", detect: || true, pays: || true, falls_back: &[], loops: Loops::Baseline, speed: [4, 2] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx2", detect: avx2::detect, pays: || true, falls_back: &["portable"], loops: Loops::Avx2, speed: [64, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avxvnni", detect: avx_vnni::detect, pays: || true, falls_back: &["avx2", "portable"], loops: Loops::Avx2, speed: [130, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx512vnni256", detect: avx512_vnni::detect, pays: || true, falls_back: &["avx2", "portable"], loops: Loops::Avx2, speed: [130, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx512vnni", detect: avx512_vnni::detect, pays: avx512_vnni::wide_pays, falls_back: &["avx2", "portable"], loops: Loops::Avx2, speed: [200, 36] },
];

/// All product kernels of the architecture.
pub static KERNELS: &[Kernel] = &[
    kernel("gemm_u8_s8_s32_8x16x4_portable", "portable", 0, Run::GemmU8(generic::gemm_u8::tile)),
    kernel("dw_u8_s16_s32_4x16x2_portable", "portable", 0, Run::DepthwiseU8(generic::depthwise_u8::tile)),
    kernel("gemm_f32_f32_f32_6x16x1_portable", "portable", 0, Run::GemmF32(generic::gemm_f32::tile)),
    kernel("gemm_s16_s16_s32_4x16x2_portable", "portable", 0, Run::GemmS16(generic::gemm_s16::tile)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx2", "avx2", 42, Run::GemmU8(avx2::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("dw_u8_s16_s32_4x16x2_avx2", "avx2", 32, Run::DepthwiseU8(avx2::depthwise_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_f32_f32_6x16x1_avx2", "avx2", 16, Run::GemmF32(avx2::gemm_f32)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_s16_s16_s32_4x16x2_avx2", "avx2", 32, Run::GemmS16(avx2::gemm_s16)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avxvnni", "avxvnni", 64, Run::GemmU8(avx_vnni::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx512vnni256", "avx512vnni256", 64, Run::GemmU8(avx512_vnni::gemm_u8_256)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx512vnni", "avx512vnni", 128, Run::GemmU8(avx512_vnni::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_f32_f32_6x16x1_avx512vnni", "avx512vnni", 32, Run::GemmF32(avx512_vnni::gemm_f32)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depthwise::{DepthwiseB, DepthwiseWindow};
    use crate::float::{self, PackedF32, RowsF32, Runs, TileF32};
    use crate::gemm::{COLS, FORMS, Packing, Span, pack};
    use crate::isa::Isa;
    use crate::tile::{GEMM_ROWS, GemmTile, ROWS, Rows, Tile};

    struct Rng(u64);

    impl Rng {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 >> 20
        }

        fn bell(&mut self, sigma: i64) -> i16 {
            let sum: i64 = (0..8).map(|_| self.next() as i64 & 255).sum();
            ((sum - 1020) * sigma / 209).clamp(-128, 127) as i16
        }
    }

    /// Weights of kind 0.. : extremes, full range, bells of several widths, zero-point-corrected.
    fn weight(kind: usize, rng: &mut Rng) -> i16 {
        match kind {
            0 => 127,
            1 => -128,
            2 => [127, -128][rng.next() as usize & 1],
            3 => i16::from(rng.next() as u8 as i8),
            4 => i16::from(rng.next() as u8) - 128 - (rng.next() & 127) as i16,
            5 => [64, -64, 128 - 256, 1][rng.next() as usize & 3],
            6 => [255, -255][rng.next() as usize & 1],
            k => rng.bell([40, 28, 16, 6][k % 4]),
        }
    }
    const KINDS: usize = 11;

    /// Activations: all minimum, all maximum, extremes, full range.
    fn activations(kind: usize, n: usize, rng: &mut Rng) -> Vec<u8> {
        let byte = |r: u64| match kind {
            0 => 0,
            1 => 255,
            2 => [0, 255][r as usize & 1],
            _ => r as u8,
        };
        (0..n).map(|_| byte(rng.next())).collect()
    }

    fn rows<const N: usize>(n: usize, stride: usize) -> Rows<N> {
        Rows { at: core::array::from_fn(|r| r.min(n - 1) * stride), n }
    }

    fn check_gemm_u8(kernel: GemmU8Fn, packing: Packing, seen: &mut [u32; FORMS.len()]) {
        let mut rng = Rng(0x1234_5678_9ABC_DEF1);
        for (k, kind) in (1..=70).chain([130, 256]).flat_map(|k| (0..KINDS).map(move |w| (k, w))) {
            let n = 1 + (k + kind) % GEMM_ROWS;
            let w: Vec<[i16; COLS]> = (0..k).map(|_| core::array::from_fn(|_| weight(kind, &mut rng))).collect();
            let spans = [Span { offset: 0, k: 0, len: k }];
            let fill = |_: core::ops::Range<usize>, to: &mut [[i16; COLS]]| to.copy_from_slice(&w);
            let packed = pack(&spans, k, COLS, packing, &fill).unwrap();
            seen.iter_mut().zip(packed.panel(0).steps).for_each(|(s, n)| *s += n);
            for data in 0..4 {
                let extent = (n - 1) * k + packed.panel(0).reach;
                let (a, mut tile) = (activations(data, extent, &mut rng), GemmTile::ZERO);
                // SAFETY: the caller has detected the kernel's instruction set.
                unsafe { kernel(&a, &rows(n, k), &packed.panel(0), &mut tile) };
                for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                    let want: i32 = (0..k).map(|i| i32::from(a[r * k + i]) * i32::from(w[i][c])).sum();
                    assert_eq!(tile.0[r][c], want, "{packing:?} k {k} weights {kind} data {data} row {r} column {c}");
                }
            }
        }
    }

    fn check_depthwise_u8(isa: Isa) {
        let mut rng = Rng(77);
        let windows = [[1, 1], [1, 2], [3, 3], [5, 5], [2, 3], [4, 5], [7, 2]];
        for (case, kernel) in windows.iter().cycle().take(KINDS * windows.len() * 2).enumerate() {
            let (kind, stride, taps) = (case % KINDS, 1 + case % 3, kernel[0] * kernel[1]);
            let (pixel, row) = (24, 24 * 16);
            let w: Vec<i16> = (0..taps * COLS).map(|_| weight(kind, &mut rng)).collect();
            let window = DepthwiseWindow { kernel: *kernel, row, column: pixel };
            let packed = DepthwiseB::pack(window, COLS, &|t, c| w[t * COLS + c]).unwrap();
            for (data, n) in (0..4).flat_map(|d| (1..=ROWS).map(move |n| (d, n))) {
                let extent = (kernel[0] - 1) * row + ((n - 1) * stride + kernel[1] - 1) * pixel + COLS;
                let a = activations(data, extent, &mut rng);
                let mut tile = Tile::ZERO;
                isa.depthwise_u8(&a, &rows(n, stride * pixel), &packed.block(0), &mut tile);
                for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                    let at = |t: usize| t / kernel[1] * row + (t % kernel[1] + r * stride) * pixel + c;
                    let want: i32 = (0..taps).map(|t| i32::from(a[at(t)]) * i32::from(w[t * COLS + c])).sum();
                    assert_eq!(tile.0[r][c], want, "{kernel:?} stride {stride} weights {kind} data {data}");
                }
            }
        }
    }

    fn check_gemm_f32(isa: Isa) {
        let mut rng = Rng(99);
        let mut value = || (rng.next() as i32 as f32) * 1e-7;
        for (k, n) in [1, 2, 37].iter().flat_map(|k| (1..=float::ROWS).map(move |n| (*k, n))) {
            let (a, b): (Vec<f32>, Vec<f32>) =
                ((0..n * k).map(|_| value()).collect(), (0..k * COLS).map(|_| value()).collect());
            let packed = PackedF32::pack(k, COLS, &|k, c| b[k * COLS + c]).unwrap();
            let rows = RowsF32 { at: core::array::from_fn(|r| r.min(n - 1) * k), n };
            let once =
                Runs { n_outer: 1, n_inner: 1, len: k, a: 0, a_outer: 0, a_inner: 0, b: 0, b_outer: 0, b_inner: 0 };
            let mut tile = TileF32::ZERO;
            isa.gemm_f32(&a, &rows, &once, packed.panel(0), &mut tile);
            for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                let want = (0..k).fold(0f32, |acc, i| a[r * k + i].mul_add(b[i * COLS + c], acc));
                assert_eq!(tile.0[r][c].to_bits(), want.to_bits(), "k {k} row {r} column {c}");
            }
        }
    }

    fn check_gemm_s16(isa: Isa) {
        let mut rng = Rng(55);
        for (k, kind, n) in
            [2, 4, 6, 64, 130].iter().flat_map(|k| (0..4).flat_map(move |w| (1..=ROWS).map(move |n| (*k, w, n))))
        {
            let mut word =
                || if kind == 0 { [255, -255][rng.next() as usize & 1] } else { (rng.next() % 511) as i16 - 255 };
            let (a, b): (Vec<i16>, Vec<i16>) =
                ((0..n * k).map(|_| word()).collect(), (0..k * COLS).map(|_| word()).collect());
            let mut tile = Tile::ZERO;
            isa.gemm_s16(&a, &rows(n, k), &b, &mut tile);
            for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                let at = |i: usize| i / 2 * 2 * COLS + 2 * c + i % 2;
                let want: i32 = (0..k).map(|i| i32::from(a[r * k + i]) * i32::from(b[at(i)])).sum();
                assert_eq!(tile.0[r][c], want, "k {k} row {r} column {c}");
            }
        }
    }

    #[test]
    fn every_kernel_equals_a_naive_sum() {
        for kernel in KERNELS {
            let Ok(isa) = Isa::parse(kernel.isa) else {
                eprintln!("skipped: {}: this machine has no {}", kernel.name, kernel.isa);
                continue;
            };
            match kernel.run {
                Run::GemmU8(run) => {
                    let mut seen = [0; FORMS.len()];
                    Packing::ALL.into_iter().for_each(|packing| check_gemm_u8(run, packing, &mut seen));
                    assert!(seen.iter().all(|n| *n > 0), "{}: forms never reached: {seen:?}", kernel.name);
                }
                Run::DepthwiseU8(_) => check_depthwise_u8(isa),
                Run::GemmF32(_) => check_gemm_f32(isa),
                Run::GemmS16(_) => check_gemm_s16(isa),
            }
        }
    }

    #[test]
    fn every_model_equals_a_naive_sum() {
        for (name, model) in crate::model::GEMM_U8 {
            let mut seen = [0; FORMS.len()];
            Packing::ALL.into_iter().for_each(|packing| check_gemm_u8(*model, packing, &mut seen));
            assert!(seen.iter().all(|n| *n > 0), "{name}: forms never reached: {seen:?}");
        }
    }

    #[test]
    fn names_are_unique_and_end_with_the_instruction_set() {
        for (i, kernel) in KERNELS.iter().enumerate() {
            assert!(kernel.name.ends_with(&format!("_{}", kernel.isa)), "{}", kernel.name);
            assert!(KERNELS[..i].iter().all(|k| k.name != kernel.name), "{}", kernel.name);
        }
    }

    #[test]
    fn every_instruction_set_has_a_kernel_of_its_own() {
        for name in Isa::known() {
            assert!(KERNELS.iter().any(|k| k.isa == name), "{name}");
        }
        assert!(KERNELS.iter().all(|k| Isa::known().any(|name| name == k.isa)));
    }

    #[test]
    #[should_panic(expected = "leaves")]
    fn a_row_beyond_the_activations_is_refused() {
        let packed =
            pack(&[Span { offset: 0, k: 0, len: 4 }], 4, COLS, Packing::Dot, &|_, to| to.fill([1; COLS])).unwrap();
        let mut tile = GemmTile::ZERO;
        Isa::detect().gemm_u8(&[0; 7], &rows(2, 4), &packed.panel(0), &mut tile);
    }
}

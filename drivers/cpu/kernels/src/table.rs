//! The tables: one line per instruction set, one line per product kernel. Dispatch, tests, benchmarks and reports derive from them.

use crate::depthwise::{Band, DepthwiseB, DepthwisePanel, Requant, Sums};
use crate::depthwise_f32::DepthwiseRow;
use crate::elementwise::{BinaryOp, Bytes};
use crate::finish::Finish;
use crate::float::{GemmF32, LineBf16, LineF16, LineF32};
use crate::gemm::{Packing, Panel};
use crate::generic;
use crate::isa::IsaEntry;
use crate::stripe::Stripe;
use crate::tile::{GemmRows, GemmTile};
use crate::vectorize::Loops;

#[cfg(target_arch = "aarch64")]
use crate::aarch64::{dotprod, i8mm, neon, sve};
#[cfg(target_arch = "x86_64")]
use crate::{avx_vnni, avx2, avx512_vnni};

/// u8 activations times s8 weights (16-bit weights in wide groups) to i32; see [`generic::gemm_u8::tile`].
///
/// # Safety
/// The CPU has the features that the kernel was compiled for. The same holds for the other kinds.
pub(crate) type GemmU8Fn = unsafe fn(&[u8], &GemmRows, &Panel<'_>, &mut GemmTile);
/// Depthwise: u8 activations times 16-bit weights to i32; see [`generic::depthwise_u8::tile`].
pub(crate) type DepthwiseU8Fn = unsafe fn(&Band<'_>, &DepthwisePanel<'_>, usize, &mut Sums);
/// Depthwise: whole output rows, requantized; see [`crate::Isa::depthwise_u8_lines`].
pub(crate) type DepthwiseU8LinesFn = unsafe fn(&Band<'_>, &DepthwiseB, &Requant<'_>, &mut [u8]) -> bool;
/// Stores a tile of the most frequent kinds; false where it does not know the kind. See [`crate::Isa::finish`].
pub(crate) type FinishU8Fn = unsafe fn(&Finish<'_>) -> bool;
/// Product and epilogue of many pixels in one call; false where it does not know the layout. See [`crate::Isa::stripe_u8`].
pub(crate) type StripeU8Fn = unsafe fn(&Stripe<'_>) -> bool;
/// f32 in ascending k with fused multiply-adds, weights stored in lines `L`; see [`generic::gemm_f32::run`].
pub(crate) type GemmF32Fn<L> = unsafe fn(GemmF32<'_, L>);
/// Depthwise in f32; see [`generic::depthwise_f32::run`].
pub(crate) type DepthwiseF32Fn = unsafe fn(DepthwiseRow<'_>);

/// 16-bit words of both operands, packed at run time; see [`generic::gemm_s16::tile`].
pub(crate) type GemmS16Fn = unsafe fn(&[i16], &GemmRows, &[i16], &mut GemmTile);

/// A table of bytes; see [`generic::lut_u8::run`].
pub(crate) type LutU8Fn = unsafe fn(&[u8; 256], &[u8], &mut [u8]);

/// The QDQ form of a binary operation over slices of one length; see [`crate::binary_q`].
pub(crate) type BinaryU8Fn = unsafe fn(BinaryOp, &Bytes, &[u8], &[u8], &mut [u8]);

/// The entry of a kernel, and so what it computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    GemmU8(GemmU8Fn),
    FinishU8(FinishU8Fn),
    StripeU8(StripeU8Fn),
    DepthwiseU8(DepthwiseU8Fn),
    DepthwiseU8Lines(DepthwiseU8LinesFn),
    GemmF32(GemmF32Fn<LineF32>),
    GemmF16(GemmF32Fn<LineF16>),
    GemmBf16(GemmF32Fn<LineBf16>),
    DepthwiseF32(DepthwiseF32Fn),
    GemmS16(GemmS16Fn),
    LutU8(LutU8Fn),
    BinaryU8(BinaryU8Fn),
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
    IsaEntry { name: "portable", detect: || true, pays: || true, falls_back: &[], packing: Packing::Windows, loops: Loops::Baseline, speed: [4, 2] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx2", detect: avx2::detect, pays: || true, falls_back: &["portable"], packing: Packing::Windows, loops: Loops::Avx2, speed: [64, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avxvnni", detect: avx_vnni::detect, pays: || true, falls_back: &["avx2", "portable"], packing: Packing::Dot, loops: Loops::Avx2, speed: [130, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx512vnni256", detect: avx512_vnni::detect, pays: || true, falls_back: &["avx2", "portable"], packing: Packing::Dot, loops: Loops::Avx2, speed: [130, 24] },
    #[cfg(target_arch = "x86_64")]
    IsaEntry { name: "avx512vnni", detect: avx512_vnni::detect, pays: avx512_vnni::wide_pays, falls_back: &["avx2", "portable"], packing: Packing::Dot, loops: Loops::Avx2, speed: [200, 36] },
    #[cfg(target_arch = "aarch64")]
    IsaEntry { name: "neon", detect: neon::detect, pays: || true, falls_back: &["portable"], packing: Packing::Dot, loops: Loops::Baseline, speed: [12, 10] },
    #[cfg(target_arch = "aarch64")]
    IsaEntry { name: "dotprod", detect: dotprod::detect, pays: || true, falls_back: &["neon", "portable"], packing: Packing::Dot, loops: Loops::Baseline, speed: [60, 20] },
    #[cfg(target_arch = "aarch64")]
    IsaEntry { name: "sve", detect: sve::detect, pays: || true, falls_back: &["neon", "portable"], packing: Packing::Dot, loops: Loops::Baseline, speed: [100, 20] },
    #[cfg(target_arch = "aarch64")]
    IsaEntry { name: "i8mm", detect: i8mm::detect, pays: || true, falls_back: &["neon", "portable"], packing: Packing::Dot8, loops: Loops::Baseline, speed: [120, 30] },
];

/// All product kernels of the architecture.
pub static KERNELS: &[Kernel] = &[
    kernel("gemm_u8_s8_s32_8x16x4_portable", "portable", 0, Run::GemmU8(generic::gemm_u8::tile)),
    kernel("dw_u8_s16_s32_8x8x2_portable", "portable", 0, Run::DepthwiseU8(generic::depthwise_u8::tile)),
    kernel("gemm_f32_f32_f32_6x16x1_portable", "portable", 0, Run::GemmF32(generic::gemm_f32::run)),
    kernel("gemm_f32_f16_f32_6x16x1_portable", "portable", 0, Run::GemmF16(generic::gemm_f32::run)),
    kernel("gemm_f32_bf16_f32_6x16x1_portable", "portable", 0, Run::GemmBf16(generic::gemm_f32::run)),
    kernel("dw_f32_f32_f32_1x1x1_portable", "portable", 0, Run::DepthwiseF32(generic::depthwise_f32::run)),
    kernel("gemm_s16_s16_s32_6x16x2_portable", "portable", 0, Run::GemmS16(generic::gemm_s16::tile)),
    kernel("lut_u8_u8_portable", "portable", 0, Run::LutU8(generic::lut_u8::run)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx2", "avx2", 42, Run::GemmU8(avx2::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("finish_s32_u8_8x16_avx2", "avx2", 0, Run::FinishU8(avx2::finish_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("stripe_u8_s8_u8_8x16x16_avx2", "avx2", 0, Run::StripeU8(avx2::stripe_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("dw_u8_s16_s32_8x8x2_avx2", "avx2", 32, Run::DepthwiseU8(avx2::depthwise_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("dw_u8_s16_u8_8x8x2_avx2", "avx2", 32, Run::DepthwiseU8Lines(avx2::depthwise_u8_lines)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_f32_f32_6x16x1_avx2", "avx2", 16, Run::GemmF32(avx2::gemm_f32)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_s16_s16_s32_6x16x2_avx2", "avx2", 32, Run::GemmS16(avx2::gemm_s16)),
    #[cfg(target_arch = "x86_64")]
    kernel("lut_u8_u8_128_avx2", "avx2", 0, Run::LutU8(avx2::lut_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("binary_u8_u8_u8_32_avx2", "avx2", 0, Run::BinaryU8(avx2::binary_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_f16_f32_6x16x1_avx2", "avx2", 16, Run::GemmF16(avx2::gemm_f32)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_bf16_f32_6x16x1_avx2", "avx2", 16, Run::GemmBf16(avx2::gemm_f32)),
    #[cfg(target_arch = "x86_64")]
    kernel("dw_f32_f32_f32_4x16x1_avx2", "avx2", 12, Run::DepthwiseF32(avx2::depthwise_f32)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avxvnni", "avxvnni", 64, Run::GemmU8(avx_vnni::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx512vnni256", "avx512vnni256", 64, Run::GemmU8(avx512_vnni::gemm_u8_256)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_u8_s8_s32_8x16x4_avx512vnni", "avx512vnni", 128, Run::GemmU8(avx512_vnni::gemm_u8)),
    #[cfg(target_arch = "x86_64")]
    kernel("gemm_f32_f32_f32_6x16x1_avx512vnni", "avx512vnni", 32, Run::GemmF32(avx512_vnni::gemm_f32)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_u8_s8_s32_8x16x4_neon", "neon", 10, Run::GemmU8(neon::gemm_u8)),
    #[cfg(target_arch = "aarch64")]
    kernel("dw_u8_s16_s32_8x8x2_neon", "neon", 8, Run::DepthwiseU8(neon::depthwise_u8)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_f32_f32_f32_6x16x1_neon", "neon", 8, Run::GemmF32(neon::gemm_f32)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_f32_f16_f32_6x16x1_neon", "neon", 8, Run::GemmF16(neon::gemm_f32)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_f32_bf16_f32_6x16x1_neon", "neon", 8, Run::GemmBf16(neon::gemm_f32)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_u8_s8_s32_8x16x4_dotprod", "dotprod", 32, Run::GemmU8(dotprod::gemm_u8)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_u8_s8_s32_8x16x4_sve", "sve", 128, Run::GemmU8(sve::gemm_u8)),
    #[cfg(target_arch = "aarch64")]
    kernel("gemm_u8_s8_s32_8x16x8_i8mm", "i8mm", 64, Run::GemmU8(i8mm::gemm_u8)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::{FinishF32, OutF32};
    use crate::depthwise::{Band, CHANNELS, DepthwiseB, DepthwiseWindow, LINES, PIXELS};
    use crate::float::{self, Line, Packed, Runs, TileRows};
    use crate::gemm::{COLS, Packing, RUNS, Span, pack};
    use crate::isa::Isa;
    use crate::shared_out::SharedOut;
    use crate::tile::{GEMM_ROWS, GemmTile, Rows};

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
            7 => (rng.next() & 15) as i16 - 8,
            k => rng.bell([40, 28, 16, 6][k % 4]),
        }
    }
    const KINDS: usize = 12;

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

    fn check_gemm_u8(kernel: GemmU8Fn, packing: Packing, seen: &mut [u32; RUNS.len()]) {
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

    /// Tiles of every window, read from an image and from a ring whose first row lies anywhere.
    fn check_depthwise_u8(run: DepthwiseU8Fn) {
        let mut rng = Rng(77);
        let windows = [[1, 1], [1, 2], [3, 3], [5, 5], [2, 3], [4, 5], [7, 2], [3, 7]];
        for (case, kernel) in windows.iter().cycle().take(KINDS * windows.len() * 3).enumerate() {
            let (kind, pixel, channels) = (case % KINDS, 12, 11);
            let stride = [1 + case % 3, 1 + case % 2];
            let dilation = [1 + case / 5 % 2, 1 + case / 7 % 2];
            let window = DepthwiseWindow { kernel: *kernel, stride, dilation, lines: 1 + case / 3 % LINES };
            let w: Vec<i16> = (0..kernel[0] * kernel[1] * channels).map(|_| weight(kind, &mut rng)).collect();
            let packed = DepthwiseB::pack(window, channels, &|t, c| w[t * channels + c]);
            let line = window.columns(2 * PIXELS) * pixel;
            for data in 0..4 {
                let a = activations(data, window.rows() * line, &mut rng);
                let wraps = [(0, usize::MAX), (case % window.rows() * line, a.len())];
                for ((first, wrap), block) in wraps.into_iter().zip(0..2) {
                    let band = Band { a: &a, first, line, wrap, n_rows: window.rows(), pixel };
                    let (panel, x0) = (packed.block(block), case % PIXELS);
                    let mut sums = [[[0; CHANNELS]; PIXELS]; LINES];
                    // SAFETY: the caller has asked whether this machine runs the kernel.
                    unsafe { run(&band, &panel, x0, &mut sums) };
                    for i in 0..window.lines * PIXELS * CHANNELS {
                        let (y, x, c) = (i / CHANNELS / PIXELS, i / CHANNELS % PIXELS, i % CHANNELS);
                        let product = |t: usize| {
                            let row = (y * stride[0] + t / kernel[1] * dilation[0]) * line + first;
                            let column = (x0 + x) * stride[1] + t % kernel[1] * dilation[1];
                            let at = row % a.len() + column * pixel + panel.channel + c;
                            i32::from(a[at]) * i32::from(w[t * channels + panel.channel + c])
                        };
                        let want: i32 = (0..kernel[0] * kernel[1]).map(product).sum();
                        assert_eq!(sums[y][x][c], want, "{window:?} weights {kind} data {data} at {y} {x} {c}");
                    }
                }
            }
        }
    }

    /// Two blocks of k, so that sums are continued; every number of rows and of columns in turn.
    fn check_gemm_f32<L: Line>(isa: Isa, weight: fn(u64) -> L::Weight) {
        let mut rng = Rng(99);
        for (case, (k, n)) in [1, 2, 9, 37].iter().flat_map(|k| (1..=float::ROWS).map(move |n| (*k, n))).enumerate() {
            let a: Vec<f32> = (0..n * k).map(|_| rng.next() as i32 as f32 * 1e-7).collect();
            let b: Vec<L::Weight> = (0..k * COLS).map(|_| weight(rng.next())).collect();
            let packed = Packed::<L>::pack(k, COLS, &|k, c| b[k * COLS + c]).unwrap();
            let mut tile = TileRows { at: core::array::from_fn(|r| (r * k) as u32), ..TileRows::default() };
            tile.out = core::array::from_fn(|r| r as u32);
            tile.truncate(n);
            let (cut, cols) = (k / 2, 1 + case * 5 % COLS);
            let (first, last) = (Runs::once(cut), Runs { a: cut, b: cut, ..Runs::once(k - cut) });
            let mut out = vec![f32::NAN; n * cols];
            for (runs, begin) in [(first, true), (last, false)] {
                let out = &SharedOut::new(&mut out);
                let finish = FinishF32 { bias: None, residual: None, lo: -1e3, hi: 1e3 };
                isa.gemm_f32(GemmF32 {
                    a: &a,
                    tiles: &[tile],
                    windows: &[runs],
                    b: packed.view().panel(0),
                    next: packed.view().panel(1),
                    begin,
                    finish: (!begin).then_some(finish),
                    out: OutF32 { out, base: 0, stride: cols, cols },
                });
            }
            for (r, c) in (0..n).flat_map(|r| (0..cols).map(move |c| (r, c))) {
                let w = |i: usize| L::new(core::array::from_fn(|_| b[i * COLS + c])).widen()[0];
                let want = (0..k).fold(0f32, |acc, i| a[r * k + i].mul_add(w(i), acc)).clamp(-1e3, 1e3);
                assert_eq!(out[r * cols + c].to_bits(), want.to_bits(), "k {k} row {r} column {c}");
            }
        }
    }

    fn check_depthwise_f32(isa: Isa) {
        let mut rng = Rng(7);
        for (case, channels) in [1, 3, 7, 8, 9, 16, 17, 24, 31, 40].into_iter().cycle().take(60).enumerate() {
            let (n, taps, step) = (1 + case % 9, [case % 4, 1 + case % 5], 1 + case % 2);
            let line = (n * step + 5) * channels;
            let mut floats = |n: usize| (0..n).map(|_| rng.next() as i32 as f32 * 1e-7).collect::<Vec<f32>>();
            let (a, w, other) = (floats(line * 4), floats(20 * channels), floats(n * channels));
            let mut out = vec![f32::NAN; n * channels];
            isa.depthwise_f32(DepthwiseRow {
                a: &a,
                weights: &w,
                channels,
                taps,
                a_steps: [line, channels, step * channels],
                w_step: 5 * channels,
                bias: Some(&w),
                residual: (case % 3 > 0).then_some(&other),
                bounds: [-1e3, 1e3],
                out: &mut out,
            });
            for (i, got) in out.iter().enumerate() {
                let (p, c, mut want) = (i / channels, i % channels, 0f32);
                for (y, x) in (0..taps[0]).flat_map(|y| (0..taps[1]).map(move |x| (y, x))) {
                    want = a[y * line + (x + p * step) * channels + c].mul_add(w[(y * 5 + x) * channels + c], want);
                }
                want += w[c];
                want += if case % 3 > 0 { other[i] } else { -0.0 };
                assert_eq!(got.to_bits(), want.clamp(-1e3, 1e3).to_bits(), "{channels} channels, {taps:?}, pixel {p}");
            }
        }
    }

    fn check_gemm_s16(isa: Isa) {
        let mut rng = Rng(55);
        for (k, kind, n) in
            [2, 4, 6, 64, 130].iter().flat_map(|k| (0..4).flat_map(move |w| (1..=GEMM_ROWS).map(move |n| (*k, w, n))))
        {
            let mut word =
                || if kind == 0 { [255, -255][rng.next() as usize & 1] } else { (rng.next() % 511) as i16 - 255 };
            let (a, b): (Vec<i16>, Vec<i16>) =
                ((0..n * k).map(|_| word()).collect(), (0..k * COLS).map(|_| word()).collect());
            let mut tile = GemmTile::ZERO;
            isa.gemm_s16(&a, &rows(n, k), &b, &mut tile);
            for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                let at = |i: usize| i / 2 * 2 * COLS + 2 * c + i % 2;
                let want: i32 = (0..k).map(|i| i32::from(a[r * k + i]) * i32::from(b[at(i)])).sum();
                assert_eq!(tile.0[r][c], want, "k {k} row {r} column {c}");
            }
        }
    }

    /// Every length around the blocks, every byte, tables of every kind.
    fn check_lut_u8(run: LutU8Fn) {
        let mut rng = Rng(31);
        for n in (0..300).chain([4096, 5003]) {
            let table = core::array::from_fn(|i| if n % 3 == 0 { !(i as u8) } else { rng.next() as u8 });
            let x: Vec<u8> = (0..n).map(|i| if n % 2 == 0 { i as u8 } else { rng.next() as u8 }).collect();
            let mut out = vec![0; n];
            // SAFETY: the caller has asked whether this machine runs the kernel.
            unsafe { run(&table, &x, &mut out) };
            assert!(x.iter().zip(&out).all(|(x, y)| *y == table[usize::from(*x)]), "length {n}");
        }
    }

    #[test]
    fn every_kernel_equals_a_naive_sum() {
        for kernel in KERNELS {
            let Ok(isa) = Isa::parse(kernel.isa) else {
                eprintln!("skipped: {}: this machine has no {}", kernel.name, kernel.isa);
                continue;
            };
            check(kernel.name, kernel.run, isa);
        }
    }

    fn check(name: &str, run: Run, isa: Isa) {
        match run {
            Run::GemmU8(run) => {
                let mut seen = [0; RUNS.len()];
                Packing::ALL.into_iter().for_each(|packing| check_gemm_u8(run, packing, &mut seen));
                assert!(seen.iter().all(|n| *n > 0), "{name}: forms never reached: {seen:?}");
            }
            Run::DepthwiseU8(run) => check_depthwise_u8(run),
            // Compared with the naive convolution, epilogue by epilogue, in `tests/conv_u8.rs`.
            Run::DepthwiseU8Lines(_) | Run::FinishU8(_) | Run::StripeU8(_) => {}
            Run::GemmF32(_) => check_gemm_f32::<LineF32>(isa, |r| (r as i32 as f32) * 1e-7),
            Run::GemmF16(_) => check_gemm_f32::<LineF16>(isa, |r| r as u16 & 0xBFFF),
            Run::GemmBf16(_) => check_gemm_f32::<LineBf16>(isa, |r| r as u16 & 0xBFFF),
            Run::DepthwiseF32(_) => check_depthwise_f32(isa),
            Run::GemmS16(_) => check_gemm_s16(isa),
            Run::LutU8(run) => check_lut_u8(run),
            // Compared with the definition, operation by operation, in `tests/elementwise.rs` and `tests/refmath.rs`.
            Run::BinaryU8(_) => {}
        }
    }

    /// Kernels of AArch64 over plain models of their instructions.
    #[test]
    fn every_modelled_kernel_equals_a_naive_sum() {
        for (name, run) in crate::aarch64::MODELS {
            check(name, *run, Isa::portable().with(*run));
        }
    }

    #[test]
    fn every_model_equals_a_naive_sum() {
        for (name, model) in crate::model::GEMM_U8 {
            let mut seen = [0; RUNS.len()];
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

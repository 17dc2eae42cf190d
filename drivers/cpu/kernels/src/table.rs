//! The kernel table: one line per product kernel. Tests, benchmarks and reports derive from it.

/// What a kernel computes; its instruction set chooses the instance (see `dispatch.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOp {
    /// u8 activations times s8 weights (16-bit weights in wide groups) to i32.
    GemmU8,
    /// Depthwise: u8 activations times 16-bit weights to i32.
    DepthwiseU8,
    /// f32 in ascending k with fused multiply-adds; weights stored as f32, f16 or bf16.
    GemmF32,
    /// Depthwise: the same per channel.
    DepthwiseF32,
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
    /// What it computes.
    pub op: KernelOp,
}

const fn kernel(name: &'static str, isa: &'static str, peak_macs_per_clock: u32, op: KernelOp) -> Kernel {
    Kernel { name, isa, exact: true, peak_macs_per_clock, op }
}

/// All product kernels.
pub static KERNELS: &[Kernel] = &[
    kernel("gemm_u8_s8_s32_4x16x4_portable", "portable", 0, KernelOp::GemmU8),
    kernel("gemm_u8_s8_s32_4x16x4_avx2", "avx2", 42, KernelOp::GemmU8),
    kernel("dw_u8_s16_s32_4x16x2_portable", "portable", 0, KernelOp::DepthwiseU8),
    kernel("dw_u8_s16_s32_4x16x2_avx2", "avx2", 32, KernelOp::DepthwiseU8),
    kernel("gemm_f32_f32_f32_6x16x1_portable", "portable", 0, KernelOp::GemmF32),
    kernel("gemm_f32_f32_f32_6x16x1_avx2", "avx2", 16, KernelOp::GemmF32),
    kernel("dw_f32_f32_f32_1x1x1_portable", "portable", 0, KernelOp::DepthwiseF32),
    kernel("dw_f32_f32_f32_4x16x1_avx2", "avx2", 12, KernelOp::DepthwiseF32),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depthwise::{DepthwiseB, DepthwiseWindow};
    use crate::conv::{FinishF32, OutF32};
    use crate::depthwise_f32::DepthwiseRow;
    use crate::float::{self, GemmF32, Line, LineBf16, LineF16, LineF32, Packed, Runs, TileRows};
    use crate::shared_out::SharedOut;
    use crate::gemm::{COLS, FORMS, GROUP, Group, NO_K, Packing, pack};
    use crate::isa::Isa;
    use crate::tile::{ROWS, Rows, Tile};

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

    fn rows(n: usize, stride: usize) -> Rows {
        Rows { at: core::array::from_fn(|r| r.min(n - 1) * stride), n }
    }

    fn check_gemm_u8(isa: Isa, seen: &mut [u32; FORMS.len()]) {
        let mut rng = Rng(0x1234_5678_9ABC_DEF1);
        for (k, kind, n) in [1, 3, 4, 64, 130, 256].iter().flat_map(|k| (0..KINDS).map(move |w| (*k, w, 1 + w % ROWS)))
        {
            let w: Vec<i16> = (0..k * COLS).map(|_| weight(kind, &mut rng)).collect();
            let groups: Vec<Group> = (0..k)
                .step_by(GROUP)
                .map(|at| Group { offset: at, k: core::array::from_fn(|i| if at + i < k { at + i } else { NO_K }) })
                .collect();
            let packed = pack(&groups, COLS, Packing::Search, &|k, c| w[k * COLS + c]).unwrap();
            seen.iter_mut().zip(packed.panel(0).steps).for_each(|(s, n)| *s += n);
            for data in 0..4 {
                let a = activations(data, n * k + GROUP, &mut rng);
                let mut tile = Tile::ZERO;
                isa.gemm_u8(&a, &rows(n, k), &packed.panel(0), &mut tile);
                for (r, c) in (0..n).flat_map(|r| (0..COLS).map(move |c| (r, c))) {
                    let want: i32 = (0..k).map(|i| i32::from(a[r * k + i]) * i32::from(w[i * COLS + c])).sum();
                    assert_eq!(tile.0[r][c], want, "k {k} weights {kind} data {data} row {r} column {c}");
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
                    b: packed.panel(0),
                    next: packed.panel(1),
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

    #[test]
    fn every_kernel_equals_a_naive_sum() {
        for (kernel, isa) in KERNELS.iter().filter_map(|k| Isa::parse(k.isa).ok().map(|isa| (k, isa))) {
            match kernel.op {
                KernelOp::GemmU8 => {
                    let mut seen = [0; FORMS.len()];
                    check_gemm_u8(isa, &mut seen);
                    assert!(seen.iter().all(|n| *n > 0), "{}: forms never reached: {seen:?}", kernel.name);
                }
                KernelOp::DepthwiseU8 => check_depthwise_u8(isa),
                KernelOp::GemmF32 => {
                    check_gemm_f32::<LineF32>(isa, |r| (r as i32 as f32) * 1e-7);
                    check_gemm_f32::<LineF16>(isa, |r| r as u16 & 0xBFFF);
                    check_gemm_f32::<LineBf16>(isa, |r| r as u16 & 0xBFFF);
                }
                KernelOp::DepthwiseF32 => check_depthwise_f32(isa),
            }
        }
    }

    #[test]
    fn names_are_unique_and_end_with_the_instruction_set() {
        for (i, kernel) in KERNELS.iter().enumerate() {
            assert!(kernel.name.ends_with(&format!("_{}", kernel.isa)), "{}", kernel.name);
            assert!(KERNELS[..i].iter().all(|k| k.name != kernel.name), "{}", kernel.name);
        }
        for isa in Isa::available() {
            for op in [KernelOp::GemmU8, KernelOp::DepthwiseU8, KernelOp::GemmF32, KernelOp::DepthwiseF32] {
                assert!(KERNELS.iter().any(|k| k.isa == isa.name() && k.op == op), "{} lacks {op:?}", isa.name());
            }
        }
    }

    #[test]
    #[should_panic(expected = "leaves")]
    fn a_row_beyond_the_activations_is_refused() {
        let packed = pack(&[Group { offset: 0, k: [0, 1, 2, 3] }], COLS, Packing::Search, &|_, _| 1).unwrap();
        let mut tile = Tile::ZERO;
        Isa::detect().gemm_u8(&[0; 7], &rows(2, 4), &packed.panel(0), &mut tile);
    }
}

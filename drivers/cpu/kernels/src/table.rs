//! The kernel table: one line per product kernel. Tests, benchmarks and reports derive from it.

/// What a kernel computes; its instruction set chooses the instance (see `dispatch.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelOp {
    /// u8 activations times s8 weights (16-bit weights in wide groups) to i32.
    GemmU8,
    /// Depthwise: u8 activations times 16-bit weights to i32.
    DepthwiseU8,
    /// f32 in ascending k with fused multiply-adds.
    GemmF32,
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
    kernel("dw_u8_s16_s32_8x8x2_portable", "portable", 0, KernelOp::DepthwiseU8),
    kernel("dw_u8_s16_s32_8x8x2_avx2", "avx2", 32, KernelOp::DepthwiseU8),
    kernel("gemm_f32_f32_f32_6x16x1_portable", "portable", 0, KernelOp::GemmF32),
    kernel("gemm_f32_f32_f32_6x16x1_avx2", "avx2", 16, KernelOp::GemmF32),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depthwise::{Band, CHANNELS, DepthwiseB, DepthwiseWindow, LINES, PIXELS};
    use crate::float::{self, PackedF32, RowsF32, Runs, TileF32};
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

    /// Tiles of every window, read from an image and from a ring whose first row lies anywhere.
    fn check_depthwise_u8(isa: Isa) {
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
                    isa.depthwise_u8(&band, &panel, x0, &mut sums);
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
                KernelOp::GemmF32 => check_gemm_f32(isa),
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
            for op in [KernelOp::GemmU8, KernelOp::DepthwiseU8, KernelOp::GemmF32] {
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

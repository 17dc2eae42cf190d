//! Shared by the kernel tests: a deterministic generator, adversarial data, and naive oracles that know nothing of the kernels.

#![allow(dead_code)] // each test binary uses a part

use ottava_kernels::{ConvShape, Exec, Isa, ThreadPool};

/// xorshift64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn byte(&mut self) -> u8 {
        (self.next() >> 24) as u8
    }

    /// Roughly Gaussian, sigma about `sigma`.
    pub fn bell(&mut self, sigma: f32) -> f32 {
        let sum: f32 = (0..12).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32).sum();
        (sum - 6.0) * sigma
    }

    /// In `lo..hi`.
    pub fn float(&mut self, lo: f32, hi: f32) -> f32 {
        lo + (hi - lo) * ((self.next() >> 40) as f32 / (1u64 << 24) as f32)
    }
}

/// Kinds of [`bytes`].
pub const BYTE_KINDS: usize = 5;

/// Activation data: all maximum, all minimum, extremes mixed, full range, alternating.
pub fn bytes(kind: usize, n: usize, rng: &mut Rng) -> Vec<u8> {
    (0..n)
        .map(|i| match kind {
            0 => 255,
            1 => 0,
            2 => [0, 255][rng.next() as usize >> 30 & 1],
            3 => rng.byte(),
            _ => [255, 0, 255, 1, 128][i % 5],
        })
        .collect()
}

/// Kinds of [`weights`].
pub const WEIGHT_KINDS: usize = 9;

/// Weight data that reaches every form of the packed format.
pub fn weights(kind: usize, n: usize, rng: &mut Rng) -> Vec<i8> {
    (0..n)
        .map(|i| match kind {
            0 => 127,
            1 => -128,
            2 => [127, -127, -128][(rng.next() >> 30) as usize % 3],
            3 => rng.byte() as i8,
            4 => rng.bell(40.0).clamp(-128.0, 127.0) as i8,
            5 => rng.bell(24.0).clamp(-128.0, 127.0) as i8,
            6 => [64, -64, 32, 33][i % 4],
            7 => [1, 127, 0, -128][(rng.next() >> 30) as usize & 3],
            _ => rng.bell(12.0) as i8,
        })
        .collect()
}

/// Every instruction set with 1 and 3 threads.
pub fn for_each_exec(mut f: impl FnMut(Exec<'_>, &str)) {
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads).unwrap();
        for isa in Isa::available() {
            f(Exec { isa, pool: &pool }, &format!("{} x{threads}", isa.name()));
        }
    }
}

/// Calls `f(output index, k, input index)` for each tap inside the image, in ascending (kh, kw, cin) order per output; NHWC, batch of
/// `batch`; `k = (y * kw + x) * cin + ci` within the group.
pub fn taps(s: &ConvShape, batch: usize, mut f: impl FnMut(usize, usize, usize)) {
    let [oh, ow] = s.out_hw().unwrap();
    let (ci_n, co_n) = (s.in_c / s.groups, s.out_c / s.groups);
    for o in 0..batch * oh * ow * s.out_c {
        let (co, x, y, b) = (o % s.out_c, o / s.out_c % ow, o / s.out_c / ow % oh, o / s.out_c / ow / oh);
        for k in 0..s.kernel[0] * s.kernel[1] * ci_n {
            let (ci, kx, ky) = (k % ci_n, k / ci_n % s.kernel[1], k / ci_n / s.kernel[1]);
            let iy = (y * s.stride[0] + ky * s.dilation[0]).wrapping_sub(s.pads[0]);
            let ix = (x * s.stride[1] + kx * s.dilation[1]).wrapping_sub(s.pads[1]);
            if iy < s.in_h && ix < s.in_w {
                f(o, k, ((b * s.in_h + iy) * s.in_w + ix) * s.in_c + co / co_n * ci_n + ci);
            }
        }
    }
}

/// `[h, w, in_c, out_c, kh, kw, sh, sw, dh, dw, top, left, bottom, right, groups]`.
pub fn shape(v: [usize; 15]) -> ConvShape {
    ConvShape {
        in_h: v[0],
        in_w: v[1],
        in_c: v[2],
        out_c: v[3],
        kernel: [v[4], v[5]],
        stride: [v[6], v[7]],
        dilation: [v[8], v[9]],
        pads: [v[10], v[11], v[12], v[13]],
        groups: v[14],
    }
}

/// Shapes with odd sizes, tails, strides, dilations, asymmetric pads, groups, depthwise, 1-D and stems.
pub fn shapes() -> Vec<ConvShape> {
    [
        [1, 1, 64, 16, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [1, 7, 37, 19, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [3, 3, 2, 33, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [5, 5, 8, 17, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1],
        [7, 6, 16, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [9, 8, 3, 8, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1],
        [8, 8, 5, 7, 3, 2, 1, 2, 2, 1, 0, 2, 1, 0, 1],
        [6, 9, 6, 10, 3, 3, 1, 1, 1, 3, 2, 0, 0, 3, 1],
        [6, 6, 12, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4],
        [5, 4, 6, 4, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2],
        [1, 21, 4, 9, 1, 5, 1, 2, 1, 2, 0, 3, 0, 1, 1],
        [7, 7, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 32],
        [6, 5, 19, 19, 3, 3, 2, 1, 1, 1, 1, 1, 0, 1, 19],
        [9, 9, 3, 3, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2, 3],
        [8, 7, 16, 16, 2, 4, 1, 1, 2, 1, 0, 0, 0, 0, 16],
        [5, 5, 4, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4],
        [4, 4, 48, 48, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 48],
        [6, 6, 4, 12, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0, 1],
        [4, 4, 3, 5, 2, 2, 3, 3, 1, 1, 0, 0, 0, 0, 1],
        [3, 3, 8, 8, 3, 3, 1, 1, 1, 1, 4, 4, 4, 4, 1],
    ]
    .map(shape)
    .to_vec()
}

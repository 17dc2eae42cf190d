//! Products, convolutions and depthwise convolutions, integer and float, against their definitions.

use alloc::vec;
use alloc::vec::Vec;

use crate::machine;
use ottava_kernels::{
    ConvF32, ConvShape, ConvU8, Epilogue, Exec, Isa, OutMut, Packing, ThreadPool, WeightData, WeightLayout, Weights,
};

/// Runs all checks on one instruction set and returns their number.
pub fn run(isa: Isa) -> usize {
    let (mut rng, mut n) = (Rng(0x9E37_79B9_7F4A_7C15), 0);
    let pool = ThreadPool::new(1).expect("a pool of one thread always starts");
    let exec = Exec { isa, pool: &pool };
    for (i, shape) in shapes().iter().enumerate() {
        // An emulated instruction costs a hundred: neighbouring shapes share the kinds of weights and the layouts out among them.
        for (j, packing) in Packing::ALL.into_iter().enumerate() {
            let mark = machine::mark();
            integer(exec, shape, (i + 2 * j) % KINDS, (i + j) % DATA, packing, &mut rng);
            // SAFETY: the check returned nothing that it allocated.
            unsafe { machine::reset(mark) };
            n += 1;
        }
        let mark = machine::mark();
        float(exec, shape, &mut rng);
        // SAFETY: as above.
        unsafe { machine::reset(mark) };
        n += 1;
    }
    n
}

/// A shape and its number of images (rows of a product).
struct Case {
    shape: ConvShape,
    batch: usize,
}

/// Products with every tail of rows, columns and k; images with padding, strides, dilation, groups; depthwise.
fn shapes() -> Vec<Case> {
    let mut all = Vec::new();
    for (i, k) in (1..=20).chain([31, 32, 33, 63, 64, 65, 130]).enumerate() {
        all.push(Case { shape: ConvShape::gemm(k, [1, 7, 15, 16, 17, 33][i % 6]), batch: 1 + i % 17 });
    }
    all.extend((1..=17).map(|m| Case { shape: ConvShape::gemm(24 + m % 5, 16), batch: m }));
    let image = |in_h, in_w, in_c, out_c, kernel: usize, stride: usize, pad: usize, groups| ConvShape {
        in_h,
        in_w,
        in_c,
        out_c,
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [pad; 4],
        groups,
    };
    let mut dilated = image(7, 9, 4, 5, 3, 1, 2, 1);
    dilated.dilation = [2, 2];
    let images = [
        image(5, 6, 3, 9, 3, 1, 1, 1),
        image(6, 5, 8, 18, 3, 2, 1, 1),
        image(4, 7, 12, 8, 2, 1, 0, 4),
        dilated,
        image(6, 7, 16, 16, 3, 1, 1, 16),
        image(7, 6, 5, 5, 3, 2, 1, 5),
        image(6, 6, 35, 35, 5, 1, 2, 35),
    ];
    all.extend(images.map(|shape| Case { shape, batch: 1 }));
    all
}

/// Weights of kind 0.. : all extremes of one sign, mixed extremes, full range, four bits, and u8 with zero points (beyond s8).
const KINDS: usize = 6;
/// Activations: all minimum, all maximum, extremes, full range.
const DATA: usize = 4;

fn integer(exec: Exec<'_>, case: &Case, kind: usize, data: usize, packing: Packing, rng: &mut Rng) {
    let s = &case.shape;
    let n = s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c;
    let bytes: Vec<u8> = (0..n).map(|_| weight(kind, rng)).collect();
    let signed: Vec<i8> = bytes.iter().map(|b| *b as i8).collect();
    let unsigned = kind == KINDS - 1;
    let zero_points: Vec<i32> =
        if unsigned { (0..s.out_c).map(|c| [0, 255, 128, 77][c % 4]).collect() } else { vec![] };
    let four_bits: Vec<u8> =
        signed.chunks(2).map(|w| (w[0] as u8 & 15) | w.get(1).map_or(0, |w| (*w as u8) << 4)).collect();
    let weights = Weights {
        data: match kind {
            3 => WeightData::S4(&four_bits),
            _ if unsigned => WeightData::U8(&bytes),
            _ => WeightData::S8(&signed),
        },
        layout: WeightLayout::Hwio,
        zero_points: &zero_points,
    };
    let zero = [0, 128, 255, 3][kind % 4];
    let x: Vec<u8> = (0..case.batch * s.in_h * s.in_w * s.in_c).map(|_| activation(data, rng)).collect();
    let plan = ConvU8::with_packing(*s, &weights, zero, None, Epilogue::Raw, packing).expect("a sound shape");

    let w = |i: usize, c: usize| match unsigned {
        true => i32::from(bytes[i]) - zero_points[c],
        false => i32::from(signed[i]),
    };
    let product =
        |sum: i32, x_at: usize, w_at: usize, c: usize| sum + (i32::from(x[x_at]) - i32::from(zero)) * w(w_at, c);
    let want = naive(case, 0, product);
    let (mut out, mut scratch) = (vec![0; want.len()], vec![0; plan.scratch_len()]);
    plan.run(exec, &x, None, OutMut::I32(&mut out), &mut scratch).expect("lengths of this very plan");
    assert!(out == want, "{:?}: {s:?}, {} rows, weights {kind}, data {data}, {packing:?}", exec.isa, case.batch);
}

fn float(exec: Exec<'_>, case: &Case, rng: &mut Rng) {
    let s = &case.shape;
    let n = s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c;
    let w: Vec<f32> = (0..n).map(|_| rng.float()).collect();
    let x: Vec<f32> = (0..case.batch * s.in_h * s.in_w * s.in_c).map(|_| rng.float()).collect();
    let (lo, hi) = (f32::NEG_INFINITY, f32::INFINITY);
    let plan = ConvF32::new(*s, &w, WeightLayout::Hwio, None, lo, hi).expect("a sound shape");
    let want = naive(case, 0f32, |sum, x_at, w_at, _| libm::fmaf(x[x_at], w[w_at], sum));
    let mut out = vec![0.0; want.len()];
    plan.run(exec, &x, &mut out).expect("lengths of this very plan");
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert!(bits(&out) == bits(&want), "{:?}: f32 {s:?}, {} rows", exec.isa, case.batch);
}

/// Folds `step(sum, index of x, index of the weight, output channel)` over the taps of each output, in the order of the definition.
fn naive<T: Copy>(case: &Case, zero: T, step: impl Fn(T, usize, usize, usize) -> T) -> Vec<T> {
    let s = &case.shape;
    let ([h, wide], n_in, n_out) = (s.out_hw().expect("a sound shape"), s.in_c / s.groups, s.out_c / s.groups);
    let mut out = Vec::with_capacity(case.batch * h * wide * s.out_c);
    for (image, y, x) in (0..case.batch).flat_map(|i| (0..h).flat_map(move |y| (0..wide).map(move |x| (i, y, x)))) {
        for c in 0..s.out_c {
            let mut sum = zero;
            for (ky, kx) in (0..s.kernel[0]).flat_map(|ky| (0..s.kernel[1]).map(move |kx| (ky, kx))) {
                let row = (y * s.stride[0] + ky * s.dilation[0]).wrapping_sub(s.pads[0]);
                let column = (x * s.stride[1] + kx * s.dilation[1]).wrapping_sub(s.pads[1]);
                if row >= s.in_h || column >= s.in_w {
                    continue;
                }
                for ci in 0..n_in {
                    let x_at = ((image * s.in_h + row) * s.in_w + column) * s.in_c + c / n_out * n_in + ci;
                    let w_at = ((ky * s.kernel[1] + kx) * n_in + ci) * s.out_c + c;
                    sum = step(sum, x_at, w_at, c);
                }
            }
            out.push(sum);
        }
    }
    out
}

fn weight(kind: usize, rng: &mut Rng) -> u8 {
    let r = rng.next();
    match kind {
        0 => 127,
        1 => 128,
        2 => [127, 128][r as usize & 1],
        3 => (r as u8 & 15).wrapping_sub(8),
        _ => r as u8,
    }
}

fn activation(kind: usize, rng: &mut Rng) -> u8 {
    let r = rng.next();
    [0, 255, [0, 255][r as usize & 1], r as u8][kind]
}

/// Xorshift.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 20
    }

    fn float(&mut self) -> f32 {
        self.next() as i32 as f32 * 1e-7
    }
}

//! Depthwise convolution against a naive sum: every epilogue on prime channel counts, strides, dilations, pads and adversarial weights.

mod common;

use common::{BYTE_KINDS, Rng, bytes, for_each_exec, shape, taps};
use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, Isa, OtherQ, OutMut, OutQ, ThreadPool, WeightData, WeightLayout, Weights,
};

const CHANNELS: [usize; 8] = [2, 3, 8, 17, 31, 33, 64, 97];
const KERNELS: [[usize; 2]; 8] = [[3, 3], [5, 5], [1, 1], [3, 3], [1, 5], [7, 7], [4, 1], [2, 3]];
const PADS: [[usize; 4]; 7] =
    [[1, 1, 1, 1], [0, 0, 0, 0], [2, 2, 2, 2], [0, 1, 1, 0], [3, 0, 0, 2], [1, 2, 0, 0], [0, 0, 4, 5]];

/// Shapes that cross all of channels, kernels, strides 1 to 3, dilations 1 and 2, pads, and sizes down to one pixel.
fn shapes() -> Vec<ConvShape> {
    let sizes = [[9, 11], [6, 5], [1, 23], [14, 4], [7, 7], [13, 1], [4, 9], [5, 62]];
    let mut out = Vec::new();
    for i in 0..CHANNELS.len() * KERNELS.len() * PADS.len() {
        let (c, [kh, kw]) = (CHANNELS[i % 8], KERNELS[i / 8 % 8]);
        let [top, left, bottom, right] = PADS[i % 7];
        let [h, w] = sizes[(i / 3) % 8];
        let (sh, sw) = (1 + i / 5 % 3, 1 + i / 7 % 3);
        let (dh, dw) = (1 + i / 11 % 2, 1 + i / 13 % 2);
        let s = shape([h, w, c, c, kh, kw, sh, sw, dh, dw, top, left, bottom, right, c]);
        out.extend(s.out_hw().is_ok().then_some(s));
    }
    assert!(out.len() > 200, "only {} of the shapes are possible", out.len());
    out
}

/// u8 weights with zero points: so weights reach -255 and 255. Kinds: all -255, all 255, both, anything, and like s8 -128.
fn weights(kind: usize, s: &ConvShape, rng: &mut Rng) -> (Vec<u8>, Vec<i32>) {
    let n = s.kernel[0] * s.kernel[1] * s.out_c;
    let zeros = |f: &dyn Fn(usize) -> i32| (0..s.out_c).map(f).collect();
    match kind {
        0 => (vec![0; n], vec![255]),
        1 => (vec![255; n], vec![0]),
        2 => (bytes(2, n, rng), zeros(&|c| [0, 255][c % 2])),
        3 => (bytes(3, n, rng), zeros(&|c| (c * 37 % 256) as i32)),
        _ => (vec![0; n], vec![128]),
    }
}

struct Case {
    shape: ConvShape,
    batch: usize,
    w: Vec<u8>,
    zeros: Vec<i32>,
    bias: Vec<i32>,
    x_zero_point: u8,
    x: Vec<u8>,
}

impl Case {
    fn new(i: usize, shape: ConvShape, rng: &mut Rng) -> Self {
        let (w, zeros) = weights(i % 5, &shape, rng);
        let batch = [1, 3, 0, 2][i % 4];
        let bias = (0..shape.out_c).map(|_| rng.next() as i32 >> 14).collect();
        let x = bytes(i % BYTE_KINDS, batch * shape.in_h * shape.in_w * shape.in_c, rng);
        Self { shape, batch, w, zeros, bias, x_zero_point: [0, 255, 128, 3][i / 2 % 4], x }
    }

    fn plan(&self, epilogue: Epilogue) -> ConvU8 {
        let spec = Weights { data: WeightData::U8(&self.w), layout: WeightLayout::Hwio, zero_points: &self.zeros };
        ConvU8::new(self.shape, &spec, self.x_zero_point, Some(&self.bias), epilogue).unwrap()
    }

    /// The accumulators by definition.
    fn sums(&self) -> Vec<i32> {
        let (s, [h, w]) = (&self.shape, self.shape.out_hw().unwrap());
        let mut acc: Vec<i32> = (0..self.batch * h * w * s.out_c).map(|i| self.bias[i % s.out_c]).collect();
        taps(s, self.batch, |o, k, i| {
            let c = o % s.out_c;
            let weight = i32::from(self.w[k * s.out_c + c]) - self.zeros[c % self.zeros.len()];
            acc[o] += (i32::from(self.x[i]) - i32::from(self.x_zero_point)) * weight;
        });
        acc
    }

    /// Runs the plan on every instruction set and thread count, in scratch of any content.
    fn check_bytes(&self, plan: &ConvU8, residual: Option<&[u8]>, want: &[u8]) {
        for_each_exec(|exec, name| {
            let (mut got, mut scratch) = (vec![0xEE; want.len()], vec![0x5A; plan.scratch_len()]);
            plan.run(exec, &self.x, residual, OutMut::Bytes(&mut got), &mut scratch).unwrap();
            assert_eq!(got, want, "{name} {:?} batch {}", self.shape, self.batch);
        });
    }
}

/// Rounding by definition in f64, where f32 values and their sums with integers are exact.
fn quantized(t: f32, q: OutQ) -> u8 {
    (f64::from(t).round_ties_even() + f64::from(q.zero_point)).clamp(f64::from(q.lo), f64::from(q.hi)) as i32 as u8
}

#[test]
fn sums_are_exact() {
    let mut rng = Rng(1);
    for (i, s) in shapes().into_iter().enumerate() {
        let case = Case::new(i, s, &mut rng);
        let (plan, want) = (case.plan(Epilogue::Raw), case.sums());
        for_each_exec(|exec, name| {
            let (mut got, mut scratch) = (vec![-7; want.len()], vec![0x5A; plan.scratch_len()]);
            plan.run(exec, &case.x, None, OutMut::I32(&mut got), &mut scratch).unwrap();
            assert_eq!(got, want, "{name} {s:?} batch {}", case.batch);
        });
    }
}

#[test]
fn requantized_bytes_follow_the_contract() {
    let mut rng = Rng(2);
    let outs = [OutQ::u8(0), OutQ::u8(255), OutQ::s8(-128), OutQ { zero_point: 7, lo: 7, hi: 199, signed: false }];
    let outs = [&outs[..], &[OutQ { zero_point: -3, lo: -3, hi: 90, signed: true }, OutQ::s8(127)]].concat();
    // Multipliers of everyday size, of at least 1, and so large that the product leaves 32 bits.
    for (i, s) in shapes().into_iter().enumerate() {
        let (case, out) = (Case::new(i, s, &mut rng), outs[i % outs.len()]);
        let largest = [1e-3, 0.5, 1.5, 1e9][i % 4];
        let m: Vec<f32> = (0..s.out_c).map(|_| rng.float(1e-6, largest)).collect();
        let want: Vec<u8> =
            case.sums().iter().enumerate().map(|(i, acc)| quantized(*acc as f32 * m[i % s.out_c], out)).collect();
        let plan = case.plan(Epilogue::Requant { m, out });
        case.check_bytes(&plan, None, &want);
        let restored =
            ConvU8::from_packed(s, &plan.to_packed(), case.x_zero_point, Epilogue::Requant { m: vec![0.25], out });
        let want: Vec<u8> = case.sums().iter().map(|acc| quantized(*acc as f32 * 0.25, out)).collect();
        case.check_bytes(&restored.unwrap(), None, &want);
    }
}

#[test]
fn other_epilogues_follow_the_contract() {
    let mut rng = Rng(3);
    for (i, s) in shapes().into_iter().enumerate() {
        let (case, out) = (Case::new(i, s, &mut rng), OutQ::u8(9));
        let sums = case.sums();
        let want: Vec<u8> = sums.iter().map(|acc| q31(*acc, 1_500_000_000, -9, i % 2 == 0, out)).collect();
        let double = i % 2 == 0;
        let plan = case.plan(Epilogue::Q31 { m: vec![1_500_000_000], shift: vec![-9], double, out });
        case.check_bytes(&plan, None, &want);

        let residual = bytes(3, sums.len(), &mut rng);
        let other = OtherQ { scale: 0.75, zero_point: 12, signed: false };
        let add = |i: usize| sums[i] as f32 * 0.01 + (i32::from(residual[i]) - 12) as f32 * 0.75;
        let want: Vec<u8> = (0..sums.len()).map(|i| quantized(add(i).max(0.0) / 1.25, out)).collect();
        let (xw, lo, hi) = (vec![0.01], 0.0, f32::INFINITY);
        let plan = case.plan(Epilogue::Residual { xw, other, lo, hi, y_scale: 1.25, out });
        case.check_bytes(&plan, Some(&residual), &want);

        let plan = case.plan(Epilogue::Float { xw: vec![0.3], lo: -40.0, hi: 6e4 });
        let want: Vec<f32> = sums.iter().map(|acc| (*acc as f32 * 0.3).clamp(-40.0, 6e4)).collect();
        for_each_exec(|exec, name| {
            let (mut got, mut scratch) = (vec![0.5; want.len()], vec![0; plan.scratch_len()]);
            plan.run(exec, &case.x, None, OutMut::F32(&mut got), &mut scratch).unwrap();
            assert_eq!(got, want, "{name} {s:?}");
        });
    }
}

/// By the formulas of the contract in i128; right shifts only.
fn q31(acc: i32, m: i32, shift: i32, double: bool, out: OutQ) -> u8 {
    let product = i128::from(acc) * i128::from(m);
    let y = if double {
        let high = (product + (1 << 30)) >> 31;
        high.signum() * ((high.abs() + (1i128 << -shift) / 2) >> -shift)
    } else {
        (product + (1i128 << (30 - shift))) >> (31 - shift)
    };
    (y + i128::from(out.zero_point)).clamp(i128::from(out.lo), i128::from(out.hi)) as i32 as u8
}

#[test]
fn a_stride_that_nothing_takes_may_be_huge() {
    let s = shape([3, 3, 8, 8, 3, 3, usize::MAX, usize::MAX, 1, 1, 0, 0, 0, 0, 8]);
    let spec = Weights { data: WeightData::S8(&[1; 72]), layout: WeightLayout::Hwio, zero_points: &[] };
    let plan = ConvU8::new(s, &spec, 0, None, Epilogue::Raw).unwrap();
    let pool = ThreadPool::new(1).unwrap();
    let (mut out, mut scratch) = ([0; 8], vec![0; plan.scratch_len()]);
    let exec = Exec { isa: Isa::detect(), pool: &pool };
    plan.run(exec, &[2; 72], None, OutMut::I32(&mut out), &mut scratch).unwrap();
    assert_eq!(out, [18; 8]);
}

//! 3 x 3 convolutions of enough channels and pixels for transformed tiles, against a naive sum: odd sizes, lopsided pads, partial
//! panels, extreme weights and activations, batches, every epilogue of bytes.

mod common;

use common::{BYTE_KINDS, Rng, bytes, for_each_exec, shape, taps};
use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, Isa, OutMut, OutQ, Packing, ThreadPool, WeightData, WeightLayout, Weights,
};

/// Height, width, input and output channels, top, left, bottom, right pads.
const SHAPES: [[usize; 8]; 9] = [
    [8, 8, 64, 64, 1, 1, 1, 1],
    [13, 17, 64, 81, 1, 1, 1, 1],
    [16, 14, 64, 65, 0, 0, 0, 0],
    [11, 15, 80, 64, 1, 0, 0, 2],
    [40, 5, 64, 64, 2, 2, 2, 2],
    [3, 70, 64, 64, 1, 1, 1, 1],
    [14, 13, 96, 68, 0, 1, 2, 0],
    [21, 19, 64, 67, 1, 1, 1, 1],
    [12, 13, 144, 112, 1, 1, 1, 1],
];

fn conv([h, w, ci, co, top, left, bottom, right]: [usize; 8]) -> ConvShape {
    shape([h, w, ci, co, 3, 3, 1, 1, 1, 1, top, left, bottom, right, 1])
}

/// u8 weights of zero point `zero`: all least, all largest, both, anything.
fn weights(kind: usize, n: usize, rng: &mut Rng) -> Vec<u8> {
    match kind {
        0 => vec![0; n],
        1 => vec![255; n],
        k => bytes(k, n, rng),
    }
}

/// `sum (x - zx)(w - zw)`.
fn naive(s: &ConvShape, batch: usize, x: &[u8], zx: i32, w: &[u8], zw: i32) -> Vec<i32> {
    let mut sums = vec![0; batch * s.out_hw().unwrap().iter().product::<usize>() * s.out_c];
    taps(s, batch, |o, k, i| {
        sums[o] += (i32::from(x[i]) - zx) * (i32::from(w[k * s.out_c + o % s.out_c]) - zw);
    });
    sums
}

fn raw(plan: &ConvU8, exec: Exec<'_>, x: &[u8], n: usize) -> Vec<i32> {
    let (mut out, mut scratch) = (vec![-1; n], vec![0x5A; plan.scratch_len()]);
    plan.run(exec, x, None, OutMut::I32(&mut out), &mut scratch).unwrap();
    out
}

#[test]
fn sums_are_exact() {
    let mut rng = Rng(31);
    for (case, s) in SHAPES.into_iter().map(conv).enumerate() {
        for kind in 0..4 {
            let (zx, zw) = ([0, 255, 128, 3][kind], [0, 255, 128][(case + kind) % 3]);
            let w = weights(kind, 9 * s.in_c * s.out_c, &mut rng);
            let spec = Weights { data: WeightData::U8(&w), layout: WeightLayout::Hwio, zero_points: &[zw] };
            let new = |packing| ConvU8::with_packing(s, &spec, zx as u8, None, Epilogue::Raw, packing).unwrap();
            let plan = new(Packing::Windows);
            assert!(plan.packed_bytes() >= 32 * s.in_c * s.out_c, "{s:?} is not transformed");
            let stored = plan.to_packed();
            let restored = ConvU8::from_packed(s, &stored, zx as u8, Epilogue::Raw).unwrap();
            let batch = 1 + case % 2;
            let x = bytes((case + kind) % BYTE_KINDS, batch * s.in_h * s.in_w * s.in_c, &mut rng);
            let want = naive(&s, batch, &x, zx, &w, zw);
            for_each_exec(|exec, name| {
                assert!(raw(&plan, exec, &x, want.len()) == want, "{s:?} weights {kind} on {name}");
                assert!(raw(&restored, exec, &x, want.len()) == want, "{s:?} weights {kind} stored, on {name}");
            });
        }
    }
}

#[test]
fn the_most_channels_with_the_largest_sums_are_exact() {
    let s = conv([12, 12, 896, 64, 1, 1, 1, 1]);
    for (x, w, zw) in [(255, 255, 0), (255, 0, 255)] {
        let (x, w) = (vec![x; s.in_h * s.in_w * s.in_c], vec![w; 9 * s.in_c * s.out_c]);
        let spec = Weights { data: WeightData::U8(&w), layout: WeightLayout::Hwio, zero_points: &[zw] };
        let plan = ConvU8::with_packing(s, &spec, 0, None, Epilogue::Raw, Packing::Windows).unwrap();
        let want = naive(&s, 1, &x, 0, &w, zw);
        for_each_exec(|exec, name| assert!(raw(&plan, exec, &x, want.len()) == want, "{name}"));
    }
}

#[test]
fn bytes_are_those_of_the_plain_layout() {
    let mut rng = Rng(32);
    for s in SHAPES.into_iter().map(conv) {
        let w: Vec<i8> = (0..9 * s.in_c * s.out_c).map(|_| rng.bell(30.0) as i8).collect();
        let bias: Vec<i32> = (0..s.out_c).map(|_| rng.next() as i32 >> 16).collect();
        let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
        let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
        let run = |packing: Packing, exec: Exec<'_>| {
            let epilogue =
                Epilogue::Requant { m: vec![7e-5], out: OutQ { zero_point: 12, lo: 12, hi: 250, signed: false } };
            let plan = ConvU8::with_packing(s, &spec, 77, Some(&bias), epilogue, packing).unwrap();
            let n = s.out_hw().unwrap().iter().product::<usize>() * s.out_c;
            let (mut out, mut scratch) = (vec![1; n], vec![0; plan.scratch_len()]);
            plan.run(exec, &x, None, OutMut::Bytes(&mut out), &mut scratch).unwrap();
            out
        };
        let pool = ThreadPool::new(1).unwrap();
        let want = run(Packing::Dot, Exec { isa: Isa::portable(), pool: &pool });
        for_each_exec(|exec, name| assert!(run(Packing::Windows, exec) == want, "{s:?} on {name}"));
    }
}

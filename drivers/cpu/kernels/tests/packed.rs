//! Packed weights as bytes: the same plan comes back, and bytes from strangers are refused or harmless.

mod common;

use common::{Rng, WEIGHT_KINDS, bytes, for_each_exec, shapes, weights};
use ottava_kernels::{
    ConvF32, ConvShape, ConvU8, Epilogue, Exec, KernelError, OutMut, Packing, WeightData, WeightLayout, Weights,
};

fn n_weights(s: &ConvShape) -> usize {
    s.kernel[0] * s.kernel[1] * (s.in_c / s.groups) * s.out_c
}

fn run(plan: &ConvU8, exec: Exec<'_>, x: &[u8]) -> Vec<i32> {
    let [h, w] = plan.shape().out_hw().unwrap();
    let batch = x.len() / (plan.shape().in_h * plan.shape().in_w * plan.shape().in_c);
    let (mut out, mut scratch) = (vec![0; batch * h * w * plan.shape().out_c], vec![0; plan.scratch_len()]);
    plan.run(exec, x, None, OutMut::I32(&mut out), &mut scratch).unwrap();
    out
}

fn packed(s: &ConvShape, kind: usize, rng: &mut Rng) -> ConvU8 {
    let w = weights(kind, n_weights(s), rng);
    let bias: Vec<i32> = (0..s.out_c).map(|_| rng.next() as i32 >> 8).collect();
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
    let packing = Packing::ALL[kind % Packing::ALL.len()];
    ConvU8::with_packing(*s, &spec, 77, Some(&bias), Epilogue::Raw, packing).unwrap()
}

#[test]
fn integer_plans_come_back() {
    let mut rng = Rng(0xABCD_EF12);
    for s in &shapes() {
        for kind in 0..WEIGHT_KINDS {
            let plan = packed(s, kind, &mut rng);
            let saved = plan.to_packed();
            let back = ConvU8::from_packed(*s, &saved, 77, Epilogue::Raw).unwrap();
            assert_eq!(back.to_packed(), saved);
            assert_eq!((back.scratch_len(), back.packed_bytes()), (plan.scratch_len(), plan.packed_bytes()));
            let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
            for_each_exec(|exec, name| assert_eq!(run(&back, exec, &x), run(&plan, exec, &x), "{name} {s:?}"));
        }
    }
}

#[test]
fn float_plans_come_back() {
    let mut rng = Rng(99);
    for s in &shapes() {
        let w: Vec<f32> = (0..n_weights(s)).map(|_| rng.float(-1.0, 1.0)).collect();
        let bias: Vec<f32> = (0..s.out_c).map(|_| rng.float(-1.0, 1.0)).collect();
        let plan = ConvF32::new(*s, &w, WeightLayout::Hwio, Some(&bias), -2.0, 2.0).unwrap();
        let saved = plan.to_packed();
        let back = ConvF32::from_packed(*s, &saved, Some(&bias), -2.0, 2.0).unwrap();
        assert_eq!(back.to_packed(), saved);
        let x: Vec<f32> = (0..s.in_h * s.in_w * s.in_c).map(|_| rng.float(-1.0, 1.0)).collect();
        let [h, wide] = s.out_hw().unwrap();
        let run = |plan: &ConvF32, exec: Exec<'_>| {
            let mut out = vec![0.0; h * wide * s.out_c];
            plan.run(exec, &x, &mut out).unwrap();
            out
        };
        for_each_exec(|exec, name| assert_eq!(run(&back, exec), run(&plan, exec), "{name} {s:?}"));
        let cut = ConvF32::from_packed(*s, &saved[..saved.len() - 1], None, 0.0, 1.0);
        assert!(matches!(cut, Err(KernelError::Packed { .. })));
    }
}

#[test]
fn bytes_of_another_length_or_shape_are_refused() {
    let mut rng = Rng(5);
    for s in &shapes() {
        let saved = packed(s, 3, &mut rng).to_packed();
        let refused = |s: ConvShape, bytes: &[u8]| match ConvU8::from_packed(s, bytes, 77, Epilogue::Raw) {
            Err(KernelError::Packed { .. }) => true,
            Err(other) => panic!("{other}"),
            Ok(_) => false,
        };
        for n in [0, 1, saved.len() / 2, saved.len() - 1] {
            assert!(refused(*s, &saved[..n]), "{n} of {} bytes, {s:?}", saved.len());
        }
        assert!(refused(*s, &[saved.as_slice(), &[0]].concat()));
        assert!(refused(ConvShape { out_c: s.out_c * 17, groups: 1, ..*s }, &saved));
    }
}

#[test]
fn changed_bytes_never_read_outside() {
    let mut rng = Rng(6);
    let some = shapes();
    for round in 0..400 {
        let s = &some[round % some.len()];
        let mut saved = packed(s, round % WEIGHT_KINDS, &mut rng).to_packed();
        for _ in 0..3 {
            let at = rng.next() as usize % saved.len();
            saved[at] = [0, 1, 0x7f, 0xff, rng.byte()][rng.next() as usize >> 20 & 3];
        }
        if let Ok(plan) = ConvU8::from_packed(*s, &saved, 77, Epilogue::Raw) {
            let x = bytes(3, s.in_h * s.in_w * s.in_c, &mut rng);
            for_each_exec(|exec, _| assert!(!run(&plan, exec, &x).is_empty()));
        }
    }
}

#[test]
fn shapes_beyond_memory_are_errors() {
    let wide = ConvShape {
        in_w: 1 << 40,
        dilation: [1 << 20, 1],
        kernel: [3, 1],
        pads: [1 << 22; 4],
        ..ConvShape::gemm(1 << 10, 1)
    };
    assert!(matches!(ConvU8::from_packed(wide, &[0; 4], 0, Epilogue::Raw), Err(KernelError::Overflow { .. })));
}

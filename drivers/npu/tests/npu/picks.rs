//! Elements that are picked, repeated or surrounded: Gather, Resize, Pad, and the greater or lesser of two.

use crate::common::{Net, Rng, check, chip, op};
use ottava_hal::{Attr, DataType, Reason, Tensor, TensorType, ValueId, Verdict};

/// A value of 8 or 16 bits, in the form of an image or with channels last.
fn value(net: &mut Net, rng: &mut Rng) -> (ValueId, TensorType) {
    let dims = [rng.size(1, 3), rng.size(2, 9), rng.size(3, 8), rng.size(3, 8)];
    if rng.range(0, 2) == 0 {
        let ty = rng.typed(DataType::S16, &dims);
        return (net.input(ty.clone()), ty);
    }
    let ty = rng.byte_type(&dims);
    let x = net.input(ty.clone());
    if rng.range(0, 1) == 0 {
        return (x, ty);
    }
    let mut pool = op("MaxPool");
    pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
    (net.node(pool, &[x], &ty), ty)
}

#[test]
fn picked_slices_equal_the_reference() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (x, ty) = value(&mut net, &mut rng);
        let axis = rng.size(0, 3);
        let n = net.dims(x)[axis] as i64;
        let indices: Vec<i64> = (0..rng.size(1, 6)).map(|_| rng.range(-n, n - 1)).collect();
        let scalar = Tensor::scalar(indices[0]);
        let picked = if rng.range(0, 2) == 0 { net.constant(scalar.ty(), scalar) } else { net.ints(&indices) };
        let mut node = op("Gather");
        node.attrs.set("axis", Attr::Int(axis as i64));
        let y = net.node(node, &[x, picked], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn repeated_elements_equal_the_reference() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (x, ty) = value(&mut net, &mut rng);
        let factors: Vec<f32> = [1, 1, 3, 3].map(|most| rng.range(1, most) as f32).to_vec();
        let roi = Tensor::from_slice(&[0], &[0f32; 0]).unwrap();
        let roi = net.constant(roi.ty(), roi);
        let scales = Tensor::from_slice(&[4], &factors).unwrap();
        let scales = net.constant(scales.ty(), scales);
        let mut node = op("Resize");
        let (transform, rounding) = rng.pick(&[
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
            ("half_pixel", "round_prefer_ceil"),
            ("half_pixel_symmetric", "round_prefer_floor"),
        ]);
        node.attrs.set("coordinate_transformation_mode", Attr::Str(transform.into()));
        node.attrs.set("nearest_mode", Attr::Str(rounding.into()));
        let y = net.node(node, &[x, roi, scales], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn padded_values_equal_the_reference() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (x, ty) = value(&mut net, &mut rng);
        let pads: Vec<i64> = (0..8).map(|_| rng.pick(&[0, 0, 1, 2])).collect();
        let mut inputs = vec![x, net.ints(&pads)];
        if rng.range(0, 1) == 0 {
            let fill = Tensor::scalar(rng.scale() * rng.range(-30, 30) as f32);
            inputs.push(net.constant(fill.ty(), fill));
        }
        let y = net.node(op("Pad"), &inputs, &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn the_greater_of_two_equals_the_reference() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let (x, ty) = value(&mut net, &mut rng);
        let shape = net.dims(x);
        let other = TensorType::fixed(ty.dtype, &shape).quantized(ty.quant.as_deref().unwrap().clone());
        let other = net.input(other);
        let y = net.node(op(rng.pick(&["Max", "Min"])), &[x, other], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn a_softmax_along_channels_equals_the_reference() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let shape = [rng.size(1, 2), rng.size(2, 30), rng.size(1, 5), rng.size(1, 5)];
        let (ty, like) = (rng.byte_type(&shape), rng.byte_type(&[]));
        let x = net.input(ty);
        let mut node = op("Softmax");
        node.attrs.set("axis", Attr::Int(1));
        let y = net.node(node, &[x], &like);
        let program = net.output(y);
        let inputs = crate::common::data(&program, &mut rng);
        let device = chip("Npu()");
        let exe = crate::common::compile(device.as_ref(), &program);
        let found = crate::common::run(device.as_ref(), &exe, &inputs).unwrap();
        assert_eq!(found, crate::common::reference(&program, &inputs));
    }
}

#[test]
fn what_would_compute_or_has_three_operands_is_refused() {
    let mut rng = Rng::new(1);
    let ty = rng.byte_type(&[1, 2, 4, 4]);
    let mut net = Net::default();
    let xs = [(); 3].map(|()| net.input(ty.clone()));
    let y = net.node(op("Max"), &xs, &ty);
    let verdict = |program: &ottava_hal::Program| chip("Npu()").assess(program).unwrap().remove(0);
    assert!(matches!(verdict(&net.output(y)), Verdict::Rejected { reason: Reason::Other, .. }));
    let mut net = Net::default();
    let x = net.input(ty.clone());
    let scales = Tensor::from_slice(&[4], &[1.0f32, 1.0, 1.5, 1.5]).unwrap();
    let (none, scales) = (Tensor::from_slice(&[0], &[0f32; 0]).unwrap(), net.constant(scales.ty(), scales));
    let none = net.constant(none.ty(), none);
    let y = net.node(op("Resize"), &[x, none, scales], &ty);
    assert!(matches!(verdict(&net.output(y)), Verdict::Rejected { reason: Reason::AttrValue, .. }));
}

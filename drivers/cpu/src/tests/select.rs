//! Where, PRelu, ReduceMax and ReduceMin against the reference: operands that broadcast, parameters of their own, values
//! that lie channels-last, NaNs and zeros of two signs.

use crate::testing::{Net, Rng, check, check_with, op};
use ottava_hal::{Attr, DataType, Tensor, TensorType, ValueId};

/// A value that lies channels-last: the result of a pool.
fn pooled(net: &mut Net, ty: &TensorType) -> ValueId {
    let x = net.input(ty.clone());
    let mut node = op("MaxPool");
    node.attrs.set("kernel_shape", Attr::Ints(vec![1, 1]));
    net.node(node, &[x], ty)
}

const SHAPE: [usize; 4] = [2, 3, 4, 5];

#[test]
fn one_of_two_equals_the_reference() {
    let mut rng = Rng::new(81);
    for (flags, second) in [(&[2, 3, 4, 5][..], &[2, 3, 4, 5][..]), (&[4, 1], &[1, 3, 1, 1]), (&[1], &[5])] {
        for nhwc in [false, true] {
            let typed = [rng.byte_type(&SHAPE), rng.byte_type(second), rng.byte_type(&SHAPE)];
            let plain = |dtype| [&SHAPE[..], second, &SHAPE[..]].map(|shape| TensorType::fixed(dtype, shape));
            for [a, b, y] in [typed, plain(DataType::F32), plain(DataType::S32)] {
                let mut net = Net::default();
                let c = net.input(TensorType::fixed(DataType::Bool, flags));
                let images = nhwc && a.dtype != DataType::S32;
                let a = if images { pooled(&mut net, &a) } else { net.input(a) };
                let b = net.input(b);
                let out = net.node(op("Where"), &[c, a, b], &y);
                check(&net.output(out), &mut rng);
            }
        }
    }
}

#[test]
fn a_clamp_and_constant_operands_are_kept() {
    let mut rng = Rng::new(82);
    let (a, y) = (rng.byte_type(&[3, 4]), rng.byte_type(&[3, 4]));
    let one = rng.byte_type(&[]);
    let (lo, hi) = y.dtype.storage_range().unwrap();
    let mut net = Net::default();
    let c = net.input(TensorType::fixed(DataType::Bool, &[3, 4]));
    let x = net.input(a);
    let b = net.random(one, &mut rng);
    let mut node = op("Where");
    node.fused.clamp = Some((lo + 40, hi - 70));
    let out = net.node(node, &[c, x, b], &y);
    check(&net.output(out), &mut rng);
}

#[test]
fn slopes_equal_the_reference() {
    let mut rng = Rng::new(83);
    for slope in [&[2, 3, 4, 5][..], &[3, 1, 1], &[1], &[5]] {
        for nhwc in [false, true] {
            let typed = [rng.byte_type(&SHAPE), rng.byte_type(&SHAPE)];
            let plain = [(); 2].map(|()| TensorType::fixed(DataType::F32, &SHAPE));
            for [x, y] in [typed, plain] {
                let mut net = Net::default();
                let x = if nhwc { pooled(&mut net, &x) } else { net.input(x) };
                let slope = net.random(TensorType::fixed(DataType::F32, slope), &mut rng);
                let mut node = op("PRelu");
                node.fused.clamp = y.quant.is_some().then_some((3, 90));
                let out = net.node(node, &[x, slope], &y);
                check(&net.output(out), &mut rng);
            }
        }
    }
}

#[test]
fn extremes_equal_the_reference() {
    let mut rng = Rng::new(84);
    for name in ["ReduceMax", "ReduceMin"] {
        for axes in [&[1][..], &[-1], &[2, 3], &[3, 0], &[0, 1, 2, 3], &[]] {
            for nhwc in [false, true] {
                let (x, y) = (rng.byte_type(&SHAPE), rng.byte_type(&[]));
                let float = TensorType::fixed(DataType::F32, &SHAPE);
                for (x, y) in [(x, y), (float.clone(), float)] {
                    let mut net = Net::default();
                    let x = if nhwc { pooled(&mut net, &x) } else { net.input(x) };
                    let mut node = op(name);
                    node.attrs.set("keepdims", Attr::Int(rng.range(0, 1)));
                    let inputs = if axes.is_empty() { vec![x] } else { vec![x, net.ints(axes)] };
                    let out = net.node(node, &inputs, &y);
                    check(&net.output(out), &mut rng);
                }
            }
        }
    }
}

#[test]
fn extremes_of_nan_and_zeros_are_those_of_the_reference() {
    let values = [0.0, -0.0, f32::NAN, 1.0, -0.0, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY];
    for name in ["ReduceMax", "ReduceMin"] {
        let mut net = Net::default();
        let ty = TensorType::fixed(DataType::F32, &[values.len(), 3]);
        let x = net.input(ty.clone());
        let axes = net.ints(&[1]);
        let out = net.node(op(name), &[x, axes], &ty);
        let rows: Vec<f32> = (0..values.len() * 3).map(|i| values[(i * 7 + i / 3) % values.len()]).collect();
        check_with(&net.output(out), &[Tensor::from_slice(&[values.len(), 3], &rows).unwrap()]);
    }
}

//! Movers against the reference, from row-major and from channels-last values.

use crate::testing::{Net, Rng, check, op};
use ottava_hal::{Attr, DataType, Node, Tensor, TensorType, ValueId};

/// A value that lies channels-last: the result of a pool.
fn pooled(net: &mut Net, ty: &TensorType) -> ValueId {
    let x = net.input(ty.clone());
    let mut node = op("MaxPool");
    node.attrs.set("kernel_shape", Attr::Ints(vec![1, 1]));
    net.node(node, &[x], ty)
}

fn both_layouts(rng: &mut Rng, dims: &[usize], f: impl Fn(&mut Net, ValueId, &TensorType) -> ValueId) {
    for ty in [rng.byte_type(dims), TensorType::fixed(DataType::F32, dims)] {
        for nhwc in [false, true] {
            let mut net = Net::default();
            let x = if nhwc { pooled(&mut net, &ty) } else { net.input(ty.clone()) };
            let y = f(&mut net, x, &ty);
            check(&net.output(y), rng);
        }
    }
}

#[test]
fn views_equal_the_reference() {
    let mut rng = Rng::new(31);
    both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| net.node(op("Flatten"), &[x], ty));
    both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| net.node(op("Identity"), &[x], ty));
    both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| {
        let shape = net.ints(&[6, -1]);
        net.node(op("Reshape"), &[x, shape], ty)
    });
    both_layouts(&mut rng, &[2, 3, 1, 5], |net, x, ty| {
        let axes = net.ints(&[2]);
        let y = net.node(op("Squeeze"), &[x, axes], ty);
        net.node(op("Unsqueeze"), &[y, axes], ty)
    });
}

#[test]
fn transpositions_equal_the_reference() {
    let mut rng = Rng::new(32);
    for perm in [[0, 2, 3, 1], [0, 3, 1, 2], [3, 2, 1, 0], [0, 1, 2, 3], [1, 0, 3, 2]] {
        both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| {
            let mut node = op("Transpose");
            node.attrs.set("perm", Attr::Ints(perm.to_vec()));
            net.node(node, &[x], ty)
        });
    }
}

#[test]
fn slices_equal_the_reference() {
    let mut rng = Rng::new(33);
    both_layouts(&mut rng, &[2, 3, 8, 5], |net, x, ty| {
        let (starts, ends, axes, steps) =
            (net.ints(&[1, -100]), net.ints(&[7, 4]), net.ints(&[2, -1]), net.ints(&[2, 1]));
        net.node(op("Slice"), &[x, starts, ends, axes, steps], ty)
    });
}

#[test]
fn concatenations_equal_the_reference() {
    let mut rng = Rng::new(34);
    for axis in [0, 1, 2, -1] {
        both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| {
            let node = |op_node: Node| Node { attrs: op_node.attrs.with("axis", Attr::Int(axis)), ..op_node };
            let mut rng = Rng::new(35);
            let other = if ty.quant.is_some() { rng.byte_type(&[2, 3, 4, 5]) } else { ty.clone() };
            let (b, c) = (net.input(other.clone()), net.random(other.clone(), &mut rng));
            net.node(node(op("Concat")), &[x, b, c, x], ty)
        });
    }
}

#[test]
fn splits_equal_the_reference() {
    let mut rng = Rng::new(36);
    both_layouts(&mut rng, &[2, 3, 8, 5], |net, x, ty| {
        let mut node = op("Split");
        node.attrs.set("axis", Attr::Int(2));
        let sizes = net.ints(&[3, 1, 4]);
        let parts = net.nodes(node, &[x, sizes], ty, 3);
        net.program.outputs.extend(&parts[..2]);
        parts[2]
    });
}

#[test]
fn gathers_expansions_and_pads_equal_the_reference() {
    let mut rng = Rng::new(37);
    both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| {
        let mut node = op("Gather");
        node.attrs.set("axis", Attr::Int(2));
        let rows = net.ints(&[3, -1, 0]);
        net.node(node, &[x, rows], ty)
    });
    both_layouts(&mut rng, &[2, 3, 1, 5], |net, x, ty| {
        let shape = net.ints(&[2, 1, 4, 1]);
        net.node(op("Expand"), &[x, shape], ty)
    });
    for value in [None, Some(0.75f32)] {
        both_layouts(&mut rng, &[2, 3, 4, 5], |net, x, ty| {
            let pads = net.ints(&[0, 1, 2, 0, 1, 0, 1, 3]);
            let value = value.map(|v| net.constant(TensorType::fixed(DataType::F32, &[]), Tensor::scalar(v)));
            net.node(op("Pad"), &[vec![x, pads], value.into_iter().collect()].concat(), ty)
        });
    }
}

//! Concatenation, views, transpositions, and programs that only pass values on.

use crate::common::{Net, Rng, check, chip, compile, op};
use ottava_hal::{Attr, Attrs, Node, Shape, TensorType, Value, ValueId};

#[test]
fn concatenations_equal_the_reference() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let rank = rng.size(1, 4);
        let base: Vec<usize> = (0..rank).map(|_| rng.size(1, 7)).collect();
        let axis = rng.size(0, rank - 1);
        let like = rng.byte_type(&base);
        let other = rng.range(0, 1) == 0;
        let inputs: Vec<_> = (0..rng.size(1, 4))
            .map(|_| {
                let mut dims = base.clone();
                dims[axis] = rng.size(1, 9);
                let plain = TensorType::fixed(like.dtype, &dims);
                let ty = if other { rng.byte_type(&dims) } else { TensorType { quant: like.quant.clone(), ..plain } };
                net.input(ty)
            })
            .collect();
        let mut node = op("Concat");
        node.attrs.set("axis", Attr::Int(axis as i64 - if rng.range(0, 1) == 0 { rank as i64 } else { 0 }));
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn transpositions_equal_the_reference() {
    let perms: [&[i64]; 8] =
        [&[1, 0], &[0, 2, 3, 1], &[0, 3, 1, 2], &[0, 2, 1], &[1, 0, 2], &[0, 2, 1, 3, 4], &[0, 1, 2], &[2, 0, 1]];
    for (seed, perm) in (0..40).zip(perms.iter().cycle()) {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims: Vec<usize> = perm.iter().map(|_| rng.size(1, 9)).collect();
        let ty = rng.byte_type(&dims);
        let x = net.input(ty.clone());
        let node = Node { attrs: Attrs::default().with("perm", Attr::Ints(perm.to_vec())), ..op("Transpose") };
        let y = net.node(node, &[x], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn a_graph_that_moves_channels_itself_costs_nothing() {
    let mut rng = Rng::new(7);
    let mut net = Net::default();
    let ty = rng.byte_type(&[2, 5, 4, 6]);
    let x = net.input(ty.clone());
    let turn =
        |perm: &[i64]| Node { attrs: Attrs::default().with("perm", Attr::Ints(perm.to_vec())), ..op("Transpose") };
    let first = net.node(turn(&[0, 3, 1, 2]), &[x], &ty);
    let mut pool = op("MaxPool");
    pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
    let pooled = net.node(pool, &[first], &ty);
    let y = net.node(turn(&[0, 2, 3, 1]), &[pooled], &ty);
    let program = net.output(y);
    check(&program, &mut rng);
    let kernels = compile(chip("Npu()").as_ref(), &program).kernels();
    // The last value is copied to where the program's output is.
    let texts: Vec<&str> = kernels.iter().map(|(_, k)| k.as_str()).collect();
    assert_eq!(texts, ["view", "max pool 4x3x6", "copy"]);
}

#[test]
fn views_keep_bytes_whatever_form_they_come_in() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let ty = rng.byte_type(&[2, 6, 5, 4]);
        let like = if rng.range(0, 1) == 0 { ty.clone() } else { rng.byte_type(&[]) };
        let mut x = net.input(ty.clone());
        if rng.range(0, 1) == 0 {
            let mut pool = op("MaxPool");
            pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
            x = net.node(pool, &[x], &ty);
        }
        let y = match rng.range(0, 3) {
            0 => {
                let shape = net.ints(&[2, -1]);
                net.node(op("Reshape"), &[x, shape], &like)
            }
            1 => net.node(op("Flatten"), &[x], &like),
            2 => {
                let axes = net.ints(&[0]);
                net.node(op("Unsqueeze"), &[x, axes], &like)
            }
            _ => net.node(op("Identity"), &[x], &like),
        };
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn inputs_and_constants_may_be_outputs_and_an_output_may_be_listed_twice() {
    let mut rng = Rng::new(3);
    let mut net = Net::default();
    let ty = rng.byte_type(&[1, 3, 4, 5]);
    let x = net.input(ty.clone());
    let c = net.random(ty.clone(), &mut rng);
    let mut pool = op("MaxPool");
    pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
    let y = net.node(pool, &[x], &ty);
    net.program.outputs = vec![y, x, c, y];
    check(&net.program, &mut rng);
    let mut nothing = Net::default();
    let x = nothing.input(ty);
    check(&nothing.output(x), &mut rng);
}

#[test]
fn cuts_equal_the_reference_in_either_form() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims = [rng.size(1, 3), rng.size(2, 9), rng.size(3, 8), rng.size(3, 8)];
        let ty = rng.byte_type(&dims);
        let mut x = net.input(ty.clone());
        if rng.range(0, 1) == 0 {
            let mut pool = op("MaxPool");
            pool.attrs.set("kernel_shape", Attr::Ints(vec![2, 2]));
            x = net.node(pool, &[x], &ty);
        }
        let axis = rng.size(1, 3);
        let n = net.dims(x)[axis] as i64;
        let start = rng.range(0, n - 1);
        let end = rng.range(start + 1, n);
        // Counted from the end, where that is not the end itself.
        let start = if rng.range(0, 1) == 0 { start - n } else { start };
        let bounds = [&[start][..], &[end], &[axis as i64 - 4]].map(|v| net.ints(v));
        let y = net.node(op("Slice"), &[x, bounds[0], bounds[1], bounds[2]], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn parts_of_a_split_equal_the_reference() {
    let mut rng = Rng::new(77);
    let mut net = Net::default();
    let ty = rng.byte_type(&[2, 7, 3, 4]);
    let x = net.input(ty.clone());
    let sizes = net.ints(&[2, 4, 1]);
    let mut node = Node { name: "split".into(), inputs: vec![Some(x), Some(sizes)], ..op("Split") };
    node.attrs.set("axis", Attr::Int(1));
    for channels in [2, 4, 1] {
        let shape = Shape::fixed(&[2, channels, 3, 4]);
        node.outputs.push(ValueId(net.program.values.len()));
        let ty = TensorType { shape, ..ty.clone() };
        net.program.values.push(Value { name: format!("part{channels}"), ty, constant: None });
    }
    net.program.outputs.clone_from(&node.outputs);
    net.program.nodes.push(node);
    check(&net.program, &mut rng);
}

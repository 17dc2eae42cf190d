//! Sums, products, clamps, tables, requantization.

use crate::common::{CHIPS, Net, Rng, check, chip, compile, data, describe, op, own_op, reference, run};
use ottava_hal::{Tensor, TensorType, ValueId};

#[test]
fn binary_operators_equal_the_reference_with_any_repetition() {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let a = rng.dims(1, 4);
        let b = match rng.range(0, 4) {
            0 => vec![],
            1 => vec![1; a.len()],
            2 => a[rng.size(0, a.len() - 1)..].to_vec(),
            3 if a.len() > 2 => {
                let mut b = vec![1; a.len()];
                b[1] = a[1];
                b[0] = rng.pick(&[1, a[0]]);
                b
            }
            _ => a.clone(),
        };
        let (ta, tb, like) = (rng.byte_type(&a), rng.byte_type(&b), rng.byte_type(&[]));
        let x = net.input(ta);
        let y = if rng.range(0, 1) == 0 { net.input(tb) } else { net.random(tb, &mut rng) };
        let name = rng.pick(&["Add", "Sub", "Mul"]);
        let mut node = op(name);
        node.fused.zp_before_round = name != "Sub" && rng.range(0, 2) == 0;
        let swapped = name != "Sub" && rng.range(0, 1) == 0;
        let inputs = if swapped { [y, x] } else { [x, y] };
        let z = net.node(node, &inputs, &like);
        check(&net.output(z), &mut rng);
    }
}

#[test]
fn softmax_of_rows_equals_the_reference() {
    for seed in 200..220 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let old = rng.range(0, 1) == 0;
        let d = vec![rng.size(1, 9), rng.size(1, 5), rng.size(1, 12)];
        let (ty, like) = (rng.byte_type(&d), rng.byte_type(&[]));
        let x = net.input(ty);
        let mut node = op("Softmax");
        node.version = if old { 11 } else { 22 };
        let y = net.node(node, &[x], &like);
        let program = net.output(y);
        let inputs = data(&program, &mut rng);
        // The table alone has 1024 bytes, more than the smallest chip has for weights.
        for text in &CHIPS[..3] {
            let device = chip(text);
            let found = run(device.as_ref(), &compile(device.as_ref(), &program), &inputs).unwrap();
            assert_eq!(found, reference(&program, &inputs), "{} on {text}", describe(&program));
        }
    }
}

fn bounds(net: &mut Net, rng: &mut Rng) -> Vec<ValueId> {
    let mut bound = |v: f32| {
        let t = Tensor::scalar(v);
        net.constant(t.ty(), t)
    };
    vec![bound(rng.scale() * -20.0), bound(rng.scale() * rng.range(-5, 20) as f32)]
}

#[test]
fn conversions_equal_the_reference() {
    for seed in 100..160 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let d = rng.dims(1, 4);
        let (ty, like) = (rng.byte_type(&d), rng.byte_type(&[]));
        let x = net.input(ty);
        let (node, inputs) = match rng.range(0, 3) {
            0 => (own_op("Requantize"), vec![x]),
            1 => (op("Relu"), vec![x]),
            2 => (op("Clip"), [vec![x], bounds(&mut net, &mut rng)].concat()),
            _ => {
                let table = rng.tensor(&TensorType::fixed(like.dtype, &[256]));
                let table = net.constant(table.ty(), table);
                (own_op("Lut"), vec![x, table])
            }
        };
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

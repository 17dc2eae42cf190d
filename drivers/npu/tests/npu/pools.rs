//! Pools and means.

use crate::common::{Net, Rng, check, op};
use ottava_hal::{Attr, Node, RequantMode};

fn window(node: &mut Node, rng: &mut Rng) {
    let kernel: Vec<i64> = (0..2).map(|_| rng.range(1, 4)).collect();
    let pads: Vec<i64> = (0..4).map(|i| rng.range(0, kernel[i % 2] / 2)).collect();
    node.attrs.set("kernel_shape", Attr::Ints(kernel));
    node.attrs.set("pads", Attr::Ints(pads));
    node.attrs.set("strides", Attr::Ints(vec![rng.range(1, 3), rng.range(1, 3)]));
}

#[test]
fn maximum_pools_equal_the_reference() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims = [rng.size(1, 2), rng.size(1, 20), rng.size(5, 12), rng.size(5, 12)];
        let ty = rng.byte_type(&dims);
        let x = net.input(ty.clone());
        let mut node = op("MaxPool");
        window(&mut node, &mut rng);
        node.attrs.set("ceil_mode", Attr::Int(rng.range(0, 1)));
        let y = net.node(node, &[x], &ty);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn global_maxima_equal_the_reference() {
    for seed in 50..60 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let ty = rng.byte_type(&[2, rng_channels(seed), 9, 7]);
        let x = net.input(ty.clone());
        let y = net.node(op("GlobalMaxPool"), &[x], &ty);
        check(&net.output(y), &mut rng);
    }
}

fn rng_channels(seed: u64) -> usize {
    1 + seed as usize % 23
}

#[test]
fn average_pools_equal_the_reference() {
    for seed in 100..160 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims = [rng.size(1, 2), rng.size(1, 20), rng.size(5, 12), rng.size(5, 12)];
        let ty = rng.byte_type(&dims);
        let x = net.input(ty.clone());
        let mut node = op("AveragePool");
        window(&mut node, &mut rng);
        node.requant = Some(RequantMode::Fp32Rne);
        node.attrs.set("count_include_pad", Attr::Int(rng.range(0, 1)));
        node.attrs.set("ceil_mode", Attr::Int(rng.range(0, 1)));
        let like = if rng.range(0, 1) == 0 { ty } else { rng.byte_type(&[]) };
        let y = net.node(node, &[x], &like);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn means_equal_the_reference() {
    for seed in 200..240 {
        let mut rng = Rng::new(seed);
        let mut net = Net::default();
        let dims = [rng.size(1, 2), rng.size(1, 70), rng.size(1, 9), rng.size(1, 9)];
        let (ty, like) = (rng.byte_type(&dims), rng.byte_type(&[]));
        let x = net.input(ty);
        let mut node = op("GlobalAveragePool");
        let mut inputs = vec![x];
        if rng.range(0, 1) == 0 {
            node = op(rng.pick(&["ReduceMean", "ReduceSum"]));
            node.attrs.set("keepdims", Attr::Int(rng.range(0, 1)));
            let axes = [&[2, 3][..], &[-1], &[1], &[1, 2, 3], &[-2, -1]];
            inputs.push(net.ints(rng.pick(&axes)));
        }
        node.requant = Some(RequantMode::Fp32Rne);
        let y = net.node(node, &inputs, &like);
        check(&net.output(y), &mut rng);
    }
}

//! Pools against the reference.

use crate::testing::{Net, Rng, check, op};
use ottava_hal::{Attr, DataType, Node, TensorType};

fn windowed(rng: &mut Rng, name: &str, rank: usize) -> Node {
    let mut node = op(name);
    let kernel: Vec<i64> = (0..rank).map(|_| rng.range(1, 3)).collect();
    let pads = (0..2 * rank).map(|i| rng.range(0, kernel[i % rank] - 1)).collect();
    node.attrs.set("strides", Attr::Ints((0..rank).map(|_| rng.range(1, 3)).collect()));
    node.attrs.set("pads", Attr::Ints(pads));
    node.attrs.set("kernel_shape", Attr::Ints(kernel));
    node.attrs.set("ceil_mode", Attr::Int(rng.range(0, 1)));
    if name == "AveragePool" {
        node.attrs.set("count_include_pad", Attr::Int(rng.range(0, 1)));
    }
    if rng.range(0, 2) == 0 {
        node.attrs.set("dilations", Attr::Ints(vec![2; rank]));
    }
    node
}

fn image(rng: &mut Rng, rank: usize) -> Vec<usize> {
    let mut dims = vec![rng.range(1, 2) as usize, rng.range(1, 40) as usize];
    dims.extend((0..rank).map(|_| rng.range(6, 11) as usize));
    dims
}

#[test]
fn windows_equal_the_reference() {
    let mut rng = Rng::new(21);
    for case in 0..80 {
        let name = ["MaxPool", "AveragePool"][case % 2];
        let rank = if case % 5 == 0 { 1 } else { 2 };
        let (node, dims) = (windowed(&mut rng, name, rank), image(&mut rng, rank));
        let typed = rng.byte_type(&dims);
        let y = if name == "MaxPool" { typed.clone() } else { rng.byte_type(&[]) };
        let float = TensorType::fixed(DataType::F32, &dims);
        for (x, y) in [(typed, y), (float.clone(), float)] {
            let mut net = Net::default();
            let x = net.input(x);
            let y = net.node(node.clone(), &[x], &y);
            check(&net.output(y), &mut rng);
        }
    }
}

#[test]
fn whole_images_equal_the_reference() {
    let mut rng = Rng::new(22);
    for case in 0..24 {
        let rank = 1 + case % 2;
        let dims = image(&mut rng, rank);
        let float = TensorType::fixed(DataType::F32, &dims);
        let typed = rng.byte_type(&dims);
        let y = rng.byte_type(&[]);
        for (x, y) in [(typed, y), (float.clone(), float)] {
            let mut net = Net::default();
            let x = net.input(x);
            let y = if case % 4 < 2 {
                net.node(op("GlobalAveragePool"), &[x], &y)
            } else {
                let axes = net.ints([&[-1][..], &[3, 2]][rank - 1]);
                let mut node = op("ReduceMean");
                node.attrs.set("keepdims", Attr::Int((case % 8 / 4) as i64));
                net.node(node, &[x, axes], &y)
            };
            check(&net.output(y), &mut rng);
        }
    }
}

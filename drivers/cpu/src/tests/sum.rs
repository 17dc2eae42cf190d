//! Typed sums behind typed products: computed together where that is possible, and never another number.

use super::product::{add_bias, fuse};
use crate::device::CpuDevice;
use crate::testing::{Net, Rng, check, op};
use ottava_hal::host::HostProgram;
use ottava_hal::{Attr, DataType, Program, QuantParams, RequantMode, TensorType, ValueId};
use ottava_kernels::Isa;

/// The kernels of a program's groups, without the instruction set.
fn kernels(program: &Program) -> Vec<String> {
    let device = CpuDevice::new(Isa::portable(), 1).unwrap();
    let named = device.program(program).unwrap().kernels();
    named.into_iter().map(|(_, kernel)| kernel.replace("_portable", "")).collect()
}

/// A product of `x` with random weights: a convolution of images, a matrix product of rows.
fn product(net: &mut Net, rng: &mut Rng, x: ValueId, n: usize) -> ValueId {
    let dims = net.ty(x).shape.known().unwrap();
    let (name, w) = match dims[..] {
        [_, c, ..] if dims.len() == 4 => ("Conv", vec![n, c, 1, 1]),
        [_, k] => (rng.pick(&["Gemm", "MatMul"]), vec![k, n]),
        _ => ("MatMul", vec![dims[dims.len() - 1], n]),
    };
    let ty = TensorType::fixed(DataType::S8, &w).quantized(QuantParams::per_tensor(rng.scale() * 0.1, 0));
    let mut inputs = vec![x, net.random(ty, rng)];
    if name != "MatMul" {
        inputs.extend(add_bias(net, rng, n, false));
    }
    let (mut node, y) = (op(name), rng.byte_type(&[]));
    fuse(rng, &mut node, &y);
    node.requant = rng.pick(&[None, Some(RequantMode::Fp32Rne)]);
    net.node(node, &inputs, &y)
}

/// An Add, at times with a clamp of its own.
fn add(net: &mut Net, rng: &mut Rng, operands: [ValueId; 2]) -> ValueId {
    let (mut node, y) = (op("Add"), rng.byte_type(&[]));
    fuse(rng, &mut node, &y);
    node.requant = None;
    let operands = if rng.range(0, 1) == 0 { operands } else { [operands[1], operands[0]] };
    net.node(node, &operands, &y)
}

#[test]
fn sums_behind_products_equal_the_reference() {
    let mut rng = Rng::new(91);
    for case in 0..90 {
        let (rows, k, n) = (rng.range(1, 40) as usize, rng.range(1, 40) as usize, rng.range(1, 40) as usize);
        let shape = |c: usize| match case % 3 {
            0 => vec![2, c, rows, 3],
            1 => vec![rows, c],
            _ => vec![2, rows, c],
        };
        let mut net = Net::default();
        let (x, other) = (net.input(rng.byte_type(&shape(k))), net.input(rng.byte_type(&shape(n))));
        // The other operand: an input, or what another product has computed before.
        let other = if case % 2 == 0 { other } else { product(&mut net, &mut rng, other, n) };
        let own = product(&mut net, &mut rng, x, n);
        let sum = add(&mut net, &mut rng, [own, other]);
        let y = if rng.range(0, 1) == 0 { sum } else { product(&mut net, &mut rng, sum, 5) };
        let program = net.output(y);
        check(&program, &mut rng);
        let found = kernels(&program);
        assert_eq!(found.iter().filter(|name| name.contains("+add_u8_s8_u8")).count(), 1, "{found:?}");
        assert!(found.iter().all(|name| !name.contains("add_u8_u8_u8")), "{found:?}");
    }
}

/// Residual blocks, one behind the other: the operand that lives on is read by the next product and the next sum.
#[test]
fn blocks_of_a_residual_network_equal_the_reference() {
    let mut rng = Rng::new(92);
    for _ in 0..10 {
        let mut net = Net::default();
        let mut x = net.input(rng.byte_type(&[1, 24, 9, 7]));
        for _ in 0..3 {
            let inner = product(&mut net, &mut rng, x, 33);
            let own = product(&mut net, &mut rng, inner, 24);
            x = add(&mut net, &mut rng, [own, x]);
        }
        let program = net.output(x);
        check(&program, &mut rng);
        let views = kernels(&program).iter().filter(|name| *name == "view").count();
        assert_eq!(views, 3, "each sum is a node without a step of its own");
    }
}

/// A product and a sum that must stay two steps.
fn apart(rng: &mut Rng, case: usize) -> Program {
    let mut net = Net::default();
    let dims = [1, 20, 5, 6];
    let x = net.input(rng.byte_type(&dims));
    let own = product(&mut net, rng, x, 20);
    let other = match case {
        // The product is read by two nodes, or by the sum alone, but twice.
        0 => x,
        1 => own,
        // The other operand is repeated along the image.
        2 => net.input(rng.byte_type(&[20, 1, 1])),
        // It comes later.
        3 => net.node(op("Relu"), &[x], &rng.byte_type(&[])),
        // Another rounding.
        4 => {
            net.program.nodes[0].requant = Some(RequantMode::Q31Double);
            x
        }
        // The product is a result of the program.
        _ => {
            net.program.outputs.push(own);
            x
        }
    };
    let y = add(&mut net, rng, [own, other]);
    let y = if case == 0 { add(&mut net, rng, [y, own]) } else { y };
    net.output(y)
}

#[test]
fn sums_that_stay_apart_equal_the_reference() {
    let mut rng = Rng::new(93);
    for case in 0..6 {
        let program = apart(&mut rng, case);
        check(&program, &mut rng);
        let found = kernels(&program);
        assert!(found.iter().all(|name| !name.contains("+add")), "case {case}: {found:?}");
        assert!(found.iter().any(|name| name.contains("add_u8_u8_u8")), "case {case}: {found:?}");
    }
}

#[test]
fn depthwise_filters_keep_their_own_kernel() {
    let mut rng = Rng::new(94);
    let mut net = Net::default();
    let x = net.input(rng.byte_type(&[1, 16, 9, 9]));
    let w = TensorType::fixed(DataType::S8, &[16, 1, 1, 1]).quantized(QuantParams::per_tensor(0.01, 0));
    let w = net.random(w, &mut rng);
    let mut node = op("Conv");
    node.attrs.set("group", Attr::Int(16));
    let own = net.node(node, &[x, w], &rng.byte_type(&[]));
    let y = add(&mut net, &mut rng, [own, x]);
    let program = net.output(y);
    check(&program, &mut rng);
    assert!(kernels(&program).iter().all(|name| !name.contains("+add")));
}

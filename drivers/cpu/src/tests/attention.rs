//! Products of computed operands, mostly of 8 bits, against the reference: broadcasting, every mode, and the transpositions around them.

use crate::testing::{Net, Rng, check, op};
use ottava_hal::{Attr, DataType, Node, RequantMode, TensorType, ValueId};

/// An operand: an input, or now and then a constant.
fn operand(net: &mut Net, rng: &mut Rng, dims: &[usize], quantized: bool) -> ValueId {
    let ty = if quantized { rng.byte_type(dims) } else { TensorType::fixed(DataType::F32, dims) };
    if quantized && rng.range(0, 5) == 0 && dims.len() != 2 { net.random(ty, rng) } else { net.input(ty) }
}

fn matmul(rng: &mut Rng, y: &TensorType) -> Node {
    let mut node = op("MatMul");
    node.requant = Some(rng.pick(&RequantMode::ALL));
    if y.quant.is_some() && rng.range(0, 1) == 0 {
        let (lo, hi) = y.dtype.int_range().unwrap();
        let a = rng.range(lo, hi) as i32;
        node.fused.clamp = Some((a, rng.range(a.into(), hi) as i32));
    }
    node
}

fn result_type(rng: &mut Rng, quantized: bool) -> TensorType {
    if quantized && rng.range(0, 2) > 0 { rng.byte_type(&[]) } else { TensorType::fixed(DataType::F32, &[]) }
}

#[test]
fn broadcast_products_equal_the_reference() {
    let mut rng = Rng::new(61);
    let outer: [(&[usize], &[usize]); 7] = [
        (&[], &[]),
        (&[3], &[3]),
        (&[2, 3], &[2, 3]),
        (&[2, 1], &[3]),
        (&[], &[2, 2]),
        (&[2, 1, 3], &[1, 2, 1]),
        (&[4], &[]),
    ];
    for case in 0..60 {
        let (a, b) = outer[case % outer.len()];
        let [m, k, n] = [rng.range(1, 9), rng.range(1, 40), rng.range(1, 36)].map(|v| v as usize);
        let quantized = case % 3 > 0;
        let mut net = Net::default();
        let a = operand(&mut net, &mut rng, &[a, &[m, k]].concat(), quantized);
        let b = operand(&mut net, &mut rng, &[b, &[k, n]].concat(), quantized);
        let y = result_type(&mut rng, quantized);
        let node = matmul(&mut rng, &y);
        let y = net.node(node, &[a, b], &y);
        check(&net.output(y), &mut rng);
    }
}

#[test]
fn vectors_equal_the_reference() {
    let mut rng = Rng::new(62);
    for (a, b) in [(&[5usize][..], &[5usize][..]), (&[5], &[2, 5, 3]), (&[2, 4, 5], &[5])] {
        let mut net = Net::default();
        let (a, b) = (net.input(rng.byte_type(a)), net.input(rng.byte_type(b)));
        let y = result_type(&mut rng, true);
        let node = matmul(&mut rng, &y);
        let y = net.node(node, &[a, b], &y);
        check(&net.output(y), &mut rng);
    }
}

fn transposed(net: &mut Net, x: ValueId, perm: &[i64]) -> ValueId {
    let mut node = op("Transpose");
    node.attrs.set("perm", Attr::Ints(perm.to_vec()));
    let ty = net.ty(x);
    net.node(node, &[x], &ty)
}

/// Attention with its head splits; `shared` also returns the keys, so that their Transpose cannot be left out.
fn attention(rng: &mut Rng, quantized: bool, shared: bool) -> Net {
    let (batch, seq, heads, width) = (2, 5, 3, 4);
    let mut net = Net::default();
    let ty = |rng: &mut Rng| {
        let dims = [batch, seq, heads, width];
        if quantized { rng.byte_type(&dims) } else { TensorType::fixed(DataType::F32, &dims) }
    };
    let (q, k, v) = (net.input(ty(rng)), net.input(ty(rng)), net.input(ty(rng)));
    let q = transposed(&mut net, q, &[0, 2, 1, 3]);
    let k = transposed(&mut net, k, &[0, 2, 3, 1]);
    let v = transposed(&mut net, v, &[0, 2, 1, 3]);
    let scores_type = if quantized { rng.byte_type(&[]) } else { TensorType::fixed(DataType::F32, &[]) };
    let node = matmul(rng, &scores_type);
    let scores = net.node(node, &[q, k], &scores_type);
    let node = matmul(rng, &scores_type);
    let mixed = net.node(node, &[scores, v], &scores_type);
    let joined = transposed(&mut net, mixed, &[0, 2, 1, 3]);
    if shared {
        net.program.outputs.extend([k, mixed]);
    }
    net.program.outputs.push(joined);
    net
}

#[test]
fn attention_equals_the_reference() {
    let mut rng = Rng::new(63);
    for case in 0..24 {
        let net = attention(&mut rng, case % 3 > 0, case % 2 == 0);
        check(&net.program, &mut rng);
    }
}

#[test]
fn transpositions_around_products_need_no_step() {
    let mut rng = Rng::new(64);
    let device = crate::CpuDevice::new(crate::Isa::detect(), 1).unwrap();
    let compiled = device.program(&attention(&mut rng, true, false).program).unwrap();
    let kernels = ottava_hal::host::HostProgram::kernels(&compiled);
    let steps: Vec<&str> = kernels.iter().map(|(_, k)| k.as_str()).filter(|k| *k != "view").collect();
    assert!(steps.iter().all(|k| k.starts_with("matmul") || k.starts_with("xor_sign")), "{kernels:?}");
}

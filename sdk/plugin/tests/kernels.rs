//! The kernel driver by itself: memory of intermediate results, choice of kernels, refusals.

use ottava_hal::capability::Operand;
use ottava_hal::{
    Binding, BufferDesc, CompileOptions, DataType, Device, DeviceInfo, DeviceKind, Driver, DriverInfo, Node, OpRow,
    Options, Program, Result, Submission, Tensor, TensorType, Value, ValueId,
};
use ottava_plugin::kernels::{Kernel, KernelCx, KernelDriver};
use std::sync::Arc;

fn add(cx: &mut KernelCx) -> Result<()> {
    let (a, b) = (cx.input::<i32>(0)?, cx.input::<i32>(1)?);
    cx.output::<i32>(0)?.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = a.wrapping_add(*b));
    Ok(())
}

/// Two results: the input times two and times three.
fn split(cx: &mut KernelCx) -> Result<()> {
    let x = cx.input::<i32>(0)?;
    for factor in [2, 3] {
        let out = cx.output::<i32>(factor as usize - 2)?;
        out.iter_mut().zip(x).for_each(|(y, x)| *y = x.wrapping_mul(factor));
    }
    Ok(())
}

fn kernel(op: &'static str, name: &'static str, exact: bool, run: fn(&mut KernelCx) -> Result<()>) -> Kernel {
    let s32 = Operand { dtypes: vec![DataType::S32], ..Operand::default() };
    Kernel { row: OpRow { inputs: vec![s32.clone()], outputs: vec![s32], exact, ..OpRow::any(op) }, name, run }
}

fn device() -> Arc<dyn Device> {
    let info = DriverInfo { name: "k".into(), vendor: "tests".into(), version: "1".into() };
    let kernels = vec![
        kernel("Add", "rough_add", false, split),
        kernel("Add", "add", true, add),
        kernel("Split", "split", true, split),
        kernel("Rough", "rough", false, add),
    ];
    KernelDriver::new(info, DeviceInfo::new("k", "k0", DeviceKind::Dsp), kernels).open("k0", &Options::new()).unwrap()
}

/// A program of `n` values of four s32; each node is (operator, inputs, outputs).
fn program(n: usize, nodes: &[(&str, &[usize], &[usize])], inputs: &[usize], outputs: &[usize]) -> Program {
    let ty = TensorType::fixed(DataType::S32, &[4]);
    let ids = |list: &[usize]| list.iter().map(|i| ValueId(*i)).collect::<Vec<_>>();
    let node = |(i, (op, ins, outs)): (usize, &(&str, &[usize], &[usize]))| {
        let mut node = Node::new(format!("n{i}"), *op, 1);
        (node.inputs, node.outputs) = (ids(ins).into_iter().map(Some).collect(), ids(outs));
        node
    };
    Program {
        name: "p".into(),
        values: (0..n).map(|i| Value { name: format!("v{i}"), ty: ty.clone(), constant: None }).collect(),
        nodes: nodes.iter().enumerate().map(node).collect(),
        inputs: ids(inputs),
        outputs: ids(outputs),
    }
}

fn run(program: &Program, inputs: &[[i32; 4]]) -> Vec<Vec<i32>> {
    let device = device();
    let exec = device.compile(program, &CompileOptions::default()).unwrap();
    let buffer = || device.alloc(&BufferDesc { bytes: 16, alignment: 64 }).unwrap();
    let input = |x: &[i32; 4]| {
        let b = buffer();
        b.write(0, &x.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>()).unwrap();
        Binding::whole(b)
    };
    let outputs: Vec<_> = program.outputs.iter().map(|_| Binding::whole(buffer())).collect();
    let s = Submission::dispatch(exec, inputs.iter().map(input).collect(), outputs.clone());
    let queue = device.create_queue().unwrap();
    queue.submit(&s).unwrap();
    // A second run uses the memory of the first.
    queue.submit(&s).unwrap();
    let read = |b: &Binding| {
        let mut bytes = [0; 16];
        b.buffer.read(0, &mut bytes).unwrap();
        bytes.chunks(4).map(|c| i32::from_ne_bytes(c.try_into().unwrap())).collect()
    };
    outputs.iter().map(read).collect()
}

#[test]
fn slots_are_used_again_and_never_too_early() {
    // v1, v2 = 2x, 3x; v3 = 5x; v4, v5 = 10x, 15x; v6 = v4 + v1 = 12x; v7 = v6 + v5 = 27x; v8 = v7 + x.
    let p = program(
        9,
        &[
            ("Split", &[0], &[1, 2]),
            ("Add", &[1, 2], &[3]),
            ("Split", &[3], &[4, 5]),
            ("Add", &[4, 1], &[6]),
            ("Add", &[6, 5], &[7]),
            ("Add", &[7, 0], &[8]),
        ],
        &[0],
        &[8, 3, 0],
    );
    let x = [1, -2, 300, 0];
    assert_eq!(run(&p, &[x]), [28, 5, 1].map(|f| x.map(|v| v * f).to_vec()));
    let exec = device().compile(&p, &CompileOptions::default()).unwrap();
    assert!(exec.arena_bytes() <= 5 * 16, "eight results in {} bytes", exec.arena_bytes());
}

#[test]
fn constants_and_equal_operands_are_operands() {
    let mut p = program(3, &[("Add", &[0, 0], &[1]), ("Add", &[1, 2], &[2])], &[0], &[2]);
    p.values.push(p.values[0].clone());
    p.values[3].constant = Some(Tensor::from_slice(&[4], &[10, 20, 30, 40]).unwrap());
    p.nodes[1].inputs = vec![Some(ValueId(1)), Some(ValueId(3))];
    assert_eq!(run(&p, &[[1, 2, 3, 4]]), [[12, 24, 36, 48]]);
}

#[test]
fn inexact_kernels_run_only_where_they_may() {
    let p = program(3, &[("Add", &[0, 1], &[2])], &[0, 1], &[2]);
    let kernels = |exact_only| {
        let options = CompileOptions { exact_only, ..CompileOptions::default() };
        device().compile(&p, &options).map(|e| e.kernels())
    };
    assert_eq!(kernels(true), Ok(vec![("n0".into(), "add".into())]));
    assert_eq!(kernels(false), Ok(vec![("n0".into(), "rough_add".into())]));
    let rough = program(3, &[("Rough", &[0, 1], &[2])], &[0, 1], &[2]);
    let refused = device().compile(&rough, &CompileOptions::default()).err().unwrap().to_string();
    assert!(refused.contains("node `n0` (Rough) on device `k0`: only kernels that are not bit-exact"), "{refused}");
}

#[test]
fn a_kernel_that_asks_for_what_is_not_there_is_told() {
    let mut p = program(2, &[("Add", &[0], &[1])], &[0], &[1]);
    p.nodes[0].inputs = vec![Some(ValueId(0))];
    let device = device();
    let exec = device.compile(&p, &CompileOptions::default()).unwrap();
    let buffer = || Binding::whole(device.alloc(&BufferDesc { bytes: 16, alignment: 64 }).unwrap());
    let mut s = Submission::dispatch(exec, vec![buffer()], vec![buffer()]);
    let fence = device.create_fence(0).unwrap();
    s.signals = vec![(fence.clone(), 1)];
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(fence.query().unwrap_err().to_string(), "node `n0` has no input 1");
}

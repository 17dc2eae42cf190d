//! Every case of the operator list on a device that knows only one sign, or only floats: where the partitioner offers a twin, it gives the
//! case's known answer, and on random integers what the reference gives.

use crate::device::Fake;
use crate::network::{Devices, expected, run, try_plan, with_reference};
use crate::rng::Rng;
use ottava_compiler::Placement;
use ottava_graph::{Graph, Phase};
use ottava_hal::{DataType, Program, Reason, Tensor, TensorType, Verdict};
use ottava_ops::Case;
use std::collections::BTreeSet;

fn graph_of(program: Program) -> Graph {
    let Program { name, values, nodes, inputs, outputs } = program;
    Graph { name, values, nodes, inputs, outputs, phase: Phase::Quantized, ..Graph::default() }
}

/// A device that refuses nodes with an activation of this type; of `F32`, one that refuses quantized ones.
fn without(dtype: DataType) -> Devices {
    let npu = Fake::new("npu", 1).rule(move |program, node| {
        let bad = |id: &ottava_hal::ValueId| {
            let value = program.value(*id);
            let bad = if dtype == DataType::F32 { value.ty.quant.is_some() } else { value.ty.dtype == dtype };
            value.constant.is_none() && bad
        };
        let refused = node.inputs.iter().flatten().chain(&node.outputs).any(bad);
        if refused { Verdict::rejected(Reason::Dtype, "of the other sign") } else { crate::device::YES }
    });
    with_reference(vec![("npu", npu)])
}

/// The case's data, with random integers for 8-bit activations.
fn data(case: &Case, types: &[&TensorType], seed: Option<u64>) -> Vec<Tensor> {
    let given = case.inputs.iter().flatten().filter(|x| !x.constant).map(|x| x.tensor.clone());
    let Some(mut rng) = seed.map(Rng::new) else { return given.collect() };
    let one = |(tensor, ty): (Tensor, &&TensorType)| match ty.dtype.storage_range() {
        Some((lo, hi)) if ty.quant.is_some() && ty.dtype.bits() == 8 => {
            let ints: Vec<i64> = (0..tensor.elements()).map(|_| rng.int(lo.into(), hi.into())).collect();
            Tensor::from_ints(ty.dtype, tensor.shape(), &ints).expect("integers of the type")
        }
        _ => tensor,
    };
    given.zip(types).map(one).collect()
}

#[test]
fn twins_of_every_operator_give_its_answers() {
    let (mut twins, mut n_real) = (BTreeSet::new(), 0);
    for op in ottava_ops::all() {
        for case in op.cases() {
            let graph = graph_of(case.program());
            let types: Vec<&TensorType> = graph.inputs.iter().map(|id| graph.ty(*id)).collect();
            for dtype in [DataType::U8, DataType::S8, DataType::F32] {
                let devices = without(dtype);
                let pinned = Placement { pins: vec![("*".into(), "npu".into())], ..Placement::default() };
                // What has no twin is refused; what needs none has a plan without one.
                let Ok(plan) = try_plan(&graph, &devices, &pinned, &mut Vec::new()) else { continue };
                if !plan.placed.iter().any(|p| p.reason.contains(" twin (")) {
                    continue;
                }
                twins.insert(op.spec().name);
                n_real += usize::from(dtype == DataType::F32);
                let found = run(&plan, &devices, &data(&case, &types, None));
                let known: Vec<&Tensor> = case.outputs.iter().map(|(y, _)| y).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), known, "{} without {dtype}", graph.name);
                for seed in 0..10 {
                    let inputs = data(&case, &types, Some(seed));
                    assert_eq!(run(&plan, &devices, &inputs), expected(&graph, &inputs), "{} {seed}", graph.name);
                }
            }
        }
    }
    println!("{n_real} cases on real numbers; twins of: {}", twins.iter().copied().collect::<Vec<_>>().join(" "));
    for op in ["Conv", "MatMul", "Add", "Concat", "AveragePool", "ReduceMean", "Softmax", "Lut", "Requantize"] {
        assert!(twins.contains(op), "no twin of {op} was tried");
    }
    assert!(n_real > 0, "no case ran on real numbers");
}

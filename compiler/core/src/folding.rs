//! Constant folding runs a one-node program on a device.

use ottava_graph::{Graph, extract};
use ottava_hal::{CompileOptions, Device, Error, Node, Program, Result, Tensor, Value, ValueId};

/// Evaluates a node whose inputs are all constant.
pub(crate) fn evaluate_constant(folder: &dyn Device, graph: &Graph, index: usize) -> Result<Vec<Tensor>> {
    let mut part = extract(graph, "constant", &[index]);
    part.program.outputs = part.program.nodes[0].outputs.clone();
    run(folder, &part.program)
}

/// Evaluates a node with `data` in the place of its first input; the other inputs are constant.
pub(crate) fn evaluate_constant_with(folder: &dyn Device, graph: &Graph, node: &Node, data: &Tensor) -> Result<Tensor> {
    let mut program = Program { name: "constant".into(), ..Program::default() };
    let mut node = node.clone();
    for (i, slot) in node.inputs.iter_mut().enumerate() {
        let Some(id) = *slot else { continue };
        let value = match i {
            0 => Value { name: "x".into(), ty: data.ty(), constant: Some(data.clone()) },
            _ => graph.value(id).clone(),
        };
        program.values.push(value);
        *slot = Some(ValueId(program.values.len() - 1));
    }
    let mut ty = graph.ty(node.outputs[0]).clone();
    ty.dtype = data.dtype();
    ty.quant = None;
    program.values.push(Value { name: "y".into(), ty, constant: None });
    let out = ValueId(program.values.len() - 1);
    node.outputs = vec![out];
    program.outputs = vec![out];
    program.nodes = vec![node];
    let missing = || Error::invalid("a folded node has no result");
    run(folder, &program)?.into_iter().next().ok_or_else(missing)
}

fn run(folder: &dyn Device, program: &Program) -> Result<Vec<Tensor>> {
    folder.compile(program, &CompileOptions::default())?.run_dynamic(&[])
}

//! A compiled program: the program itself, run node by node.

use crate::{Behaviour, Core, memory};
use ottava_hal::device::{Command, NodeTime, Profile};
use ottava_hal::{
    Binding, Capability, Error, Executable, Node, Program, Reason, Result, Tensor, TensorType, ValueId, Verdict,
};
use ottava_ops::EvalCx;
use ottava_reference::Interpreter;
use std::any::Any;
use std::sync::Arc;

/// A compiled program.
pub struct Compiled {
    pub(crate) core: Arc<Core>,
    pub(crate) generation: u64,
    /// What it runs.
    pub program: Program,
    /// Types of the inputs.
    pub inputs: Vec<TensorType>,
    /// Types of the outputs.
    pub outputs: Vec<TensorType>,
}

impl Compiled {
    /// Wraps a program that was checked.
    pub fn new(core: &Arc<Core>, program: Program) -> Self {
        let types = |ids: &[ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
        let (inputs, outputs) = (types(&program.inputs), types(&program.outputs));
        Self { core: Arc::clone(core), generation: core.generation(), inputs, outputs, program }
    }

    /// The decisions of its device.
    pub fn behaviour(&self) -> &Behaviour {
        &self.core.behaviour
    }
}

impl Executable for Compiled {
    fn inputs(&self) -> &[TensorType] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.program.nodes.iter().map(|n| (n.name.clone(), n.op.clone())).collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The executable behind the trait.
pub fn compiled(executable: &dyn Executable) -> Result<&Compiled> {
    let foreign = || Error::invalid("an executable of another device");
    executable.as_any().downcast_ref::<Compiled>().ok_or_else(foreign)
}

/// Checks a program and compiles it.
pub(crate) fn compile(core: &Arc<Core>, capability: &Capability, program: &Program) -> Result<Compiled> {
    // The reference looks at everything that the interpreter relies on.
    Interpreter::new(program)?;
    for node in &program.nodes {
        if let Verdict::Rejected { reason, detail } = capability.assess_node(program, node) {
            let what = format!("node `{}` ({}): {detail}", node.name, node.full_op());
            return Err(Error::unsupported(reason, what));
        }
    }
    if !program.is_static() {
        return Err(Error::unsupported(Reason::DynamicShape, "fixed shapes only"));
    }
    tracing::debug!(program = %program.name, "compiled");
    Ok(Compiled::new(core, program.clone()))
}

/// Runs one command of a submission.
pub(crate) fn command(core: &Core, command: &Command, profile: Option<&mut Profile>) -> Result<()> {
    let b = &core.behaviour;
    match command {
        Command::Dispatch { executable, inputs, outputs } => {
            let exe = compiled(executable.as_ref())?;
            let tensor = |(binding, ty): (&Binding, &TensorType)| {
                let shape = ty.shape.known().unwrap_or_default();
                Tensor::from_bytes(ty.dtype, &shape, &(b.read_input)(binding)?)
            };
            let tensors = inputs.iter().zip(&exe.inputs).map(tensor).collect::<Result<Vec<_>>>()?;
            let results = (b.run)(exe, tensors, profile)?;
            outputs.iter().zip(&results).try_for_each(|(to, from)| (b.write_output)(to, from.bytes()))
        }
        Command::Copy { from, to } => (b.copy)(from, to),
        Command::Fill { to, pattern } => (b.fill)(to, *pattern),
    }
}

/// The bytes of an input.
pub(crate) fn read_input(binding: &Binding) -> Result<Vec<u8>> {
    let mut bytes = vec![0; binding.len];
    memory::read(memory::of(binding)?, binding.offset, &mut bytes)?;
    Ok(bytes)
}

/// Writes an output.
pub(crate) fn write_output(binding: &Binding, bytes: &[u8]) -> Result<()> {
    memory::write(memory::of(binding)?, binding.offset, bytes)
}

/// Evaluates the nodes in order.
pub(crate) fn interpret(exe: &Compiled, inputs: Vec<Tensor>, mut profile: Option<&mut Profile>) -> Result<Vec<Tensor>> {
    let program = &exe.program;
    let mut data: Vec<Option<Tensor>> = program.values.iter().map(|v| v.constant.clone()).collect();
    for (id, tensor) in program.inputs.iter().zip(inputs) {
        data[id.0] = Some(tensor);
    }
    for node in &program.nodes {
        let begin = profile.as_ref().map(|p| p.begin.elapsed().as_nanos() as u64);
        let outputs = evaluate(exe.behaviour(), program, node, &data)?;
        if let (Some(profile), Some(start_ns)) = (profile.as_deref_mut(), begin) {
            let duration_ns = (profile.begin.elapsed().as_nanos() as u64).saturating_sub(start_ns);
            let (name, kernel) = (node.name.clone(), node.op.clone());
            profile.nodes.push(NodeTime { node: name, kernel, start_ns, duration_ns, ..NodeTime::default() });
        }
        for (id, tensor) in node.outputs.iter().zip(outputs) {
            data[id.0] = Some(tensor);
        }
    }
    let missing = || Error::invalid("an output was not computed");
    program.outputs.iter().map(|id| data[id.0].clone().ok_or_else(missing)).collect()
}

fn evaluate(b: &Behaviour, program: &Program, node: &Node, data: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
    let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|v| data[v.0].as_ref())).collect();
    let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|v| program.ty(v))).collect();
    let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| program.ty(*id)).collect();
    (b.node)(&EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types })
}

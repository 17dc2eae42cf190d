//! Runs a program node by node with `ottava_ops::evaluate`.

use ottava_hal::device::NodeTime;
use ottava_hal::host::HostProgram;
use ottava_hal::{Error, Node, Program, Result, Tensor, TensorType, ValueId};
use ottava_ops::EvalCx;
use std::time::Instant;

/// Sees each node's outputs as they are computed.
pub type Observer<'a> = dyn FnMut(&Node, &[Tensor]) + 'a;

/// A checked program, ready to run.
pub struct Interpreter {
    program: Program,
    /// For each node, values whose last reader it is.
    dies_after: Vec<Vec<ValueId>>,
}

impl Interpreter {
    /// Checks the program and works out lifetimes.
    pub fn new(program: &Program) -> Result<Self> {
        program.check()?;
        let mut last = vec![None; program.values.len()];
        for (i, node) in program.nodes.iter().enumerate() {
            for id in node.inputs.iter().flatten().chain(&node.outputs) {
                last[id.0] = Some(i);
            }
        }
        program.outputs.iter().for_each(|id| last[id.0] = None);
        let mut dies_after = vec![Vec::new(); program.nodes.len()];
        for (v, node) in last.iter().enumerate() {
            if let Some(i) = node {
                dies_after[*i].push(ValueId(v));
            }
        }
        Ok(Self { program: program.clone(), dies_after })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs on tensors, which must fit the inputs' types where these are fixed.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.run_observed(inputs, &mut |_, _| {}, None)
    }

    /// Runs and shows each node's outputs to an observer.
    pub fn run_observed(
        &self,
        inputs: &[Tensor],
        observer: &mut Observer,
        mut times: Option<&mut Vec<NodeTime>>,
    ) -> Result<Vec<Tensor>> {
        let start = Instant::now();
        let mut data: Vec<Option<Tensor>> = self.program.values.iter().map(|v| v.constant.clone()).collect();
        self.bind_inputs(inputs, &mut data)?;
        for (i, node) in self.program.nodes.iter().enumerate() {
            let begin = start.elapsed();
            let outputs = self.evaluate(node, &data)?;
            if let Some(times) = times.as_deref_mut() {
                times.push(NodeTime {
                    node: node.name.clone(),
                    kernel: format!("reference {}", node.op),
                    start_ns: begin.as_nanos() as u64,
                    duration_ns: (start.elapsed() - begin).as_nanos() as u64,
                    ..NodeTime::default()
                });
            }
            observer(node, &outputs);
            for (id, tensor) in node.outputs.iter().zip(outputs) {
                data[id.0] = Some(tensor);
            }
            self.dies_after[i].iter().for_each(|id| data[id.0] = None);
        }
        let missing =
            |id: &ValueId| Error::invalid(format!("output `{}` was not computed", self.program.value(*id).name));
        self.program.outputs.iter().map(|id| data[id.0].clone().ok_or_else(|| missing(id))).collect()
    }

    fn bind_inputs(&self, inputs: &[Tensor], data: &mut [Option<Tensor>]) -> Result<()> {
        if inputs.len() != self.program.inputs.len() {
            let (found, expected) = (inputs.len(), self.program.inputs.len());
            return Err(Error::invalid(format!("{found} inputs given, the program has {expected}")));
        }
        for (id, tensor) in self.program.inputs.iter().zip(inputs) {
            let value = self.program.value(*id);
            let shape_fits = value.ty.shape.rank() == tensor.shape().len()
                && value.ty.shape.0.iter().zip(tensor.shape()).all(|(d, n)| d.known().is_none_or(|k| k == *n));
            if value.ty.dtype != tensor.dtype() || !shape_fits {
                let (found, expected) = (tensor.ty(), &value.ty);
                return Err(Error::invalid(format!("input `{}` is {found}, expected {expected}", value.name)));
            }
            data[id.0] = Some(tensor.clone());
        }
        Ok(())
    }

    fn evaluate(&self, node: &Node, data: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|v| data[v.0].as_ref())).collect();
        let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|v| self.program.ty(v))).collect();
        let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| self.program.ty(*id)).collect();
        let cx = EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types };
        let outputs = ottava_ops::evaluate(&cx).map_err(|e| at_node(e, node))?;
        if outputs.len() < node.outputs.len() {
            return Err(Error::invalid(format!("node `{}` ({}) left an output out", node.name, node.full_op())));
        }
        for (tensor, ty) in outputs.iter().zip(&out_types) {
            check_output(node, tensor, ty)?;
        }
        Ok(outputs)
    }
}

/// What a node computed must be what the program says, or later nodes would misread it.
fn check_output(node: &Node, tensor: &Tensor, ty: &TensorType) -> Result<()> {
    let wrong_shape = ty.shape.known().is_some_and(|s| s != tensor.shape());
    if tensor.dtype() != ty.dtype || wrong_shape {
        let found = tensor.ty();
        return Err(Error::invalid(format!(
            "node `{}` ({}) computed {found}, declared {ty}",
            node.name,
            node.full_op()
        )));
    }
    Ok(())
}

fn at_node(error: Error, node: &Node) -> Error {
    let place = format!("node `{}` ({})", node.name, node.full_op());
    match error {
        Error::Invalid(what) => Error::Invalid(format!("{place}: {what}")),
        Error::Unsupported { reason, what } => Error::Unsupported { reason, what: format!("{place}: {what}") },
        failed => failed,
    }
}

impl HostProgram for Interpreter {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        let tensor = |(id, bytes): (&ValueId, &&[u8])| {
            let ty = self.program.ty(*id);
            let shape = ty.shape.known().ok_or_else(|| Error::invalid(format!("input {ty} is not of fixed shape")))?;
            Tensor::from_bytes(ty.dtype, &shape, bytes)
        };
        let inputs = self.program.inputs.iter().zip(inputs).map(tensor).collect::<Result<Vec<_>>>()?;
        let results = self.run_observed(&inputs, &mut |_, _| {}, times)?;
        for (to, from) in outputs.iter_mut().zip(&results) {
            if to.len() != from.bytes().len() {
                return Err(Error::invalid(format!(
                    "an output has {} bytes, {} are bound",
                    from.bytes().len(),
                    to.len()
                )));
            }
            to.copy_from_slice(from.bytes());
        }
        Ok(())
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.program.nodes.iter().map(|n| (n.name.clone(), format!("reference {}", n.op))).collect()
    }

    fn run_dynamic(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Interpreter::run(self, inputs)
    }
}

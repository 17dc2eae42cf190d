//! What a host device compiles to: a function from bytes to bytes.

use crate::device::NodeTime;
use crate::{Error, Executable, Result, Tensor, TensorType};
use std::any::Any;

/// What a host device runs: bytes in, bytes out. Slices have exactly the byte lengths of the declared types.
pub trait HostProgram: Send + Sync {
    /// Runs once. `times`, if given, receives one entry per node.
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], times: Option<&mut Vec<NodeTime>>) -> Result<()>;

    /// For the device that made it: serialization needs the concrete type.
    fn as_any(&self) -> &dyn Any;

    /// See [`Executable::kernels`].
    fn kernels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// See [`Executable::arena_bytes`].
    fn arena_bytes(&self) -> usize {
        0
    }

    /// See [`Executable::can_show`].
    fn can_show(&self) -> bool {
        false
    }

    /// See [`Executable::run_shown`].
    fn run_shown(&self, _inputs: &[&[u8]], _see: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        Err(Error::unsupported(crate::Reason::Other, "this device does not show values during a run"))
    }

    /// See [`Executable::run_dynamic`].
    fn run_dynamic(&self, _inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::unsupported(crate::Reason::DynamicShape, "this device runs fixed shapes only"))
    }
}

/// An executable of a host device.
pub struct HostExecutable {
    pub(super) inputs: Vec<TensorType>,
    pub(super) outputs: Vec<TensorType>,
    /// Sizes of the inputs, where they are fixed.
    pub(super) input_bytes: Vec<Option<usize>>,
    /// Sizes of the outputs, where they are fixed.
    pub(super) output_bytes: Vec<Option<usize>>,
    program: Box<dyn HostProgram>,
}

impl HostExecutable {
    /// Wraps a program with the types of its inputs and outputs.
    pub fn new(inputs: Vec<TensorType>, outputs: Vec<TensorType>, program: Box<dyn HostProgram>) -> Self {
        let bytes = |types: &[TensorType]| types.iter().map(TensorType::byte_len).collect();
        Self { input_bytes: bytes(&inputs), output_bytes: bytes(&outputs), inputs, outputs, program }
    }

    /// The program, for the device that made it.
    pub fn program(&self) -> &dyn HostProgram {
        self.program.as_ref()
    }
}

impl Executable for HostExecutable {
    fn inputs(&self) -> &[TensorType] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.program.kernels()
    }

    fn arena_bytes(&self) -> usize {
        self.program.arena_bytes()
    }

    fn can_show(&self) -> bool {
        self.program.can_show()
    }

    fn run_shown(&self, inputs: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let fits = |(bytes, want): (&&[u8], &Option<usize>)| *want == Some(bytes.len());
        if inputs.len() != self.input_bytes.len() || !inputs.iter().zip(&self.input_bytes).all(fits) {
            return Err(Error::invalid("the inputs have other sizes than the program's"));
        }
        self.program.run_shown(inputs, see)
    }

    fn run_dynamic(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.program.run_dynamic(inputs)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

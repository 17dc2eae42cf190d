//! What a kernel sees: its node, the types and the bytes of its operands.

use ottava_hal::{DataType, Element, Error, Node, Program, Result, TensorType};

/// One run of one node.
pub struct KernelCx<'a> {
    pub(super) program: &'a Program,
    pub(super) node: &'a Node,
    /// Bytes per input; `None` where an optional input is absent.
    pub(super) inputs: Vec<Option<&'a [u8]>>,
    /// Bytes per output.
    pub(super) outputs: Vec<&'a mut [u8]>,
}

impl<'a> KernelCx<'a> {
    /// The node: attributes, fusions, requantization mode.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Type of input `i`.
    pub fn input_type(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.input(i).ok_or_else(|| self.missing("input", i))?;
        Ok(self.program.ty(id))
    }

    /// Type of output `i`.
    pub fn output_type(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.outputs.get(i).ok_or_else(|| self.missing("output", i))?;
        Ok(self.program.ty(*id))
    }

    /// Scale and zero point of input `i`, which has one of each.
    pub fn input_quant(&self, i: usize) -> Result<(f32, i32)> {
        self.per_tensor(self.input_type(i)?)
    }

    /// Scale and zero point of output `i`, which has one of each.
    pub fn output_quant(&self, i: usize) -> Result<(f32, i32)> {
        self.per_tensor(self.output_type(i)?)
    }

    /// Elements of input `i`.
    pub fn input<T: Element>(&self, i: usize) -> Result<&'a [T]> {
        let bytes = self.inputs.get(i).copied().flatten().ok_or_else(|| self.missing("input", i))?;
        check::<T>(self.input_type(i)?.dtype)?;
        bytemuck::try_cast_slice(bytes).map_err(|e| Error::invalid(format!("input {i} of `{}`: {e}", self.node.name)))
    }

    /// Elements of output `i`, to be written whole.
    pub fn output<T: Element>(&mut self, i: usize) -> Result<&mut [T]> {
        check::<T>(self.output_type(i)?.dtype)?;
        let missing = self.missing("output", i);
        let name = &self.node.name;
        let bytes = self.outputs.get_mut(i).ok_or(missing)?;
        bytemuck::try_cast_slice_mut(bytes).map_err(|e| Error::invalid(format!("output {i} of `{name}`: {e}")))
    }

    fn per_tensor(&self, ty: &TensorType) -> Result<(f32, i32)> {
        let quant = ty.quant.as_ref().and_then(|q| q.as_per_tensor());
        quant.ok_or_else(|| Error::invalid(format!("an operand of `{}` has no single scale", self.node.name)))
    }

    fn missing(&self, what: &str, i: usize) -> Error {
        Error::invalid(format!("node `{}` has no {what} {i}", self.node.name))
    }
}

/// Booleans are bytes.
fn check<T: Element>(dtype: DataType) -> Result<()> {
    let fits = dtype == T::TYPE || (dtype == DataType::Bool && T::TYPE == DataType::U8);
    if fits { Ok(()) } else { Err(Error::invalid(format!("a tensor of {dtype} viewed as {}", T::TYPE))) }
}

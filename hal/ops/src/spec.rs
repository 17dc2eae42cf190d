//! What an operator is: its schema and the trait behind it.

use crate::{Case, EvalCx, InferCx};
use ottava_hal::{Node, Result, Tensor, TensorType};

/// Kind of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of `ottava_hal::Attr`.
pub enum AttrKind {
    Int,
    Float,
    Str,
    Ints,
    Floats,
    Strs,
    Tensor,
    Program,
}

/// One attribute of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrSpec {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: AttrKind,
    /// Whether a node must have it.
    pub required: bool,
}

impl AttrSpec {
    /// An attribute with a default.
    pub const fn optional(name: &'static str, kind: AttrKind) -> Self {
        Self { name, kind, required: false }
    }

    /// An attribute that a node must have.
    pub const fn required(name: &'static str, kind: AttrKind) -> Self {
        Self { name, kind, required: true }
    }
}

/// Schema of an operator, in the form of its newest version (the importer brings older forms to it).
#[derive(Debug, Clone, Copy)]
pub struct OpSpec {
    /// Name.
    pub name: &'static str,
    /// Domain; empty for ONNX.
    pub domain: &'static str,
    /// The first operator set version that has it.
    pub since: u32,
    /// Least and most inputs (`usize::MAX`: any number).
    pub inputs: (usize, usize),
    /// Least and most outputs.
    pub outputs: (usize, usize),
    /// Attributes.
    pub attrs: &'static [AttrSpec],
}

/// How an operator is evaluated where its values are quantized.
#[derive(Clone, Copy)]
pub enum QuantRule {
    /// Dequantize the inputs, evaluate in f32, quantize the outputs: the f32 sequence itself is the definition.
    Float,
    /// Elements are moved, not computed: inputs are brought to the output's parameters (numerics.md, the Concat row),
    /// then the operator works on the integers.
    Move,
    /// A function of one 8-bit value: a table built in f64 (section 6). Falls back to `Float` for other storages.
    Unary,
    /// The operator defines its integer form itself, in [`Op::eval_quant`].
    Own,
}

/// An operator.
pub trait Op: Sync {
    /// Schema.
    fn spec(&self) -> &'static OpSpec;

    /// Types of the outputs from the types of the inputs. An extent that only data decides is a fresh symbol
    /// ([`InferCx::fresh`]); where data decides the rank, the type is unranked, and a model may still declare it. An
    /// operator that cannot even say the element type fails with reason `DynamicShape`. Quantized inputs appear with their storage type; the caller
    /// keeps the element type and parameters of outputs that are already typed, and takes the shape from here.
    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>>;

    /// Whether [`Op::infer`] understands inputs of unknown rank.
    fn infers_from_unranked(&self) -> bool {
        false
    }

    /// Evaluates on plain tensors.
    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>>;

    /// Which mechanism evaluates the node where values are quantized.
    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Float
    }

    /// The integer form, for [`QuantRule::Own`]. `Ok(None)` means that this combination of types has no integer form;
    /// it is then evaluated by [`QuantRule::Float`].
    fn eval_quant(&self, _cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        Ok(None)
    }

    /// The real function, for [`QuantRule::Unary`].
    fn real(&self, _node: &Node, _x: f64) -> Result<f64> {
        Err(ottava_hal::Error::invalid(format!("{} is not a function of one real number", self.spec().name)))
    }

    /// Multiply-accumulates of one evaluation, from known shapes; 0 for operators that are not products.
    fn macs(&self, _node: &Node, _inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        0
    }

    /// Cases with known answers, run on every device.
    fn cases(&self) -> Vec<Case> {
        Vec::new()
    }
}

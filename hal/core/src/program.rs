//! What a device runs: a flat, topologically ordered list of typed operators.
//!
//! Invariants, checked by [`Program::check`]: every index is in range; every value is produced at most once, and before
//! it is used; a constant has data of exactly its type; quantization parameters fit their storage and shape.
//!
//! Operators have ONNX names. Whether `Conv` is the float or the integer convolution follows from the types of its
//! values: where they carry [`crate::QuantParams`], numerics.md section 4 defines the integers.

use crate::refmath::ScaleProduct;
use crate::{Attrs, DataType, Error, RequantMode, Result, Tensor, TensorType};

/// Index of a value in [`Program::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// A tensor that flows through a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Unique name, stable from import to report.
    pub name: String,
    /// Element type, shape, quantization.
    pub ty: TensorType,
    /// Data, for constants.
    pub constant: Option<Tensor>,
}

/// A float activation that a node applies to its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `min(max(x, lo), hi)`; NaN stays NaN.
    Clip {
        /// Lower bound.
        lo: f32,
        /// Upper bound.
        hi: f32,
    },
}

impl Activation {
    /// Applies the activation to one value.
    pub fn apply(self, x: f32) -> f32 {
        let (lo, hi) = match self {
            Self::Relu => (0.0, f32::INFINITY),
            Self::Clip { lo, hi } => (lo, hi),
        };
        if x < lo {
            lo
        } else if x > hi {
            hi
        } else {
            x
        }
    }
}

/// What is fused into a node, in order of application: residual, activation or clamp.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Fused {
    /// The zero point is added before rounding (com.microsoft QLinearAdd and QLinearMul).
    pub zp_before_round: bool,
    /// The last input is added to the result (numerics.md section 4, the fused form).
    pub residual: bool,
    /// Float activation of a float result.
    pub act: Option<Activation>,
    /// Bounds of a quantized result, integers of the output's storage.
    pub clamp: Option<(i32, i32)>,
}

/// One operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique name, stable from import to report.
    pub name: String,
    /// Operator name (ONNX).
    pub op: String,
    /// Operator domain: empty for ONNX, `com.microsoft`, `ottava`.
    pub domain: String,
    /// Version of the operator set whose meaning the node has.
    pub version: u32,
    /// Inputs; `None` where an optional input is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs; trailing optional outputs may be missing.
    pub outputs: Vec<ValueId>,
    /// Attributes.
    pub attrs: Attrs,
    /// How a quantized result is rescaled; set exactly where it matters.
    pub requant: Option<RequantMode>,
    /// What is fused behind the operator.
    pub fused: Fused,
}

impl Node {
    /// A node of the ONNX domain with nothing fused.
    pub fn new(name: impl Into<String>, op: impl Into<String>, version: u32) -> Self {
        Self {
            name: name.into(),
            op: op.into(),
            domain: String::new(),
            version,
            inputs: vec![],
            outputs: vec![],
            attrs: Attrs::default(),
            requant: None,
            fused: Fused::default(),
        }
    }

    /// Input `i`, if it is present.
    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// How a product in a Q31 mode multiplies the scales of its operands: in f32 where the input is u8, and in matrix
    /// products of bytes with one scale for the whole weight; in f64 otherwise (numerics.md section 3).
    pub fn scale_product(&self, input: DataType, n_weight_scales: usize) -> ScaleProduct {
        let bytes = input.bits() == 8;
        let matrix = bytes && matches!(self.op.as_str(), "Gemm" | "MatMul") && n_weight_scales == 1;
        if input == DataType::U8 || matrix { ScaleProduct::Single } else { ScaleProduct::Double }
    }

    /// `domain::op`, or just `op` for ONNX's own.
    pub fn full_op(&self) -> String {
        if self.domain.is_empty() { self.op.clone() } else { format!("{}::{}", self.domain, self.op) }
    }
}

/// A flat list of typed operators, the unit that a device compiles.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// Name of the model or partition.
    pub name: String,
    /// Every value; [`ValueId`] indexes it.
    pub values: Vec<Value>,
    /// Operators in topological order.
    pub nodes: Vec<Node>,
    /// Values that the caller provides.
    pub inputs: Vec<ValueId>,
    /// Values that the caller receives.
    pub outputs: Vec<ValueId>,
}

impl Program {
    /// The value of an index that [`Program::check`] has seen.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.values[id.0].ty
    }

    /// Whether every value has a fixed shape.
    pub fn is_static(&self) -> bool {
        self.values.iter().all(|v| v.ty.shape.elements().is_some())
    }

    /// Multiply-adds of a matrix product or convolution of known shapes: outputs times weights per output channel. 0 for
    /// every other node; for estimates.
    pub fn macs(&self, node: &Node) -> u64 {
        let elements = |id| self.ty(id).shape.elements().unwrap_or(0) as u64;
        let (Some(w), Some(&y)) = (node.input(1), node.outputs.first()) else { return 0 };
        let dims = self.ty(w).shape.known().unwrap_or_default();
        let channels = match (node.op.as_str(), dims.as_slice()) {
            ("Conv", [out, ..]) => *out,
            ("Gemm", [a, b]) => {
                if node.attrs.int("transB", 0) == Ok(0) {
                    *b
                } else {
                    *a
                }
            }
            ("MatMul", [outer @ .., _, n]) => outer.iter().product::<usize>() * n,
            ("MatMul", [_]) => 1,
            _ => return 0,
        };
        elements(y).saturating_mul(elements(w) / (channels as u64).max(1))
    }

    /// Checks the invariants of this module; the error names the value or node.
    pub fn check(&self) -> Result<()> {
        let mut defined = vec![false; self.values.len()];
        for (i, value) in self.values.iter().enumerate() {
            check_value(value)?;
            defined[i] = value.constant.is_some();
        }
        for &ValueId(i) in &self.inputs {
            let slot = defined.get_mut(i).ok_or_else(|| Error::invalid(format!("input index {i} is out of range")))?;
            if std::mem::replace(slot, true) {
                return Err(Error::invalid(format!("input `{}` is listed twice or constant", self.values[i].name)));
            }
        }
        for node in &self.nodes {
            check_node(node, self, &mut defined)?;
        }
        for &ValueId(i) in &self.outputs {
            if !defined.get(i).copied().unwrap_or(false) {
                return Err(Error::invalid(format!("program output {i} is never computed")));
            }
        }
        Ok(())
    }
}

fn check_value(value: &Value) -> Result<()> {
    let known = value.ty.shape.known();
    if let Some(q) = &value.ty.quant {
        q.check(value.ty.dtype, known.as_deref())
            .map_err(|e| Error::invalid(format!("value `{}`: {e}", value.name)))?;
    }
    if let Some(data) = &value.constant
        && (data.dtype() != value.ty.dtype || Some(data.shape()) != known.as_deref())
    {
        let (found, expected) = (data.ty(), &value.ty);
        return Err(Error::invalid(format!("constant `{}` is {found}, its type says {expected}", value.name)));
    }
    Ok(())
}

fn check_node(node: &Node, program: &Program, defined: &mut [bool]) -> Result<()> {
    for ValueId(i) in node.inputs.iter().flatten() {
        if !defined.get(*i).copied().unwrap_or(false) {
            let name = program.values.get(*i).map_or("out of range", |v| v.name.as_str());
            return Err(Error::invalid(format!("node `{}` reads value {i} ({name}) before it is computed", node.name)));
        }
    }
    for ValueId(i) in &node.outputs {
        match defined.get_mut(*i) {
            Some(slot) if !*slot => *slot = true,
            _ => return Err(Error::invalid(format!("node `{}` writes value {i}, which it may not", node.name))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relu(inputs: usize) -> Program {
        let value =
            |name: &str| Value { name: name.into(), ty: TensorType::fixed(DataType::F32, &[2]), constant: None };
        let mut node = Node::new("r", "Relu", 14);
        node.inputs = vec![Some(ValueId(inputs))];
        node.outputs = vec![ValueId(1)];
        Program {
            name: "p".into(),
            values: vec![value("x"), value("y")],
            nodes: vec![node],
            inputs: vec![ValueId(0)],
            outputs: vec![ValueId(1)],
        }
    }

    #[test]
    fn a_value_is_computed_once_and_before_use() {
        assert_eq!(relu(0).check(), Ok(()));
        assert!(relu(1).check().unwrap_err().to_string().contains("before it is computed"));
        assert!(relu(7).check().is_err());
        let mut twice = relu(0);
        twice.nodes.push(twice.nodes[0].clone());
        assert!(twice.check().unwrap_err().to_string().contains("may not"));
    }

    #[test]
    fn constants_have_data_of_their_type() {
        let mut p = relu(0);
        p.inputs.clear();
        p.values[0].constant = Some(Tensor::scalar(1.0f32));
        assert!(p.check().unwrap_err().to_string().contains("its type says f32[2]"));
    }

    #[test]
    fn products_are_counted_and_nothing_else_is() {
        let mut p = relu(0);
        assert_eq!(p.macs(&p.nodes[0]), 0);
        let typed = |dims: &[usize]| TensorType::fixed(DataType::S8, dims);
        p.values.push(Value { name: "w".into(), ty: typed(&[8, 3, 5, 5]), constant: None });
        p.nodes[0].inputs.push(Some(ValueId(2)));
        p.nodes[0].op = "Conv".into();
        p.values[1].ty = typed(&[1, 8, 10, 10]);
        assert_eq!(p.macs(&p.nodes[0]), 8 * 100 * 75);
        p.nodes[0].op = "MatMul".into();
        (p.values[1].ty, p.values[2].ty) = (typed(&[4, 6]), typed(&[7, 6]));
        assert_eq!(p.macs(&p.nodes[0]), 4 * 6 * 7);
    }

    #[test]
    fn activations_keep_nan() {
        assert!(Activation::Relu.apply(f32::NAN).is_nan());
        assert_eq!(Activation::Clip { lo: 0.0, hi: 6.0 }.apply(7.0), 6.0);
    }
}

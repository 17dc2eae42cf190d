//! Programs with their data: every value is computed by the reference as soon as its node is added.
//!
//! What a generator builds is therefore valid, its results are known, and the next scale can be chosen so that results
//! fill their storage. A node that the reference refuses (an accumulator that overflows in `q31_double`) has no meaning
//! and gives no program.

use ottava_hal::{DataType, Node, Program, QuantParams, Tensor, TensorType, Value, ValueId};
use ottava_ops::{EvalCx, InferCx, InferInput, evaluate, infer};

/// A program, its inputs, and what it must give.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// The program.
    pub program: Program,
    /// One tensor per input.
    pub inputs: Vec<Tensor>,
    /// One tensor per output, from the reference.
    pub expected: Vec<Tensor>,
    /// What is special about it, in words.
    pub about: String,
}

/// Element type and quantization of a result.
pub(super) type Like = (DataType, Option<QuantParams>);

/// A program under construction.
#[derive(Debug, Clone)]
pub(super) struct Build {
    program: Program,
    data: Vec<Tensor>,
}

/// The type of data with parameters.
fn typed(data: &Tensor, quant: Option<QuantParams>) -> TensorType {
    match quant {
        Some(quant) => data.ty().quantized(quant),
        None => data.ty(),
    }
}

impl Build {
    /// A program without nodes.
    pub(super) fn new(name: &str) -> Self {
        Self { program: Program { name: name.into(), ..Program::default() }, data: Vec::new() }
    }

    fn value(&mut self, ty: TensorType, data: Tensor, constant: bool) -> ValueId {
        let id = ValueId(self.program.values.len());
        let value = Value { name: format!("v{}", id.0), ty, constant: constant.then(|| data.clone()) };
        self.program.values.push(value);
        self.data.push(data);
        id
    }

    /// A value that the caller provides.
    pub(super) fn input(&mut self, data: Tensor, quant: Option<QuantParams>) -> ValueId {
        let id = self.value(typed(&data, quant), data, false);
        self.program.inputs.push(id);
        id
    }

    /// A value that is known at compile time.
    pub(super) fn constant(&mut self, data: Tensor, quant: Option<QuantParams>) -> ValueId {
        self.value(typed(&data, quant), data, true)
    }

    /// Constant s64 numbers: axes, shapes, pads.
    pub(super) fn ints(&mut self, values: &[i64]) -> Option<ValueId> {
        Some(self.constant(Tensor::from_slice(&[values.len()], values).ok()?, None))
    }

    /// A constant f32 number.
    pub(super) fn number(&mut self, value: f32) -> ValueId {
        self.constant(Tensor::scalar(value), None)
    }

    /// The data of a value.
    pub(super) fn data(&self, id: ValueId) -> &Tensor {
        &self.data[id.0]
    }

    /// The type of a value.
    pub(super) fn ty(&self, id: ValueId) -> &TensorType {
        self.program.ty(id)
    }

    fn evaluate(&self, node: &Node, inputs: &[Option<ValueId>], outputs: &[TensorType]) -> Option<Vec<Tensor>> {
        let data: Vec<Option<&Tensor>> = inputs.iter().map(|id| id.map(|id| self.data(id))).collect();
        let types: Vec<Option<&TensorType>> = inputs.iter().map(|id| id.map(|id| self.ty(id))).collect();
        let outputs: Vec<&TensorType> = outputs.iter().collect();
        evaluate(&EvalCx { node, inputs: &data, in_types: &types, out_types: &outputs }).ok()
    }

    /// Adds a node with outputs of these types; `None` where the reference refuses it.
    pub(super) fn node(
        &mut self,
        mut node: Node,
        inputs: &[Option<ValueId>],
        outputs: &[Like],
    ) -> Option<Vec<ValueId>> {
        node.name = format!("n{}", self.program.nodes.len());
        node.inputs = inputs.to_vec();
        node.outputs = (0..outputs.len()).map(|i| ValueId(self.program.values.len() + i)).collect();
        let types = self.types(&node, outputs)?;
        let results = self.evaluate(&node, inputs, &types)?;
        let fits = |(r, ty): (&Tensor, &TensorType)| {
            r.dtype() == ty.dtype && ty.shape.known().as_deref() == Some(r.shape()) && r.elements() > 0
        };
        if results.len() < types.len() || !results.iter().zip(&types).all(fits) {
            return None;
        }
        let ids = node.outputs.clone();
        self.program.nodes.push(node);
        types.into_iter().zip(results).for_each(|(ty, data)| _ = self.value(ty, data, false));
        Some(ids)
    }

    fn types(&self, node: &Node, outputs: &[Like]) -> Option<Vec<TensorType>> {
        let seen = |id: &ValueId| {
            let value = self.program.value(*id);
            InferInput { ty: &value.ty, constant: value.constant.as_ref() }
        };
        let seen: Vec<Option<InferInput>> = node.inputs.iter().map(|id| id.as_ref().map(seen)).collect();
        let types = infer(&InferCx { node, inputs: &seen }).ok()?;
        let as_asked = |(ty, (dtype, quant)): (TensorType, &Like)| {
            let ty = TensorType::new(*dtype, ty.shape);
            match quant {
                Some(quant) => ty.quantized(quant.clone()),
                None => ty,
            }
        };
        Some(types.into_iter().zip(outputs).map(as_asked).collect())
    }

    /// As [`Self::node`], for one output and no absent input.
    pub(super) fn one(&mut self, node: Node, inputs: &[ValueId], output: Like) -> Option<ValueId> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().map(|id| Some(*id)).collect();
        self.node(node, &inputs, &[output])?.first().copied()
    }

    /// The largest magnitude among a node's results as real numbers.
    pub(super) fn magnitude(&self, node: &Node, inputs: &[ValueId]) -> Option<f32> {
        let mut node = node.clone();
        (node.requant, node.fused.clamp) = (None, None);
        node.inputs = inputs.iter().map(|id| Some(*id)).collect();
        node.outputs = vec![ValueId(self.program.values.len())];
        let types = self.types(&node, &[(DataType::F32, None)])?;
        let inputs = node.inputs.clone();
        let reals = self.evaluate(&node, &inputs, &types)?.first()?.to_f32s().ok()?;
        Some(reals.into_iter().filter(|v| v.is_finite()).fold(0.0, |m: f32, v| m.max(v.abs())))
    }

    /// The finished program.
    pub(super) fn finish(mut self, outputs: &[ValueId], about: String) -> Option<Sample> {
        self.program.outputs = outputs.to_vec();
        self.program.check().ok()?;
        let inputs = self.program.inputs.iter().map(|id| self.data(*id).clone()).collect();
        let expected = outputs.iter().map(|id| self.data(*id).clone()).collect();
        Some(Sample { program: self.program, inputs, expected, about })
    }
}

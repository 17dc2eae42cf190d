//! Cases: one node with data and a known answer, run on every device.

use ottava_hal::{DataType, Node, Program, QuantParams, Shape, Tensor, TensorType, Value, ValueId};

/// Data of one input.
#[derive(Debug, Clone)]
pub struct CaseInput {
    /// Data.
    pub tensor: Tensor,
    /// Quantization, if the integers stand for reals.
    pub quant: Option<QuantParams>,
    /// Given to the device at compile time.
    pub constant: bool,
}

impl CaseInput {
    /// Plain run-time data.
    pub fn plain(tensor: Tensor) -> Self {
        Self { tensor, quant: None, constant: false }
    }

    /// Quantized run-time data.
    pub fn quantized(tensor: Tensor, quant: QuantParams) -> Self {
        Self { tensor, quant: Some(quant), constant: false }
    }

    /// The same, known at compile time.
    pub fn constant(mut self) -> Self {
        self.constant = true;
        self
    }
}

/// One node with data and a known answer.
#[derive(Debug, Clone)]
pub struct Case {
    /// Unique within the operator; begins with the clause that it shows, where there is one.
    pub name: &'static str,
    /// Operator, attributes, fusions. Inputs and outputs are filled in by [`Case::program`].
    pub node: Node,
    /// Inputs; `None` where absent.
    pub inputs: Vec<Option<CaseInput>>,
    /// Expected outputs with their quantization.
    pub outputs: Vec<(Tensor, Option<QuantParams>)>,
}

impl Case {
    /// The case as a program with named inputs `x0`, `x1`, .. and outputs `y0`, ...
    pub fn program(&self) -> Program {
        let mut p = Program { name: format!("{}_{}", self.node.op, self.name), ..Program::default() };
        let mut node = self.node.clone();
        node.inputs = self.inputs.iter().enumerate().map(|(i, x)| Some(add_input(&mut p, i, x.as_ref()?))).collect();
        node.outputs = (0..self.outputs.len()).map(|i| ValueId(p.values.len() + i)).collect();
        for (i, (y, quant)) in self.outputs.iter().enumerate() {
            p.values.push(Value {
                name: format!("y{i}"),
                ty: typed(y.dtype(), y.shape(), quant.as_ref()),
                constant: None,
            });
        }
        p.outputs = node.outputs.clone();
        p.nodes = vec![node];
        p
    }
}

fn add_input(p: &mut Program, i: usize, x: &CaseInput) -> ValueId {
    let id = ValueId(p.values.len());
    let ty = typed(x.tensor.dtype(), x.tensor.shape(), x.quant.as_ref());
    p.values.push(Value { name: format!("x{i}"), ty, constant: x.constant.then(|| x.tensor.clone()) });
    if !x.constant {
        p.inputs.push(id);
    }
    id
}

fn typed(dtype: DataType, shape: &[usize], quant: Option<&QuantParams>) -> TensorType {
    let ty = TensorType::new(dtype, Shape::fixed(shape));
    match quant {
        Some(q) => ty.quantized(q.clone()),
        None => ty,
    }
}

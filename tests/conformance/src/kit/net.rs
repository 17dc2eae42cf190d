//! Small programs that a device accepts.
//!
//! Most of the contract does not depend on what is computed, so the programs are nets of additions: every accelerator adds.
//! A device that does not is asked with the operators' own cases instead, where one node is enough.

use crate::Stop;
use ottava_hal::{
    DataType, Device, Node, Program, QuantParams, RequantMode, Tensor, TensorType, Value, ValueId, Verdict,
};

/// A program of additions of one type.
pub(crate) struct Net {
    program: Program,
    ty: TensorType,
}

impl Net {
    /// A net without nodes.
    pub(crate) fn new(ty: &TensorType) -> Self {
        Self { program: Program { name: "net".into(), ..Program::default() }, ty: ty.clone() }
    }

    fn value(&mut self, name: String, constant: Option<Tensor>) -> ValueId {
        self.program.values.push(Value { name, ty: self.ty.clone(), constant });
        ValueId(self.program.values.len() - 1)
    }

    /// A value that the caller provides.
    pub(crate) fn input(&mut self) -> ValueId {
        let id = self.value(format!("x{}", self.program.inputs.len()), None);
        self.program.inputs.push(id);
        id
    }

    /// A value that is known at compile time.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.value(format!("c{}", self.program.values.len()), Some(tensor))
    }

    /// `a + b`.
    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let i = self.program.nodes.len();
        let out = self.value(format!("y{i}"), None);
        let mut node = Node::new(format!("add{i}"), "Add", 14);
        (node.inputs, node.outputs) = (vec![Some(a), Some(b)], vec![out]);
        node.requant = self.ty.quant.is_some().then_some(RequantMode::Fp32Rne);
        self.program.nodes.push(node);
        out
    }

    /// The program.
    pub(crate) fn finish(mut self, outputs: &[ValueId]) -> Program {
        self.program.outputs = outputs.to_vec();
        self.program
    }

    /// `n` additions one after the other: `x0 + x1 + x1 + ...`.
    pub(crate) fn chain(ty: &TensorType, n: usize) -> Program {
        let mut net = Self::new(ty);
        let (mut sum, x) = (net.input(), net.input());
        for _ in 0..n {
            sum = net.add(sum, x);
        }
        net.finish(&[sum])
    }
}

/// A type of tensor with `len` elements that the device adds, exactly.
pub(crate) fn basis(device: &dyn Device, len: usize) -> Result<TensorType, Stop> {
    let quantized = |dtype, zp| TensorType::fixed(dtype, &[1, len]).quantized(QuantParams::per_tensor(0.5, zp));
    let candidates = [
        quantized(DataType::S8, 3),
        quantized(DataType::U8, 128),
        TensorType::fixed(DataType::S32, &[1, len]),
        TensorType::fixed(DataType::F32, &[1, len]),
    ];
    for ty in candidates {
        let verdicts = device.assess(&Net::chain(&ty, 1))?;
        if matches!(verdicts.as_slice(), [Verdict::Supported { exact }] if *exact || ty.dtype == DataType::F32) {
            return Ok(ty);
        }
    }
    Err(Stop::Unsupported("the device adds neither s8, u8, s32 nor f32, of which the programs of this case are".into()))
}

/// The operators' own cases as programs.
pub(crate) fn case_programs() -> Vec<(String, Program, ottava_ops::Case)> {
    let named = |op: &'static dyn ottava_ops::Op, case: ottava_ops::Case| {
        (format!("{}/{}", op.spec().name, case.name), case.program(), case)
    };
    ottava_ops::all().flat_map(|op| op.cases().into_iter().map(move |c| named(op, c))).collect()
}

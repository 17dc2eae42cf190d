//! Short forms for the cases of operators, and the test that runs a table of operators on them.

use crate::{Case, CaseInput};
use ottava_hal::{DataType, Node, QuantParams, Tensor};

/// An f32 tensor of literal data.
pub fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape, values).expect("a case has as many elements as its shape")
}

/// An integer tensor of literal data.
pub fn ints(dtype: DataType, shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_ints(dtype, shape, values).expect("a case has as many elements as its shape")
}

/// A boolean tensor of literal data.
pub fn bools(shape: &[usize], values: &[bool]) -> Tensor {
    Tensor::from_bools(shape, values).expect("a case has as many elements as its shape")
}

/// A case of plain tensors.
pub fn case(name: &'static str, node: Node, inputs: &[Tensor], outputs: &[Tensor]) -> Case {
    let inputs = inputs.iter().map(|t| Some(CaseInput::plain(t.clone()))).collect();
    Case { name, node, inputs, outputs: outputs.iter().map(|t| (t.clone(), None)).collect() }
}

/// As [`case`], with every input from index `from` known at compile time (shapes, axes, sizes).
pub fn case_const(name: &'static str, node: Node, from: usize, inputs: &[Tensor], outputs: &[Tensor]) -> Case {
    let mut case = case(name, node, inputs, outputs);
    case.inputs.iter_mut().skip(from).for_each(|x| *x = x.take().map(CaseInput::constant));
    case
}

/// A case of per-tensor quantized tensors: data, scale, zero point.
pub fn quant_case(name: &'static str, node: Node, inputs: &[(Tensor, f32, i32)], output: (Tensor, f32, i32)) -> Case {
    let typed = |(t, s, z): &(Tensor, f32, i32)| {
        let params = QuantParams::per_tensor(*s, *z);
        Some(CaseInput::quantized(t.clone(), params))
    };
    let (y, scale, zero_point) = output;
    let outputs = vec![(y, Some(QuantParams::per_tensor(scale, zero_point)))];
    Case { name, node, inputs: inputs.iter().map(typed).collect(), outputs }
}

/// Every operator of a table infers and computes what its cases say (floats to 2 ulp).
#[cfg(test)]
pub fn check_table(table: &[&dyn crate::Op]) {
    for op in table {
        let spec = op.spec();
        let cases = op.cases();
        assert!(!cases.is_empty(), "{} has no case", spec.name);
        for case in &cases {
            check_case(case);
        }
    }
}

/// Infers and evaluates one case.
#[cfg(test)]
pub fn check_case(case: &Case) {
    use crate::{EvalCx, InferCx, InferInput, evaluate, infer};
    use ottava_hal::{Reason, TensorType};
    let label = format!("{} {}", case.node.full_op(), case.name);
    let program = case.program();
    let node = &program.nodes[0];
    let mut data = case.inputs.iter().flatten().map(|x| &x.tensor);
    let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|_| data.next())).collect();
    let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|id| program.ty(id))).collect();
    let out_types: Vec<&TensorType> = node.outputs.iter().map(|&id| program.ty(id)).collect();
    let infer_inputs: Vec<Option<InferInput>> = node
        .inputs
        .iter()
        .map(|id| id.map(|id| InferInput { ty: program.ty(id), constant: program.value(id).constant.as_ref() }))
        .collect();
    match infer(&InferCx { node, inputs: &infer_inputs }) {
        Ok(types) => {
            for (ty, expected) in types.iter().zip(&out_types) {
                assert!(could_be(ty, expected), "{label}: inferred {ty}, expected {expected}");
                assert!(expected.quant.is_some() || ty.dtype == expected.dtype, "{label}: inferred {ty}");
            }
        }
        Err(ottava_hal::Error::Unsupported { reason: Reason::DynamicShape, .. }) => {}
        Err(e) => panic!("{label}: {e}"),
    }
    let outputs = evaluate(&EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types })
        .unwrap_or_else(|e| panic!("{label}: {e}"));
    assert_eq!(outputs.len(), case.outputs.len(), "{label}: outputs");
    for (y, (expected, _)) in outputs.iter().zip(&case.outputs) {
        assert!(same(y, expected), "{label}: {y:?}, expected {expected:?}");
    }
}

/// Whether an inferred shape allows the one of the data: where data decides an extent, it is a symbol.
#[cfg(test)]
fn could_be(inferred: &ottava_hal::TensorType, data: &ottava_hal::TensorType) -> bool {
    let mut dims = inferred.shape.0.iter().zip(&data.shape.0);
    let fits = dims.all(|(i, d)| i.known().is_none() || i == d);
    inferred.is_unranked() || (inferred.shape.rank() == data.shape.rank() && fits)
}

#[cfg(test)]
fn same(a: &Tensor, b: &Tensor) -> bool {
    if a.ty() != b.ty() {
        return false;
    }
    if a.dtype() != DataType::F32 {
        return a.bytes() == b.bytes();
    }
    let (a, b) = (a.to_f32s().unwrap(), b.to_f32s().unwrap());
    let near = |(x, y): (&f32, &f32)| {
        let ulp = f32::EPSILON * y.abs();
        (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= 2.0 * ulp
    };
    a.iter().zip(&b).all(near)
}

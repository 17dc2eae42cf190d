//! QOperator nodes (`QLinearConv`, `com.microsoft::QLinearAdd`, ..) with constant parameters become DequantizeLinear,
//! the float operator, QuantizeLinear: one way to the integer operator for both formats.
//!
//! One line per operator says where its inputs are. Where a parameter is computed at run time the node stays as it is;
//! the reference evaluates it with the same arithmetic.

use super::rules::fresh;
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, rewrite};
use ottava_hal::{DataType, Node, Shape, TensorType, Value, ValueId};
use ottava_ops::MICROSOFT;

/// Where a QOperator's inputs are. Positions of a scale; its zero point follows, the tensor precedes it.
struct Form {
    domain: &'static str,
    op: &'static str,
    /// Float operator and its version.
    float: (&'static str, u32),
    /// Position of an input that is not quantized and comes first.
    plain: Option<usize>,
    /// Positions of quantized tensors, each followed by scale and zero point.
    tensors: &'static [usize],
    /// Position of the output's scale, followed by its zero point.
    out: usize,
    /// Position of an s32 bias.
    bias: Option<usize>,
    /// The zero point is added before rounding.
    zp_before_round: bool,
}

const fn form(
    domain: &'static str,
    op: &'static str,
    float: (&'static str, u32),
    tensors: &'static [usize],
    out: usize,
) -> Form {
    Form { domain, op, float, tensors, out, plain: None, bias: None, zp_before_round: false }
}

static FORMS: &[Form] = &[
    Form { bias: Some(8), ..form("", "QLinearConv", ("Conv", 22), &[0, 3], 6) },
    form("", "QLinearMatMul", ("MatMul", 13), &[0, 3], 6),
    Form { bias: Some(6), ..form(MICROSOFT, "QGemm", ("Gemm", 13), &[0, 3], 7) },
    Form { zp_before_round: true, ..form(MICROSOFT, "QLinearAdd", ("Add", 14), &[0, 3], 6) },
    Form { zp_before_round: true, ..form(MICROSOFT, "QLinearMul", ("Mul", 14), &[0, 3], 6) },
    form(MICROSOFT, "QLinearAveragePool", ("AveragePool", 22), &[0], 3),
    form(MICROSOFT, "QLinearGlobalAveragePool", ("GlobalAveragePool", 22), &[0], 3),
    form(MICROSOFT, "QLinearReduceMean", ("ReduceMean", 18), &[0], 3),
    Form { plain: Some(0), ..form(MICROSOFT, "QLinearWhere", ("Where", 16), &[1, 4], 7) },
    form(MICROSOFT, "QLinearSigmoid", ("Sigmoid", 13), &[0], 3),
    form(MICROSOFT, "QLinearLeakyRelu", ("LeakyRelu", 16), &[0], 3),
    form(MICROSOFT, "QLinearSoftmax", ("Softmax", 13), &[0], 3),
];

/// What the pass does.
pub const ABOUT: About = About { what: "QOperator nodes became typed operators", effect: Effect::Quantizes };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "expand_qoperator", |graph, _, index| {
        let node = &graph.nodes[index];
        let form = FORMS.iter().find(|f| f.op == node.op && f.domain == node.domain);
        form.map_or(Ok(None), |form| expand(graph, index, form))
    })?;
    Ok(n + concat::run(graph)? + graph.remove_dead())
}

fn expand(graph: &Graph, index: usize, form: &Form) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let is_const = |i: usize| node.input(i).is_none_or(|id| graph.constant(id).is_some());
    let params = form.tensors.iter().flat_map(|t| [t + 1, t + 2]).chain([form.out, form.out + 1]);
    if !params.into_iter().all(is_const) || !form.bias.is_none_or(is_const) || refuses(graph, node, form)? {
        return Ok(None);
    }
    let mut patch = Patch::new(graph);
    let mut float = Node::new(node.name.clone(), form.float.0, form.float.1);
    float.attrs = node.attrs.clone();
    ["channels_last", "opset"].iter().for_each(|own| drop(float.attrs.0.remove(*own)));
    float.fused.zp_before_round = form.zp_before_round;
    float.inputs.extend(form.plain.map(|i| node.input(i)));
    for t in form.tensors {
        let axis = weight_axis(form.float.0, *t, node)?;
        let Some(x) = node.input(*t) else { return Ok(None) };
        let real = dequantize(graph, &mut patch, node, x, (node.input(t + 1), node.input(t + 2)), axis);
        float.inputs.push(Some(real));
    }
    if let Some(axes) = node.attrs.ints_opt("axes")? {
        float.attrs.0.remove("axes");
        let data = ottava_hal::Tensor::from_slice(&[axes.len()], axes)?;
        let name = fresh(graph, &patch, &format!("{}_axes", node.name));
        float.inputs.push(Some(super::rules::patch_const(&mut patch, name, data)));
    }
    if let Some(bias) = form.bias.and_then(|i| node.input(i)) {
        let Some(real) = bias_node(graph, &mut patch, node, bias, form)? else { return Ok(None) };
        float.inputs.push(Some(real));
    }
    finish(graph, &mut patch, index, float, form.out)?;
    Ok(Some(patch))
}

/// Forms that the float operator does not express: attributes of other meaning, parameters that are not one number or
/// one per output channel, a bias that is no vector.
fn refuses(graph: &Graph, node: &Node, form: &Form) -> Result<bool> {
    let channels_last = node.attrs.int("channels_last", 0)? != 0;
    let old_softmax = form.float.0 == "Softmax" && node.attrs.int("opset", 13)? < 13;
    let shape = |i: usize| node.input(i).map(|id| &graph.ty(id).shape);
    let many = |i: usize| shape(i).is_some_and(|s| s.elements() != Some(1));
    let activations =
        form.tensors.iter().enumerate().filter(|(i, _)| *i == 0 || form.bias.is_none() && form.op != "QLinearMatMul");
    let per_row = activations.into_iter().any(|(_, t)| many(t + 1)) || many(form.out);
    let matrix = |i: usize| shape(i).is_some_and(|s| s.rank() > 1);
    let tables = form.tensors.iter().any(|t| matrix(t + 1)) || form.bias.is_some_and(matrix);
    Ok(channels_last || old_softmax || per_row || tables)
}

/// The axis along which per-channel parameters of tensor `t` run.
fn weight_axis(op: &str, t: usize, node: &Node) -> Result<i64> {
    Ok(match op {
        _ if t == 0 => 1,
        "Conv" => 0,
        "Gemm" if node.attrs.int("transB", 0)? != 0 => 0,
        "Gemm" => 1,
        _ => -1,
    })
}

fn dequantize(
    graph: &Graph,
    patch: &mut Patch,
    node: &Node,
    x: ValueId,
    params: (Option<ValueId>, Option<ValueId>),
    axis: i64,
) -> ValueId {
    let base = format!("{}_{}_dequantized", node.name, patch.insert.len());
    let ty = TensorType { dtype: DataType::F32, quant: None, ..graph.ty(x).clone() };
    let out = patch.value(Value { name: fresh(graph, patch, &base), ty, constant: None });
    let mut dq = Node::new(fresh(graph, patch, &format!("{base}_node")), "DequantizeLinear", 13);
    dq.attrs.set("axis", Attr::Int(axis));
    dq.inputs = vec![Some(x), params.0, params.1];
    dq.outputs = vec![out];
    patch.insert.push(dq);
    out
}

/// The s32 bias of a convolution stands at scale `xs * ws[c]`.
fn bias_node(graph: &Graph, patch: &mut Patch, node: &Node, bias: ValueId, form: &Form) -> Result<Option<ValueId>> {
    let scale = |t: usize| node.input(t + 1).and_then(|id| graph.constant(id)).map(|t| t.to_f32s());
    let (Some(xs), Some(ws)) = (scale(form.tensors[0]).transpose()?, scale(form.tensors[1]).transpose()?) else {
        return Ok(None);
    };
    let [xs] = xs.as_slice() else { return Ok(None) };
    let alpha = if form.op == "QGemm" { node.attrs.float("alpha", 1.0)? } else { 1.0 };
    let scales: Vec<f32> = ws.iter().map(|w| xs * w * alpha).collect();
    let shape: &[usize] = if scales.len() == 1 { &[] } else { &[scales.len()] };
    let data = ottava_hal::Tensor::from_slice(shape, &scales)?;
    let name = fresh(graph, patch, &format!("{}_bias_scale", node.name));
    let scale = super::rules::patch_const(patch, name, data);
    Ok(Some(dequantize(graph, patch, node, bias, (Some(scale), None), 0)))
}

/// Inserts the float node and the QuantizeLinear behind it (none where the output's scale is absent: float output).
fn finish(graph: &Graph, patch: &mut Patch, index: usize, mut float: Node, out: usize) -> Result<()> {
    let node = &graph.nodes[index];
    patch.remove.push(index);
    let Some(scale) = node.input(out) else {
        float.outputs = node.outputs.clone();
        patch.insert.push(float);
        return Ok(());
    };
    let ty = TensorType { dtype: DataType::F32, quant: None, ..graph.ty(node.outputs[0]).clone() };
    let name = fresh(graph, patch, &format!("{}_real", node.name));
    let real = patch.value(Value { name, ty: TensorType { shape: Shape(ty.shape.0.clone()), ..ty }, constant: None });
    float.outputs = vec![real];
    patch.insert.push(float);
    let mut q = Node::new(fresh(graph, patch, &format!("{}_quantize", node.name)), "QuantizeLinear", 13);
    // Without a zero point the result has the storage of the operand, QuantizeLinear's would be u8.
    let storage = graph.ty(node.outputs[0]).dtype;
    let zero_point = node.input(out + 1).map_or_else(|| zero(graph, patch, node, storage), Ok)?;
    q.inputs = vec![Some(real), Some(scale), Some(zero_point)];
    q.outputs = node.outputs.clone();
    patch.insert.push(q);
    Ok(())
}

fn zero(graph: &Graph, patch: &mut Patch, node: &Node, storage: DataType) -> Result<ValueId> {
    let data = ottava_hal::Tensor::from_ints(storage, &[], &[0])?;
    let name = fresh(graph, patch, &format!("{}_zero_point", node.name));
    Ok(super::rules::patch_const(patch, name, data))
}

/// `QLinearConcat` has its output's parameters first and any number of inputs.
mod concat {
    use super::*;

    pub fn run(graph: &mut Graph) -> Result<usize> {
        rewrite(graph, "expand_qlinear_concat", |graph, _, index| {
            let node = &graph.nodes[index];
            let constant = |i: usize| node.input(i).is_some_and(|id| graph.constant(id).is_some());
            let groups = node.inputs.len().saturating_sub(2) / 3;
            let all_const =
                constant(0) && constant(1) && (0..groups).all(|g| constant(3 * g + 3) && constant(3 * g + 4));
            if node.op != "QLinearConcat" || node.domain != MICROSOFT || !all_const {
                return Ok(None);
            }
            let mut patch = Patch::new(graph);
            let mut float = Node::new(node.name.clone(), "Concat", 13);
            float.attrs = node.attrs.clone();
            for g in 0..groups {
                let Some(x) = node.input(3 * g + 2) else { return Ok(None) };
                let params = (node.input(3 * g + 3), node.input(3 * g + 4));
                float.inputs.push(Some(dequantize(graph, &mut patch, node, x, params, 1)));
            }
            finish(graph, &mut patch, index, float, 0)?;
            Ok(Some(patch))
        })
    }
}

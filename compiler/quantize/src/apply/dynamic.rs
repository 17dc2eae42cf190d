//! Dynamic quantization: integer weights now, activations at run time, row by row, without calibration (numerics, sections
//! 2 and 4).
//!
//! Each row of a matrix product's input is quantized to symmetric s8 with `scale = max|x| / 127` (a zero row takes 1), so
//! one sample never depends on the others of its batch. ONNX has no operator for that; it is written with standard ones:
//!
//! ```text
//! s = Where(max|x|/127 == 0, 1, max|x|/127)     q = Cast(Clip(Round(x / s), -127, 127))
//! y = Cast(MatMulInteger(q, w)) * (s * ws) + bias
//! ```
//!
//! Products of the same input share its quantization. Convolutions would need one scale for a whole sample or batch; they
//! stay in float and are listed.

use std::collections::BTreeMap;

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{Attr, DataType, Dim, Node, Tensor, TensorType, ValueId};

use super::builder::Builder;
use super::emit::internal;
use super::kinds::{Kind, is_float, kind_of};
use super::products::{WeightShape, bias_values, code_tensor};
use super::report::{FloatNode, Report};
use super::{Quantized, check_requests};
use crate::channels::ChannelLayout;
use crate::error::{Error, Result};
use crate::recipe::{Granularity, Recipe};
use crate::weights::{WeightMethod, quantize_weights};

/// ONNX numbers of the element types that Cast writes.
const ONNX_FLOAT: i64 = 1;
const ONNX_INT8: i64 = 3;
/// The first operator set whose ReduceMax takes its axes as an input.
const OPSET: u32 = 18;

/// Quantizes the weights of matrix products; activations are quantized at run time. Bias correction needs calibration data
/// and does nothing here.
pub fn quantize_dynamic(graph: &Graph, recipe: &Recipe) -> Result<Quantized> {
    check_requests(recipe)?;
    if recipe.weights.dtype != DataType::S8 {
        return Err(Error::Unsupported {
            what: format!("dynamic quantization with {} weights", recipe.weights.dtype),
            reason: "MatMulInteger multiplies s8 by s8 here".to_owned(),
            help: "take S8 weights".to_owned(),
        });
    }
    let mut report = Report { recipe: recipe.to_ron(), ..Report::default() };
    let mut writer = Writer { source: graph, builder: Builder::new(graph.clone()), rows: BTreeMap::new() };
    let mut replaced = vec![false; graph.nodes.len()];
    for (idx, node) in graph.nodes.iter().enumerate() {
        match refusal(graph, recipe, node) {
            None => {
                writer.product(node, recipe)?;
                replaced[idx] = true;
                report.quantized.push(node.name.clone());
            }
            Some(reason) if node.outputs.iter().any(|out| is_float(graph, *out)) => {
                report.float.push(FloatNode { name: node.name.clone(), op: node.full_op(), reason });
            }
            Some(_) => {}
        }
    }
    if recipe.integer_only {
        super::report::expect_integer_only(&report)?;
    }
    let mut position = 0..;
    let is_replaced = |idx: usize| replaced.get(idx).copied().unwrap_or(false);
    writer.builder.graph.nodes.retain(|_| !position.next().is_some_and(is_replaced));
    let graph = writer.builder.finish().map_err(internal)?;
    Ok(Quantized { graph, report, diagnostics: Vec::<Diagnostic>::new() })
}

/// Why a node stays as it is; `None` if it becomes an integer product.
fn refusal(graph: &Graph, recipe: &Recipe, node: &Node) -> Option<String> {
    if !matches!(node.op.as_str(), "MatMul" | "Gemm") || !node.domain.is_empty() {
        let conv = matches!(node.op.as_str(), "Conv" | "ConvTranspose");
        let reason = match conv {
            true => "a convolution quantized at run time would share one scale among all its positions",
            false => "dynamic quantization covers matrix products",
        };
        return Some(reason.to_owned());
    }
    if let Kind::Float(reason) = kind_of(graph, node) {
        return Some(reason);
    }
    if recipe.for_node(&node.name).activations.is_none() {
        return Some("the recipe keeps it in float".to_owned());
    }
    let weights = node.input(1).and_then(|w| graph.constant(w));
    let computed = node.input(0).is_some_and(|x| graph.constant(x).is_none() && is_float(graph, x));
    match weights {
        Some(w) if w.shape().len() == 2 && w.dtype() == DataType::F32 && computed => None,
        _ => Some("its second operand is not a constant matrix".to_owned()),
    }
}

/// Rows quantized at run time: integers and scales.
#[derive(Clone, Copy)]
struct Rows {
    codes: ValueId,
    scales: ValueId,
}

struct Writer<'a> {
    source: &'a Graph,
    builder: Builder,
    rows: BTreeMap<ValueId, Rows>,
}

impl Writer<'_> {
    fn product(&mut self, node: &Node, recipe: &Recipe) -> Result<()> {
        let (Some(x), Some(w)) = (node.input(0), node.input(1)) else { return Ok(()) };
        let (matrix, columns) = self.weight_matrix(node, w)?;
        let per_channel = recipe.for_node(&node.name).weights.granularity == Granularity::PerChannel;
        let channels = if per_channel { columns } else { 1 };
        let inner = if per_channel { 1 } else { matrix.len() };
        let grid = recipe.weights.grid();
        let name = self.source.name_of(w).to_owned();
        let layout = ChannelLayout { channels, inner };
        let q = quantize_weights(&name, &matrix, layout, grid, WeightMethod::MinMax)?;
        let codes = code_tensor(DataType::S8, &[matrix.len() / columns, columns], &q.codes).map_err(internal)?;
        let codes = self.builder.constant(format!("{name}/q"), codes);
        let scales = Tensor::from_slice(&[channels], &q.scales).map_err(internal)?;
        let scales = self.builder.constant(format!("{name}/scale"), scales);

        let rows = self.rows(x)?;
        let out = node.outputs[0];
        let base = node.name.as_str();
        let y = self.source.ty(out).clone();
        let sums = TensorType { dtype: DataType::S32, ..y.clone() };
        let sums = self.builder.node("MatMulInteger", base, &[rows.codes, codes], sums);
        let real = self.cast(base, sums, ONNX_FLOAT, y.clone());
        let scale = self.builder.node("Mul", base, &[rows.scales, scales], y.clone());
        let Some(bias) = node.input(2) else {
            self.builder.node_into("Mul", base, &[real, scale], out);
            return Ok(());
        };
        let bias = Tensor::from_slice(&[columns], &bias_values(self.source, bias, columns)?).map_err(internal)?;
        let bias = self.builder.constant(format!("{base}/bias"), bias);
        let scaled = self.builder.node("Mul", base, &[real, scale], y);
        self.builder.node_into("Add", base, &[scaled, bias], out);
        Ok(())
    }

    /// The weights as a matrix with one output per column.
    fn weight_matrix(&self, node: &Node, w: ValueId) -> Result<(Vec<f32>, usize)> {
        let shape = WeightShape::of(self.source, node);
        let data = self.source.constant(w).and_then(|t| t.to_f32s().ok().zip(Some(t.shape().to_vec())));
        let (Some(shape), Some((data, dims))) = (shape, data) else {
            let tensor = self.source.name_of(w).to_owned();
            return Err(Error::BadWeights {
                tensor,
                found: "no float matrix".into(),
                expected: "a float matrix".into(),
            });
        };
        let columns = shape.out_channels;
        if shape.axis == 1 {
            return Ok((data, columns));
        }
        let inner = dims[1];
        let transposed = (0..data.len()).map(|idx| data[(idx % columns) * inner + idx / columns]).collect();
        Ok((transposed, columns))
    }

    /// The rows of `x`, quantized once for all products that read them.
    fn rows(&mut self, x: ValueId) -> Result<Rows> {
        if let Some(rows) = self.rows.get(&x) {
            return Ok(*rows);
        }
        let name = self.source.name_of(x).to_owned();
        let ty = self.source.ty(x).clone();
        let mut dims = ty.shape.clone();
        if let Some(last) = dims.0.last_mut() {
            *last = Dim::Known(1);
        }
        let row = TensorType { shape: dims.clone(), ..ty.clone() };
        let flag = TensorType { dtype: DataType::Bool, shape: dims, ..ty.clone() };
        let axes = Tensor::from_slice(&[1], &[-1i64]).map_err(internal)?;
        let axes = self.builder.constant(format!("{name}/axes"), axes);
        let [zero, one, low, high] =
            [0.0f32, 1.0, -127.0, 127.0].map(|v| self.builder.constant(format!("{name}/{v}"), Tensor::scalar(v)));
        let magnitudes = self.builder.node("Abs", &name, &[x], ty.clone());
        let largest = self.builder.value(name.clone(), row.clone());
        let reduce = self.builder.node_into("ReduceMax", &name, &[magnitudes, axes], largest);
        reduce.attrs.set("keepdims", Attr::Int(1));
        reduce.version = OPSET;
        let scale = self.builder.node("Div", &name, &[largest, high], row.clone());
        let is_zero = self.builder.node("Equal", &name, &[scale, zero], flag);
        let scales = self.builder.node("Where", &name, &[is_zero, one, scale], row);
        let quotient = self.builder.node("Div", &name, &[x, scales], ty.clone());
        let rounded = self.builder.node("Round", &name, &[quotient], ty.clone());
        let clipped = self.builder.node("Clip", &name, &[rounded, low, high], ty.clone());
        let codes = TensorType { dtype: DataType::S8, ..ty };
        let codes = self.cast(&name, clipped, ONNX_INT8, codes);
        let rows = Rows { codes, scales };
        self.rows.insert(x, rows);
        Ok(rows)
    }

    fn cast(&mut self, base: &str, input: ValueId, to: i64, ty: TensorType) -> ValueId {
        let out = self.builder.value(format!("{base}/cast"), ty);
        self.builder.node_into("Cast", base, &[input], out).attrs.set("to", Attr::Int(to));
        out
    }
}

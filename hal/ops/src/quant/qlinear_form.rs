//! com.microsoft operators with scales as inputs that are nothing but typed ONNX operators: the parameters move into
//! the types and the typed operator computes.
//!
//! * (C1) QLinearSigmoid and QLinearLeakyRelu are 256-entry tables.
//! * (C2) QLinearAveragePool, QLinearGlobalAveragePool and QLinearReduceMean are integer sums with
//!   `m = fl32(xs / fl32(ys * n))`; `channels_last` is refused.
//! * (C3) QLinearSoftmax is `softmax_lut`; its attribute `opset` below 13 coerces to a matrix.
//! * (C4) QLinearConcat and QLinearWhere requantize each input to the output's parameters, equal ones are copied.

use super::typed_form::{Operand, eval, infer_as, renamed, result, triple};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::{Attr, DataType, Error, Node, Reason, Result, Tensor, TensorType};

/// Which operands a form has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// X, scale, zero point; scale, zero point of the output.
    Unary,
    /// As `Unary`; the axes are an attribute.
    Reduce,
    /// Condition, X and Y with their parameters, the output's parameters.
    Where,
    /// The output's parameters, then any number of inputs with theirs.
    Concat,
}

/// An operator by its typed form.
pub struct QLinearForm {
    spec: OpSpec,
    layout: Layout,
    inner: &'static str,
    /// Position in [`FORMS`].
    index: usize,
}

const fn form(
    index: usize,
    name: &'static str,
    inner: &'static str,
    layout: Layout,
    inputs: (usize, usize),
    attrs: &'static [AttrSpec],
) -> QLinearForm {
    let spec = OpSpec { name, domain: MICROSOFT, since: 1, inputs, outputs: (1, 1), attrs };
    QLinearForm { spec, layout, inner, index }
}

const fn int(name: &'static str) -> AttrSpec {
    AttrSpec::optional(name, AttrKind::Int)
}

const fn list(name: &'static str) -> AttrSpec {
    AttrSpec::optional(name, AttrKind::Ints)
}

const POOL: &[AttrSpec] = &[
    AttrSpec::optional("auto_pad", AttrKind::Str),
    int("ceil_mode"),
    int("channels_last"),
    int("count_include_pad"),
    list("kernel_shape"),
    list("pads"),
    list("strides"),
];

/// The operators of this file.
pub static FORMS: [QLinearForm; 8] = [
    form(0, "QLinearSigmoid", "Sigmoid", Layout::Unary, (4, 5), &[]),
    form(1, "QLinearLeakyRelu", "LeakyRelu", Layout::Unary, (4, 5), &[AttrSpec::optional("alpha", AttrKind::Float)]),
    form(2, "QLinearSoftmax", "Softmax", Layout::Unary, (5, 5), &[int("axis"), int("opset")]),
    form(3, "QLinearAveragePool", "AveragePool", Layout::Unary, (4, 5), POOL),
    form(4, "QLinearGlobalAveragePool", "GlobalAveragePool", Layout::Unary, (5, 5), &[int("channels_last")]),
    form(5, "QLinearReduceMean", "ReduceMean", Layout::Reduce, (4, 5), &[list("axes"), int("keepdims")]),
    form(6, "QLinearWhere", "Where", Layout::Where, (9, 9), &[]),
    form(7, "QLinearConcat", "Concat", Layout::Concat, (5, usize::MAX), &[AttrSpec::required("axis", AttrKind::Int)]),
];

impl QLinearForm {
    /// The typed ONNX node.
    fn node(&self, node: &Node) -> Result<Node> {
        if node.attrs.int("channels_last", 0)? != 0 {
            let what = format!("{} with channels_last; transpose to channels first", node.full_op());
            return Err(Error::unsupported(Reason::Layout, what));
        }
        let version = match self.inner {
            "Softmax" => u32::try_from(node.attrs.int("opset", 13)?).unwrap_or(13),
            _ => 22,
        };
        Ok(renamed(node, self.inner, version))
    }

    /// Inputs that hold data, in the typed operator's order.
    fn data(&self, n_inputs: usize) -> Vec<usize> {
        match self.layout {
            Layout::Unary | Layout::Reduce => vec![0],
            Layout::Where => vec![0, 1, 4],
            Layout::Concat => (2..n_inputs).step_by(3).collect(),
        }
    }

    /// The axes attribute as the operand that ReduceMean reads.
    fn axes(node: &Node) -> Result<Option<Tensor>> {
        let axes = node.attrs.ints_opt("axes")?;
        axes.map(|a| Tensor::from_slice(&[a.len()], a)).transpose()
    }
}

impl Op for QLinearForm {
    fn spec(&self) -> &'static OpSpec {
        &FORMS[self.index].spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let node = self.node(cx.node)?;
        let data = self.data(cx.inputs.len());
        let dtype = cx.dtype(*data.last().unwrap_or(&0))?;
        if self.layout == Layout::Reduce {
            let axes = Self::axes(cx.node)?;
            let ty = axes.as_ref().map(Tensor::ty);
            let mut inputs = vec![Some(cx.input(0)?)];
            inputs.push(ty.as_ref().map(|ty| crate::InferInput { ty, constant: axes.as_ref() }));
            let shape = crate::infer(&InferCx { node: &node, inputs: &inputs })?.remove(0).shape;
            return Ok(vec![TensorType::new(dtype, shape)]);
        }
        let inputs: Vec<Option<usize>> = data.into_iter().map(Some).collect();
        Ok(vec![infer_as(cx, &node, &inputs, dtype)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let node = self.node(cx.node)?;
        let axes = Self::axes(cx.node)?.filter(|_| self.layout == Layout::Reduce);
        let data = self.data(cx.inputs.len());
        let like = cx.input(*data.last().unwrap_or(&0))?.dtype();
        let mut operands = Vec::with_capacity(data.len() + 1);
        for (k, &i) in data.iter().enumerate() {
            let is_condition = self.layout == Layout::Where && k == 0;
            operands.push(if is_condition { Operand::plain(cx.opt(i)) } else { triple(cx, i)? });
        }
        if axes.is_some() {
            operands.push(Operand::plain(axes.as_ref()));
        }
        let at = match self.layout {
            Layout::Unary | Layout::Reduce => 3,
            Layout::Where => 7,
            Layout::Concat => 0,
        };
        Ok(vec![eval(&node, &operands, Some(result(cx, at, like)?))?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("form", self.spec.name, 1);
        node.domain = MICROSOFT.into();
        let (real, byte) = (|v: f32| f32s(&[], &[v]), |v: i64| ints(DataType::U8, &[], &[v]));
        let bytes = |shape: &[usize], v: &[i64]| ints(DataType::U8, shape, v);
        let with_params = |x: Tensor| [x, real(0.5), byte(10), real(0.5), byte(0)];
        let (inputs, y): (Vec<Tensor>, Tensor) = match self.inner {
            // Reals 0 and 8 at scale 1/256: 128, and 255.9 saturates.
            "Sigmoid" => {
                let [x, xs, xz, _, _] = with_params(bytes(&[2], &[10, 26]));
                (vec![x, xs, xz, real(1.0 / 256.0), byte(0)], bytes(&[2], &[128, 255]))
            }
            "LeakyRelu" => {
                node.attrs.set("alpha", Attr::Float(0.5));
                let [x, xs, xz, ys, _] = with_params(bytes(&[2], &[2, 14]));
                (vec![x, xs, xz, ys, byte(100)], bytes(&[2], &[96, 104]))
            }
            "Softmax" => {
                let [x, xs, xz, _, yz] = with_params(bytes(&[1, 2], &[7, 7]));
                (vec![x, xs, xz, real(1.0 / 256.0), yz], bytes(&[1, 2], &[128, 128]))
            }
            "AveragePool" => {
                node.attrs.set("kernel_shape", Attr::Ints(vec![2]));
                (with_params(bytes(&[1, 1, 3], &[11, 12, 15])).to_vec(), bytes(&[1, 1, 2], &[2, 4]))
            }
            "GlobalAveragePool" => (with_params(bytes(&[1, 1, 2], &[11, 12])).to_vec(), bytes(&[1, 1, 1], &[2])),
            "ReduceMean" => {
                node.attrs.set("axes", Attr::Ints(vec![1]));
                (with_params(bytes(&[1, 2], &[12, 13])).to_vec(), bytes(&[1, 1], &[2]))
            }
            "Where" => {
                let condition = Tensor::from_bools(&[2], &[true, false]).expect("two conditions fit the shape");
                let [x, xs, xz, ys, yz] = with_params(bytes(&[2], &[11, 12]));
                let [w, ws, wz, ..] = with_params(bytes(&[2], &[0, 20]));
                (vec![condition, x, xs, xz, w, ws, wz, ys, yz], bytes(&[2], &[1, 10]))
            }
            _ => {
                node.attrs.set("axis", Attr::Int(0));
                // The first input has the output's parameters and is copied, the second is 1.5 / 0.5.
                let second = [bytes(&[1], &[6]), real(0.25), byte(0)];
                let mut inputs = vec![real(0.5), byte(10), bytes(&[1], &[200]), real(0.5), byte(10)];
                inputs.extend(second);
                (inputs, bytes(&[2], &[200, 13]))
            }
        };
        vec![case_const("parameters_as_inputs", node, 1, &inputs, &[y])]
    }
}

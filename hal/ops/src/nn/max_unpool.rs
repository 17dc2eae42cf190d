//! `MaxUnpool`: puts each element back where MaxPool found it; everything else is 0.
//!
//! * (C1) Indices count within the tensor that the attributes imply; `output_shape` only enlarges it.

use super::real::{Real, alloc, count, with_real};
use super::window::list;
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The inverse of a maximum pool.
pub struct MaxUnpool;

static SPEC: OpSpec = OpSpec {
    name: "MaxUnpool",
    domain: "",
    since: 9,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::required("kernel_shape", AttrKind::Ints),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

/// The extent that the attributes imply on one axis.
struct Extents {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    pads: Vec<usize>,
}

impl Extents {
    fn parse(attrs: &Attrs, rank: usize) -> Result<Self> {
        let of = |name: &str, len: usize, least: i64, default: usize| {
            attrs.ints_opt(name)?.map_or(Ok(vec![default; len]), |v| list(name, v, len, least))
        };
        let kernel = of("kernel_shape", rank, 1, 1)?;
        Ok(Self { kernel, strides: of("strides", rank, 1, 1)?, pads: of("pads", 2 * rank, 0, 0)? })
    }

    fn of(&self, i: usize, n: usize) -> Result<usize> {
        let full = n.saturating_sub(1).checked_mul(self.strides[i]).and_then(|v| v.checked_add(self.kernel[i]));
        let pads = self.pads[i] + self.pads[i + self.kernel.len()];
        let extent = full.and_then(|v| v.checked_sub(pads));
        extent.ok_or_else(|| Error::invalid(format!("MaxUnpool: axis {i} of extent {n} has no output")))
    }
}

impl Op for MaxUnpool {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.shape(0)?;
        if cx.any_open(&[2]) {
            return Ok(vec![cx.open(cx.dtype(0)?, Some(x.len()))?]);
        }
        if let Some(shape) = cx.opt_const_ints(2)? {
            let dim =
                |&n: &i64| usize::try_from(n).map(Dim::Known).map_err(|_| Error::invalid("MaxUnpool: negative shape"));
            return Ok(vec![cx.ty(cx.dtype(0)?, shape.iter().map(dim).collect::<Result<_>>()?)]);
        }
        let rank = x.len().checked_sub(2).ok_or_else(|| Error::invalid("MaxUnpool: input of rank below 2"))?;
        let extents = Extents::parse(cx.attrs(), rank)?;
        let mut dims = x[..2].to_vec();
        for (i, d) in x[2..].iter().enumerate() {
            dims.push(match d.known() {
                Some(n) => Dim::Known(extents.of(i, n)?),
                None => cx.fresh(0, i + 2),
            });
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let y = with_real!(x.dtype(), "MaxUnpool", T => unpool::<T>(cx, x))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("unpool", "MaxUnpool", 22);
        node.attrs = Attrs::default().with("kernel_shape", Attr::Ints(vec![2])).with("strides", Attr::Ints(vec![2]));
        let inputs = [f32s(&[1, 1, 2], &[5.0, 7.0]), ints(DataType::S64, &[1, 1, 2], &[1, 2])];
        vec![case("c1_elements_return", node, &inputs, &[f32s(&[1, 1, 4], &[0.0, 5.0, 7.0, 0.0])])]
    }
}

fn unpool<T: Real>(cx: &EvalCx, x: &Tensor) -> Result<Tensor> {
    let rank = x.shape().len().checked_sub(2).ok_or_else(|| Error::invalid("MaxUnpool: input of rank below 2"))?;
    let extents = Extents::parse(cx.attrs(), rank)?;
    let mut implied = x.shape()[..2].to_vec();
    for (i, &n) in x.shape()[2..].iter().enumerate() {
        implied.push(extents.of(i, n)?);
    }
    let shape = match cx.opt_ints(2)? {
        Some(s) => list("output_shape", &s, x.shape().len(), 0)?,
        None => implied.clone(),
    };
    if shape.iter().zip(&implied).any(|(a, b)| a < b) {
        return Err(Error::invalid(format!("MaxUnpool: output_shape {shape:?} is below {implied:?}")));
    }
    let (inner, outer) = (util::strides(&implied), util::strides(&shape));
    let (limit, data) = (count(&implied)?, T::read(x)?);
    let mut y = alloc::<T>(count(&shape)?)?;
    for (v, i) in data.into_iter().zip(cx.input(1)?.to_ints()?) {
        let i = usize::try_from(i).ok().filter(|&i| i < limit);
        let i = i.ok_or_else(|| Error::invalid(format!("MaxUnpool: an index is outside {implied:?}")))?;
        let place: usize = (0..shape.len()).map(|d| i / inner[d] % implied[d] * outer[d]).sum();
        y[place] = v;
    }
    T::write(x.dtype(), &shape, &y)
}

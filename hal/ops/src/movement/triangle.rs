//! Trilu (one triangle of each matrix) and CenterCropPad (each axis cut or filled around its middle).
//!
//! * (C1) the rest is 0, on quantized data the real 0.

use super::expand::extents;
use super::pad::take_rows;
use super::pick::on_bytes;
use crate::elementwise::sample::{case, case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

static TRILU: OpSpec = OpSpec {
    name: "Trilu",
    domain: "",
    since: 14,
    inputs: (1, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("upper", AttrKind::Int)],
};
static CROP: OpSpec = OpSpec {
    name: "CenterCropPad",
    domain: "",
    since: 18,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axes", AttrKind::Ints)],
};

/// The upper or lower triangle.
pub struct Trilu;
/// Each axis cut or filled around its middle.
pub struct CenterCropPad;

impl Op for Trilu {
    fn spec(&self) -> &'static OpSpec {
        &TRILU
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let &[.., rows, columns] = x.shape() else {
            return Err(Error::invalid(format!("Trilu: expected matrices, found {:?}", x.shape())));
        };
        let upper = cx.attrs().int("upper", 1)? != 0;
        let k = match cx.opt_ints(1)?.as_deref() {
            None => 0,
            Some(&[k]) => i128::from(k),
            Some(other) => return Err(Error::invalid(format!("Trilu: k is {other:?}, expected one number"))),
        };
        let clear = |row: usize| {
            // The diagonal's column is the first of the upper and the last of the lower triangle.
            let column = |shift: i128| (row as i128 + k + shift).clamp(0, columns as i128) as usize;
            if upper { 0..column(0) } else { column(1)..columns }
        };
        let triangle = on_bytes(x, |x| {
            let (mut y, width) = (x.clone(), x.dtype().bits() / 8);
            let lines = y.bytes_mut().chunks_exact_mut((columns * width).max(1)).enumerate();
            for (i, line) in lines {
                let cleared = clear(i % rows.max(1));
                line[cleared.start * width..cleared.end * width].fill(0);
            }
            Ok(y)
        })?;
        Ok(vec![triangle])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("trilu", "Trilu", 14);
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let k = ints(DataType::S64, &[], &[1]);
        let upper = case_const("upper", node.clone(), 1, &[x.clone(), k], &[f32s(&[2, 3], &[0., 2., 3., 0., 0., 6.])]);
        node.attrs = Attrs::default().with("upper", Attr::Int(0));
        vec![upper, case("lower", node, &[x], &[f32s(&[2, 3], &[1., 0., 0., 4., 5., 0.])])]
    }
}

impl Op for CenterCropPad {
    fn spec(&self) -> &'static OpSpec {
        &CROP
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let Some(sizes) = cx.known_ints(1)? else {
            let all: Vec<i64> = (0..dims.len() as i64).collect();
            let axes = cx.attrs().ints_opt("axes")?.unwrap_or(&all);
            let axes = axes.iter().map(|&a| util::axis(a, dims.len())).collect::<Result<Vec<_>>>()?;
            return Ok(vec![cx.open_along(&axes)?]);
        };
        for (axis, size) in targets(cx.attrs(), &sizes, dims.len())? {
            dims[axis] = Dim::Known(size);
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let targets = targets(cx.attrs(), &cx.input(1)?.to_ints()?, x.shape().len())?;
        let y = on_bytes(x, |x| {
            let mut y = x.clone();
            for &(axis, size) in &targets {
                let n = y.shape()[axis];
                let (crop, fill) = (n.saturating_sub(size) / 2, size.saturating_sub(n) / 2);
                let row = |i: usize| i.checked_sub(fill).map(|i| i + crop).filter(|&i| i < n);
                y = take_rows(&y, axis, size, row, &[0])?;
            }
            Ok(y)
        })?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("center", "CenterCropPad", 18);
        node.attrs = Attrs::default().with("axes", Attr::Ints(vec![-1]));
        let x = f32s(&[1, 3], &[1.0, 2.0, 3.0]);
        let size = |n| ints(DataType::S64, &[1], &[n]);
        vec![
            case_const("crop", node.clone(), 1, &[x.clone(), size(1)], &[f32s(&[1, 1], &[2.0])]),
            case_const("c1_pad", node, 1, &[x, size(6)], &[f32s(&[1, 6], &[0.0, 1.0, 2.0, 3.0, 0.0, 0.0])]),
        ]
    }
}

fn targets(attrs: &Attrs, sizes: &[i64], rank: usize) -> Result<Vec<(usize, usize)>> {
    let all: Vec<i64> = (0..rank as i64).collect();
    let axes = attrs.ints_opt("axes")?.unwrap_or(&all);
    if axes.len() != sizes.len() {
        return Err(Error::invalid(format!("CenterCropPad: {} sizes for {} axes", sizes.len(), axes.len())));
    }
    axes.iter().zip(extents(sizes)?).map(|(&a, size)| Ok((util::axis(a, rank)?, size))).collect()
}

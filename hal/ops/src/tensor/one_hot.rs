//! OneHot: an axis of `depth` with one "on" value per index; EyeLike: a diagonal of ones.
//!
//! * (C1) negative indices count from the end; an index outside `[-depth, depth - 1]` gives a row of "off" values.

use crate::elementwise::cast::cast;
use crate::elementwise::sample::{case, case_const, f32s, ints};
use crate::movement::expand::expand_to;
use crate::movement::pick::{pick, pick_between};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

static ONE_HOT: OpSpec = OpSpec {
    name: "OneHot",
    domain: "",
    since: 9,
    inputs: (3, 3),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int)],
};
static EYE_LIKE: OpSpec = OpSpec {
    name: "EyeLike",
    domain: "",
    since: 9,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("dtype", AttrKind::Int), AttrSpec::optional("k", AttrKind::Int)],
};

/// Indices to rows with one "on" value.
pub struct OneHot;
/// A matrix with ones on a diagonal.
pub struct EyeLike;

impl Op for OneHot {
    fn spec(&self) -> &'static OpSpec {
        &ONE_HOT
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        let axis = util::axis(cx.attrs().int("axis", -1)?, dims.len() + 1)?;
        let depth = cx.input(1)?.constant.map(depth_of).transpose()?;
        dims.insert(axis, depth.map_or_else(|| cx.fresh(0, axis), Dim::Known));
        Ok(vec![cx.ty(cx.dtype(2)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let indices = cast(cx.input(0)?, DataType::S64)?;
        let (depth, values) = (depth_of(cx.input(1)?)?, cx.input(2)?);
        if values.elements() != 2 {
            return Err(Error::invalid(format!("OneHot: values have shape {:?}, expected [off, on]", values.shape())));
        }
        let mut shape = indices.shape().to_vec();
        let axis = util::axis(cx.attrs().int("axis", -1)?, shape.len() + 1)?;
        shape.insert(axis, depth);
        let mut mask = util::output(DataType::Bool, &shape)?;
        let inner = shape[axis + 1..].iter().product::<usize>();
        for (i, &index) in indices.as_slice::<i64>()?.iter().enumerate() {
            if let Some(hot) = hot(index, depth) {
                mask.bytes_mut()[(i / inner * depth + hot) * inner + i % inner] = 1;
            }
        }
        let (off, on) = (pick(values, &[], &[0])?, pick(values, &[], &[1])?);
        Ok(vec![pick_between(mask.bytes(), &expand_to(&on, &shape)?, &expand_to(&off, &shape)?)?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("hot", "OneHot", 11);
        let i = |v: &[i64]| ints(DataType::S64, &[v.len()], v);
        let inputs = [i(&[1, -1, 9]), i(&[3]), f32s(&[2], &[0.0, 5.0])];
        let last = f32s(&[3, 3], &[0.0, 5.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]);
        let first = f32s(&[3, 3], &[0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 5.0, 0.0]);
        let plain = case_const("c1_last_axis", node.clone(), 1, &inputs, &[last]);
        node.attrs = Attrs::default().with("axis", Attr::Int(0));
        vec![plain, case_const("first_axis", node, 1, &inputs, &[first])]
    }
}

fn depth_of(depth: &Tensor) -> Result<usize> {
    match cast(depth, DataType::S64)?.as_slice::<i64>()? {
        [d @ 0..=0x7fff_ffff] => Ok(*d as usize),
        other => Err(Error::invalid(format!("OneHot: depth is {other:?}, expected one number from 0"))),
    }
}

/// (C1)
fn hot(index: i64, depth: usize) -> Option<usize> {
    let depth = depth as i64;
    (-depth..depth).contains(&index).then(|| index.rem_euclid(depth) as usize)
}

impl Op for EyeLike {
    fn spec(&self) -> &'static OpSpec {
        &EYE_LIKE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(eye_dtype(cx.attrs(), cx.dtype(0)?)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let &[rows, columns] = x.shape() else {
            return Err(Error::invalid(format!("EyeLike: expected a matrix, found {:?}", x.shape())));
        };
        let mut ones = util::output(DataType::Bool, &[rows, columns])?;
        let k = i128::from(cx.attrs().int("k", 0)?);
        for row in 0..rows {
            match usize::try_from(row as i128 + k) {
                Ok(column) if column < columns => ones.bytes_mut()[row * columns + column] = 1,
                _ => {}
            }
        }
        Ok(vec![cast(&ones, eye_dtype(cx.attrs(), x.dtype())?)?])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("eye", "EyeLike", 9);
        node.attrs = Attrs::default().with("k", Attr::Int(1));
        vec![case("upper", node, &[f32s(&[2, 2], &[9.0; 4])], &[f32s(&[2, 2], &[0.0, 1.0, 0.0, 0.0])])]
    }
}

fn eye_dtype(attrs: &Attrs, input: DataType) -> Result<DataType> {
    attrs.int_opt("dtype")?.map_or(Ok(input), util::onnx_dtype)
}

//! DepthToSpace and SpaceToDepth: blocks of channels to blocks of pixels and back.
//!
//! * (C1) DepthToSpace mode DCR reads the channels as [block, block, C'], CRD as [C', block, block].

use super::transpose::permute;
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Result, Tensor, TensorType};

static TO_SPACE: OpSpec = OpSpec {
    name: "DepthToSpace",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("blocksize", AttrKind::Int), AttrSpec::optional("mode", AttrKind::Str)],
};
static TO_DEPTH: OpSpec = OpSpec {
    name: "SpaceToDepth",
    domain: "",
    since: 1,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("blocksize", AttrKind::Int)],
};

/// Channels to pixels.
pub struct DepthToSpace;
/// Pixels to channels.
pub struct SpaceToDepth;

impl Op for DepthToSpace {
    fn spec(&self) -> &'static OpSpec {
        &TO_SPACE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (b, [n, c, h, w]) = (block(cx.attrs())?, four(cx.shape(0)?)?);
        let times = |axis: usize, d: &Dim| scale(d, |v| v.checked_mul(b), || cx.fresh(0, axis));
        let channels = scale(&c, |v| v.is_multiple_of(b * b).then(|| v / (b * b)), || cx.fresh(0, 1))?;
        Ok(vec![cx.ty(cx.dtype(0)?, vec![n, channels, times(2, &h)?, times(3, &w)?])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, b) = (cx.input(0)?, block(cx.attrs())?);
        let [n, c, h, w] = four(x.shape())?;
        let out = c / (b * b);
        let spread = match cx.attrs().str("mode", "DCR")? {
            "DCR" => permute(&x.reshaped(&[n, b, b, out, h, w])?, &[0, 3, 4, 1, 5, 2])?,
            "CRD" => permute(&x.reshaped(&[n, out, b, b, h, w])?, &[0, 1, 4, 2, 5, 3])?,
            other => return Err(Error::invalid(format!("DepthToSpace: mode is `{other}`, expected DCR or CRD"))),
        };
        Ok(vec![spread.reshaped(&[n, out, h * b, w * b])?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let x: Vec<f32> = (0..8u8).map(f32::from).collect();
        let x = f32s(&[1, 8, 1, 1], &x);
        vec![
            case("c1_dcr", node("DepthToSpace", "DCR"), &[x.clone()], &[f32s(&[1, 2, 2, 2], &[0., 2., 4., 6., 1., 3., 5., 7.])]),
            case("c1_crd", node("DepthToSpace", "CRD"), &[x], &[f32s(&[1, 2, 2, 2], &[0., 1., 2., 3., 4., 5., 6., 7.])]),
        ]
    }
}

impl Op for SpaceToDepth {
    fn spec(&self) -> &'static OpSpec {
        &TO_DEPTH
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (b, [n, c, h, w]) = (block(cx.attrs())?, four(cx.shape(0)?)?);
        let divided =
            |axis: usize, d: &Dim| scale(d, |v| v.is_multiple_of(b).then(|| v / b), || cx.fresh(0, axis));
        let channels = scale(&c, |v| v.checked_mul(b * b), || cx.fresh(0, 1))?;
        Ok(vec![cx.ty(cx.dtype(0)?, vec![n, channels, divided(2, &h)?, divided(3, &w)?])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, b) = (cx.input(0)?, block(cx.attrs())?);
        let [n, c, h, w] = four(x.shape())?;
        let blocks = permute(&x.reshaped(&[n, c, h / b, b, w / b, b])?, &[0, 3, 5, 1, 2, 4])?;
        Ok(vec![blocks.reshaped(&[n, c * b * b, h / b, w / b])?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = node("SpaceToDepth", "DCR");
        node.attrs.0.remove("mode");
        let (x, y) = (f32s(&[1, 1, 2, 2], &[1., 2., 3., 4.]), f32s(&[1, 4, 1, 1], &[1., 2., 3., 4.]));
        vec![case("one_block", node, &[x], &[y])]
    }
}

fn node(op: &str, mode: &str) -> Node {
    let mut node = Node::new("blocks", op, 13);
    node.attrs = Attrs::default().with("blocksize", Attr::Int(2)).with("mode", Attr::Str(mode.into()));
    node
}

fn block(attrs: &Attrs) -> Result<usize> {
    match attrs.int("blocksize", 0)? {
        b @ 1..=65536 => Ok(b as usize),
        other => Err(Error::invalid(format!("blocksize is {other}, expected 1 to 65536"))),
    }
}

fn four<T: Clone + std::fmt::Debug>(shape: &[T]) -> Result<[T; 4]> {
    shape.to_vec().try_into().map_err(|s| Error::invalid(format!("expected a shape [N, C, H, W], found {s:?}")))
}

fn scale(dim: &Dim, f: impl Fn(usize) -> Option<usize>, fresh: impl Fn() -> Dim) -> Result<Dim> {
    match dim.known() {
        None => Ok(fresh()),
        Some(n) => f(n).map(Dim::Known).ok_or_else(|| Error::invalid(format!("an extent of {n} does not fit the blocks"))),
    }
}

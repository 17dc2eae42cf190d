//! DepthToSpace and SpaceToDepth: blocks of channels to blocks of pixels and back.
//!
//! * (C1) mode DCR has the channels as [block, block, C'], CRD as [C', block, block].

use super::transpose::permute;
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Result, Tensor, TensorType};

const ATTRS: &[AttrSpec] = &[AttrSpec::required("blocksize", AttrKind::Int), AttrSpec::optional("mode", AttrKind::Str)];

static TO_SPACE: OpSpec =
    OpSpec { name: "DepthToSpace", domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs: ATTRS };
static TO_DEPTH: OpSpec =
    OpSpec { name: "SpaceToDepth", domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs: ATTRS };

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
        let spread = if blocks_first(cx.attrs())? {
            permute(&x.reshaped(&[n, b, b, out, h, w])?, &[0, 3, 4, 1, 5, 2])?
        } else {
            permute(&x.reshaped(&[n, out, b, b, h, w])?, &[0, 1, 4, 2, 5, 3])?
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
            case(
                "c1_dcr",
                node("DepthToSpace", "DCR"),
                std::slice::from_ref(&x),
                &[f32s(&[1, 2, 2, 2], &[0., 2., 4., 6., 1., 3., 5., 7.])],
            ),
            case(
                "c1_crd",
                node("DepthToSpace", "CRD"),
                &[x],
                &[f32s(&[1, 2, 2, 2], &[0., 1., 2., 3., 4., 5., 6., 7.])],
            ),
        ]
    }
}

impl Op for SpaceToDepth {
    fn spec(&self) -> &'static OpSpec {
        &TO_DEPTH
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (b, [n, c, h, w]) = (block(cx.attrs())?, four(cx.shape(0)?)?);
        let divided = |axis: usize, d: &Dim| scale(d, |v| v.is_multiple_of(b).then(|| v / b), || cx.fresh(0, axis));
        let channels = scale(&c, |v| v.checked_mul(b * b), || cx.fresh(0, 1))?;
        Ok(vec![cx.ty(cx.dtype(0)?, vec![n, channels, divided(2, &h)?, divided(3, &w)?])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, b) = (cx.input(0)?, block(cx.attrs())?);
        let [n, c, h, w] = four(x.shape())?;
        let order = if blocks_first(cx.attrs())? { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
        let blocks = permute(&x.reshaped(&[n, c, h / b, b, w / b, b])?, &order)?;
        Ok(vec![blocks.reshaped(&[n, c * b * b, h / b, w / b])?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[1, 2, 2, 2], &[1., 2., 3., 4., 5., 6., 7., 8.]);
        let blocks_first = f32s(&[1, 8, 1, 1], &[1., 5., 2., 6., 3., 7., 4., 8.]);
        vec![
            case("c1_dcr", node("SpaceToDepth", "DCR"), std::slice::from_ref(&x), &[blocks_first]),
            case(
                "c1_crd",
                node("SpaceToDepth", "CRD"),
                std::slice::from_ref(&x),
                &[x.reshaped(&[1, 8, 1, 1]).expect("8 elements")],
            ),
        ]
    }
}

fn node(op: &str, mode: &str) -> Node {
    let mut node = Node::new("blocks", op, 13);
    node.attrs = Attrs::default().with("blocksize", Attr::Int(2)).with("mode", Attr::Str(mode.into()));
    node
}

/// (C1) whether the mode is DCR.
fn blocks_first(attrs: &Attrs) -> Result<bool> {
    match attrs.str("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => Err(Error::invalid(format!("mode is `{other}`, expected DCR or CRD"))),
    }
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
        Some(n) => {
            f(n).map(Dim::Known).ok_or_else(|| Error::invalid(format!("an extent of {n} does not fit the blocks")))
        }
    }
}

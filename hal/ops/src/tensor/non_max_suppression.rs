//! NonMaxSuppression: per batch entry and class, the best boxes that do not overlap a better one too much.
//!
//! * (C1) boxes in descending order of score, equal scores in ascending order of index; only scores above the
//!   threshold. (C2) a box is dropped if its intersection over union with a kept one exceeds the threshold.
//! * (C3) corners may come in any order; `center_point_box` = 1 has [x, y, width, height].

use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct NonMaxSuppression;

static SPEC: OpSpec = OpSpec {
    name: "NonMaxSuppression",
    domain: "",
    since: 10,
    inputs: (2, 5),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("center_point_box", AttrKind::Int)],
};

/// Thresholds and format of a node.
struct Options {
    max_boxes: usize,
    iou: f32,
    score: Option<f32>,
    centered: bool,
}

/// A box as its lower and upper corners.
#[derive(Clone, Copy)]
struct Corners {
    lo: [f32; 2],
    hi: [f32; 2],
}

impl Op for NonMaxSuppression {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(DataType::S64, vec![cx.fresh(0, 0), Dim::Known(3)])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
        let (&[n_batches, n, 4], &[score_batches, classes, score_n]) = (boxes.shape(), scores.shape()) else {
            return Err(mismatch(boxes, scores));
        };
        if n_batches != score_batches || n != score_n {
            return Err(mismatch(boxes, scores));
        }
        let options = Options::new(cx)?;
        let (corners, scores) = (boxes.to_f32s()?, scores.to_f32s()?);
        let corners: Vec<Corners> = corners.as_chunks::<4>().0.iter().map(|b| options.corners(b)).collect();
        let mut found: Vec<i64> = Vec::new();
        for (i, scores) in scores.chunks_exact(n.max(1)).enumerate() {
            let (batch, class) = (i / classes.max(1), i % classes.max(1));
            for kept in options.suppress(&corners[batch * n..][..n], scores) {
                found.extend([batch as i64, class as i64, kept as i64]);
            }
        }
        Ok(vec![Tensor::from_slice(&[found.len() / 3, 3], &found)?])
    }

    fn cases(&self) -> Vec<Case> {
        let boxes = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 1.0, 11.0, 0.0, 10.0];
        let inputs = [
            f32s(&[1, 3, 4], &boxes),
            f32s(&[1, 1, 3], &[0.9, 0.75, 0.95]),
            ints(DataType::S64, &[1], &[3]),
            f32s(&[1], &[0.5]),
            f32s(&[1], &[0.0]),
        ];
        let y = ints(DataType::S64, &[2, 3], &[0, 0, 2, 0, 0, 0]);
        vec![case("c3_flipped_corners", Node::new("nms", "NonMaxSuppression", 11), &inputs, &[y])]
    }
}

fn mismatch(boxes: &Tensor, scores: &Tensor) -> Error {
    let (b, s) = (boxes.shape(), scores.shape());
    Error::invalid(format!("NonMaxSuppression: boxes {b:?} and scores {s:?}, expected [B, N, 4] and [B, C, N]"))
}

impl Options {
    fn new(cx: &EvalCx) -> Result<Self> {
        let float = |i: usize| Ok(cx.opt(i).map(Tensor::to_f32s).transpose()?.and_then(|v| v.first().copied()));
        let max_boxes = cx.opt_ints(2)?.and_then(|v| v.first().copied()).unwrap_or(0);
        Ok(Self {
            max_boxes: usize::try_from(max_boxes).unwrap_or(0),
            iou: float(3)?.unwrap_or(0.0),
            score: float(4)?,
            centered: cx.attrs().int("center_point_box", 0)? != 0,
        })
    }

    /// (C3)
    fn corners(&self, b: &[f32; 4]) -> Corners {
        let [p, q] = if self.centered {
            let half = [b[2] / 2.0, b[3] / 2.0];
            [[b[0] - half[0], b[1] - half[1]], [b[0] + half[0], b[1] + half[1]]]
        } else {
            [[b[0], b[1]], [b[2], b[3]]]
        };
        Corners { lo: [p[0].min(q[0]), p[1].min(q[1])], hi: [p[0].max(q[0]), p[1].max(q[1])] }
    }

    /// Indices of the boxes that are kept, best first.
    fn suppress(&self, boxes: &[Corners], scores: &[f32]) -> Vec<usize> {
        let above = |s: f32| self.score.is_none_or(|threshold| s > threshold);
        let mut order: Vec<usize> = (0..boxes.len()).filter(|&i| above(scores[i])).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut kept: Vec<usize> = Vec::new();
        for i in order {
            if kept.len() >= self.max_boxes {
                break;
            }
            if kept.iter().all(|&k| overlap(boxes[k], boxes[i]) <= self.iou) {
                kept.push(i);
            }
        }
        kept
    }
}

/// Intersection over union; 0 where a box or the intersection is empty.
fn overlap(a: Corners, b: Corners) -> f32 {
    let area = |c: Corners| (c.hi[0] - c.lo[0]) * (c.hi[1] - c.lo[1]);
    let side = |i: usize| (a.hi[i].min(b.hi[i]) - a.lo[i].max(b.lo[i])).max(0.0);
    let intersection = side(0) * side(1);
    if intersection <= 0.0 { 0.0 } else { intersection / (area(a) + area(b) - intersection) }
}

//! `RotaryEmbedding` of ONNX and of com.microsoft.
//!
//! * (C1) Pairs of elements are rotated: halves of the rotated part, or neighbours with `interleaved`;
//!   `re = cos*x1 - sin*x2`, `im = sin*x1 + cos*x2`.
//! * (C2) Elements from `rotary_embedding_dim` on are copied.
//! * (C3) Positions choose rows of the caches; without positions the caches hold a row per batch and step.

use super::real::{Real, with_real};
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::{DataType, Error, Node, Result, Tensor, TensorType};

/// Rotation of head elements by position.
pub struct Rotary {
    spec: OpSpec,
    microsoft: bool,
}

const ATTRS: &[AttrSpec] = &[
    AttrSpec::optional("interleaved", AttrKind::Int),
    AttrSpec::optional("num_heads", AttrKind::Int),
    AttrSpec::optional("rotary_embedding_dim", AttrKind::Int),
];

/// ONNX's operator.
pub static ROTARY: Rotary = Rotary {
    spec: OpSpec { name: "RotaryEmbedding", domain: "", since: 23, inputs: (3, 4), outputs: (1, 1), attrs: ATTRS },
    microsoft: false,
};

/// ONNX Runtime's: positions come before the caches, one position counts up.
pub static MICROSOFT_ROTARY: Rotary = Rotary {
    spec: OpSpec {
        name: "RotaryEmbedding",
        domain: MICROSOFT,
        since: 1,
        inputs: (4, 4),
        outputs: (1, 1),
        attrs: ATTRS,
    },
    microsoft: true,
};

/// Where head `h` of step `s` of batch `b` begins, and the sizes of all three.
struct Heads {
    batch: usize,
    steps: usize,
    heads: usize,
    size: usize,
    heads_first: bool,
}

impl Heads {
    fn of(cx: &EvalCx, x: &[usize], cache_half: usize) -> Result<Self> {
        if let [batch, heads, steps, size] = *x {
            return Ok(Self { batch, steps, heads, size, heads_first: true });
        }
        let [batch, steps, hidden] = *x else {
            return Err(Error::invalid(format!("RotaryEmbedding: input {x:?}, expected rank 3 or 4")));
        };
        let heads = match usize::try_from(cx.attrs().int("num_heads", 0)?) {
            Ok(0) | Err(_) => hidden / (2 * cache_half).max(1),
            Ok(n) => n,
        };
        if heads == 0 || hidden % heads != 0 {
            return Err(Error::invalid(format!("RotaryEmbedding: {hidden} elements in {heads} heads")));
        }
        Ok(Self { batch, steps, heads, size: hidden / heads, heads_first: false })
    }

    fn start(&self, b: usize, s: usize, h: usize) -> usize {
        let row = if self.heads_first {
            (b * self.heads + h) * self.steps + s
        } else {
            (b * self.steps + s) * self.heads + h
        };
        row * self.size
    }
}

impl Rotary {
    /// (C3) The cache row of each batch and step.
    fn rows(&self, cx: &EvalCx, heads: &Heads, n_rows: usize) -> Result<Vec<usize>> {
        let n = heads.batch * heads.steps;
        let positions = if self.microsoft { cx.opt_ints(1)? } else { cx.opt_ints(3)? };
        let rows: Vec<i64> = match positions {
            None => (0..n as i64).collect(),
            Some(p) if p.len() == n => p,
            Some(p) if p.len() == 1 => (0..n).map(|i| p[0].saturating_add((i % heads.steps.max(1)) as i64)).collect(),
            Some(p) => return Err(Error::invalid(format!("RotaryEmbedding: {} positions for {n} steps", p.len()))),
        };
        let row = |p: i64| {
            let row = usize::try_from(p).ok().filter(|&r| r < n_rows);
            row.ok_or_else(|| {
                Error::invalid(format!("RotaryEmbedding: position {p} is outside a cache of {n_rows} rows"))
            })
        };
        rows.into_iter().map(row).collect()
    }

    fn run<T: Real>(&self, cx: &EvalCx) -> Result<Tensor> {
        let x = cx.input(0)?;
        let first_cache = if self.microsoft { 2 } else { 1 };
        let (cos, sin) = (cx.input(first_cache)?, cx.input(first_cache + 1)?);
        let half = cos.shape().last().copied().unwrap_or(0);
        let heads = Heads::of(cx, x.shape(), half)?;
        let rotated = match usize::try_from(cx.attrs().int("rotary_embedding_dim", 0)?) {
            Ok(0) | Err(_) => heads.size,
            Ok(n) => n,
        };
        if cos.shape() != sin.shape() || rotated > heads.size || rotated != 2 * half {
            let (c, s) = (cos.shape(), sin.shape());
            return Err(Error::invalid(format!("RotaryEmbedding: caches {c:?} and {s:?} for {rotated} elements")));
        }
        let rows = self.rows(cx, &heads, cos.elements() / half.max(1))?;
        let interleaved = cx.attrs().int("interleaved", 0)? != 0;
        let (cos, sin, mut y) = (T::read(cos)?, T::read(sin)?, T::read(x)?);
        for (i, &row) in rows.iter().enumerate() {
            let (b, s) = (i / heads.steps, i % heads.steps);
            for h in 0..heads.heads {
                let head = &mut y[heads.start(b, s, h)..][..heads.size];
                for k in 0..half {
                    let (p, q) = if interleaved { (2 * k, 2 * k + 1) } else { (k, k + half) };
                    let (c, n) = (cos[row * half + k], sin[row * half + k]);
                    (head[p], head[q]) = (c * head[p] - n * head[q], n * head[p] + c * head[q]);
                }
            }
        }
        T::write(x.dtype(), x.shape(), &y)
    }
}

impl Op for Rotary {
    fn spec(&self) -> &'static OpSpec {
        if self.microsoft { &MICROSOFT_ROTARY.spec } else { &ROTARY.spec }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let y = with_real!(cx.input(0)?.dtype(), "RotaryEmbedding", T => self.run::<T>(cx))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("rope", "RotaryEmbedding", self.spec.since);
        node.domain = self.spec.domain.into();
        let x = f32s(&[1, 1, 1, 2], &[1.0, 2.0]);
        let (cos, sin) = (f32s(&[2, 1], &[1.0, 0.0]), f32s(&[2, 1], &[0.0, 1.0]));
        let at = ints(DataType::S64, &[1, 1], &[1]);
        let inputs = if self.microsoft { [x, at, cos, sin] } else { [x, cos, sin, at] };
        vec![case("c3_position_chooses_the_angle", node, &inputs, &[f32s(&[1, 1, 1, 2], &[-2.0, 1.0])])]
    }
}

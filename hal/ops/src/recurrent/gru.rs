//! GRU, gates in the order z, r, h.
//!
//! * (C1) `z = f(..)`, `r = f(..)`, `H' = (1 - z) * h + z * H`.
//! * (C2) `linear_before_reset` = 0: `h = g(W·x + R·(r * H) + Wb + Rb)`; 1: `h = g((W·x + Wb) + r * (R·H + Rb))`.

use super::real::Real;
use super::sequence::{ATTRS, Cell, Form, Weights, infer_sequence, run, sequence_macs, spec};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Gru;

static SPEC: OpSpec = spec("GRU", 6, 2, &GRU_ATTRS);
const GRU_ATTRS: [AttrSpec; 8] = [
    ATTRS[0],
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    ATTRS[4],
    ATTRS[5],
    ATTRS[6],
    AttrSpec::optional("linear_before_reset", AttrKind::Int),
];
const FORM: Form = Form { n_gates: 3, activations: &["Sigmoid", "Tanh"], has_cell: false };

/// The cell with its option.
struct GruCell {
    linear_before_reset: bool,
}

impl Op for Gru {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_sequence(cx)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let linear_before_reset = cx.attrs().int("linear_before_reset", 0)? != 0;
        run(cx, &FORM, &GruCell { linear_before_reset })
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        sequence_macs(inputs)
    }

    fn cases(&self) -> Vec<Case> {
        // z = HardSigmoid(0) = 0.5 and r = 0.5: the new state is half the candidate and half the old state.
        let mut node = Node::new("gru", "GRU", 22);
        let names = ["HardSigmoid", "Relu"].map(String::from);
        node.attrs = Attrs::default().with("activations", Attr::Strs(names.to_vec()));
        let inputs =
            [f32s(&[2, 1, 1], &[1.0, 2.0]), f32s(&[1, 3, 1], &[0.0, 0.0, 1.0]), f32s(&[1, 3, 1], &[0.0, 0.0, 1.0])];
        // 0.5 * 1; then the candidate is 2 + 0.5 * 0.5.
        let outputs = [f32s(&[2, 1, 1, 1], &[0.5, 1.375]), f32s(&[1, 1, 1], &[1.375])];
        let plain = case("c1_halves", node.clone(), &inputs, &outputs);
        node.attrs.set("linear_before_reset", Attr::Int(1));
        vec![plain, case("c2_linear", node, &inputs, &outputs)]
    }
}

impl<R: Real> Cell<R> for GruCell {
    fn step(&self, weights: &Weights<R>, x: &[R], h: &mut [R], _c: &mut [R]) {
        let n = h.len();
        let gates: Vec<R> = (0..2 * n).map(|row| weights.activate(0, weights.gate(row, x, h))).collect();
        let (z, r) = gates.split_at(n);
        let reset: Vec<R> = h.iter().zip(r).map(|(h, r)| r.mul(*h)).collect();
        let candidate = |i: usize| {
            let row = 2 * n + i;
            if !self.linear_before_reset {
                return weights.gate(row, x, &reset);
            }
            let (input, state) = weights.products(row, x, h);
            input.add(weights.input_bias(row)).add(r[i].mul(state.add(weights.state_bias(row))))
        };
        let next: Vec<R> = (0..n)
            .map(|i| {
                let new = weights.activate(1, candidate(i));
                R::from_count(1).sub(z[i]).mul(new).add(z[i].mul(h[i]))
            })
            .collect();
        h.copy_from_slice(&next);
    }
}

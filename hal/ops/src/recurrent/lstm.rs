//! LSTM, gates in the order i, o, f, c; peepholes in the order i, o, f.
//!
//! * (C1) `i = f(.. + Pi * C)`, `f = f(.. + Pf * C)`, `C' = f * C + i * g(..)`, `o = f(.. + Po * C')`,
//!   `H' = o * h(C')`; the peephole is added after the biases.
//! * (C2) `input_forget` couples the gates: `f = 1 - i`.
//! * (C3) `cell_clip`, which ONNX does not have and TFLite does, bounds `C'` where it is above 0.

use super::real::{Real, clamp};
use super::sequence::{ATTRS, Cell, Form, Weights, infer_sequence, run, sequence_macs, spec};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Lstm;

static SPEC: OpSpec = spec("LSTM", 8, 3, &LSTM_ATTRS);
const LSTM_ATTRS: [AttrSpec; 9] = [
    ATTRS[0],
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    ATTRS[4],
    ATTRS[5],
    ATTRS[6],
    AttrSpec::optional("input_forget", AttrKind::Int),
    AttrSpec::optional("cell_clip", AttrKind::Float),
];
const FORM: Form = Form { n_gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"], has_cell: true };

/// The cell with its options.
struct LstmCell {
    input_forget: bool,
    cell_clip: f32,
}

impl Op for Lstm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_sequence(cx)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let input_forget = cx.attrs().int("input_forget", 0)? != 0;
        run(cx, &FORM, &LstmCell { input_forget, cell_clip: cx.attrs().float("cell_clip", 0.0)? })
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        sequence_macs(inputs)
    }

    fn cases(&self) -> Vec<Case> {
        // i = f = o = HardSigmoid(0) = 0.5, candidate Relu(x): C = 0.5 x + 0.5 C, H = 0.5 C.
        let mut node = Node::new("lstm", "LSTM", 22);
        let names = ["HardSigmoid", "Relu", "Relu"].map(String::from);
        node.attrs = Attrs::default().with("activations", Attr::Strs(names.to_vec()));
        let inputs =
            [f32s(&[2, 1, 1], &[1.0, 2.0]), f32s(&[1, 4, 1], &[0.0, 0.0, 0.0, 1.0]), f32s(&[1, 4, 1], &[0.0; 4])];
        let state = |v: f32| f32s(&[1, 1, 1], &[v]);
        let y = f32s(&[2, 1, 1, 1], &[0.25, 0.625]);
        let halves = case("c1_halves", node.clone(), &inputs, &[y, state(0.625), state(1.25)]);
        node.attrs.set("cell_clip", Attr::Float(1.0));
        let y = f32s(&[2, 1, 1, 1], &[0.25, 0.5]);
        vec![halves, case("c3_clipped_cell", node, &inputs, &[y, state(0.5), state(1.0)])]
    }
}

impl<R: Real> Cell<R> for LstmCell {
    fn step(&self, weights: &Weights<R>, x: &[R], h: &mut [R], c: &mut [R]) {
        let n = h.len();
        let peep = |gate: usize, i: usize, state: R, v: R| match weights.peephole.get(gate * n + i) {
            Some(p) => v.add(p.mul(state)),
            None => v,
        };
        let rows: Vec<R> = (0..4 * n).map(|row| weights.gate(row, x, h)).collect();
        for k in 0..n {
            let i = weights.activate(0, peep(0, k, c[k], rows[k]));
            let f = if self.input_forget {
                R::from_count(1).sub(i)
            } else {
                weights.activate(0, peep(2, k, c[k], rows[2 * n + k]))
            };
            let candidate = weights.activate(1, rows[3 * n + k]);
            c[k] = f.mul(c[k]).add(i.mul(candidate));
            if self.cell_clip > 0.0 {
                let clip = R::from_f32(self.cell_clip);
                c[k] = clamp(c[k], R::ZERO.sub(clip), clip);
            }
            let o = weights.activate(0, peep(1, k, c[k], rows[n + k]));
            h[k] = o.mul(weights.activate(2, c[k]));
        }
    }
}

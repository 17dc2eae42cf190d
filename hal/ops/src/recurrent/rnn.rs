//! RNN: `H' = f(W·x + R·H + Wb + Rb)`.

use super::real::Real;
use super::sequence::{ATTRS, Cell, Form, Weights, infer_sequence, run, sequence_macs, spec};
use crate::elementwise::sample::{case, f32s};
use crate::{Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attr, Attrs, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Rnn;

static SPEC: OpSpec = spec("RNN", 6, 2, &ATTRS);
const FORM: Form = Form { n_gates: 1, activations: &["Tanh"], has_cell: false };

impl Op for Rnn {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        infer_sequence(cx)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        run(cx, &FORM, self)
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        sequence_macs(inputs)
    }

    fn cases(&self) -> Vec<Case> {
        // With Relu and unit weights the state is the running sum: 1, then 1 + 2.
        let mut node = Node::new("rnn", "RNN", 22);
        node.attrs = Attrs::default().with("activations", Attr::Strs(vec!["Relu".into()]));
        let one = f32s(&[1, 1, 1], &[1.0]);
        let inputs = [f32s(&[2, 1, 1], &[1.0, 2.0]), one.clone(), one];
        vec![case("running_sum", node, &inputs, &[f32s(&[2, 1, 1, 1], &[1.0, 3.0]), f32s(&[1, 1, 1], &[3.0])])]
    }
}

impl<R: Real> Cell<R> for Rnn {
    fn step(&self, weights: &Weights<R>, x: &[R], h: &mut [R], _c: &mut [R]) {
        let next: Vec<R> = (0..h.len()).map(|i| weights.activate(0, weights.gate(i, x, h))).collect();
        h.copy_from_slice(&next);
    }
}

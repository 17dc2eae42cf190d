//! `LstmInteger`: the LSTM of TFLite with 8-bit values and a 16-bit cell state (numerics.md section 11).
//!
//! Inputs: X `[batch, time, input]` (or `[time, batch, input]` with `time_major`), W `[gates, cells, input]`,
//! R `[gates, cells, state]`, both s8 with a scale per gate and zero points 0, B s32 `[gates, cells]`, the states
//! `[batch, state]` s8 and `[batch, cells]` s16, a projection s8 `[state, cells]` and its bias s32 `[state]`. Outputs: Y
//! and both states after the last step.
//!
//! * (C1) gates are in the order i, f, g, o; with `input_forget` there is no i, and `i = 1 - f`.
//! * (C2) without a projection the state is the hidden value, so both have as many elements as there are cells.
//! * (C3) every accumulator is exact; one that leaves 32 bits is an error.
//! * (C4) Y has the parameters of the state: it is a copy of it.

use super::lstm_form::LstmForm;
use crate::elementwise::sample::ints;
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, OTTAVA, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, DataType, Error, Node, QuantParams, RequantMode, Result, Tensor, TensorType};

/// The operator.
pub struct LstmInteger;

static SPEC: OpSpec = OpSpec {
    name: "LstmInteger",
    domain: OTTAVA,
    since: 1,
    inputs: (6, 8),
    outputs: (1, 3),
    attrs: &[
        AttrSpec::optional("cell_clip", AttrKind::Float),
        AttrSpec::optional("hidden_scale", AttrKind::Float),
        AttrSpec::optional("hidden_zero_point", AttrKind::Int),
        AttrSpec::optional("input_forget", AttrKind::Int),
        AttrSpec::optional("projection_clip", AttrKind::Float),
        AttrSpec::optional("time_major", AttrKind::Int),
    ],
};

impl Op for LstmInteger {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let ([a, b, _], [_, state], 2) = (cx.shape(0)?, cx.shape(4)?, cx.shape(5)?.len()) else {
            return Err(Error::invalid(format!("{}: expected X of rank 3 and states of rank 2", cx.node.full_op())));
        };
        let dims = [vec![a.clone(), b.clone(), state.clone()], cx.shape(4)?.to_vec(), cx.shape(5)?.to_vec()];
        let dtypes = [DataType::S8, DataType::S8, DataType::S16];
        Ok(dims.into_iter().zip(dtypes).map(|(d, t)| cx.ty(t, d)).take(cx.n_outputs()).collect())
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Err(Error::invalid(format!("{}: its values must be quantized", cx.node.full_op())))
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        LstmForm::of(cx)?.run().map(Some)
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        let elements = |i: usize| inputs.get(i).copied().flatten().and_then(|t| t.shape.elements()).unwrap_or(0) as u64;
        let last = |i: usize| inputs.get(i).copied().flatten().and_then(|t| t.shape.0.last()?.known()).unwrap_or(1);
        let steps = elements(0) / (last(0) as u64).max(1);
        steps.saturating_mul(elements(1).saturating_add(elements(2)).saturating_add(elements(6)))
    }

    fn cases(&self) -> Vec<Case> {
        vec![halves("c2_two_steps", 0), halves("c1_coupled", 1)]
    }
}

/// One cell, one input; all weights are 0, so that every gate is 1/2, but that of the candidate, `g = tanh(x)`.
///
/// x = 1, 2: `c = 0.5 * 0.76159 = 0.3808`, then `0.5 * 0.3808 + 0.5 * 0.96403 = 0.6724`; `h = 0.5 * tanh(c)` is 0.1817,
/// then 0.2933, at scale 1/128: 23 and 38. Coupled gates are 1/2 as well.
fn halves(name: &'static str, coupled: i64) -> Case {
    let mut node = Node::new("lstm", "LstmInteger", 1);
    node.domain = OTTAVA.into();
    node.requant = Some(RequantMode::Q31Double);
    node.attrs.set("input_forget", Attr::Int(coupled));
    let n_gates = 4 - coupled as usize;
    let quantized = |t: Tensor, scale: f32| Some(CaseInput::quantized(t, QuantParams::per_tensor(scale, 0)));
    let weights = |w: i64| {
        let mut all = vec![0; n_gates];
        all[n_gates - 2] = w;
        let params = QuantParams::per_axis_symmetric(0, vec![1.0 / 64.0; n_gates]);
        Some(CaseInput::quantized(ints(DataType::S8, &[n_gates, 1, 1], &all), params).constant())
    };
    let (state, cell) = (1.0 / 128.0, 1.0 / 2048.0);
    let bias = CaseInput::plain(ints(DataType::S32, &[n_gates, 1], &vec![0; n_gates])).constant();
    let params = |scale: f32| Some(QuantParams::per_tensor(scale, 0));
    Case {
        name,
        node,
        inputs: vec![
            quantized(ints(DataType::S8, &[1, 2, 1], &[16, 32]), 1.0 / 16.0),
            weights(64),
            weights(0),
            Some(bias),
            quantized(ints(DataType::S8, &[1, 1], &[0]), state),
            quantized(ints(DataType::S16, &[1, 1], &[0]), cell),
        ],
        outputs: vec![
            (ints(DataType::S8, &[1, 2, 1], &[23, 38]), params(state)),
            (ints(DataType::S8, &[1, 1], &[38]), params(state)),
            (ints(DataType::S16, &[1, 1], &[1377]), params(cell)),
        ],
    }
}

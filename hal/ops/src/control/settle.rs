//! Types of values that a body hands to its next pass.

use super::body::{Known, infer_body, join, outside, symbols};
use crate::{InferCx, InferInput};
use ottava_hal::{Error, Program, Result, TensorType};

/// Passes of inference until every state that still changes counts as unranked. Each pass opens an extent or a rank.
const MAX_ROUNDS: usize = 8;

/// The inputs of a body: what comes before the states, the states at first, what comes behind.
pub(super) struct Formals<'a> {
    pub lead: Vec<Known<'a>>,
    pub states: Vec<Known<'a>>,
    pub tail: Vec<Known<'a>>,
}

/// Types that hold for the states before and after every pass, and those of the body's other outputs. The body returns
/// `skip` values before its states.
pub(super) fn settle(
    cx: &InferCx,
    body: &Program,
    formals: &Formals,
    skip: usize,
) -> Result<(Vec<TensorType>, Vec<TensorType>)> {
    let first = |known: &Known| known.map(|x| x.ty.clone()).ok_or_else(|| Error::invalid("a state has no first value"));
    let mut states = formals.states.iter().map(first).collect::<Result<Vec<_>>>()?;
    let own = symbols(cx);
    let mut round = 0;
    loop {
        let known = states.iter().map(|ty| Some(InferInput { ty, constant: None }));
        let inputs: Vec<Known> =
            formals.lead.iter().copied().chain(known).chain(formals.tail.iter().copied()).collect();
        let mut found = infer_body(body, &inputs)?;
        if found.len() < skip + states.len() {
            return Err(Error::invalid(format!("the body has {} outputs for {} states", found.len(), states.len())));
        }
        let others = found.split_off(skip + states.len());
        let next = states.iter().zip(&found[skip..]).enumerate();
        let next = next.map(|(k, (before, after))| {
            let joined = join(cx, before, &outside(cx, after, &own, k), k)?;
            let keeps_changing = round >= MAX_ROUNDS && joined != *before;
            Ok(if keeps_changing { TensorType::unranked(joined.dtype) } else { joined })
        });
        let next = next.collect::<Result<Vec<_>>>()?;
        if next == states {
            return Ok((states, others));
        }
        states = next;
        round += 1;
    }
}

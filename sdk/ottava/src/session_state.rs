//! The values that a session keeps from run to run.
//!
//! There is one mechanism for two sources: the states of the model (variables of a TFLite file), which the caller does
//! not see, and the links of [`crate::SessionOptions::state`] between an input and an output of the model. The runner
//! takes the inputs of the former behind those of the model and returns their new values behind its outputs.
//!
//! Invariants: runs go one after the other; a run that fails leaves the state as it was.

use crate::error::{Error, Result, codes};
use crate::suggest;
use ottava_hal::{Tensor, TensorType};
use ottava_plan::StateVar;
use parking_lot::{Mutex, MutexGuard};

/// One value.
struct Link {
    /// Index among all inputs of the runner.
    input: usize,
    /// Index among all outputs of the runner.
    output: usize,
    initial: Tensor,
}

/// Everything that a session keeps.
pub(crate) struct State {
    links: Vec<Link>,
    /// Inputs of the runner, those of hidden states included.
    n_inputs: usize,
    /// Outputs that the caller sees.
    n_outputs: usize,
    /// Inferences after which the state is reset; 0: never.
    reset_every: usize,
    now: Mutex<Values>,
}

/// The present values, one per link.
pub(crate) struct Values {
    tensors: Vec<Tensor>,
    /// Inferences since the last reset.
    runs: usize,
}

/// Name and type of an input or output.
type Slot = (String, TensorType);

impl State {
    /// The state of a model and of the caller's links; `None` if there is none.
    pub(crate) fn new(
        hidden: &[StateVar],
        links: &[(String, String)],
        (inputs, outputs): (&[Slot], &[Slot]),
        reset_every: usize,
    ) -> Result<Option<Self>> {
        let own = hidden.iter().enumerate().map(|(i, s)| Link {
            input: inputs.len() + i,
            output: outputs.len() + i,
            initial: s.initial.clone(),
        });
        let mut all: Vec<Link> = own.collect();
        for (input, output) in links {
            let link = link(inputs, outputs, input, output)?;
            if all.iter().any(|l| l.input == link.input) {
                let what = format!("input `{input}` takes two outputs as its state");
                return Err(Error::invalid(codes::MODEL_NAME, what));
            }
            all.push(link);
        }
        if all.is_empty() {
            return Ok(None);
        }
        let (n_inputs, n_outputs) = (inputs.len() + hidden.len(), outputs.len());
        let tensors = all.iter().map(|l| l.initial.clone()).collect();
        let now = Mutex::new(Values { tensors, runs: 0 });
        Ok(Some(Self { links: all, n_inputs, n_outputs, reset_every, now }))
    }

    /// Whether an input of the model takes its value from the state.
    pub(crate) fn feeds(&self, input: usize) -> bool {
        self.links.iter().any(|l| l.input == input)
    }

    /// Waits for the runs before; holds off those after. The state is reset if it is time.
    pub(crate) fn enter(&self) -> MutexGuard<'_, Values> {
        let mut now = self.now.lock();
        if self.reset_every > 0 && now.runs >= self.reset_every {
            self.reset_in(&mut now);
        }
        now
    }

    /// The caller's inputs with the state in its places.
    pub(crate) fn merge(&self, given: &[Tensor], now: &Values) -> Vec<Tensor> {
        let mut rest = given.iter();
        let state = |i: usize| self.links.iter().position(|l| l.input == i);
        let one = |i: usize| state(i).map_or_else(|| rest.next(), |s| now.tensors.get(s)).cloned();
        let mut all: Vec<Tensor> = (0..self.n_inputs).filter_map(one).collect();
        // More inputs than there are places: the runner says how many it expects.
        all.extend(rest.cloned());
        all
    }

    /// Keeps the new values and leaves the outputs that the caller sees.
    pub(crate) fn keep(&self, outputs: &mut Vec<Tensor>, now: &mut Values) {
        for (slot, link) in now.tensors.iter_mut().zip(&self.links) {
            if let Some(value) = outputs.get(link.output) {
                slot.clone_from(value);
            }
        }
        outputs.truncate(self.n_outputs);
        now.runs = now.runs.saturating_add(1);
    }

    /// Sets all values back to the first ones.
    pub(crate) fn reset(&self) {
        self.reset_in(&mut self.now.lock());
    }

    fn reset_in(&self, now: &mut Values) {
        now.tensors = self.links.iter().map(|l| l.initial.clone()).collect();
        now.runs = 0;
    }
}

/// A link that the caller asks for, with zeros at first.
fn link(inputs: &[(String, TensorType)], outputs: &[(String, TensorType)], input: &str, output: &str) -> Result<Link> {
    let index = |list: &[(String, TensorType)], name: &str, what: &str| {
        list.iter().position(|(n, _)| n == name).ok_or_else(|| {
            Error::invalid(codes::MODEL_NAME, format!("the model has no {what} `{name}`"))
                .help(suggest::hint(name, list.iter().map(|(n, _)| n.as_str())))
        })
    };
    let (i, o) = (index(inputs, input, "input")?, index(outputs, output, "output")?);
    let (from, to) = (&outputs[o].1, &inputs[i].1);
    if to.dtype != from.dtype || to.shape != from.shape {
        let what = format!("output `{output}` does not fit input `{input}`");
        return Err(Error::invalid(codes::MODEL_NAME, what).found(from).expected(to));
    }
    let fail = |what: String| Error::invalid(codes::MODEL_DIM, format!("state `{input}`: {what}"));
    let shape = to.shape.known().ok_or_else(|| fail(format!("its shape {} is not fixed", to.shape)))?;
    let initial = Tensor::zeros(to.dtype, &shape).map_err(|e| fail(e.to_string()))?;
    Ok(Link { input: i, output: o, initial })
}

#[cfg(test)]
#[path = "session_state_tests.rs"]
mod tests;

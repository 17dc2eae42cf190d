//! One model for inputs of any size: a [`Session`] for each combination of sizes, compiled when it is first needed.
//!
//! Sizes of symbolic dimensions are read off the inputs. At most [`Sessions::limit`] sessions are kept; beyond that the one
//! whose last run is longest ago is dropped. Float constants are shared by all of them; what a device packs for its
//! kernels belongs to one session. Threads with inputs of one new size wait for one compilation; others go on.

use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use crate::suggest;
use ottava_hal::Tensor;
use ottava_runtime::RunReport;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values of the symbolic dimensions by name.
type Dims = BTreeMap<String, usize>;

/// A place for a session, empty until it is compiled.
type Slot = Arc<Mutex<Option<Arc<Session>>>>;

/// A model with its sessions.
pub struct Sessions {
    model: Model,
    registry: Registry,
    options: SessionOptions,
    limit: usize,
    /// The one used last is at the end.
    slots: Mutex<Vec<(Dims, Slot)>>,
}

impl Sessions {
    /// Sessions that are kept unless another number is given.
    pub const LIMIT: usize = 8;

    /// Compiles nothing yet. `options.dims` fixes dimensions whatever the inputs say. State is refused: values of one size
    /// do not fit another one.
    pub fn new(model: &Model, registry: &Registry, options: &SessionOptions) -> Result<Self> {
        if !options.state.is_empty() || !model.graph.states.is_empty() {
            let what = "a session with state has one size of its inputs";
            return Err(Error::invalid(codes::MODEL_DIM, what).in_file(&model.origin).help("use `Session`"));
        }
        let (model, registry, options) = (model.clone(), registry.clone(), options.clone());
        Ok(Self { model, registry, options, limit: Self::LIMIT, slots: Mutex::default() })
    }

    /// Keeps up to `n` sessions, at least one.
    pub fn with_limit(mut self, n: usize) -> Self {
        self.limit = n.max(1);
        self
    }

    /// Sessions that are kept at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sizes for which a session is kept now, the one used last at the end.
    pub fn kept(&self) -> Vec<BTreeMap<String, usize>> {
        self.slots.lock().iter().map(|(dims, _)| dims.clone()).collect()
    }

    /// Runs once, inputs by name; outputs by name.
    pub fn run(&self, inputs: &[(&str, Tensor)]) -> Result<BTreeMap<String, Tensor>> {
        let names: Vec<String> = self.model.inputs().into_iter().map(|(name, _)| name).collect();
        let missing = |name: &str| {
            let what = format!("input `{name}` is not given");
            Error::invalid(codes::MODEL_NAME, what).in_file(&self.model.origin)
        };
        if let Some((name, _)) = inputs.iter().find(|(name, _)| !names.iter().any(|n| n == name)) {
            let what = format!("the model has no input `{name}`");
            let hint = suggest::hint(name, names.iter().map(String::as_str));
            return Err(Error::invalid(codes::MODEL_NAME, what).in_file(&self.model.origin).help(hint));
        }
        let find = |name: &String| inputs.iter().find(|(n, _)| n == name).map(|(_, t)| t.clone());
        let ordered: Vec<Tensor> =
            names.iter().map(|name| find(name).ok_or_else(|| missing(name))).collect::<Result<_>>()?;
        self.session(&ordered)?.run(inputs)
    }

    /// Runs once, inputs and outputs in the model's order.
    pub fn run_ordered(&self, inputs: &[Tensor], profile: bool) -> Result<(Vec<Tensor>, RunReport)> {
        self.session(inputs)?.run_ordered(inputs, profile)
    }

    /// The session for inputs of these sizes, in the model's order; compiled if there is none.
    pub fn session(&self, inputs: &[Tensor]) -> Result<Arc<Session>> {
        let mut dims = self.model.dims_of(inputs)?;
        dims.extend(self.options.dims.clone());
        let slot = self.slot(&dims);
        let mut place = slot.lock();
        if let Some(session) = &*place {
            return Ok(session.clone());
        }
        let options = SessionOptions { dims: dims.clone(), ..self.options.clone() };
        match Session::new(&self.model, &self.registry, &options) {
            Ok(session) => Ok(place.insert(Arc::new(session)).clone()),
            Err(e) => {
                self.slots.lock().retain(|(_, other)| !Arc::ptr_eq(other, &slot));
                Err(e)
            }
        }
    }

    /// The place of these sizes, which becomes the one used last.
    fn slot(&self, dims: &Dims) -> Slot {
        let mut slots = self.slots.lock();
        let entry = match slots.iter().position(|(d, _)| d == dims) {
            Some(at) => slots.remove(at),
            None => (dims.clone(), Slot::default()),
        };
        let slot = entry.1.clone();
        slots.push(entry);
        let extra = slots.len().saturating_sub(self.limit);
        slots.drain(..extra);
        slot
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

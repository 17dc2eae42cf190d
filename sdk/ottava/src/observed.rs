//! The float network compiled so that every observed value is seen once per run, and few are alive at a time.
//!
//! A value that is an output cannot fuse away, and all outputs of a run live to its end. Where that is much memory, the
//! network is cut into slices of neighbouring nodes, each a session of its own: its values are looked at as soon as it
//! has run, and only those that a later slice reads are kept. Nothing is computed twice. The operators that run, and so
//! the values, are the same with and without cuts: observed values are outputs either way.

use crate::error::{Error, Result};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use ottava_compiler::{Cx, canonicalize};
use ottava_graph::{Graph, Phase, ValueId, extract, from_program};
use ottava_hal::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// A slice ends where its observed values exceed this. Smaller slices stay in the processor's cache.
const SLICE_BYTES: usize = 4 << 20;

/// What is done with an observed value: its number in the list of observations, and its data.
pub(crate) type Each<'a> = dyn FnMut(usize, &Tensor) -> Result<()> + 'a;

/// A network whose observed values are seen.
pub(crate) enum Observed {
    /// All values at once.
    Whole {
        /// Its outputs are the observed values.
        session: Box<Session>,
        /// Written in place by every run.
        outputs: Vec<Tensor>,
    },
    /// Slice by slice.
    Sliced(Slices),
}

/// A network in slices.
pub(crate) struct Slices {
    slices: Vec<Slice>,
    inputs: Vec<ValueId>,
    /// Observed constants.
    constants: Vec<(usize, Tensor)>,
    /// The observations of each value.
    observed: BTreeMap<ValueId, Vec<usize>>,
}

struct Slice {
    session: Session,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// Values that a later slice reads.
    kept: BTreeSet<ValueId>,
}

impl Observed {
    /// Compiles a bound graph; `values` are what is observed.
    pub(crate) fn new(
        (model, registry, options): (&Model, &Registry, &SessionOptions),
        mut bound: Graph,
        values: impl IntoIterator<Item = ValueId>,
    ) -> Result<Self> {
        // Bound shapes let more constants fold, so the canonical phase runs once more.
        bound.phase = Phase::Imported;
        bound.set_caller_outputs(values);
        let has_state = !bound.states.is_empty() || !options.state.is_empty();
        if !has_state {
            let reference = registry.reference()?;
            let graph = canonicalize(&bound, &mut Cx::new(reference.as_ref())).map_err(|e| model.invalid(e))?;
            if let Some(cuts) = cuts(&graph) {
                return Ok(Self::Sliced(Slices::new((model, registry, options), &graph, &cuts)?));
            }
        }
        let session = Session::of_graph(model, &bound, registry, options)?;
        let empty = |(_, ty): &(String, ottava_hal::TensorType)| Tensor::zeros(ty.dtype, &[0]);
        let outputs = session.outputs().iter().map(empty).collect::<Result<_, _>>();
        Ok(Self::Whole { session: Box::new(session), outputs: outputs.map_err(|e| Error::run(&model.origin, e))? })
    }

    /// Runs once and hands out every observed value, each as soon as its slice is done.
    pub(crate) fn run(&mut self, inputs: &[Tensor], each: &mut Each) -> Result<()> {
        match self {
            Self::Whole { session, outputs } => {
                session.run_into(inputs, outputs, false)?;
                outputs.iter().enumerate().try_for_each(|(i, value)| each(i, value))
            }
            Self::Sliced(slices) => slices.run(inputs, each),
        }
    }
}

/// The nodes of each slice; `None` where the graph is small, or where only a run decides about shapes.
fn cuts(graph: &Graph) -> Option<Vec<Vec<usize>>> {
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let (mut cuts, mut bytes, mut total) = (vec![Vec::new()], 0usize, 0usize);
    for (i, node) in graph.nodes.iter().enumerate() {
        let mut own = 0usize;
        for id in &node.outputs {
            let len = graph.ty(*id).byte_len()?;
            own = own.saturating_add(if outputs.contains(id) { len } else { 0 });
        }
        if bytes.saturating_add(own) > SLICE_BYTES && cuts.last().is_some_and(|c: &Vec<usize>| !c.is_empty()) {
            cuts.push(Vec::new());
            bytes = 0;
        }
        cuts.last_mut()?.push(i);
        bytes = bytes.saturating_add(own);
        total = total.saturating_add(own);
    }
    (total > 2 * SLICE_BYTES && cuts.len() > 1).then_some(cuts)
}

impl Slices {
    fn new(
        (model, registry, options): (&Model, &Registry, &SessionOptions),
        graph: &Graph,
        cuts: &[Vec<usize>],
    ) -> Result<Self> {
        let (mut observed, mut constants) = (BTreeMap::<ValueId, Vec<usize>>::new(), Vec::new());
        for (i, id) in graph.outputs.iter().enumerate() {
            match graph.constant(*id) {
                Some(data) => constants.push((i, data.clone())),
                None => observed.entry(*id).or_default().push(i),
            }
        }
        let (mut slices, mut kept) = (Vec::with_capacity(cuts.len()), BTreeSet::new());
        for (number, nodes) in cuts.iter().enumerate().rev() {
            let cut = extract(graph, &format!("{}.{number}", graph.name), nodes);
            let part = Graph { opsets: graph.opsets.clone(), ..from_program(&cut.program) };
            let session = Session::of_graph(model, &part, registry, options)?;
            slices.push(Slice { session, inputs: cut.inputs.clone(), outputs: cut.outputs, kept: kept.clone() });
            kept.extend(cut.inputs);
        }
        slices.reverse();
        Ok(Self { slices, inputs: graph.inputs.clone(), constants, observed })
    }

    fn run(&self, inputs: &[Tensor], each: &mut Each) -> Result<()> {
        let mut alive: BTreeMap<ValueId, Tensor> = self.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
        self.constants.iter().try_for_each(|(i, value)| each(*i, value))?;
        self.inputs.iter().zip(inputs).try_for_each(|(id, value)| self.see(*id, value, each))?;
        for slice in &self.slices {
            let given: Vec<Tensor> = slice.inputs.iter().filter_map(|id| alive.get(id).cloned()).collect();
            let made = slice.session.run_ordered(&given, false)?.0;
            slice.session.release();
            drop(given);
            alive.retain(|id, _| slice.kept.contains(id));
            for (id, value) in slice.outputs.iter().zip(made) {
                self.see(*id, &value, each)?;
                if slice.kept.contains(id) {
                    alive.insert(*id, value);
                }
            }
        }
        Ok(())
    }

    fn see(&self, id: ValueId, value: &Tensor, each: &mut Each) -> Result<()> {
        self.observed.get(&id).into_iter().flatten().try_for_each(|i| each(*i, value))
    }
}

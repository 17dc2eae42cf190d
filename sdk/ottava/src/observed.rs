//! The float network compiled so that every observed value is seen once per run, where it lies, and few are alive at a time.
//!
//! A value that is an output cannot fuse away. A device that shows values while it computes them (the CPU) needs no more
//! memory for that than for a run. On others all outputs live to the end of a run. Where that is much memory, the network is
//! cut into slices of neighbouring nodes, each a session of its own: its values are looked at as soon as it has run, and
//! only those that a later slice reads are kept. Nothing is computed twice. The operators that run, and so
//! the values, are the same with and without cuts: observed values are outputs either way. Nor does it matter whether
//! images are handed out channels last ([`crate::channels_last`]).

use crate::channels_last::{images, put_out, take_in};
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use ottava_compiler::{Cx, canonicalize};
use ottava_graph::{Graph, Phase, ValueId, extract, from_program};
use ottava_hal::Tensor;
use ottava_runtime::Shown;
use std::collections::{BTreeMap, BTreeSet};

/// A slice ends where its observed values exceed this. Smaller slices stay in the processor's cache.
const SLICE_BYTES: usize = 4 << 20;

/// An observed value for the time of a call.
pub(crate) struct Seen<'a> {
    /// Its elements, the rows of the batch outermost.
    pub(crate) value: Shown<'a>,
    /// Axis 1 of the value is the last one of what is shown.
    pub(crate) channels_last: bool,
}

impl Seen<'_> {
    /// Where an axis of the value is in what is shown.
    pub(crate) fn axis(&self, axis: usize) -> usize {
        match axis {
            _ if !self.channels_last => axis,
            0 => 0,
            1 => self.value.shape.len().saturating_sub(1),
            _ => axis - 1,
        }
    }

    /// The bytes of the first rows of a batch; all bytes of a value that has no rows.
    pub(crate) fn first_rows(&self, batch: usize, count: usize) -> &[u8] {
        let bytes = self.value.bytes;
        match self.value.shape.first() {
            Some(&n) if n == batch && count < batch => &bytes[..bytes.len() / batch * count],
            _ => bytes,
        }
    }
}

/// What is done with an observed value: its number in the list of observations, and its data.
pub(crate) type Each<'a> = dyn FnMut(usize, &Seen<'_>) -> Result<()> + 'a;

/// A network whose observed values are seen.
pub(crate) enum Observed {
    /// All values at once: a network with state.
    Whole(Box<Session>),
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
    /// What it hands out, and whether channels last.
    outputs: Vec<(ValueId, bool)>,
    /// Values that a later slice reads.
    kept: BTreeSet<ValueId>,
}

impl Observed {
    /// Compiles a bound graph; `values` are what is observed. With `any_order` images are seen as they lie.
    pub(crate) fn new(
        (model, registry, options): (&Model, &Registry, &SessionOptions),
        mut bound: Graph,
        values: impl IntoIterator<Item = ValueId>,
        any_order: bool,
    ) -> Result<Self> {
        // Bound shapes let more constants fold, so the canonical phase runs once more.
        bound.phase = Phase::Imported;
        bound.set_caller_outputs(values);
        if !bound.states.is_empty() || !options.state.is_empty() {
            return Ok(Self::Whole(Box::new(Session::of_graph(model, &bound, registry, options)?)));
        }
        let reference = registry.reference()?;
        let graph = canonicalize(&bound, &mut Cx::new(reference.as_ref())).map_err(|e| model.invalid(e))?;
        let rows = vec![false; graph.values.len()];
        let build = |cuts: &[Cut]| {
            let slices = |images: &[bool]| Slices::new((model, registry, options), &graph, cuts, images);
            // A device without Transpose sees rows.
            if any_order { slices(&images(&graph)).or_else(|_| slices(&rows)) } else { slices(&rows) }
        };
        let whole = build(&[(0..graph.nodes.len()).collect()])?;
        let shows = whole.slices.iter().all(|slice| slice.session.shows_inside());
        match cuts(&graph).filter(|_| !shows) {
            Some(cuts) => build(&cuts).map(Self::Sliced),
            None => Ok(Self::Sliced(whole)),
        }
    }

    /// Runs once and hands out every observed value, each as soon as its slice is done.
    pub(crate) fn run(&mut self, inputs: &[Tensor], each: &mut Each) -> Result<()> {
        match self {
            Self::Whole(session) => {
                let mut ended = Ok(());
                session.run_shown(inputs, &mut |i, value| {
                    let seen = Seen { value, channels_last: false };
                    go_on(&mut ended, || each(i, &seen));
                })?;
                ended
            }
            Self::Sliced(slices) => slices.run(inputs, each),
        }
    }
}

/// Does something unless something failed before.
fn go_on(ended: &mut Result<()>, step: impl FnOnce() -> Result<()>) {
    if ended.is_ok() {
        *ended = step();
    }
}

/// The nodes of a slice.
type Cut = Vec<usize>;

/// The slices; `None` where the graph is small, or where only a run decides about shapes.
fn cuts(graph: &Graph) -> Option<Vec<Cut>> {
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let (mut cuts, mut bytes, mut total) = (vec![Cut::new()], 0usize, 0usize);
    for (i, node) in graph.nodes.iter().enumerate() {
        let mut own = 0usize;
        for id in &node.outputs {
            let len = graph.ty(*id).byte_len()?;
            own = own.saturating_add(if outputs.contains(id) { len } else { 0 });
        }
        if bytes.saturating_add(own) > SLICE_BYTES && cuts.last().is_some_and(|cut| !cut.is_empty()) {
            cuts.push(Cut::new());
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
        cuts: &[Cut],
        images: &[bool],
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
            let mut part = Graph { opsets: graph.opsets.clone(), ..from_program(&cut.program) };
            let inner = |id: &ValueId| images[id.0];
            (0..cut.outputs.len()).filter(|i| inner(&cut.outputs[*i])).for_each(|i| put_out(&mut part, i));
            (0..cut.inputs.len()).filter(|i| inner(&cut.inputs[*i])).for_each(|i| take_in(&mut part, i));
            let session = Session::of_graph(model, &part, registry, options)?;
            let outputs = cut.outputs.iter().map(|id| (*id, images[id.0])).collect();
            slices.push(Slice { session, inputs: cut.inputs.clone(), outputs, kept: kept.clone() });
            kept.extend(cut.inputs);
        }
        slices.reverse();
        Ok(Self { slices, inputs: graph.inputs.clone(), constants, observed })
    }

    fn run(&self, inputs: &[Tensor], each: &mut Each) -> Result<()> {
        let mut alive: BTreeMap<ValueId, Tensor> = self.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
        let rows = |value| Seen { value: Shown::of(value), channels_last: false };
        self.constants.iter().try_for_each(|(i, value)| each(*i, &rows(value)))?;
        self.inputs.iter().zip(inputs).try_for_each(|(id, value)| self.see(*id, &rows(value), each))?;
        for slice in &self.slices {
            let given: Vec<Tensor> = slice.inputs.iter().filter_map(|id| alive.get(id).cloned()).collect();
            alive.retain(|id, _| slice.kept.contains(id));
            let mut ended = Ok(());
            slice.session.run_shown(&given, &mut |i, value| {
                let Some(&(id, channels_last)) = slice.outputs.get(i) else { return };
                go_on(&mut ended, || {
                    if slice.kept.contains(&id) {
                        alive.insert(id, tensor(&value)?);
                    }
                    self.see(id, &Seen { value, channels_last }, each)
                });
            })?;
            ended?;
            if self.slices.len() > 1 {
                slice.session.release();
            }
        }
        Ok(())
    }

    fn see(&self, id: ValueId, value: &Seen<'_>, each: &mut Each) -> Result<()> {
        self.observed.get(&id).into_iter().flatten().try_for_each(|i| each(*i, value))
    }
}

/// A copy of what is shown.
pub(crate) fn tensor(value: &Shown<'_>) -> Result<Tensor> {
    let copy = Tensor::from_bytes(value.dtype, value.shape, value.bytes);
    copy.map_err(|e| Error::invalid(codes::CALIBRATION, e.to_string()))
}

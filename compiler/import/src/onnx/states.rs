//! State in ONNX files, which have none: an input and an output like any other, and an entry of the metadata that says
//! which belong together.
//!
//! The entry [`KEY`] has one line per state: input, output, constant with the first value, name; tabs between them. The
//! constant is read by no node, so other programs run the file with explicit states. What an entry says wrongly is left
//! out with a warning: the input and output are then the caller's.

use super::proto::StringStringEntryProto;
use crate::ImportError;
use ottava_graph::{Diagnostic, Graph, State};
use ottava_hal::Tensor;

/// Key of the metadata.
pub(crate) const KEY: &str = "ottava.states";

/// A state as the metadata names it.
pub(crate) struct Entry {
    input: String,
    output: String,
    initial: String,
    name: String,
}

impl Entry {
    /// The entry of a state; its first value is the constant `initial`, its output is called `output`.
    pub fn new(graph: &Graph, state: &State, output: String, initial: String) -> Result<Self, ImportError> {
        let input = graph.name_of(graph.inputs[state.input]).to_owned();
        let entry = Self { input, output, initial, name: state.name.clone() };
        let parts = [&entry.input, &entry.output, &entry.initial, &entry.name];
        match parts.iter().find(|part| part.contains(['\t', '\n'])) {
            None => Ok(entry),
            Some(part) => Err(ImportError::Export {
                place: format!("state `{}`", state.name),
                what: format!("the name {part:?} has a tab or line break, which the list of states cannot hold"),
            }),
        }
    }

    /// Its line.
    pub fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}\n", self.input, self.output, self.initial, self.name)
    }
}

/// The entries of a model's metadata.
pub(crate) fn read(metadata: &[StringStringEntryProto]) -> Vec<Entry> {
    let text = metadata.iter().find(|e| e.key == KEY).map_or("", |e| e.value.as_str());
    let entry = |line: &str| {
        let mut parts = line.splitn(4, '\t').map(str::to_owned);
        let (input, output, initial) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Entry { input, output, initial, name: parts.next()? })
    };
    text.lines().filter_map(entry).collect()
}

impl Entry {
    /// The constant that holds the first value.
    pub fn initial(&self) -> &str {
        &self.initial
    }

    /// Makes the state, if the graph has what the entry names and it fits.
    pub fn apply(self, graph: &mut Graph, initial: Option<Tensor>, notes: &mut Vec<Diagnostic>) {
        let place = |ids: &[ottava_hal::ValueId], name: &str| ids.iter().position(|id| graph.name_of(*id) == name);
        let found = place(&graph.inputs, &self.input).zip(place(&graph.outputs, &self.output)).zip(initial);
        let fits = found.filter(|((i, o), data)| {
            let (to, from) = (graph.ty(graph.inputs[*i]), graph.ty(graph.outputs[*o]));
            let known = to.shape.known();
            let free = graph.states.iter().all(|s| s.input != *i && s.output != *o);
            let same = to.dtype == from.dtype && to.shape == from.shape;
            free && same && data.dtype() == to.dtype && known.as_deref() == Some(data.shape())
        });
        match fits {
            Some(((input, output), initial)) => {
                graph.states.push(State { name: self.name, input, output, initial });
            }
            None => {
                let what = format!("the metadata `{KEY}` does not fit; input `{}` is the caller's", self.input);
                notes.push(Diagnostic::warning("M0105", self.name, what));
            }
        }
    }
}

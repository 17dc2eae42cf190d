//! Whether the chosen devices run what is quantized to other than 8 bits, or requantized in a way that they lack, or
//! computed in floats of 16 bits.
//!
//! Other 8-bit operators are left out: u8 and s8 turn into each other where a device knows only one of them. The answer is
//! the devices' own, node by node, on the operators that run; the reference interpreter counts only where it is asked for,
//! because as a fallback it runs everything.

use crate::capabilities::{is_half, none_has_it};
use crate::config::Fallback;
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::probe;
use crate::registry::{OpenDevice, REFERENCE, Registry};
use crate::session::SessionOptions;
use ottava_graph::{Diagnostic, Graph, to_program};
use ottava_hal::{DataType, Node, OpRow};
use std::collections::BTreeSet;

/// The devices that a network is quantized for.
pub(crate) struct Devices(Vec<OpenDevice>);

/// Operators that none of the devices runs on such integers.
#[derive(Debug, Default)]
pub(crate) struct Unrunnable {
    /// Operator with storage or requantization, each once.
    what: BTreeSet<String>,
    /// Names of the nodes.
    nodes: Vec<String>,
}

impl Devices {
    /// The device that the caller names, else those of the configuration.
    pub(crate) fn chosen(registry: &Registry, options: &SessionOptions) -> Result<Self> {
        if let Some(id) = &options.device {
            return Ok(Self(vec![registry.open_one(id, &options.devices)?]));
        }
        let mut devices = registry.open(&options.devices)?;
        if registry.config.devices.is_empty() && devices.len() > 1 {
            devices.retain(|d| d.id != REFERENCE);
        }
        Ok(Self(devices))
    }

    /// Whether one of them has an operator that writes a storage at all.
    pub(crate) fn may_write(&self, node: &Node, dtype: DataType) -> bool {
        self.0.iter().flat_map(|d| &d.device.capability().rows).any(|row| {
            let writes = |o: &ottava_hal::capability::Operand| o.dtypes.is_empty() || o.dtypes.contains(&dtype);
            row.op == node.op && row.domain == node.domain && row.outputs.first().is_some_and(writes)
        })
    }

    /// Names of the devices, as they stand in messages.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|d| format!("`{}`", d.id)).collect()
    }

    /// What the devices say of themselves.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &OpRow> {
        self.0.iter().flat_map(|d| &d.device.capability().rows)
    }

    /// What none of them runs of a graph of operators that run.
    pub(crate) fn unrunnable(&self, lowered: &Graph) -> Result<Unrunnable> {
        self.refused(lowered, |node| self.integers_at_fault(lowered, node))
    }

    /// What is at fault with a node of integers that no device runs: storage of other than 8 bits, or the requantization.
    fn integers_at_fault(&self, lowered: &Graph, node: &Node) -> Option<String> {
        if let Some(dtype) = unusual(lowered, node) {
            return Some(format!("{} in {dtype}", node.op));
        }
        let mode = node.requant.filter(|mode| !self.has_mode(node, *mode))?;
        Some(format!("{} with the requantization {}", node.op, mode.name()))
    }

    /// The nodes that none of the devices runs, of those that `fault` has words for.
    fn refused(&self, lowered: &Graph, fault: impl Fn(&Node) -> Option<String>) -> Result<Unrunnable> {
        let program = to_program(lowered);
        let mut runs = vec![false; lowered.nodes.len()];
        for OpenDevice { id, device, .. } in &self.0 {
            let verdicts = device.assess(&program).map_err(|e| Error::device(id, e))?;
            runs.iter_mut().zip(verdicts).for_each(|(runs, verdict)| *runs |= verdict.is_supported());
        }
        let mut found = Unrunnable::default();
        for (node, _) in lowered.nodes.iter().zip(runs).filter(|(_, runs)| !runs) {
            if let Some(what) = fault(node) {
                found.what.insert(what);
                found.nodes.push(node.name.clone());
            }
        }
        Ok(found)
    }

    /// What there is to say about a quantized model: a warning, or an error where the configuration has no fallback.
    pub(crate) fn check(
        &self,
        model: &Model,
        registry: &Registry,
        options: &SessionOptions,
    ) -> Result<Option<Diagnostic>> {
        // Sizes that nobody has named yet: the devices are asked when the network is compiled.
        let Ok(dims) = model.dims(1, &options.dims) else { return Ok(None) };
        if !model.graph.values.iter().any(|value| is_unusual(&value.ty.dtype)) && !self.lacks_a_mode(&model.graph) {
            return Ok(None);
        }
        let found = self.unrunnable(&probe::lowered(model, &dims, registry)?)?;
        if found.is_empty() {
            return Ok(None);
        }
        let text = found.text(&self.ids());
        let help = "take u8 or s8, or name a device that runs it";
        match registry.config.fallback {
            Fallback::Error => Err(Error::unsupported(codes::QUANTIZE, text).in_file(&model.origin).help(help)),
            Fallback::Reference => {
                let text = format!("{text}: the reference interpreter computes it, slowly");
                Ok(Some(Diagnostic::warning(codes::STORAGE, "", text).with_help(help)))
            }
        }
    }

    /// An error where a model that was asked to compute in floats of 16 bits has nodes that none of the devices runs in
    /// them: it would be slower than in 32 bits everywhere.
    pub(crate) fn expect_halves(&self, model: &Model, registry: &Registry, options: &SessionOptions) -> Result<()> {
        let Ok(dims) = model.dims(1, &options.dims) else { return Ok(()) };
        let lowered = probe::lowered(model, &dims, registry)?;
        let half = |node: &Node| {
            let mut types = node.inputs.iter().flatten().chain(&node.outputs).map(|id| lowered.ty(*id).dtype);
            types.find(is_half).map(|dtype| format!("{} in {dtype}", node.op))
        };
        let found = self.refused(&lowered, half)?;
        if found.is_empty() {
            return Ok(());
        }
        let help = "take u8 or s8, keep the nodes in Float, or name a device that runs it (`--device reference` does)";
        Err(Error::unsupported(codes::QUANTIZE, found.text(&self.ids())).in_file(&model.origin).help(help))
    }
}

impl Unrunnable {
    /// Whether the devices run everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The operators with what is at fault, the nodes, and the devices.
    fn text(&self, ids: &[String]) -> String {
        let what: Vec<&str> = self.what.iter().map(String::as_str).collect();
        format!("{} of {} runs on {}", what.join(", "), self.nodes_text(), none_has_it(ids))
    }

    /// The first nodes by name, and how many there are.
    fn nodes_text(&self) -> String {
        const SHOWN: usize = 3;
        let names: Vec<String> = self.nodes.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        match self.nodes.len().saturating_sub(SHOWN) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }
}

/// The storage of the first operand that is quantized to other than 8 bits; wide sums and indices are not quantized data.
fn unusual(graph: &Graph, node: &Node) -> Option<DataType> {
    let ids = node.inputs.iter().flatten().chain(&node.outputs);
    let mut quantized = ids.map(|id| graph.ty(*id)).filter(|ty| ty.quant.is_some()).map(|ty| ty.dtype);
    quantized.find(is_unusual)
}

fn is_unusual(dtype: &DataType) -> bool {
    matches!(dtype, DataType::S16 | DataType::U16 | DataType::S4 | DataType::U4)
}

//! Placement: which device runs which node, and the cut into partitions.
//!
//! Devices are asked in order of priority; a node goes to the first one that accepts it bit-exactly. Nodes are then
//! scheduled so that a partition grows as long as possible before the device changes: of the nodes whose inputs are
//! ready, one for the current device goes first. A partition is a run of that schedule, so partitions cannot depend on
//! each other in a circle. Every node that does not get the first device leaves a diagnostic with the device's reason.

use ottava_graph::{Diagnostic, Graph, Result, Uses, extract, to_program};
use ottava_hal::{Device, Error, Reason, ValueId, Verdict};
use ottava_plan::{DeviceNeed, Partition, Plan, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// A device that may be used.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Id in the application's configuration.
    pub id: &'a str,
    /// The device.
    pub device: &'a dyn Device,
}

/// What happens to a node that no wanted device runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// It runs on the last target, the reference, and a diagnostic says so.
    #[default]
    Reference,
    /// It is an error.
    Error,
}

/// How devices are chosen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Placement {
    /// What happens to a node that no wanted device runs.
    pub fallback: Fallback,
    /// Ids of the targets that are wanted, in order; all targets in their order if empty.
    pub priority: Vec<String>,
}

/// Places a quantized graph. With [`Fallback::Reference`] the last target must run every operator.
pub fn place(graph: &Graph, targets: &[Target], placement: &Placement, notes: &mut Vec<Diagnostic>) -> Result<Plan> {
    let wanted = wanted_targets(targets, placement)?;
    let chosen = choose(graph, &wanted, targets, placement, notes)?;
    let partitions = schedule(graph, &chosen);
    let plan = build(graph, targets, partitions)?;
    plan.check()?;
    Ok(plan)
}

fn wanted_targets<'t, 'a>(targets: &'t [Target<'a>], placement: &Placement) -> Result<Vec<(usize, &'t Target<'a>)>> {
    if targets.is_empty() {
        return Err(Error::invalid("no device to place the graph on"));
    }
    if placement.priority.is_empty() {
        return Ok(targets.iter().enumerate().collect());
    }
    let find = |id: &String| {
        let names: Vec<&str> = targets.iter().map(|t| t.id).collect();
        let missing = || Error::invalid(format!("no device `{id}`; devices are: {}", names.join(", ")));
        targets.iter().enumerate().find(|(_, t)| t.id == id).ok_or_else(missing)
    };
    placement.priority.iter().map(find).collect()
}

/// Index of the target of each node.
fn choose(
    graph: &Graph,
    wanted: &[(usize, &Target)],
    targets: &[Target],
    placement: &Placement,
    notes: &mut Vec<Diagnostic>,
) -> Result<Vec<usize>> {
    let program = to_program(graph);
    let verdicts: Vec<Vec<Verdict>> = wanted.iter().map(|(_, t)| t.device.assess(&program)).collect::<Result<_>>()?;
    let mut chosen = Vec::with_capacity(graph.nodes.len());
    for (i, node) in graph.nodes.iter().enumerate() {
        let accepted =
            (0..wanted.len()).find(|w| matches!(verdicts[*w].get(i), Some(Verdict::Supported { exact: true })));
        let refusal = refusal_text(wanted, &verdicts, i, accepted.unwrap_or(wanted.len()));
        let index = match accepted {
            Some(w) => wanted[w].0,
            None if placement.fallback == Fallback::Reference => targets.len() - 1,
            None => {
                let what = format!("node `{}` ({}): {refusal}", node.name, node.full_op());
                return Err(Error::unsupported(
                    Reason::Policy,
                    format!("{what}; allow a fallback or choose another device"),
                ));
            }
        };
        if !refusal.is_empty() {
            let message = format!("{} runs on {}: {refusal}", node.full_op(), targets[index].id);
            notes.push(Diagnostic::note("P0101", &node.name, message));
        }
        chosen.push(index);
    }
    Ok(chosen)
}

/// What the devices before the chosen one said.
fn refusal_text(wanted: &[(usize, &Target)], verdicts: &[Vec<Verdict>], node: usize, until: usize) -> String {
    let one = |w: usize| match verdicts[w].get(node) {
        Some(Verdict::Rejected { reason, detail }) => format!("{} refused ({reason}: {detail})", wanted[w].1.id),
        Some(Verdict::Supported { .. }) => format!("{} is not exact", wanted[w].1.id),
        None => format!("{} gave no verdict", wanted[w].1.id),
    };
    (0..until.min(wanted.len())).map(one).collect::<Vec<_>>().join(", ")
}

/// Runs of nodes of one device, in an order in which they can run.
fn schedule(graph: &Graph, chosen: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let uses = Uses::of(graph);
    let mut waiting: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        waiting.push(node.inputs.iter().flatten().filter(|id| uses.producer(**id).is_some()).count());
    }
    let mut ready: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (i, _) in waiting.iter().enumerate().filter(|(_, n)| **n == 0) {
        ready.entry(chosen[i]).or_default().insert(i);
    }
    let mut runs: Vec<(usize, Vec<usize>)> = Vec::new();
    while let Some((target, i)) = next_ready(&mut ready, runs.last().map(|r| r.0)) {
        match runs.last_mut() {
            Some((current, nodes)) if *current == target => nodes.push(i),
            _ => runs.push((target, vec![i])),
        }
        for (reader, _) in graph.nodes[i].outputs.iter().flat_map(|out| uses.readers(*out)) {
            waiting[*reader] -= 1;
            if waiting[*reader] == 0 {
                ready.entry(chosen[*reader]).or_default().insert(*reader);
            }
        }
    }
    runs.iter_mut().for_each(|(_, nodes)| nodes.sort_unstable());
    runs
}

/// A ready node of the current device, or of the device whose ready node comes first.
fn next_ready(ready: &mut BTreeMap<usize, BTreeSet<usize>>, current: Option<usize>) -> Option<(usize, usize)> {
    ready.retain(|_, nodes| !nodes.is_empty());
    let first = || ready.iter().min_by_key(|(_, nodes)| nodes.first().copied()).map(|(t, _)| *t);
    let target = current.filter(|t| ready.contains_key(t)).or_else(first)?;
    Some((target, ready.get_mut(&target)?.pop_first()?))
}

fn build(graph: &Graph, targets: &[Target], runs: Vec<(usize, Vec<usize>)>) -> Result<Plan> {
    let mut slots = Slots { graph, of: BTreeMap::new(), list: Vec::new() };
    let inputs = graph.inputs.iter().map(|id| slots.get(*id)).collect();
    let mut partitions = Vec::with_capacity(runs.len());
    for (i, (target, nodes)) in runs.iter().enumerate() {
        let device = targets[*target].id;
        let part = extract(graph, &format!("{}#{i}@{device}", graph.name), nodes);
        partitions.push(Partition {
            device: device.to_string(),
            inputs: part.inputs.iter().map(|id| slots.get(*id)).collect(),
            outputs: part.outputs.iter().map(|id| slots.get(*id)).collect(),
            program: part.program,
            ..Partition::default()
        });
    }
    let mut constants = BTreeMap::new();
    for id in &graph.outputs {
        if let Some(data) = graph.constant(*id) {
            constants.insert(slots.get(*id), data.clone());
        }
    }
    let outputs = graph.outputs.iter().map(|id| slots.get(*id)).collect();
    let constants = constants.into_iter().collect();
    let devices = needs(targets, &partitions);
    let name = graph.name.clone();
    Plan { name, slots: slots.list, partitions, inputs, outputs, constants, devices, ..Plan::default() }.finish()
}

/// The devices that partitions name.
fn needs(targets: &[Target], partitions: &[Partition]) -> Vec<DeviceNeed> {
    let used = targets.iter().filter(|t| partitions.iter().any(|p| p.device == t.id));
    let need = |t: &Target| {
        let info = t.device.info();
        DeviceNeed { id: t.id.into(), uuid: info.uuid, hw_rev: info.hw_rev, isa: info.isa.clone() }
    };
    used.map(need).collect()
}

struct Slots<'a> {
    graph: &'a Graph,
    of: BTreeMap<ValueId, usize>,
    list: Vec<Slot>,
}

impl Slots<'_> {
    fn get(&mut self, id: ValueId) -> usize {
        *self.of.entry(id).or_insert_with(|| {
            let value = self.graph.value(id);
            self.list.push(Slot { name: value.name.clone(), ty: value.ty.clone() });
            self.list.len() - 1
        })
    }
}

//! From rules and answers to a plan.
//!
//! The candidates of the search are written out, cut into runs, and compared once more with each partition's cost
//! asked for as a whole; so are the assignments by an order of devices. A device may accept nodes alone and refuse them together: every partition is shown to its
//! device, what it refuses is struck off the survey, and the search starts again.

use super::choices::{Choice, choices};
use super::draft::{Draft, Origin, draft};
use super::explain;
use super::flips::Flips;
use super::islands::{Dissolved, dissolve};
use super::model::{Assignment, Model};
use super::order::{Order, Run};
use super::refine::refine;
use super::rules::Rules;
use super::search::{by_priority, candidates};
use super::survey::{Survey, assess};
use super::twin::Form;
use super::{Placement, Target};
use ottava_graph::{Diagnostic, Extracted, Graph, Result, extract};
use ottava_hal::{Error, Status, ValueId, Verdict};
use ottava_plan::{DeviceNeed, Partition, Plan, Slot, StateVar};
use std::collections::BTreeMap;

/// Rounds in which devices may take back what they have said.
const MAX_ROUNDS: usize = 16;
/// From this round on, a device that refuses a node of a partition loses the whole partition.
const HARSH_ROUND: usize = 4;

/// A finished assignment.
pub(super) struct Solution {
    /// Choices of each node.
    pub choices: Vec<Vec<Choice>>,
    /// Where values can be converted.
    pub flips: Flips,
    /// The index of the choice of each node.
    pub x: Assignment,
    /// Islands that were given up.
    pub dissolved: Vec<Dissolved>,
    /// The placed graph.
    pub draft: Draft,
    /// Runs of the draft's nodes.
    pub runs: Vec<Run>,
    /// The runs as programs.
    pub parts: Vec<Extracted>,
    /// Estimated time of each.
    pub est_ns: Vec<u64>,
    /// Modelled latency.
    pub latency_ns: u64,
}

/// The plan under rules, without steps, memory and alternatives.
pub(super) fn solve(
    graph: &Graph,
    rules: &Rules,
    survey: &mut Survey,
    placement: &Placement,
    notes: &mut Vec<Diagnostic>,
) -> Result<Plan> {
    for round in 0..MAX_ROUNDS {
        let solution = best(graph, rules, survey, placement)?;
        if strike_refused(survey, &solution, round >= HARSH_ROUND) == 0 {
            explain::notes(graph, rules, survey, &solution, notes);
            return Ok(plan(graph, rules, survey, &solution));
        }
    }
    let what = format!("devices keep refusing partitions whose nodes they accept; {MAX_ROUNDS} rounds were not enough");
    Err(Error::failed(Status::Internal, what))
}

/// The best of the candidates, by the cost of whole partitions.
///
/// A device may price a program otherwise than its nodes one by one (a fixed cost, data that stays on the chip). Where
/// the first candidates show that, the search is repeated with node costs scaled to what the partitions cost.
fn best(graph: &Graph, rules: &Rules, survey: &mut Survey, placement: &Placement) -> Result<Solution> {
    let mut choices = choices(graph, rules, survey)?;
    let flips = Flips::of(graph, rules, survey, &mut choices);
    let cx = Search { graph, rules, placement, flips: &flips };
    let mut found = measured(&cx, survey, &choices, &choices, &[])?;
    if let Some(scaled) = rescaled(&choices, &found, survey.targets.len()) {
        let more = measured(&cx, survey, &choices, &scaled, &found)?;
        found.extend(more);
    }
    let least = found.into_iter().min_by_key(|m| m.latency_ns.saturating_add(m.handicap_ns));
    let m = least.ok_or_else(|| Error::invalid("the search for a placement came back with nothing"))?;
    let m = refine(&cx, survey, &choices, m)?;
    let Measured { x, dissolved, draft, runs, parts, est_ns, latency_ns, .. } = m;
    Ok(Solution { choices, flips, x, dissolved, draft, runs, parts, est_ns, latency_ns })
}

/// What a search depends on besides costs.
pub(super) struct Search<'a> {
    graph: &'a Graph,
    rules: &'a Rules,
    placement: &'a Placement,
    flips: &'a Flips,
}

/// A candidate, written out.
pub(super) struct Measured {
    /// The index of the choice of each node.
    pub x: Assignment,
    /// Islands that were given up.
    pub dissolved: Vec<Dissolved>,
    /// The placed graph.
    pub draft: Draft,
    /// Runs of the draft's nodes.
    pub runs: Vec<Run>,
    parts: Vec<Extracted>,
    est_ns: Vec<u64>,
    /// Modelled latency, partitions priced as a whole.
    pub latency_ns: u64,
    /// What it must be faster than others by: the minimum gains of islands that it keeps although their nodes, taken
    /// alone, do not gain that much.
    handicap_ns: u64,
    /// Time of the bridges by target, alone.
    bridge_ns: BTreeMap<usize, u64>,
}

/// The candidates of a search under `costs`, without those that are known; the first search also takes the assignments
/// by an order of devices as they are.
fn measured(
    cx: &Search,
    survey: &mut Survey,
    choices: &[Vec<Choice>],
    costs: &[Vec<Choice>],
    known: &[Measured],
) -> Result<Vec<Measured>> {
    let links = survey.links.clone();
    let model = Model::new(cx.graph, costs, &links, cx.flips);
    let mut found: Vec<Measured> = Vec::new();
    for mut x in candidates(&model, &cx.rules.wanted) {
        let gone = dissolve(&model, &mut x, survey.targets, cx.placement);
        if known.iter().chain(&found).any(|m| m.x == x) {
            continue;
        }
        found.push(measure(cx, survey, choices, x, gone)?);
    }
    if known.is_empty() {
        for x in by_priority(&model, &cx.rules.wanted) {
            if found.iter().any(|m| m.x == x) {
                continue;
            }
            let gone = dissolve(&model, &mut x.clone(), survey.targets, cx.placement);
            let handicap_ns = gone.iter().map(|d| d.least_ns).fold(0, u64::saturating_add);
            found.push(Measured { handicap_ns, ..measure(cx, survey, choices, x, Vec::new())? });
        }
    }
    Ok(found)
}

/// The choices with the costs of each target scaled by what its partitions cost as a whole against what their nodes
/// cost alone; `None` if both are the same everywhere.
fn rescaled(choices: &[Vec<Choice>], found: &[Measured], n_targets: usize) -> Option<Vec<Vec<Choice>>> {
    let (mut whole, mut alone) = (vec![0u128; n_targets], vec![0u128; n_targets]);
    for m in found {
        m.runs.iter().zip(&m.est_ns).for_each(|((target, _), ns)| whole[*target] += u128::from(*ns));
        let nodes = m.x.iter().zip(choices).map(|(k, of)| of[*k]);
        nodes.for_each(|c| alone[c.target] += u128::from(c.ns));
        m.bridge_ns.iter().for_each(|(target, ns)| alone[*target] += u128::from(*ns));
    }
    if whole == alone {
        return None;
    }
    let scale = |c: &Choice| match alone[c.target] {
        0 => *c,
        n => Choice { ns: u64::try_from(u128::from(c.ns) * whole[c.target] / n).unwrap_or(u64::MAX), ..*c },
    };
    Some(choices.iter().map(|of| of.iter().map(scale).collect()).collect())
}

/// Writes an assignment out and prices its partitions as a whole.
pub(super) fn measure(
    cx: &Search,
    survey: &mut Survey,
    choices: &[Vec<Choice>],
    x: Assignment,
    dissolved: Vec<Dissolved>,
) -> Result<Measured> {
    let chosen = x.iter().zip(choices).map(|(k, of)| of[*k]).collect();
    let draft = draft(cx.graph, chosen, survey, cx.flips)?;
    let graph = &draft.graph;
    let runs = Order::of(graph).runs(|i| draft.seats[i].target);
    let name = |i: usize, target: usize| format!("{}#{i}@{}", graph.name, survey.targets[target].id);
    let parts: Vec<Extracted> =
        runs.iter().enumerate().map(|(i, (target, nodes))| extract(graph, &name(i, *target), nodes)).collect();
    let mut est_ns = Vec::with_capacity(runs.len());
    for ((target, nodes), part) in runs.iter().zip(&parts) {
        let origins: Vec<Origin> = nodes.iter().map(|i| draft.seats[*i].origin).collect();
        est_ns.push(survey.whole_ns(*target, &part.program, &origins));
    }
    let mut bridge_ns: BTreeMap<usize, u64> = BTreeMap::new();
    for seat in &draft.seats {
        if let Origin::Bridge { id, way } = seat.origin {
            let sum = bridge_ns.entry(seat.target).or_default();
            *sum = sum.saturating_add(survey.bridge(id, way, seat.target).unwrap_or(0));
        }
    }
    // What lies between the partitions: the model of the draft, in which nodes cost nothing and nothing is converted.
    let seats: Vec<Vec<Choice>> =
        draft.seats.iter().map(|s| vec![Choice { target: s.target, form: Form::Native, ns: 0 }]).collect();
    let flips = Flips::default();
    let between = Model::new(graph, &seats, &survey.links, &flips).total(&vec![0; seats.len()]);
    let latency_ns = est_ns.iter().copied().fold(between, u64::saturating_add);
    Ok(Measured { x, dissolved, draft, runs, parts, est_ns, latency_ns, handicap_ns: 0, bridge_ns })
}

/// Shows every partition to its device and strikes off what it refuses; how many nodes that are.
fn strike_refused(survey: &mut Survey, solution: &Solution, harsh: bool) -> usize {
    let mut struck = 0;
    for ((target, nodes), part) in solution.runs.iter().zip(&solution.parts) {
        let verdicts = assess(&survey.targets[*target], &part.program);
        let refused = |v: &Verdict| !matches!(v, Verdict::Supported { exact: true });
        let Some(first) = verdicts.iter().find(|v| refused(v)) else { continue };
        for (node, verdict) in nodes.iter().zip(&verdicts) {
            let verdict = match refused(verdict) {
                true => verdict,
                false if harsh => first,
                false => continue,
            };
            struck += 1;
            match solution.draft.seats[*node].origin {
                Origin::Node { index, form } => survey.strike(index, *target, form, verdict),
                Origin::Bridge { id, way } => survey.strike_bridge(id, way, *target),
            }
        }
    }
    struck
}

fn plan(graph: &Graph, rules: &Rules, survey: &mut Survey, solution: &Solution) -> Plan {
    let draft = &solution.draft;
    let mut slots = Slots { graph: &draft.graph, of: BTreeMap::new(), list: Vec::new() };
    let inputs = graph.caller_inputs().map(|id| slots.get(id)).collect();
    let mut partitions = Vec::with_capacity(solution.runs.len());
    for (((target, nodes), part), est_ns) in solution.runs.iter().zip(&solution.parts).zip(&solution.est_ns) {
        let bridge = |i: &&usize| matches!(draft.seats[**i].origin, Origin::Bridge { .. });
        partitions.push(Partition {
            device: survey.targets[*target].id.to_string(),
            inputs: part.inputs.iter().map(|id| slots.get(*id)).collect(),
            outputs: part.outputs.iter().map(|id| slots.get(*id)).collect(),
            program: part.program.clone(),
            bridges: nodes.iter().filter(bridge).count(),
            est_ns: *est_ns,
            ..Partition::default()
        });
    }
    let mut constants = BTreeMap::new();
    for id in &graph.outputs {
        if let Some(data) = graph.constant(*id) {
            constants.insert(slots.get(*id), data.clone());
        }
    }
    let outputs = graph.caller_outputs().map(|id| slots.get(id)).collect();
    let state = |s: &ottava_graph::State| StateVar {
        name: s.name.clone(),
        input: slots.get(graph.inputs[s.input]),
        output: slots.get(graph.outputs[s.output]),
        initial: s.initial.clone(),
    };
    let states = graph.states.iter().map(state).collect();
    Plan {
        name: graph.name.clone(),
        inputs,
        outputs,
        states,
        constants: constants.into_iter().collect(),
        devices: needs(survey.targets, &partitions),
        placed: explain::placed(graph, rules, survey, solution),
        slots: slots.list,
        partitions,
        ..Plan::default()
    }
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

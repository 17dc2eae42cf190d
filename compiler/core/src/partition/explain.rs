//! Why each node is where it is: opinions and reasons for the plan, notes for people.
//!
//! | code | finding |
//! |---|---|
//! | P0100 | what runs where, if more than one device is used |
//! | P0101 | a device refused nodes that it would have been asked for first |
//! | P0102 | an island gained too little and was dissolved |
//! | P0103 | a pin or ban matches no node |
//! | P0104 | a device runs nodes as twins: of the other sign, or on real numbers |
//! | P0106 | a device cannot estimate |
//! | P0107 | there is no plan for the loss of a device |

use super::build::Solution;
use super::choices::{Choice, refusals};
use super::costs::human;
use super::draft::Origin;
use super::flips::Way;
use super::model::Model;
use super::repr::Repr;
use super::rules::Rules;
use super::search::best_where;
use super::survey::{Answer, Survey};
use super::twin::Form;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::ValueId;
use ottava_plan::{Opinion, Placed};
use std::collections::{BTreeMap, BTreeSet};

/// Most nodes that a note names.
const MAX_NAMED: usize = 4;

/// One entry per node of the placed graph, in the order of partitions.
pub(super) fn placed(graph: &Graph, rules: &Rules, survey: &mut Survey, solution: &Solution) -> Vec<Placed> {
    let links = survey.links.clone();
    let model = Model::new(graph, &solution.choices, &links, &solution.flips);
    let mut list = Vec::with_capacity(solution.draft.seats.len());
    for (partition, (target, nodes)) in solution.runs.iter().enumerate() {
        for i in nodes {
            let node = &solution.draft.graph.nodes[*i];
            let (reason, opinions, bridge) = match solution.draft.seats[*i].origin {
                Origin::Node { index, .. } => {
                    let view = View { graph, rules, survey, solution, model: &model, partition, index };
                    (view.reason(), view.opinions(), false)
                }
                Origin::Bridge { id, way } => {
                    let opinions = bridge_opinions(rules, survey, *target, id, way);
                    (bridge_reason(graph, survey, *target, id, way), opinions, true)
                }
            };
            let device = survey.targets[*target].id.to_string();
            list.push(Placed {
                node: node.name.clone(),
                op: node.full_op(),
                device,
                partition,
                bridge,
                reason,
                opinions,
            });
        }
    }
    list
}

/// One node of the graph with all that its reason depends on.
struct View<'v, 'a> {
    graph: &'v Graph,
    rules: &'v Rules,
    survey: &'v Survey<'a>,
    solution: &'v Solution,
    model: &'v Model<'v>,
    partition: usize,
    index: usize,
}

impl View<'_, '_> {
    fn choice(&self) -> Choice {
        self.solution.choices[self.index][self.solution.x[self.index]]
    }

    fn id(&self, target: usize) -> &str {
        self.survey.targets[target].id
    }

    fn answer(&self, target: usize) -> &Answer {
        &self.survey.answers[self.index][target]
    }

    /// One sentence.
    fn reason(&self) -> String {
        let chosen = self.choice();
        let why = self.why(chosen);
        match chosen.form.storage() {
            Some(storage) => format!("{why}; as its {storage} twin ({})", self.why_twin(chosen)),
            None => why,
        }
    }

    /// Why the node does not run in the graph's own form: the device's refusal, or that of a node beside it.
    fn why_twin(&self, chosen: Choice) -> String {
        let answer = self.answer(chosen.target);
        if answer.refusal.is_some() {
            return answer.why();
        }
        let node = &self.graph.nodes[self.index];
        let own: BTreeSet<ValueId> = node.inputs.iter().flatten().chain(&node.outputs).copied().collect();
        let touches = |i: &usize| {
            let other = &self.graph.nodes[*i];
            other.inputs.iter().flatten().chain(&other.outputs).any(|id| own.contains(id))
        };
        let refused = |i: &usize| {
            let choice = self.solution.choices[*i][self.solution.x[*i]];
            choice.form == chosen.form && self.survey.answers[*i][choice.target].refusal.is_some()
        };
        match (0..self.graph.nodes.len()).filter(refused).find(touches) {
            Some(i) => {
                let said = self.survey.answers[i][self.solution.choices[i][self.solution.x[i]].target].why();
                format!("for `{}` beside it, whose own form was refused: {said}", self.graph.nodes[i].name)
            }
            None => "needs no bridges beside other twins".into(),
        }
    }

    fn why(&self, chosen: Choice) -> String {
        if let Some((_, pattern)) = &self.rules.pins[self.index] {
            return format!("pinned by `{pattern}`");
        }
        let refused = refusals(self.rules, self.survey, self.index, None);
        if !self.rules.wanted.contains(&chosen.target) {
            let none = if refused.is_empty() { "no wanted device is left".into() } else { refused };
            return format!("fallback: {none}");
        }
        if let Some(gone) = self.solution.dissolved.iter().rev().find(|d| d.nodes.contains(&self.index)) {
            return gone.text.clone();
        }
        if self.rules.by_priority {
            let before = refusals(self.rules, self.survey, self.index, Some(chosen.target));
            let first = "the first in the order of priority".to_string();
            return if before.is_empty() { first } else { format!("{before}; {} is next", self.id(chosen.target)) };
        }
        let other = best_where(&self.solution.choices[self.index], |c| c.target != chosen.target);
        match other {
            Some(k) => self.against(chosen, k),
            None if refused.is_empty() => format!("{} is the only device", self.id(chosen.target)),
            None => refused,
        }
    }

    /// Why not the best choice on another device.
    fn against(&self, chosen: Choice, k: usize) -> String {
        let other = self.solution.choices[self.index][k];
        let (here, there) = (human(chosen.ns), human(other.ns));
        let name = self.id(other.target);
        if chosen.ns <= other.ns {
            return format!("cheapest: {here} here, {there} on {name}");
        }
        let switch_ns = self.switch_ns(k);
        if other.ns.saturating_add(switch_ns) < chosen.ns {
            let whole = self.solution.est_ns.get(self.partition).map_or_else(String::new, |ns| human(*ns));
            return format!("cheaper as a part of its partition, {whole} as a whole: alone {here}, {there} on {name}");
        }
        let switch = human(switch_ns);
        format!("joined the island of its neighbours: {here} here, {there} on {name}, but a switch would cost {switch}")
    }

    /// What transfers, bridges and submissions would add if the node alone had another choice.
    fn switch_ns(&self, k: usize) -> u64 {
        let mut y = self.solution.x.clone();
        let now = self.model.local(&y, &[self.index]).saturating_sub(self.choice().ns);
        y[self.index] = k;
        let then = self.model.local(&y, &[self.index]).saturating_sub(self.solution.choices[self.index][k].ns);
        then.saturating_sub(now)
    }

    fn opinions(&self) -> Vec<Opinion> {
        (0..self.survey.targets.len()).map(|t| self.opinion(t)).collect()
    }

    fn opinion(&self, target: usize) -> Opinion {
        let measured = self.answer(target).is_measured();
        Opinion { measured, ..self.said(target) }
    }

    fn said(&self, target: usize) -> Opinion {
        let answer = self.answer(target);
        let chosen = self.choice();
        let ban = self.rules.bans[self.index].get(&target).map(|pattern| format!("banned by `{pattern}`"));
        if let Some(opinion) = barred(self.survey, self.rules, target, answer, ban) {
            return opinion;
        }
        let least = answer.forms.iter().map(|(_, ns)| *ns).min().unwrap_or(0);
        if target == chosen.target {
            let twin = |s| format!("chosen, as its {s} twin ({})", self.why_twin(chosen));
            let text = chosen.form.storage().map_or("chosen".into(), twin);
            return opinion(self.survey, target, true, "OK", text, chosen.ns);
        }
        let on = self.id(chosen.target);
        let (code, text) = if self.rules.pins[self.index].is_some() {
            ("POLICY", format!("the node is pinned to {on}"))
        } else if !self.rules.wanted.contains(&target) {
            ("POLICY", "is not among the wanted devices".into())
        } else if self.rules.by_priority {
            ("POLICY", format!("comes after {on} in the order of priority"))
        } else {
            ("COST", format!("{} here, {} on {on}", human(least), human(chosen.ns)))
        };
        opinion(self.survey, target, true, code, text, least)
    }
}

fn opinion(survey: &Survey, target: usize, ok: bool, code: &str, text: String, cost_ns: u64) -> Opinion {
    Opinion { device: survey.targets[target].id.into(), ok, code: code.into(), text, cost_ns, measured: false }
}

/// The opinion of a device that is lost, banned, or refuses.
fn barred(survey: &Survey, rules: &Rules, target: usize, answer: &Answer, ban: Option<String>) -> Option<Opinion> {
    if rules.lost == Some(target) {
        return Some(opinion(survey, target, false, "LOST", "the device is lost".into(), 0));
    }
    if let Some(text) = ban {
        return Some(opinion(survey, target, false, "BANNED", text, 0));
    }
    let (code, text) = answer.refusal.as_ref().filter(|_| answer.forms.is_empty())?;
    Some(opinion(survey, target, false, code, text.clone(), 0))
}

fn bridge_reason(graph: &Graph, survey: &mut Survey, target: usize, id: ValueId, way: Way) -> String {
    let home = graph.ty(id);
    let (from, to) = (way.0.ty(home).dtype, way.1.ty(home).dtype);
    let cost = human(survey.bridge(id, way, target).unwrap_or(0));
    let (device, name) = (survey.targets[target].id, graph.name_of(id));
    let what = match way {
        (Repr::Raw, _) => format!("quantizes `{name}` to {to}"),
        (_, Repr::Real | Repr::Raw) => format!("dequantizes `{name}` from {from}"),
        _ => format!("turns `{name}` from {from} to {to} (XOR 0x80)"),
    };
    format!("{what}; least cost with transfers on {device}: {cost}")
}

fn bridge_opinions(rules: &Rules, survey: &mut Survey, chosen: usize, id: ValueId, way: Way) -> Vec<Opinion> {
    let mut list = Vec::with_capacity(survey.targets.len());
    for target in 0..survey.targets.len() {
        let answer = survey.bridge_answer(id, way, target);
        let ns = answer.forms.first().map_or(0, |(_, ns)| *ns);
        let (code, text) = match target == chosen {
            true => ("OK", "chosen".to_string()),
            false if rules.usable().contains(&target) => ("COST", "costs more with its transfers".to_string()),
            false => ("POLICY", "is not among the wanted devices".to_string()),
        };
        let barred = barred(survey, rules, target, &answer, None);
        list.push(barred.unwrap_or_else(|| opinion(survey, target, true, code, text, ns)));
    }
    list
}

/// The notes of a solution: refusals, dissolved islands, twins, and a summary.
pub(super) fn notes(graph: &Graph, rules: &Rules, survey: &Survey, solution: &Solution, notes: &mut Vec<Diagnostic>) {
    let mut groups: BTreeMap<(&'static str, String), Vec<usize>> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let chosen = solution.choices[index][solution.x[index]];
        let device = survey.targets[chosen.target].id;
        let refused = refusals(rules, survey, index, Some(chosen.target));
        if !refused.is_empty() && rules.pins[index].is_none() {
            groups.entry(("P0101", format!("{} runs on {device}: {refused}", node.full_op()))).or_default().push(index);
        }
        if let Some(storage) = chosen.form.storage().filter(|_| chosen.form != Form::Native) {
            let why = survey.answers[index][chosen.target].refusal.is_some();
            let what = format!("{device} runs nodes as their {storage} twins, bit-equal to the model's own form");
            groups.entry(("P0104", what)).or_default().extend(why.then_some(index));
        }
    }
    let mut grouped: Vec<_> = groups.into_iter().filter(|(_, nodes)| !nodes.is_empty()).collect();
    grouped.sort_by_key(|((code, _), nodes)| (*code, nodes[0]));
    notes.extend(grouped.into_iter().map(|((code, what), nodes)| group_note(graph, code, what, &nodes)));
    for gone in &solution.dissolved {
        let first = gone.nodes.first().map_or("", |i| graph.nodes[*i].name.as_str());
        notes.push(Diagnostic::note("P0102", first, gone.text.clone()));
    }
    notes.extend(summary(survey, solution));
}

/// One note for nodes of one fate; it stands at the first and names a few of the others.
fn group_note(graph: &Graph, code: &'static str, what: String, nodes: &[usize]) -> Diagnostic {
    let name = |i: &usize| graph.nodes[*i].name.as_str();
    let others: Vec<&str> = nodes.iter().skip(1).take(MAX_NAMED).map(name).collect();
    let more = nodes.len().saturating_sub(1 + others.len());
    let also = match (others.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; also {}", others.join(", ")),
        (false, more) => format!("; also {} and {more} more", others.join(", ")),
    };
    Diagnostic::note(code, name(&nodes[0]), what + &also)
}

/// What runs where, if that is more than one device.
fn summary(survey: &Survey, solution: &Solution) -> Option<Diagnostic> {
    let mut by_target: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (target, nodes) in &solution.runs {
        let counts = by_target.entry(*target).or_default();
        *counts = (counts.0 + nodes.len(), counts.1 + 1);
    }
    let bridges = solution.draft.seats.iter().filter(|s| matches!(s.origin, Origin::Bridge { .. })).count();
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let part = |(t, (nodes, runs)): (&usize, &(usize, usize))| {
        format!("{}: {} in {}", survey.targets[*t].id, plural(*nodes, "node"), plural(*runs, "partition"))
    };
    let parts: Vec<String> = by_target.iter().map(part).collect();
    let latency = human(solution.latency_ns);
    let text = format!("{}; {}; modelled latency {latency}", parts.join(", "), plural(bridges, "bridge"));
    (by_target.len() > 1).then(|| Diagnostic::note("P0100", "", text))
}

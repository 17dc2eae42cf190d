//! What every device says about every node: verdict, reason of a refusal, twins that it would take, cost.
//!
//! The survey does not know the rules; the same survey serves the plan and its alternatives. A device that later
//! refuses a node as a part of a partition is struck off here ([`Survey::strike`]), so the next solution avoids it.

use super::Target;
use super::costs::{Estimates, Links, MAX_NS};
use super::draft::Origin;
use super::measured::{Measured, scale, signatures};
use super::repr::{Clamp, Repr, bridge_program};
use super::twin::{Form, solo, twin};
use ottava_graph::{Diagnostic, Graph, to_program};
use ottava_hal::{Error, Node, Program, ValueId, Verdict};
use ottava_ops::OTTAVA;
use std::collections::{BTreeMap, BTreeSet};

/// What one device says about one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    /// Forms that it runs bit-exactly, with the time of one run in nanoseconds.
    pub forms: Vec<(Form, u64)>,
    /// Why it does not run the graph's own form: code and words.
    pub refusal: Option<(String, String)>,
    /// What the device estimated for each form, if the times of `forms` were measured.
    estimates: Vec<(Form, u64)>,
}

impl Answer {
    /// The refusal in one phrase.
    pub fn why(&self) -> String {
        let code = |(code, text): &(String, String)| format!("{code}: {text}");
        self.refusal.as_ref().map_or_else(|| "no reason given".into(), code)
    }

    /// The times are measured.
    pub fn is_measured(&self) -> bool {
        !self.estimates.is_empty()
    }

    /// Takes a measured time for the cheapest form; the others keep their proportion to it.
    fn measure(&mut self, ns: u64) {
        self.estimates.clone_from(&self.forms);
        let least = self.forms.iter().map(|(_, ns)| *ns).min().unwrap_or(0);
        self.forms.iter_mut().for_each(|(_, form_ns)| *form_ns = scale(*form_ns, ns, least));
    }

    /// Measured and estimated time of a form; the first is `None` where nothing was measured.
    fn times(&self, form: Form) -> (Option<u64>, u64) {
        let of = |list: &[(Form, u64)]| list.iter().find(|(f, _)| *f == form).map(|(_, ns)| *ns);
        match of(&self.estimates) {
            Some(estimate) => (of(&self.forms), estimate),
            None => (None, of(&self.forms).unwrap_or(0)),
        }
    }
}

/// The answers of all devices.
pub(super) struct Survey<'a> {
    /// The devices.
    pub targets: &'a [Target<'a>],
    /// The ways between them.
    pub links: Links,
    /// By node, then by target.
    pub answers: Vec<Vec<Answer>>,
    graph: &'a Graph,
    estimates: Estimates,
    /// Bounds that nodes put on their first results.
    clamps: BTreeMap<ValueId, (i32, i32)>,
    /// Cost of a bridge; `None` where the target refuses it.
    bridges: BTreeMap<Bridge, Option<u64>>,
    struck_bridges: BTreeSet<Bridge>,
}

/// A bridge on a target: the value, from and to which representation, where.
type Bridge = (ValueId, (Repr, Repr), usize);

impl<'a> Survey<'a> {
    /// Asks all devices.
    pub fn new(graph: &'a Graph, targets: &'a [Target<'a>], measured: &Measured) -> Self {
        let clamp = |n: &Node| Some((*n.outputs.first()?, n.fused.clamp?));
        let mut survey = Self {
            targets,
            clamps: graph.nodes.iter().filter_map(clamp).collect(),
            links: Links::of(targets),
            answers: vec![Vec::with_capacity(targets.len()); graph.nodes.len()],
            graph,
            estimates: Estimates::default(),
            bridges: BTreeMap::new(),
            struck_bridges: BTreeSet::new(),
        };
        let program = to_program(graph);
        for target in 0..targets.len() {
            survey.ask(target, &program);
        }
        if survey.answers.iter().flatten().any(|a| a.forms.iter().any(|(f, _)| *f != Form::Native)) {
            survey.ask_converters();
        }
        if !measured.is_empty() {
            survey.take(measured);
        }
        survey
    }

    /// Measured times in place of estimates.
    fn take(&mut self, measured: &Measured) {
        for (answers, of) in self.answers.iter_mut().zip(signatures(self.graph)) {
            for (answer, target) in answers.iter_mut().zip(self.targets) {
                if let Some(ns) = measured.ns(target.id, &of.signature).filter(|_| !answer.forms.is_empty()) {
                    answer.measure(ns.min(MAX_NS));
                }
            }
        }
    }

    /// Verdicts on the whole graph, then on the twins of what was refused.
    fn ask(&mut self, target: usize, program: &Program) {
        let verdicts = assess(&self.targets[target], program);
        for (i, verdict) in verdicts.into_iter().enumerate() {
            let refusal = refusal_of(&verdict);
            let refusal = refusal.map(|(c, t)| (c.to_string(), t));
            let mut answer = Answer { refusal, ..Answer::default() };
            match refusal_code(&verdict) {
                None => {
                    let alone = solo(self.graph, &self.graph.nodes[i], &BTreeMap::new());
                    answer.forms.push((Form::Native, self.estimates.ns(self.targets, target, &alone)));
                }
                Some("OP_UNKNOWN" | "OP_VERSION" | "INEXACT") => {}
                Some(_) => answer.forms = self.twins(target, i),
            }
            self.answers[i].push(answer);
        }
    }

    /// Twins of a node that a device runs bit-exactly.
    fn twins(&mut self, target: usize, index: usize) -> Vec<(Form, u64)> {
        let mut found = Vec::new();
        for form in Form::TWINS {
            // A twin that cannot be built is one that is not offered.
            let Ok(Some(twin)) = twin(self.graph, index, form) else { continue };
            let alone = solo(self.graph, &twin.node, &twin.values);
            let exact = matches!(assess(&self.targets[target], &alone)[..], [Verdict::Supported { exact: true }]);
            if exact {
                found.push((form, self.estimates.ns(self.targets, target, &alone)));
            }
        }
        found
    }

    /// Quantize, Dequantize and Requantize can take the border of a region of twins into themselves.
    fn ask_converters(&mut self) {
        let converts = |n: &Node| n.domain == OTTAVA && n.op != "Lut";
        let converters: Vec<usize> =
            self.graph.nodes.iter().enumerate().filter(|(_, n)| converts(n)).map(|(i, _)| i).collect();
        for i in converters {
            for target in 0..self.targets.len() {
                if self.answers[i][target].forms.iter().any(|(f, _)| *f == Form::Native) {
                    let twins = self.twins(target, i);
                    self.answers[i][target].forms.extend(twins);
                }
            }
        }
    }

    /// The bounds that the producer of a value puts on it.
    pub fn clamp(&self, id: ValueId) -> Clamp {
        self.clamps.get(&id).copied()
    }

    /// Cost of a bridge on a target; `None` if the target refuses.
    pub fn bridge(&mut self, id: ValueId, way: (Repr, Repr), target: usize) -> Option<u64> {
        let key = (id, way, target);
        if self.struck_bridges.contains(&key) {
            return None;
        }
        if let Some(known) = self.bridges.get(&key) {
            return *known;
        }
        let program = bridge_program(self.graph, id, way, self.clamp(id));
        let exact = matches!(assess(&self.targets[target], &program)[..], [Verdict::Supported { exact: true }]);
        let ns = exact.then(|| self.estimates.ns(self.targets, target, &program));
        self.bridges.insert(key, ns);
        ns
    }

    /// What a device says about a bridge, as an answer.
    pub fn bridge_answer(&mut self, id: ValueId, way: (Repr, Repr), target: usize) -> Answer {
        if let Some(ns) = self.bridge(id, way, target) {
            return Answer { forms: vec![(Form::Native, ns)], ..Answer::default() };
        }
        let program = bridge_program(self.graph, id, way, self.clamp(id));
        let verdicts = assess(&self.targets[target], &program);
        let struck = || ("OTHER", "refused it as a part of a partition".to_string());
        let (code, text) = verdicts.first().and_then(refusal_of).unwrap_or_else(struck);
        Answer { refusal: Some((code.into(), text)), ..Answer::default() }
    }

    /// Time of a whole partition of these seats: the measured times of its nodes, and of the estimate the share of those
    /// that were not measured.
    pub fn whole_ns(&mut self, target: usize, program: &Program, origins: &[Origin]) -> u64 {
        let estimate = self.estimates.ns(self.targets, target, program);
        let (mut measured, mut rest, mut all) = (None, 0u64, 0u64);
        for origin in origins {
            let (ns, alone) = match *origin {
                Origin::Node { index, form } => self.answers[index][target].times(form),
                Origin::Bridge { id, way } => (None, self.bridge(id, way, target).unwrap_or(0)),
            };
            all = all.saturating_add(alone);
            match ns {
                Some(ns) => measured = Some(measured.unwrap_or(0u64).saturating_add(ns)),
                None => rest = rest.saturating_add(alone),
            }
        }
        match measured {
            Some(ns) if rest == 0 => ns,
            Some(ns) => ns.saturating_add(scale(estimate, rest, all)),
            None => estimate,
        }
    }

    /// Takes back what a device has said about a form of a node.
    pub fn strike(&mut self, index: usize, target: usize, form: Form, verdict: &Verdict) {
        let (code, text) = refusal_of(verdict).unwrap_or(("OTHER", String::new()));
        let answer = &mut self.answers[index][target];
        answer.forms.retain(|(f, _)| *f != form);
        answer.refusal = Some((code.into(), format!("accepted it alone, refused it as a part of a partition: {text}")));
    }

    /// Takes back what a device has said about a bridge.
    pub fn strike_bridge(&mut self, id: ValueId, way: (Repr, Repr), target: usize) {
        self.struck_bridges.insert((id, way, target));
    }

    /// Findings about devices that cannot estimate.
    pub fn estimate_notes(&self) -> Vec<Diagnostic> {
        self.estimates.notes(self.targets)
    }
}

/// One verdict per node, whatever the driver returns.
pub(super) fn assess(target: &Target, program: &Program) -> Vec<Verdict> {
    let other = |what: String| Verdict::rejected(ottava_hal::Reason::Other, what);
    let silent = || other("gave no verdict".into());
    match target.device.assess(program) {
        Ok(mut verdicts) => {
            verdicts.resize_with(program.nodes.len(), silent);
            verdicts
        }
        Err(Error::Unsupported { reason, what }) => {
            vec![Verdict::rejected(reason, what); program.nodes.len()]
        }
        Err(e) => vec![other(format!("its assessment failed: {e}")); program.nodes.len()],
    }
}

fn refusal_code(verdict: &Verdict) -> Option<&'static str> {
    refusal_of(verdict).map(|(code, _)| code)
}

/// Code and words of a verdict that is no exact support.
fn refusal_of(verdict: &Verdict) -> Option<(&'static str, String)> {
    match verdict {
        Verdict::Supported { exact: true } => None,
        Verdict::Supported { exact: false } => Some(("INEXACT", "runs it, but not bit-equal to the reference".into())),
        Verdict::Rejected { reason, detail } => Some((reason.code(), detail.clone())),
    }
}

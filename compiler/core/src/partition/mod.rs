//! Partitioning: which device runs which node, the bridges between devices, and the cut into partitions.
//!
//! ```text
//! rules    which devices are wanted; pins and bans per node (`patterns`)
//! survey   what every device says about every node, and what the node would cost there (`costs`; `measured` where
//!          that is known better);
//!          `twin` offers other forms of a node that is refused: u8 for s8, f32 between conversions (`repr`)
//! choices  what is left for each node under the rules; `flips`: where values can be converted
//! model    modelled latency of an assignment: nodes, transfers, bridges, submissions (`order`: runs of one device)
//! search   assignments of low latency; `islands` moves and dissolves whole runs
//! draft    the placed graph: twins and bridges are ordinary nodes
//! refine   small partitions on the devices beside them, priced as whole partitions
//! build    runs of the schedule become partitions of a `Plan`
//! explain  why each node is where it is, for the plan and as diagnostics
//! ```
//!
//! Invariants: only verdicts with `exact: true` are used. A partition is a run of one topological order, so partitions
//! cannot depend on each other in a circle. The result is a function of graph, targets and [`Placement`] alone: ties go
//! by the order of the targets, and nothing is hashed. Modelled latency is the sum over partitions, as if nothing
//! overlapped; overlap of inferences in flight is the runtime's gain on top.

mod build;
mod choices;
mod costs;
mod draft;
mod explain;
mod flips;
mod islands;
mod measured;
mod model;
mod order;
mod patterns;
mod refine;
mod repr;
mod rules;
mod search;
mod survey;
mod twin;

pub use measured::{Measured, NodeSignature, signatures};
use ottava_graph::{Diagnostic, Graph, Result};
use ottava_hal::Device;
use ottava_plan::{Alternative, Plan};

/// Id of the target that runs every operator: the reference interpreter. It is wanted only where it is named.
const REFERENCE: &str = "reference";

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
    /// It runs on the target `reference` (the last target if there is none), and a diagnostic says so.
    #[default]
    Reference,
    /// It is an error.
    Error,
}

/// What automatic placement makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Modelled time of one inference.
    #[default]
    Latency,
}

/// How a node finds its device among those that accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// By cost.
    Auto(Objective),
    /// The first one of [`Placement::priority`].
    Priority,
}

impl Default for Policy {
    fn default() -> Self {
        Self::Auto(Objective::Latency)
    }
}

/// How devices are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// What happens to a node that no wanted device runs.
    pub fallback: Fallback,
    /// How a node finds its device.
    pub policy: Policy,
    /// Ids of the targets that are wanted, in order; if empty, all targets but `reference` in their order.
    pub priority: Vec<String>,
    /// Name or glob of nodes (`*` crosses slashes), and the target that must run them. The first match counts.
    pub pins: Vec<(String, String)>,
    /// Name or glob of nodes, and a target that must not run them.
    pub bans: Vec<(String, String)>,
    /// Least gain of an island over the device of a neighbour, nanoseconds; a smaller island is dissolved.
    pub min_gain_ns: u64,
    /// The same as a part of what the island's nodes cost on the neighbour's device.
    pub min_gain: f64,
    /// Compute a plan for the loss of each device.
    pub alternatives: bool,
    /// Times that were measured; they take the place of what devices estimate.
    pub measured: Measured,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            fallback: Fallback::default(),
            policy: Policy::default(),
            priority: Vec::new(),
            pins: Vec::new(),
            bans: Vec::new(),
            min_gain_ns: 1_000,
            min_gain: 0.05,
            alternatives: false,
            measured: Measured::default(),
        }
    }
}

/// Places a quantized graph. What a device refuses, the target `reference` (or the last one) must run, unless
/// [`Fallback::Error`] makes that an error. A pin that cannot be honoured is an error.
pub fn place(graph: &Graph, targets: &[Target], placement: &Placement, notes: &mut Vec<Diagnostic>) -> Result<Plan> {
    let rules = rules::Rules::new(graph, targets, placement, notes)?;
    let mut survey = survey::Survey::new(graph, targets, &placement.measured);
    let mut plan = build::solve(graph, &rules, &mut survey, placement, notes)?;
    if placement.alternatives && placement.fallback == Fallback::Reference {
        plan.alternatives = alternatives(graph, &plan, &rules, &mut survey, placement, notes);
    }
    notes.extend(survey.estimate_notes());
    plan.finish()
}

/// A plan for the loss of each device that is used; the reference cannot be lost.
fn alternatives(
    graph: &Graph,
    plan: &Plan,
    rules: &rules::Rules,
    survey: &mut survey::Survey,
    placement: &Placement,
    notes: &mut Vec<Diagnostic>,
) -> Vec<Alternative> {
    let mut found = Vec::new();
    for (lost, target) in survey.targets.iter().enumerate() {
        if target.id == REFERENCE || plan.device(target.id).is_none() {
            continue;
        }
        match build::solve(graph, &rules.without(lost), survey, placement, &mut Vec::new()) {
            Ok(plan) => found.push(Alternative { lost: target.id.into(), plan }),
            Err(e) => {
                let what = format!("there is no plan for the loss of device `{}`: {e}", target.id);
                notes.push(Diagnostic::warning("P0107", "", what));
            }
        }
    }
    found
}

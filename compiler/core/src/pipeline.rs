//! Phases: which passes run, and what is checked after them.

use crate::partition::{Placement, Target, place};
use crate::passes::{About, CANONICAL, Pass, QUANTIZED, count_requantizations};
use ottava_graph::{Diagnostic, Graph, Phase, Result, infer_types, verify};
use ottava_hal::{Device, Error};
use ottava_plan::Plan;

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassReport {
    /// The phase that it worked towards.
    pub phase: Phase,
    /// Name of the pass.
    pub name: &'static str,
    /// How many changes it made.
    pub changes: usize,
    /// What they are, and what they do to results.
    pub about: About,
    /// Requantizations of the graph before the pass and behind it.
    pub requantizations: (usize, usize),
}

/// What passes may use and where they leave findings.
pub struct Cx<'a> {
    /// Device for constant folding; it must run every operator.
    pub folder: &'a dyn Device,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
    /// What each pass of the pipelines did, in order; passes that changed nothing are left out.
    pub passes: Vec<PassReport>,
    /// Bytes that constant folding may still make. The first folding sets it from the constants of the graph.
    pub(crate) fold_budget: Option<usize>,
}

impl<'a> Cx<'a> {
    /// A context without findings.
    pub fn new(folder: &'a dyn Device) -> Self {
        Self { folder, diagnostics: Vec::new(), passes: Vec::new(), fold_budget: None }
    }
}

/// Runs one pass and brings types up to date.
pub fn run_pass(graph: &mut Graph, pass: &Pass, cx: &mut Cx) -> Result<usize> {
    let changes = (pass.run)(graph, cx)?;
    if changes > 0 {
        infer_types(graph)?;
    }
    Ok(changes)
}

/// From an imported graph to the canonical float form. A graph that is canonical already comes back as it is.
pub fn canonicalize(graph: &Graph, cx: &mut Cx) -> Result<Graph> {
    let mut graph = graph.clone();
    // What cannot be inferred now may become known by folding; only what stays unknown is worth a note.
    infer_types(&mut graph)?;
    let mut canonical = run_phase(graph, CANONICAL, Phase::Canonical, cx)?;
    cx.diagnostics.extend(infer_types(&mut canonical)?);
    Ok(canonical)
}

/// From a canonical graph (with or without Q/DQ and QOperator nodes) to integer operators.
pub fn integerize(graph: &Graph, cx: &mut Cx) -> Result<Graph> {
    run_phase(graph.clone(), QUANTIZED, Phase::Quantized, cx)
}

fn run_phase(mut graph: Graph, passes: &[Pass], phase: Phase, cx: &mut Cx) -> Result<Graph> {
    let mut before = count_requantizations(&graph);
    for pass in passes {
        let changes = run_pass(&mut graph, pass, cx).map_err(|e| in_pass(e, pass.name))?;
        if changes > 0 {
            let after = count_requantizations(&graph);
            let requantizations = (before, after);
            cx.passes.push(PassReport { phase, name: pass.name, changes, about: pass.about, requantizations });
            before = after;
        }
    }
    graph.phase = phase;
    graph.remove_dead();
    graph.compact();
    verify(&graph)?;
    Ok(graph)
}

fn in_pass(error: Error, pass: &str) -> Error {
    match error {
        Error::Invalid(what) => Error::Invalid(format!("{what} (in pass {pass})")),
        other => other,
    }
}

/// The whole way from an imported graph, whose dimensions are bound, to a plan.
pub fn compile(graph: &Graph, targets: &[Target], placement: &Placement, cx: &mut Cx) -> Result<Plan> {
    let canonical = match graph.phase {
        Phase::Imported => canonicalize(graph, cx)?,
        _ => graph.clone(),
    };
    let quantized = match canonical.phase {
        Phase::Quantized => canonical,
        _ => integerize(&canonical, cx)?,
    };
    place(&quantized, targets, placement, &mut cx.diagnostics)
}

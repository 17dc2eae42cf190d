//! What was quantized, what was not, and why.

use std::collections::BTreeMap;

use ottava_graph::Graph;
use ottava_hal::ValueId;

use super::kinds::is_float;
use super::plan::{Fate, Plan};
use super::ranges::ValueParams;
use crate::error::{Error, Result};

/// A node that stays in float.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatNode {
    /// Name of the node.
    pub name: String,
    /// Operator.
    pub op: String,
    /// Why.
    pub reason: String,
}

/// What the quantizer did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Names of the nodes that became integer operators, fused ones included, in the graph's order.
    pub quantized: Vec<String>,
    /// Nodes that compute floats and stay so, in the graph's order. Nodes on integers and shapes are not listed.
    pub float: Vec<FloatNode>,
    /// Parameters of every quantized value, by name.
    pub values: BTreeMap<String, ValueParams>,
    /// The recipe that was used, as text.
    pub recipe: String,
}

pub(crate) fn report(graph: &Graph, plan: &Plan, params: &BTreeMap<usize, ValueParams>, recipe: String) -> Report {
    let mut report = Report { recipe, ..Report::default() };
    for (idx, node) in graph.nodes.iter().enumerate() {
        let computes_floats = node.outputs.iter().any(|out| is_float(graph, *out));
        let reason = match &plan.fates[idx] {
            fate if *fate == Fate::Mask || plan.reads_integers(graph, idx) => {
                report.quantized.push(node.name.clone());
                continue;
            }
            Fate::Float(reason) => reason.clone(),
            _ => "no operator beside it is quantized".to_owned(),
        };
        if computes_floats {
            report.float.push(FloatNode { name: node.name.clone(), op: node.full_op(), reason });
        }
    }
    for id in (0..graph.values.len()).map(ValueId).filter(|id| plan.is_quantized(*id)) {
        if let Some(params) = params.get(&plan.groups.find(id)) {
            report.values.insert(graph.name_of(id).to_owned(), *params);
        }
    }
    report
}

/// Fails if more than the share `limit` of all multiply-accumulates stays in float, at batch 1.
pub(crate) fn expect_float_macs(graph: &Graph, report: &Report, limit: f64) -> Result<()> {
    let bound = ottava_graph::bind(graph, &BTreeMap::new(), 1).unwrap_or_else(|_| graph.clone());
    let macs = |node: &ottava_hal::Node| {
        let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|id| bound.ty(id))).collect();
        let outputs: Vec<_> = node.outputs.iter().map(|id| bound.ty(*id)).collect();
        ottava_ops::lookup(&node.domain, &node.op).map_or(0, |op| op.macs(node, &inputs, &outputs)) as f64
    };
    let total: f64 = bound.nodes.iter().map(macs).sum();
    let is_float = |node: &&ottava_hal::Node| report.float.iter().any(|f| f.name == node.name);
    let share = bound.nodes.iter().filter(is_float).map(macs).sum::<f64>() / total.max(1.0);
    if share <= limit {
        return Ok(());
    }
    let names: Vec<&str> = report.float.iter().map(|f| f.name.as_str()).take(5).collect();
    Err(Error::Unsupported {
        what: format!("max_float_macs: {limit}"),
        reason: format!("{:.1} % of the multiply-accumulates stay in float, among {}", 100.0 * share, names.join(", ")),
        help: "raise the limit, or quantize these nodes".to_owned(),
    })
}

/// Fails if anything stays in float that the recipe does not allow to.
pub(crate) fn expect_integer_only(report: &Report) -> Result<()> {
    let Some(first) = report.float.first() else { return Ok(()) };
    let others = match report.float.len() - 1 {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    Err(Error::Unsupported {
        what: format!("integer_only with node `{}` ({}){others}", first.name, first.op),
        reason: first.reason.clone(),
        help: "allow float nodes, or replace them in the model".to_owned(),
    })
}

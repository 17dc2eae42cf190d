//! Takes control operators apart where constants decide them: an `If` whose condition is known becomes the branch that
//! is taken, a `Loop` of a known number of passes and a `Scan` of known length become their passes one after the
//! other. What is folded between two rounds may decide more of them.
//!
//! A small file cannot become a large program: at most [`MAX_NODES`] nodes are written out per run, and what goes beyond that
//! stays a control operator, which the reference evaluates.

use super::rules::is_control;
use super::{About, Effect, fold_constants};
use crate::Cx;
use ottava_graph::{Diagnostic, Graph, Patch, Result, infer_types, rewrite};
use ottava_hal::{Attr, DataType, Node, Program, Tensor, TensorType, Value, ValueId};
use ottava_ops::control::always_continues;
use std::collections::BTreeMap;

/// Nodes that one run of the pass writes out. A pass of a loop counts one more than its nodes.
const MAX_NODES: usize = 1 << 12;

/// What the pass does.
pub const ABOUT: About = About { what: "control flow that constants decide was written out", effect: Effect::Exact };

/// Runs until nothing more is decided.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let (mut budget, mut total) = (MAX_NODES, 0);
    while graph.nodes.iter().any(is_control) {
        let n = rewrite(graph, "inline_control", |graph, _, index| Ok(inline(graph, index, &mut budget)))?;
        if n == 0 {
            break;
        }
        total += n;
        infer_types(graph)?;
        fold_constants::run(graph, cx)?;
    }
    for node in graph.nodes.iter().filter(|n| is_control(n)) {
        let what = format!("{} is decided by data or is large: the reference device evaluates it", node.op);
        cx.diagnostics.push(Diagnostic::note("M0402", &node.name, what));
    }
    Ok(total)
}

/// The node written out, if constants decide it and the budget allows it.
fn inline(graph: &Graph, index: usize, budget: &mut usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    if !is_control(node) {
        return None;
    }
    let mut writer = Writer::new(graph, node);
    let results = match node.op.as_str() {
        "If" => writer.branch(budget),
        "Loop" => writer.repeat(budget),
        _ => writer.scan(budget),
    }?;
    let outputs = node.outputs.iter().zip(results);
    for (k, (output, result)) in outputs.enumerate() {
        let name = writer.name(&format!("out{k}"));
        writer.emit(name, "Identity", &[Some(result?)], vec![*output], &[]);
    }
    writer.patch.remove.push(index);
    Some(writer.patch)
}

/// Writes bodies out for one node.
struct Writer<'g> {
    graph: &'g Graph,
    node: &'g Node,
    patch: Patch,
    /// What no name of the graph begins with.
    prefix: String,
    next: usize,
}

impl<'g> Writer<'g> {
    fn new(graph: &'g Graph, node: &'g Node) -> Self {
        let values = graph.values.iter().map(|v| v.name.as_str());
        let names: Vec<&str> = values.chain(graph.nodes.iter().map(|n| n.name.as_str())).collect();
        let free = |prefix: &String| !names.iter().any(|name| name.starts_with(prefix.as_str()));
        let numbered = (1u64..).map(|i| format!("{}_{i}/", node.name));
        let mut all = std::iter::once(format!("{}/", node.name)).chain(numbered);
        let prefix = all.find(free).expect("numbers do not run out");
        Self { graph, node, patch: Patch::new(graph), prefix, next: 0 }
    }

    /// A name that nothing has.
    fn name(&mut self, part: &str) -> String {
        self.next += 1;
        format!("{}{}/{part}", self.prefix, self.next)
    }

    fn constant(&mut self, data: Tensor) -> ValueId {
        let name = self.name("constant");
        self.patch.value(Value { name, ty: data.ty(), constant: Some(data) })
    }

    fn value(&mut self, part: &str, dtype: DataType) -> ValueId {
        let name = self.name(part);
        self.patch.value(Value { name, ty: TensorType::unranked(dtype), constant: None })
    }

    fn emit(
        &mut self,
        name: String,
        op: &str,
        inputs: &[Option<ValueId>],
        outputs: Vec<ValueId>,
        attrs: &[(&str, i64)],
    ) {
        let mut node = Node::new(name, op, 13);
        (node.inputs, node.outputs) = (inputs.to_vec(), outputs);
        attrs.iter().for_each(|(key, value)| node.attrs.set(*key, Attr::Int(*value)));
        self.patch.insert.push(node);
    }

    /// A node of operator set 13 with one new output.
    fn step(&mut self, op: &str, inputs: &[Option<ValueId>], dtype: DataType, attrs: &[(&str, i64)]) -> ValueId {
        let output = self.value(op, dtype);
        let name = self.name(op);
        self.emit(name, op, inputs, vec![output], attrs);
        output
    }

    /// One pass of a body; its outputs, `None` where one is an input that is absent.
    fn splice(&mut self, body: &Program, inputs: &[Option<ValueId>]) -> Option<Vec<Option<ValueId>>> {
        if body.inputs.len() != inputs.len() {
            return None;
        }
        self.next += 1;
        let place = format!("{}{}/", self.prefix, self.next);
        let mut ids: BTreeMap<ValueId, Option<ValueId>> =
            body.inputs.iter().copied().zip(inputs.iter().copied()).collect();
        let used = body.nodes.iter().flat_map(|n| n.inputs.iter().flatten().chain(&n.outputs)).chain(&body.outputs);
        for id in used {
            if !ids.contains_key(id) {
                let mut value = body.value(*id).clone();
                value.name.insert_str(0, &place);
                if value.constant.is_none() {
                    // What the body declares may have another extent in every pass.
                    value.ty = TensorType::unranked(value.ty.dtype);
                }
                let new = self.patch.value(value);
                ids.insert(*id, Some(new));
            }
        }
        for node in &body.nodes {
            let mut node = Node { name: format!("{place}{}", node.name), ..node.clone() };
            node.inputs.iter_mut().for_each(|slot| *slot = slot.and_then(|id| ids[&id]));
            node.outputs = node.outputs.iter().filter_map(|id| ids[id]).collect();
            self.patch.insert.push(node);
        }
        Some(body.outputs.iter().map(|id| ids[id]).collect())
    }

    fn known_flag(&self, i: usize) -> Option<bool> {
        let data = self.graph.constant(self.node.input(i)?)?;
        data.to_ints().ok()?.first().map(|v| *v != 0)
    }

    fn branch(&mut self, budget: &mut usize) -> Option<Vec<Option<ValueId>>> {
        let taken = if self.known_flag(0)? { "then_branch" } else { "else_branch" };
        let body = self.node.attrs.program(taken).ok()?;
        *budget = budget.checked_sub(body.nodes.len() + 1)?;
        self.splice(body, &self.node.inputs[1..])
    }

    fn repeat(&mut self, budget: &mut usize) -> Option<Vec<Option<ValueId>>> {
        let body = self.node.attrs.program("body").ok()?;
        let goes = self.node.input(1).is_none() || self.known_flag(1)?;
        let count = self.graph.constant(self.node.input(0)?)?.to_ints().ok()?.first().copied()?;
        let passes = if goes { usize::try_from(count.max(0)).ok()? } else { 0 };
        let captures = usize::try_from(self.node.attrs.int("captures", 0).ok()?).ok()?;
        if !always_continues(body) || self.node.inputs.len() < 2 + captures {
            return None;
        }
        *budget = budget.checked_sub(passes.checked_mul(body.nodes.len() + 2)?)?;
        let (states, captured) = self.node.inputs[2..].split_at(self.node.inputs.len() - 2 - captures);
        let mut states = states.to_vec();
        let mut stacks = vec![Vec::new(); body.outputs.len().checked_sub(1 + states.len())?];
        let go = Tensor::from_bools(&[], &[true]).ok().map(|t| self.constant(t));
        for pass in 0..passes {
            let number = self.constant(Tensor::scalar(pass as i64));
            let lead = [Some(number), go];
            let inputs: Vec<_> = [&lead[..], &states[..], captured].concat();
            let outputs = self.splice(body, &inputs)?;
            let n = states.len();
            states = outputs[1..1 + n].to_vec();
            stacks.iter_mut().zip(&outputs[1 + n..]).for_each(|(stack, id)| stack.push(*id));
        }
        let stacked = stacks.iter().enumerate().map(|(j, parts)| self.stack(states.len() + j, parts, 0));
        let stacked = stacked.collect::<Option<Vec<_>>>()?;
        Some(states.into_iter().chain(stacked.into_iter().map(Some)).collect())
    }

    fn scan(&mut self, budget: &mut usize) -> Option<Vec<Option<ValueId>>> {
        let attrs = &self.node.attrs;
        let body = attrs.program("body").ok()?;
        let number = |name: &str| usize::try_from(attrs.int(name, 0).ok()?).ok();
        let list =
            |name: &str, i: usize| attrs.ints_opt(name).ok().flatten().and_then(|v| v.get(i).copied()).unwrap_or(0);
        let (captures, n_scanned) = (number("captures")?, number("num_scan_inputs")?);
        let n_states = self.node.inputs.len().checked_sub(captures.checked_add(n_scanned)?)?;
        let first = self.graph.ty(self.node.input(n_states)?);
        let axis = ottava_ops::util::axis(list("scan_input_axes", 0), first.shape.rank()).ok()?;
        let passes = first.shape.0.get(axis)?.known().filter(|_| !first.is_unranked())?;
        *budget = budget.checked_sub(passes.checked_mul(body.nodes.len() + n_scanned + 2)?)?;
        let mut states = self.node.inputs[..n_states].to_vec();
        let mut stacks = vec![Vec::new(); body.outputs.len().checked_sub(n_states)?];
        for pass in 0..passes {
            let mut inputs = states.clone();
            for i in 0..n_scanned {
                let backwards = list("scan_input_directions", i) != 0;
                let at = if backwards { passes - 1 - pass } else { pass };
                inputs.push(Some(self.slice(n_states + i, at, list("scan_input_axes", i))?));
            }
            inputs.extend(&self.node.inputs[n_states + n_scanned..]);
            let outputs = self.splice(body, &inputs)?;
            states = outputs[..n_states].to_vec();
            stacks.iter_mut().zip(&outputs[n_states..]).for_each(|(stack, id)| stack.push(*id));
        }
        let backwards = stacks.iter_mut().enumerate().filter(|(j, _)| list("scan_output_directions", *j) != 0);
        backwards.for_each(|(_, stack)| stack.reverse());
        let stacked = stacks.iter().enumerate();
        let stacked = stacked.map(|(j, parts)| self.stack(n_states + j, parts, list("scan_output_axes", j)));
        let stacked = stacked.collect::<Option<Vec<_>>>()?;
        Some(states.into_iter().chain(stacked.into_iter().map(Some)).collect())
    }

    /// The slice of input `i` that one pass gets.
    fn slice(&mut self, i: usize, at: usize, axis: i64) -> Option<ValueId> {
        let x = self.node.input(i)?;
        let at = self.constant(Tensor::scalar(at as i64));
        Some(self.step("Gather", &[Some(x), Some(at)], self.graph.ty(x).dtype, &[("axis", axis)]))
    }

    /// The values of all passes joined along a new axis; `None` without a pass, where only a type says the shape.
    fn stack(&mut self, output: usize, parts: &[Option<ValueId>], axis: i64) -> Option<ValueId> {
        let dtype = self.node.outputs.get(output).map_or(DataType::F32, |id| self.graph.ty(*id).dtype);
        let axes = self.constant(Tensor::from_slice(&[1], &[axis]).ok()?);
        let mut wide = Vec::with_capacity(parts.len());
        for part in parts {
            wide.push(Some(self.step("Unsqueeze", &[Some((*part)?), Some(axes)], dtype, &[])));
        }
        (!wide.is_empty()).then(|| self.step("Concat", &wide, dtype, &[("axis", axis)]))
    }
}

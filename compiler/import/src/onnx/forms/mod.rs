//! From any supported version of an operator to its newest form.
//!
//! [`table`] has one line per operator. Most operators only ever gained types and stay as they are; where an
//! attribute became an input, or an operator was replaced, a function of one of the family files rewrites the
//! node. A rewrite may add constants and nodes. Behind it every node is checked against the operator's schema.
mod attention;
mod attributes;
mod blocks;
mod constant;
mod control;
mod fused;
mod nn;
mod quantize;
mod resize;
pub(crate) mod table;
#[cfg(test)]
mod testing;

use super::names::Names;
use super::raw::{Problem, RawNode, Refusal};
use ottava_hal::{Attr, DataType, Tensor};
use ottava_ops::{AttrKind, OpSpec};
use std::collections::{HashMap, HashSet};

/// The operator set in which an operator without changes of form is written out again.
pub(crate) const BASE_OPSET: u32 = 13;

/// What a rewrite knows of the model around a node, and where its results go.
#[derive(Debug, Default)]
pub(crate) struct Cx {
    /// Constants in order of appearance.
    pub constants: Vec<(String, Tensor)>,
    /// Nodes in their newest form, in order.
    pub nodes: Vec<RawNode>,
    /// Names of values.
    pub values: Names,
    /// Names of nodes.
    pub node_names: Names,
    /// Values that a node or the caller reads.
    pub used: HashSet<String>,
    /// Element types as far as the file declares them.
    pub dtypes: HashMap<String, DataType>,
    constant_idx: HashMap<String, usize>,
    /// Scalars made of constants with one element, by the name of the constant.
    scalars: HashMap<String, String>,
}

impl Cx {
    /// Registers a constant under a name that is already taken.
    pub fn add_constant(&mut self, name: String, data: Tensor) {
        self.dtypes.insert(name.clone(), data.dtype());
        self.constant_idx.insert(name.clone(), self.constants.len());
        self.constants.push((name, data));
    }

    /// A new constant `NODE/part`.
    fn constant(&mut self, node: &RawNode, part: &str, data: Tensor) -> Option<String> {
        let name = self.values.unique(&format!("{}/{part}", node.name));
        self.add_constant(name.clone(), data);
        Some(name)
    }

    /// A new constant list of integers.
    fn ints(&mut self, node: &RawNode, part: &str, values: &[i64]) -> Result<Option<String>, Refusal> {
        let data = Tensor::from_slice(&[values.len()], values)?;
        Ok(self.constant(node, part, data))
    }

    /// A new value `NODE/part`.
    fn value(&mut self, node: &RawNode, part: &str) -> Option<String> {
        Some(self.values.unique(&format!("{}/{part}", node.name)))
    }

    /// A new node `NODE/part` of a standard operator.
    fn node(&mut self, node: &RawNode, part: &str, op: &str) -> RawNode {
        RawNode::new(self.node_names.unique(&format!("{}/{part}", node.name)), op)
    }

    /// The data of input `i`, where it is a constant.
    fn input_constant(&self, node: &RawNode, i: usize) -> Option<&Tensor> {
        self.constant_idx.get(node.input(i)?).map(|&idx| &self.constants[idx].1)
    }

    /// A scalar with the only element of input `i`, where that is a constant list of one.
    fn scalar(&mut self, node: &RawNode, i: usize) -> Result<Option<String>, Refusal> {
        let (Some(list), Some(name)) = (self.input_constant(node, i), node.input(i)) else { return Ok(None) };
        if list.shape() != [1] {
            return Ok(None);
        }
        if let Some(known) = self.scalars.get(name) {
            return Ok(Some(known.clone()));
        }
        let data = list.reshaped(&[])?;
        let scalar = self.values.unique(&format!("{name}/scalar"));
        self.add_constant(scalar.clone(), data);
        self.scalars.insert(name.to_owned(), scalar.clone());
        Ok(Some(scalar))
    }

    /// The float type of input `i`; f32 where the file does not say.
    fn float_type(&self, node: &RawNode, i: usize) -> DataType {
        let dtype = node.input(i).and_then(|name| self.dtypes.get(name)).copied();
        dtype.filter(|d| d.is_float()).unwrap_or(DataType::F32)
    }

    /// A new float constant of the type of input `i`.
    fn float(&mut self, node: &RawNode, part: &str, like: usize, value: f32) -> Result<Option<String>, Refusal> {
        let data = Tensor::from_f32s(self.float_type(node, like), &[], &[value])?;
        Ok(self.constant(node, part, data))
    }

    /// Whether anyone reads output `i`.
    fn is_used(&self, node: &RawNode, i: usize) -> bool {
        node.outputs.get(i).and_then(Option::as_ref).is_some_and(|name| self.used.contains(name))
    }

    /// Hands a node in its newest form on; `form` is the first operator set that has this form.
    fn emit(&mut self, mut node: RawNode, form: u32) -> Result<(), Refusal> {
        let spec = ottava_ops::lookup(&node.domain, &node.op)?.spec();
        check_schema(&node, spec)?;
        node.version = if node.domain.is_empty() { form.max(spec.since) } else { spec.since };
        while node.inputs.last().is_some_and(Option::is_none) {
            node.inputs.pop();
        }
        while node.outputs.len() > 1 && node.outputs.last().is_some_and(Option::is_none) {
            node.outputs.pop();
        }
        self.nodes.push(node);
        Ok(())
    }
}

/// Brings all nodes (in order of evaluation) to their newest form.
pub(crate) fn modernise(nodes: Vec<RawNode>, cx: &mut Cx, problems: &mut Vec<Problem>) {
    for node in nodes {
        let name = node.name.clone();
        if let Err(refusal) = modernise_node(node, cx) {
            problems.push(Problem { node: Some(name), refusal });
        }
    }
}

fn modernise_node(node: RawNode, cx: &mut Cx) -> Result<(), Refusal> {
    let place = format!("{} (operator set {})", node.full_op(), node.version);
    let result = match table::find(&node.domain, &node.op) {
        Some(row) => check_since(&node).and_then(|()| (row.map)(cx, node)),
        None => Refusal::unsupported(table::why_not(&node.domain, &node.op)),
    };
    result.map_err(|refusal| refusal.at(&place))
}

/// An operator that the declared operator set does not have yet.
fn check_since(node: &RawNode) -> Result<(), Refusal> {
    let Ok(op) = ottava_ops::lookup(&node.domain, &node.op) else { return Ok(()) };
    let since = op.spec().since;
    if node.domain.is_empty() && node.version < since && !table::EARLIER.contains(&node.op.as_str()) {
        return Refusal::invalid(format!("the operator came with operator set {since}; declare at least that one"));
    }
    Ok(())
}

fn check_schema(node: &RawNode, spec: &OpSpec) -> Result<(), Refusal> {
    let present = |values: &[Option<String>]| values.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    let counts = [("inputs", present(&node.inputs), spec.inputs), ("outputs", present(&node.outputs), spec.outputs)];
    for (what, found, (low, high)) in counts {
        if found < low || found > high {
            let high = if high == usize::MAX { "any number".to_owned() } else { high.to_string() };
            return Refusal::invalid(format!("{found} {what}; expected {low} to {high}"));
        }
    }
    for (name, value) in &node.attrs.0 {
        let Some(attr) = spec.attrs.iter().find(|a| a.name == name) else {
            let known: Vec<_> = spec.attrs.iter().map(|a| a.name).collect();
            return Refusal::unsupported(format!("attribute `{name}` is not known; known are: {}", known.join(", ")));
        };
        if kind(value) != attr.kind {
            return Refusal::invalid(format!(
                "attribute `{name}` is of kind {}, expected {:?}",
                value.kind(),
                attr.kind
            ));
        }
    }
    match spec.attrs.iter().find(|a| a.required && node.attrs.get(a.name).is_none()) {
        Some(missing) => Refusal::invalid(format!("attribute `{}` is missing", missing.name)),
        None => Ok(()),
    }
}

fn kind(value: &Attr) -> AttrKind {
    match value {
        Attr::Int(_) => AttrKind::Int,
        Attr::Float(_) => AttrKind::Float,
        Attr::Str(_) => AttrKind::Str,
        Attr::Ints(_) => AttrKind::Ints,
        Attr::Floats(_) => AttrKind::Floats,
        Attr::Strs(_) => AttrKind::Strs,
        Attr::Tensor(_) => AttrKind::Tensor,
        Attr::Program(_) => AttrKind::Program,
    }
}

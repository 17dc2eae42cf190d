//! Test support: one node through its line of the table, and what came out as text.
use super::super::raw::{RawNode, Refusal};
use super::{Cx, modernise_node};
use ottava_hal::{Attr, Tensor};

/// A node `n` and what is known around it.
pub(super) struct Sample {
    node: RawNode,
    cx: Cx,
}

impl Sample {
    /// An operator (`domain::Op` or `Op`) of an operator set.
    pub fn new(op: &str, version: u32) -> Self {
        let (domain, op) = op.split_once("::").unwrap_or(("", op));
        let node = RawNode { domain: domain.to_owned(), version, ..RawNode::new("n", op) };
        Self { node, cx: Cx::default() }
    }

    /// Inputs by name; `-` is absent.
    pub fn inputs(mut self, names: &str) -> Self {
        self.node.inputs = list(names);
        self
    }

    /// Outputs by name; all are read by someone.
    pub fn outputs(mut self, names: &str) -> Self {
        self.node.outputs = list(names);
        self.cx.used.extend(self.node.outputs.iter().flatten().cloned());
        self
    }

    pub fn attr(mut self, name: &str, value: Attr) -> Self {
        self.node.attrs.set(name, value);
        self
    }

    pub fn text(self, name: &str, value: &str) -> Self {
        self.attr(name, Attr::Str(value.to_owned()))
    }

    pub fn constant(mut self, name: &str, data: Tensor) -> Self {
        self.cx.add_constant(name.to_owned(), data);
        self
    }

    /// Lines `Op@VERSION inputs -> outputs attribute=value`, then constants that were added.
    pub fn run(mut self) -> Result<Vec<String>, Refusal> {
        let given = self.cx.constants.len();
        modernise_node(self.node, &mut self.cx)?;
        let mut lines: Vec<_> = self.cx.nodes.iter().map(line).collect();
        lines.extend(self.cx.constants[given..].iter().map(|(name, data)| format!("{name} = {data:?}")));
        Ok(lines)
    }

    /// Asserts what comes out.
    pub fn gives(self, expected: &[&str]) {
        assert_eq!(self.run(), Ok(expected.iter().map(|s| (*s).to_owned()).collect()));
    }

    /// Asserts a refusal that mentions `part`.
    pub fn refused_for(self, part: &str) {
        match self.run() {
            Err(Refusal::Invalid(text) | Refusal::Unsupported(text)) => assert!(text.contains(part), "{text}"),
            Ok(lines) => panic!("{lines:?} should be refused for: {part}"),
        }
    }
}

fn list(names: &str) -> Vec<Option<String>> {
    names.split_whitespace().map(|name| (name != "-").then(|| name.to_owned())).collect()
}

fn line(node: &RawNode) -> String {
    let names = |list: &[Option<String>]| {
        list.iter().map(|name| name.as_deref().unwrap_or("-").to_owned()).collect::<Vec<_>>().join(" ")
    };
    let mut text = format!("{}@{} {} -> {}", node.full_op(), node.version, names(&node.inputs), names(&node.outputs));
    for (name, value) in &node.attrs.0 {
        let value = match value {
            Attr::Int(v) => v.to_string(),
            Attr::Float(v) => v.to_string(),
            Attr::Str(v) => v.clone(),
            Attr::Ints(v) => format!("{v:?}"),
            Attr::Floats(v) => format!("{v:?}"),
            Attr::Strs(v) => format!("{v:?}"),
            Attr::Tensor(v) => format!("{v:?}"),
            Attr::Program(v) => v.name.clone(),
        };
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

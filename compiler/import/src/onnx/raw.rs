//! Nodes on their way from the file to the graph, and what is found wrong with them.
//!
//! Values are still names here, attributes are already typed. Problems are collected over the whole model,
//! so that a user learns of all unsupported operators at once.
use ottava_hal::Attrs;

/// A node with its attributes read, before and after its form is brought up to date.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawNode {
    /// Unique in the model.
    pub name: String,
    pub op: String,
    /// Empty for the standard operators.
    pub domain: String,
    /// Version of the domain's operator set that the node is written in.
    pub version: u32,
    /// `None` where an optional input is left out.
    pub inputs: Vec<Option<String>>,
    /// `None` where nobody wants the output.
    pub outputs: Vec<Option<String>>,
    pub attrs: Attrs,
}

impl RawNode {
    /// A standard operator named `name`, without inputs, outputs and attributes.
    pub fn new(name: impl Into<String>, op: &str) -> Self {
        let (name, op) = (name.into(), op.to_owned());
        Self { name, op, domain: String::new(), version: 0, inputs: vec![], outputs: vec![], attrs: Attrs::default() }
    }

    /// `domain::op`, or just `op` for a standard operator.
    pub fn full_op(&self) -> String {
        full_op(&self.domain, &self.op)
    }

    /// Input `i`, if it is there.
    pub fn input(&self, i: usize) -> Option<&str> {
        self.inputs.get(i)?.as_deref()
    }

    /// Sets input `i`, with absent inputs before it if need be.
    pub fn set_input(&mut self, i: usize, value: Option<String>) {
        if self.inputs.len() <= i {
            self.inputs.resize(i + 1, None);
        }
        self.inputs[i] = value;
    }
}

/// `domain::op`, or just `op` for a standard operator.
pub(crate) fn full_op(domain: &str, op: &str) -> String {
    if domain.is_empty() { op.to_owned() } else { format!("{domain}::{op}") }
}

/// Why a node cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The model breaks the format's rules.
    Invalid(String),
    /// The model is right; this crate does not do it.
    Unsupported(String),
}

impl Refusal {
    pub fn invalid<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Invalid(what.into()))
    }

    /// The same refusal with the place it is about in front.
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Invalid(what) => Self::Invalid(format!("{place}: {what}")),
            Self::Unsupported(what) => Self::Unsupported(format!("{place}: {what}")),
        }
    }

    pub fn unsupported<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unsupported(what.into()))
    }
}

impl From<ottava_hal::Error> for Refusal {
    fn from(error: ottava_hal::Error) -> Self {
        match error {
            ottava_hal::Error::Unsupported { what, .. } => Self::Unsupported(what),
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl From<crate::ImportError> for Refusal {
    fn from(error: crate::ImportError) -> Self {
        match error {
            crate::ImportError::UnsupportedTensor { .. } => Self::Unsupported(error.to_string()),
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// A refusal with the place it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The node's name; `None` for the model as a whole.
    pub node: Option<String>,
    pub refusal: Refusal,
}

impl Problem {
    /// A problem of the model as a whole.
    pub fn model(refusal: Refusal) -> Self {
        Self { node: None, refusal }
    }
}

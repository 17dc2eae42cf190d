//! What can go wrong while a model file is read or written.
use ottava_graph::Diagnostic;
use std::path::PathBuf;

/// Why a model could not be read. The three families of the workspace: *invalid* (the file is wrong),
/// *unsupported* (legal, but not done here) and *failed* (the machine refused).
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Invalid: the bytes are not well-formed protobuf of the expected message.
    #[error("{origin}: byte {offset}, in {place}: {what}; the file is damaged or is not an ONNX {message}")]
    Malformed {
        /// The file, or what stands for it.
        origin: String,
        /// The message that the file should hold: `model` or `tensor`.
        message: &'static str,
        /// Where in the file the damage was noticed.
        offset: usize,
        /// The field in the message, e.g. `graph.node[3].attribute[0].ints`.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// Invalid: the bytes are not a well-formed TFLite FlatBuffer.
    #[error("{origin}: byte {offset}, in {place}: {what}; the file is damaged or is not a TFLite model")]
    FlatBuffer {
        /// The file, or what stands for it.
        origin: String,
        /// Where in the file the damage was noticed.
        offset: usize,
        /// The field of the schema, e.g. `subgraph.tensors`.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// Invalid: a TFLite model where an ONNX model was asked for.
    #[error("{origin}: a TFLite model, where an ONNX model was expected")]
    TensorFlowLite {
        /// The file, or what stands for it.
        origin: String,
    },
    /// Invalid: a stored tensor contradicts itself.
    #[error("tensor `{tensor}`: {found}; expected {expected}")]
    Tensor {
        /// The tensor's name in the model.
        tensor: String,
        /// What the file holds.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// Unsupported: a stored tensor of a kind that Ottava does not read.
    #[error("tensor `{tensor}`: {what} is not supported; {help}")]
    UnsupportedTensor {
        /// The tensor's name in the model.
        tensor: String,
        /// The feature.
        what: String,
        /// What the user can do about it.
        help: &'static str,
    },
    /// Invalid or unsupported: the model was read, and cannot be imported. All findings are listed.
    #[error("{origin}: {}", summary(diagnostics))]
    Refused {
        /// The file, or what stands for it.
        origin: String,
        /// One error per finding.
        diagnostics: Vec<Diagnostic>,
    },
    /// Unsupported: the format cannot say what the graph means.
    #[error("cannot write {place} as ONNX: {what}")]
    Export {
        /// The node, the value, or the graph.
        place: String,
        /// Why.
        what: String,
    },
    /// Failed: a file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl ImportError {
    /// A self-contradicting tensor.
    pub(crate) fn tensor(tensor: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Tensor { tensor: tensor.to_owned(), found: found.into(), expected: expected.into() }
    }

    /// A failed read of `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

/// Findings that the message of [`ImportError::Refused`] spells out.
const MAX_SHOWN: usize = 5;

fn summary(diagnostics: &[Diagnostic]) -> String {
    let shown: Vec<_> = diagnostics.iter().take(MAX_SHOWN).map(Diagnostic::to_string).collect();
    let rest = diagnostics.len().saturating_sub(MAX_SHOWN);
    let more = if rest > 0 { format!("\nand {rest} more") } else { String::new() };
    format!("the model cannot be imported:\n{}{more}", shown.join("\n"))
}

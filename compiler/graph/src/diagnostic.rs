//! Findings about a model that are collected, not thrown: what a person should know about a node.

use std::fmt;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A decision worth knowing.
    Note,
    /// The result may not be what the user expects.
    Warning,
    /// The model cannot be used.
    Error,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code: a letter (`M` model, `Q` quantization, `P` partition, `H` HAL) and four digits, never reused.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Node or value it is about; empty for the whole model.
    pub node: String,
    /// What was found, what was expected.
    pub message: String,
    /// What to do; empty if there is nothing to do.
    pub help: String,
}

impl Diagnostic {
    /// A finding without help.
    pub fn new(code: &'static str, severity: Severity, node: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, severity, node: node.into(), message: message.into(), help: String::new() }
    }

    /// A decision worth knowing.
    pub fn note(code: &'static str, node: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, node, message)
    }

    /// Something that may surprise.
    pub fn warning(code: &'static str, node: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, node, message)
    }

    /// Something that makes the model unusable.
    pub fn error(code: &'static str, node: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, node, message)
    }

    /// `self` with advice.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}]", self.code)?;
        if !self.node.is_empty() {
            write!(f, " `{}`", self.node)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        Ok(())
    }
}

/// Whether any finding is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

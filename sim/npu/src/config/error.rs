//! What is wrong with a configuration, and where.

use std::fmt;

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, once the reader of the file has named it.
    pub file: Option<String>,
    /// Line and column, from 1; `None` where the text does not contain the place (an omitted key).
    pub at: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl ConfigError {
    pub(super) fn new(at: Option<(usize, usize)>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { file: None, at, message: message.into(), help: help.into() }
    }

    /// The same error, naming the file.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file.as_deref().unwrap_or("NPU configuration"))?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "; {}", self.help) }
    }
}

impl std::error::Error for ConfigError {}

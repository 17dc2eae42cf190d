//! Where a text is wrong.

use std::fmt;

/// An error in assembler text. It shows the line with a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsmError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do; may be empty.
    pub help: String,
    /// The line.
    pub text: String,
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        write!(f, "\n  {}\n  {:>width$}", self.text, '^', width = self.column)
    }
}

impl std::error::Error for AsmError {}

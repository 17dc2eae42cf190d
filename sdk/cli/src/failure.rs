//! Why a verb ended early, and the exit code of each reason.

use std::process::ExitCode;

/// Why a verb ended early.
#[derive(Debug)]
pub enum Failure {
    /// The check that was asked for did not hold.
    Check(String),
    /// Wrong usage of the command.
    Usage(String),
    /// An error of the facade.
    Error(ottava::Error),
}

impl Failure {
    /// The reason in one line.
    pub fn text(&self) -> String {
        match self {
            Self::Check(text) | Self::Usage(text) => text.clone(),
            Self::Error(e) => e.to_string(),
        }
    }

    /// 1 check, 2 usage, 3 bad input, 4 a device or driver failed.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Check(_) => 1,
            Self::Usage(_) => 2,
            Self::Error(ottava::Error::Failed(_)) => 4,
            Self::Error(_) => 3,
        })
    }
}

impl From<ottava::Error> for Failure {
    fn from(e: ottava::Error) -> Self {
        Self::Error(e)
    }
}

/// Result of a verb.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

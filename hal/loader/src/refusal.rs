//! Why a candidate is not loaded: a status code of the ABI and a sentence.

/// A candidate is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// `OTTAVA_LOAD_FAILED`, `OTTAVA_POLICY_REFUSED`, ... (`ottava_abi::status`).
    pub code: i32,
    /// What, where, found, expected.
    pub reason: String,
}

/// Result of a check.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

impl Refusal {
    /// A refusal.
    pub fn new(code: i32, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// The library cannot be loaded.
    pub(crate) fn load(reason: impl Into<String>) -> Self {
        Self::new(ottava_abi::status::LOAD_FAILED, reason)
    }

    /// Policy forbids the library.
    pub(crate) fn policy(reason: impl Into<String>) -> Self {
        Self::new(ottava_abi::status::POLICY_REFUSED, reason)
    }
}

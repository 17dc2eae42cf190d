//! Profiles: which groups a driver is asked for.

use std::str::FromStr;

/// What a driver wants to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The first day; drivers that work in the caller's thread.
    Minimal,
    /// Queues and fences.
    Async,
    /// Integer accelerators.
    Quant,
    /// Everything.
    Full,
}

const MINIMAL: &[&str] =
    &["A.", "B.1", "B.2", "B.3", "C.1", "C.2", "E.1", "E.2", "E.3", "E.5", "E.6", "F.1", "F.4", "G.1", "H.3", "H.6"];
const ASYNC: &[&str] = &["D.", "F.2", "F.3", "F.6", "F.7", "C.3", "H.4"];
const QUANT: &[&str] = &["G.", "E.8", "E.9", "E.10", "C.5"];

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 4] = [Self::Minimal, Self::Async, Self::Quant, Self::Full];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Async => "async",
            Self::Quant => "quant",
            Self::Full => "full",
        }
    }

    /// Whether a group belongs to the profile.
    pub fn asks_for(self, group: &str) -> bool {
        let listed = |list: &[&str]| list.iter().any(|g| group == *g || (g.ends_with('.') && group.starts_with(g)));
        // Only there if the run was given a description.
        if group.starts_with("O.") {
            return true;
        }
        match self {
            Self::Full => true,
            Self::Minimal => listed(MINIMAL),
            Self::Async => listed(MINIMAL) || listed(ASYNC),
            Self::Quant => listed(MINIMAL) || listed(QUANT),
        }
    }

    /// Whether a group of the profile may not be listed as unsupported: what `minimal` has, and all that a profile other
    /// than `full` asks for.
    pub fn needs(self, group: &str) -> bool {
        match self {
            Self::Full => Self::Minimal.asks_for(group),
            _ => self.asks_for(group),
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or(format!("no profile `{text}`; there are {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_grow_and_a_prefix_is_no_group() {
        for group in ["A.1", "B.1", "E.1", "G.1"] {
            assert!(Profile::ALL.iter().all(|p| p.asks_for(group)), "{group}");
        }
        assert!(!Profile::Minimal.asks_for("E.10") && Profile::Quant.asks_for("E.10"));
        assert!(Profile::Full.needs("B.1") && !Profile::Full.needs("D.1") && Profile::Async.needs("D.1"));
        assert!(Profile::Async.asks_for("D.3") && !Profile::Quant.asks_for("D.3"));
    }
}

//! A case: one thing that is checked, and how it ended.

use crate::{Repro, Subject};
use ottava_hal::{Error, Status};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Why a case ended before its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The contract is broken: what was found and what was expected.
    Failed(String),
    /// As [`Self::Failed`], with the program that gave wrong results ([`Repro::differs`]).
    Differs(String, Box<Repro>),
    /// The contract is kept, and there is something to say: the worst error within its bounds, for example.
    Noted(String),
    /// It could not be tried here.
    Skipped(String),
    /// The driver does not offer what it checks, and need not.
    Unsupported(String),
}

/// What a case's function returns.
pub type Check = Result<(), Stop>;

impl From<Error> for Stop {
    /// An error that a case did not expect is a failure of the driver.
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Stop {
    /// A failure.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

/// Fails with the words unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err($crate::Stop::failed(format!($($words)+)));
        }
    };
}

/// Fails unless a call was refused with the status.
pub fn refused<T>(what: &str, result: ottava_hal::Result<T>, expected: Status) -> Check {
    match result {
        Ok(_) => Err(Stop::failed(format!("{what} was accepted; expected {expected:?}"))),
        Err(e) if e.status() == expected => Ok(()),
        Err(e) => Err(Stop::failed(format!("{what}: expected {expected:?}, got {:?}: {e}", e.status()))),
    }
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The contract is kept.
    Passed,
    /// It is not.
    Failed,
    /// The process of the case was killed by a signal, or ended without an answer.
    Crashed,
    /// The case did not end in its time.
    Hung,
    /// It could not be tried.
    Skipped,
    /// Not offered, and not asked for.
    Unsupported,
    /// It failed, as the list of expected failures says.
    Xfail,
    /// It passed though the list says that it fails.
    Xpass,
}

impl Ending {
    /// Every ending, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Passed,
        Self::Failed,
        Self::Crashed,
        Self::Hung,
        Self::Skipped,
        Self::Unsupported,
        Self::Xfail,
        Self::Xpass,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::Hung => "hung",
            Self::Skipped => "skipped",
            Self::Unsupported => "unsupported",
            Self::Xfail => "xfail",
            Self::Xpass => "xpass",
        }
    }

    /// Whether a driver with such a case is not conformant.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Crashed | Self::Hung | Self::Xpass)
    }
}

/// A case with its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Group, `D.1`.
    pub group: String,
    /// Name, `fence.timeline.monotonic`.
    pub name: String,
    /// How it ended.
    pub result: Ending,
    /// In words: the reason, what was found and expected; empty if there is nothing to say.
    pub detail: String,
    /// Time, milliseconds.
    pub millis: u64,
    /// The program that gave wrong results.
    #[serde(skip)]
    pub attached: Option<Box<Repro>>,
}

type Run = Box<dyn Fn(&Subject) -> Check>;

/// One thing that is checked.
pub struct Case {
    /// Group, `D.1`.
    pub group: &'static str,
    /// Name, `fence.timeline.monotonic`: the group's name and the case's own.
    pub name: String,
    run: Run,
}

impl Case {
    /// A case of a group.
    pub fn new(group: &'static str, name: impl Into<String>, run: impl Fn(&Subject) -> Check + 'static) -> Self {
        Self { group, name: name.into(), run: Box::new(run) }
    }

    /// Whether a filter means the case: a group (`D`, `D.1`), or a name with `*` for any text.
    pub fn matches(&self, filter: &str) -> bool {
        filter.is_empty() || matches(filter, self.group, &self.name)
    }

    /// Runs it in this process. A panic of the case itself is a failure, not the end.
    pub fn run(&self, subject: &Subject) -> Outcome {
        let start = Instant::now();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.run)(subject)));
        let check = caught.unwrap_or_else(|cause| Err(Stop::Failed(format!("panicked: {}", words(&*cause)))));
        let time = start.elapsed();
        match check {
            Ok(()) => self.ended(Ending::Passed, String::new(), time),
            Err(Stop::Failed(why)) => self.ended(Ending::Failed, why, time),
            Err(Stop::Noted(what)) => self.ended(Ending::Passed, what, time),
            Err(Stop::Skipped(why)) => self.ended(Ending::Skipped, why, time),
            Err(Stop::Unsupported(why)) => self.ended(Ending::Unsupported, why, time),
            Err(Stop::Differs(why, repro)) => {
                Outcome { attached: Some(repro), ..self.ended(Ending::Failed, why, time) }
            }
        }
    }

    /// The outcome of this case.
    pub fn ended(&self, result: Ending, detail: String, time: Duration) -> Outcome {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Outcome { group: self.group.into(), name: self.name.clone(), result, detail, millis, attached: None }
    }
}

fn words(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".into())
}

/// Whether a pattern means a case: a group (`D`, `D.1`), or a name with `*` for any text.
pub fn matches(pattern: &str, group: &str, name: &str) -> bool {
    group == pattern || group.split('.').next() == Some(pattern) || wild(pattern, name)
}

/// Whether a text is what a pattern means; `*` stands for any text. Takes no more than the product of both lengths.
pub fn wild(pattern: &str, text: &str) -> bool {
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    let (mut i, mut j) = (0, 0);
    // Behind the last star, and where in the text what it stands for ends so far.
    let mut star = None;
    while j < t.len() {
        match (p.get(i), star) {
            (Some(b'*'), _) => {
                i += 1;
                star = Some((i, j));
            }
            (Some(c), _) if *c == t[j] => (i, j) = (i + 1, j + 1),
            (_, Some((behind, end))) => {
                (i, j) = (behind, end + 1);
                star = Some((behind, j));
            }
            _ => return false,
        }
    }
    p[i..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        assert!(wild("num.*", "num.Conv.3") && wild("*.Conv.*", "num.Conv.3") && wild("a", "a"));
        assert!(
            wild("", "")
                && wild("**a*", "bab")
                && wild("a*b*c", "a-b-b-c")
                && !wild("a*b*c", "a-c-b")
                && !wild("", "a")
        );
        assert!(!wild("*a*a*a*a*a*a*a*a*b", &"a".repeat(10_000)));
        assert!(!wild("num.*x", "num.Conv.3") && !wild("num", "num.Conv"));
    }
}

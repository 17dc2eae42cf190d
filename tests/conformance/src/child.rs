//! Every case in a process of its own: a driver that crashes, hangs or calls `exit` ends its case and nothing else.
//!
//! The parent never loads the library. It starts a child with what it asks for ([`Child`]); the child answers with lines
//! of JSON on standard output, each behind a mark ([`serve`]). What the driver prints itself does not matter, unless it
//! ends the process: whatever was answered before that still counts where the parent can use it.

use crate::describe::{Coverage, Facts};
use crate::execute::replay;
use crate::process::{Ended, MARK};
use crate::{Case, Ending, Limits, Outcome, ReproFile, Subject, groups};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// What a child is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Child {
    /// What the driver says of itself, and the names of all cases with their groups.
    Describe,
    /// The names of all cases with their groups.
    List,
    /// The same of one group, by its id.
    ListOf(String),
    /// One case by its name.
    Run(String),
    /// The program of a repro file.
    Replay(PathBuf),
}

/// A line of a child's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// There is no driver to test.
    Refused(Refusal),
    /// The library that was loaded.
    Library(PathBuf),
    /// Who it is.
    Facts(Facts),
    /// What it claims to run.
    Coverage(Vec<Coverage>),
    /// Group and name of each case.
    Cases(Vec<(String, String)>),
    /// How a case ended, with the bytes of its repro file where it has one.
    Outcome(Outcome, Option<String>),
}

impl Answer {
    fn line(&self) -> Result<String, String> {
        serde_json::to_string(self).map(|json| format!("{MARK}{json}")).map_err(|e| e.to_string())
    }
}

impl Child {
    /// As an argument of a command line.
    pub fn to_arg(&self) -> String {
        match self {
            Self::Describe => "describe".to_owned(),
            Self::List => "list".to_owned(),
            Self::ListOf(group) => format!("list:{group}"),
            Self::Run(name) => format!("run:{name}"),
            Self::Replay(path) => format!("replay:{}", path.display()),
        }
    }

    /// The reverse of [`Self::to_arg`].
    pub fn from_arg(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "describe" => Some(Self::Describe),
            None if text == "list" => Some(Self::List),
            Some(("list", group)) => Some(Self::ListOf(group.to_owned())),
            Some(("run", name)) => Some(Self::Run(name.to_owned())),
            Some(("replay", path)) => Some(Self::Replay(path.into())),
            _ => None,
        }
    }
}

/// Why there is no driver to test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// In words.
    pub reason: String,
    /// Whether the caller named something that is not there, rather than that it was not loaded.
    pub is_usage: bool,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, is_usage: false }
    }
}

/// In the child: why there is no driver, as the line for the parent.
pub fn refusal(why: Refusal) -> String {
    Answer::Refused(why).line().unwrap_or_default()
}

/// In the child: does what is asked and returns the last line for the parent, or why it cannot.
pub fn answer(subject: &Subject, asked: &Child) -> Result<String, String> {
    let mut lines = Vec::new();
    serve(subject, asked, &mut lines)?;
    let text = String::from_utf8(lines).map_err(|e| e.to_string())?;
    text.lines().last().map(str::to_owned).ok_or_else(|| "there is no answer".to_owned())
}

/// In the child: does what is asked and writes the lines for the parent, each as soon as it is known.
pub fn serve(subject: &Subject, asked: &Child, out: &mut dyn Write) -> Result<(), String> {
    let mut say = |answer: Answer| {
        let written = writeln!(out, "{}", answer.line()?).and_then(|()| out.flush());
        written.map_err(|e| format!("the answer cannot be written: {e}"))
    };
    match asked {
        Child::Describe => {
            say(Answer::Facts(Facts::of(subject)?))?;
            if let Some(path) = &subject.library {
                say(Answer::Library(path.clone()))?;
            }
            if let Ok(device) = subject.open() {
                // Said before the device is closed, which may end the process.
                say(Answer::Coverage(Coverage::of(device.as_ref())))?;
            }
            say(Answer::Cases(names(subject, |_| true)))
        }
        Child::List => say(Answer::Cases(names(subject, |_| true))),
        Child::ListOf(id) => say(Answer::Cases(names(subject, |group| group.id == id))),
        Child::Run(name) => {
            // Only the case's own group is made: others may be large.
            let mut cases = groups::GROUPS.iter().filter(|g| name.starts_with(g.name)).flat_map(|g| (g.cases)(subject));
            let case = cases.find(|c| c.name == *name).ok_or(format!("there is no case `{name}`"))?;
            say(outcome_of(subject, &case))
        }
        Child::Replay(path) => {
            let file = ReproFile::read(path)?;
            let (group, name) = (known_group(&file.group), file.case.clone());
            say(outcome_of(subject, &Case::new(group, name, move |subject| replay(subject, &file))))
        }
    }
}

fn outcome_of(subject: &Subject, case: &Case) -> Answer {
    let outcome = case.run(subject);
    let file = outcome.attached.as_deref().and_then(|repro| hex_of(subject, &outcome, repro));
    Answer::Outcome(outcome, file)
}

/// The id of a group; a file may name one that there is not.
fn known_group(id: &str) -> &'static str {
    groups::GROUPS.iter().find(|g| g.id == id).map_or("-", |g| g.id)
}

fn names(subject: &Subject, wanted: impl Fn(&groups::Group) -> bool) -> Vec<(String, String)> {
    let cases = groups::GROUPS.iter().filter(|g| wanted(g)).flat_map(|g| (g.cases)(subject));
    cases.map(|c| (c.group.to_owned(), c.name)).collect()
}

/// Files of more bytes are not handed over.
const MOST_REPRO: usize = 8 << 20;

fn hex_of(subject: &Subject, outcome: &Outcome, repro: &crate::Repro) -> Option<String> {
    let file = ReproFile { repro: Some(repro.clone()), ..ReproFile::of(subject, outcome) };
    let bytes = file.to_bytes().ok().filter(|b| b.len() <= MOST_REPRO)?;
    Some(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pair = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    hex.as_bytes().chunks(2).map(pair).collect()
}

/// What a child answered, and how it ended.
pub(crate) struct Heard {
    pub answers: Vec<Answer>,
    pub ended: Ended,
}

impl Heard {
    /// Starts a child and listens to it.
    pub fn of(command: Command, limits: Limits) -> Result<Self, String> {
        let ended = Ended::of(command, limits)?;
        let answers = ended.answers.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { answers, ended })
    }

    /// Group and name of every case, or why there is no list.
    pub fn cases(&self, limits: Limits) -> Result<Vec<(String, String)>, Refusal> {
        let found = self.answers.iter().find_map(|a| match a {
            Answer::Cases(list) => Some(Ok(list.clone())),
            Answer::Refused(why) => Some(Err(why.clone())),
            _ => None,
        });
        found.unwrap_or_else(|| Err(self.ended.words(limits).into()))
    }
}

/// In the parent: group and name of every case.
pub fn list(command: Command, limits: Limits) -> Result<Vec<(String, String)>, String> {
    Heard::of(command, limits)?.cases(limits).map_err(|e| e.reason)
}

/// In the parent: runs one case in the child that the command starts.
pub fn run_case(group: &str, name: &str, command: Command, limits: Limits) -> Outcome {
    let without_answer = |result, detail, millis| Outcome {
        group: group.into(),
        name: name.into(),
        result,
        detail,
        millis,
        attached: None,
    };
    let heard = match Heard::of(command, limits) {
        Ok(heard) => heard,
        Err(why) => return without_answer(Ending::Crashed, why, 0),
    };
    let ended = &heard.ended;
    let result = if ended.status.is_none() { Ending::Hung } else { Ending::Crashed };
    let answer = heard.answers.into_iter().find_map(|a| match a {
        Answer::Outcome(outcome, file) => Some((outcome, file)),
        _ => None,
    });
    // An answer of a process that then crashed or hung does not count: what it left behind is part of the contract.
    match answer {
        Some((outcome, file)) if ended.is_success() && outcome.name == name => {
            let file = file.and_then(|hex| ReproFile::from_bytes(&bytes_of(&hex)?).ok());
            Outcome { attached: file.and_then(|f| f.repro).map(Box::new), ..outcome }
        }
        _ => without_answer(result, ended.words(limits), ended.millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_crosses_a_command_line() {
        let all = [
            Child::Describe,
            Child::List,
            Child::ListOf("B.3".into()),
            Child::Run("a:b".into()),
            Child::Replay("a".into()),
        ];
        for asked in all {
            assert_eq!(Child::from_arg(&asked.to_arg()), Some(asked));
        }
        assert_eq!(Child::from_arg("sing"), None);
    }

    #[test]
    fn bytes_are_read_back() {
        assert_eq!(bytes_of("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!((bytes_of("0"), bytes_of("0g")), (None, None));
    }

    #[test]
    fn the_answer_to_a_case_is_read_by_the_parent() {
        let subject = Subject::first_of(std::sync::Arc::new(ottava_reference::ReferenceDriver)).unwrap().unwrap();
        let line = answer(&subject, &Child::Run("dev.open_close.leaves_nothing".into())).unwrap();
        let mut echo = Command::new("echo");
        echo.arg(&line);
        let limits = Limits { time: std::time::Duration::from_secs(20), log: 100 };
        let outcome = run_case("B.3", "dev.open_close.leaves_nothing", echo, limits);
        // The other tests of this process open files meanwhile, so that the case itself may fail.
        assert!([Ending::Passed, Ending::Failed].contains(&outcome.result), "{}", outcome.detail);
        let mut echo = Command::new("echo");
        echo.arg(refusal("no reason".to_owned().into()));
        assert_eq!(list(echo, limits), Err("no reason".to_owned()));
    }
}

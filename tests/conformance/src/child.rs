//! Every case in a process of its own, with a time limit: a driver that crashes, hangs or calls `exit` ends its case.
//!
//! The parent never loads the library. A child lists the cases ([`list`]) or runs one ([`answer`]); its last line on
//! standard output is the answer in JSON. What the driver prints itself does not matter, unless it ends the process.

use crate::{Ending, Outcome, Subject, cases};
use std::io::Read;
use std::process::{Child as Process, Command, Stdio};
use std::time::{Duration, Instant};

/// What a child is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Child {
    /// The names of all cases with their groups.
    List,
    /// One case by its name.
    Run(String),
}

/// Limits of a child.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest time of a case.
    pub time: Duration,
    /// Bytes of output that are kept, from the end.
    pub log: usize,
}

/// In front of a child's answer, which no driver prints by chance.
const MARK: &str = "ottava-conformance-answer ";

/// In the child: does what is asked and returns the line for the parent, or why it cannot.
pub fn answer(subject: &Subject, asked: &Child) -> Result<String, String> {
    let all = cases(subject);
    let json = match asked {
        Child::List => {
            let names: Vec<(&str, &str)> = all.iter().map(|c| (c.group, c.name.as_str())).collect();
            serde_json::to_string(&names)
        }
        Child::Run(name) => {
            let case = all.iter().find(|c| c.name == *name).ok_or(format!("there is no case `{name}`"))?;
            serde_json::to_string(&case.run(subject))
        }
    };
    json.map(|line| format!("{MARK}{line}")).map_err(|e| e.to_string())
}

/// In the parent: group and name of every case.
pub fn list(command: Command, limits: Limits) -> Result<Vec<(String, String)>, String> {
    let ended = Ended::of(command, limits)?;
    let line = ended.answer.as_deref().ok_or_else(|| ended.words(limits))?;
    serde_json::from_str(line).map_err(|e| format!("the list of cases cannot be read: {e}"))
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
    let ended = match Ended::of(command, limits) {
        Ok(ended) => ended,
        Err(why) => return without_answer(Ending::Crashed, why, 0),
    };
    let answer = ended.answer.as_deref().and_then(|line| serde_json::from_str::<Outcome>(line).ok());
    let result = if ended.status.is_none() { Ending::Hung } else { Ending::Crashed };
    // An answer of a process that then crashed or hung does not count: what it left behind is part of the contract.
    match answer {
        Some(outcome) if ended.status.is_some_and(|s| s.success()) => outcome,
        _ => without_answer(result, ended.words(limits), ended.millis),
    }
}

/// A child that is over.
struct Ended {
    /// `None`: it was killed because its time was over.
    status: Option<std::process::ExitStatus>,
    answer: Option<String>,
    log: String,
    millis: u64,
}

impl Ended {
    fn of(mut command: Command, limits: Limits) -> Result<Self, String> {
        let start = Instant::now();
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(|e| format!("the process of the case cannot be started: {e}"))?;
        let out = tail(child.stdout.take(), limits.log.max(1 << 20));
        let err = tail(child.stderr.take(), limits.log);
        let status = wait(&mut child, start, limits.time);
        let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        let answer = out.lines().rev().find_map(|l| l.strip_prefix(MARK)).map(str::to_owned);
        Ok(Self { status, answer, log: err, millis: start.elapsed().as_millis().try_into().unwrap_or(u64::MAX) })
    }

    fn words(&self, limits: Limits) -> String {
        let how = match self.status {
            None => format!("no end within {} s", limits.time.as_secs_f64()),
            Some(status) => format!("the process ended without a result: {status}"),
        };
        let log: Vec<&str> = self.log.lines().rev().take(5).collect();
        let log: Vec<&str> = log.into_iter().rev().collect();
        if log.is_empty() { how } else { format!("{how}; it said last: {}", log.join(" | ")) }
    }
}

/// Reads a pipe to its end in a thread and keeps its last bytes.
fn tail(pipe: Option<impl Read + Send + 'static>, keep: usize) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut kept, mut block) = (Vec::new(), [0u8; 4096]);
        let Some(mut pipe) = pipe else { return String::new() };
        while let Ok(n) = pipe.read(&mut block) {
            if n == 0 {
                break;
            }
            kept.extend_from_slice(&block[..n]);
            if kept.len() > 2 * keep {
                kept.drain(..kept.len() - keep);
            }
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// Waits for the end, or kills the child when its time is over.
fn wait(child: &mut Process, start: Instant, limit: Duration) -> Option<std::process::ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

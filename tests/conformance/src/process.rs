//! A child process with a time limit, and what it said.
//!
//! Invariant: nothing that the child does keeps the caller waiting beyond the limit and a short grace, not even a process
//! of its own that it leaves behind with the pipes open.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Limits of a child.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest time of a case.
    pub time: Duration,
    /// Bytes of output that are kept, from the end.
    pub log: usize,
}

/// In front of a child's answer, which no driver prints by chance.
pub(crate) const MARK: &str = "ottava-conformance-answer ";
/// Answers may hold programs with their data.
const MOST_ANSWER: usize = 32 << 20;
/// How long the pipes of a process that is over may stay open.
const GRACE: Duration = Duration::from_millis(500);

/// A child that is over.
pub(crate) struct Ended {
    /// `None`: it was killed because its time was over.
    pub status: Option<ExitStatus>,
    /// Its answers, without the mark.
    pub answers: Vec<String>,
    /// The end of its standard error.
    pub log: String,
    /// How long it took.
    pub millis: u64,
}

impl Ended {
    /// Starts a command and waits for its end.
    pub fn of(mut command: Command, limits: Limits) -> Result<Self, String> {
        let start = Instant::now();
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(|e| format!("the process of the case cannot be started: {e}"))?;
        let out = Tail::of(child.stdout.take(), MOST_ANSWER);
        let err = Tail::of(child.stderr.take(), limits.log);
        let status = wait(&mut child, start, limits.time);
        let (out, log) = (out.text(), err.text());
        let answers = out.lines().filter_map(|l| l.strip_prefix(MARK)).map(str::to_owned).collect();
        let millis = start.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        Ok(Self { status, answers, log, millis })
    }

    /// Whether it ended by itself and without an error.
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    /// How it ended, with the last lines of its log.
    pub fn words(&self, limits: Limits) -> String {
        let how = match self.status {
            None => format!("no end within {} s", limits.time.as_secs_f64()),
            Some(status) => format!("the process ended without a result: {status}"),
        };
        let log: Vec<&str> = self.log.lines().rev().take(5).collect();
        let log: Vec<&str> = log.into_iter().rev().collect();
        if log.is_empty() { how } else { format!("{how}; it said last: {}", log.join(" | ")) }
    }
}

/// The last bytes of a pipe, read by a thread of its own.
struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    done: mpsc::Receiver<()>,
}

impl Tail {
    fn of(pipe: Option<impl Read + Send + 'static>, keep: usize) -> Self {
        let (kept, (end, done)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel());
        let to = kept.clone();
        std::thread::spawn(move || {
            if let Some(pipe) = pipe {
                copy(pipe, keep, &to);
            }
            // Nobody listens if the grace was over.
            let _ = end.send(());
        });
        Self { kept, done }
    }

    /// What came until the end of the pipe, or until the grace is over.
    fn text(self) -> String {
        let _ = self.done.recv_timeout(GRACE);
        let kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

fn copy(mut pipe: impl Read, keep: usize, to: &Mutex<Vec<u8>>) {
    let mut block = [0u8; 4096];
    while let Ok(n) = pipe.read(&mut block) {
        if n == 0 {
            break;
        }
        let mut kept = to.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend_from_slice(&block[..n]);
        if kept.len() > keep.saturating_mul(2) {
            let gone = kept.len() - keep;
            kept.drain(..gone);
        }
    }
}

/// Waits for the end, or kills the child when its time is over.
fn wait(child: &mut Child, start: Instant, limit: Duration) -> Option<ExitStatus> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds: f64) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Ended::of(command, Limits { time: Duration::from_secs_f64(seconds), log: 100 }).unwrap()
    }

    #[test]
    fn answers_are_told_from_noise_and_logs_are_cut() {
        let ended = shell("echo noise; echo 'ottava-conformance-answer 7'; seq 1000 >&2; exit 3", 20.0);
        assert_eq!((ended.answers.as_slice(), ended.is_success()), (&["7".to_owned()][..], false));
        assert!(ended.log.len() <= 200 && ended.log.ends_with("1000\n"), "{}", ended.log);
        let words = ended.words(Limits { time: Duration::from_secs(20), log: 100 });
        assert!(words.contains("exit status: 3") && words.contains("| 1000"), "{words}");
    }

    #[test]
    fn what_hangs_is_killed_and_what_it_leaves_behind_is_not_waited_for() {
        let start = Instant::now();
        assert!(shell("sleep 60", 0.2).status.is_none());
        assert!(shell("sleep 60 & echo x", 20.0).is_success());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

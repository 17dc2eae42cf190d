//! Terminal: answers, progress, warnings, logging.

use crate::failure::Result;
use crate::text::printable;
use indicatif::{ProgressBar, ProgressStyle};
use ottava::{Diagnostic, Severity};
use serde_json::Value;
use std::io::{IsTerminal, Write};
use tracing_subscriber::filter::LevelFilter;

/// What a verb has to say.
#[derive(Debug, Default)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
    /// Why the check that was asked for did not hold.
    pub failed: Option<String>,
}

impl Answer {
    /// An answer without a check.
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, failed: None }
    }
}

/// How the user wants to be spoken to.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    /// Stdout is one JSON document.
    pub json: bool,
    /// No progress, no warnings.
    pub quiet: bool,
    /// Notes too.
    pub verbose: bool,
}

impl Ui {
    /// Writes an answer to stdout.
    pub fn print(&self, answer: &Answer) -> Result<()> {
        match self.json {
            true if answer.json.is_null() => Ok(()),
            true => to_stdout(&format!("{:#}\n", answer.json)),
            false if answer.text.is_empty() => Ok(()),
            false => to_stdout(&format!("{}\n", printable(answer.text.trim_end()))),
        }
    }

    /// A warning to stderr.
    pub fn warn(&self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("warning: {}\n", printable(text)));
        }
    }

    /// A progress bar with the remaining time on stderr; invisible unless that is a terminal.
    pub fn bar(&self, label: &str) -> Bar {
        let bar =
            if self.quiet || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = ProgressStyle::with_template("{msg:12} [{bar:32}] {pos}/{len}  {elapsed}, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label.to_owned());
        Bar(bar)
    }

    /// Warnings to stderr; notes only with `-v`, else their number.
    pub fn diagnostics(&self, list: &[Diagnostic]) {
        if self.quiet {
            return;
        }
        let shown = |d: &&Diagnostic| self.verbose || d.severity != Severity::Note;
        list.iter().filter(shown).for_each(|d| to_stderr(&format!("{}\n", printable(&d.to_string()))));
        let hidden = list.iter().filter(|d| !shown(d)).count();
        if hidden > 0 {
            let noun = if hidden == 1 { "note" } else { "notes" };
            to_stderr(&format!("{hidden} {noun} not shown; -v shows them\n"));
        }
    }
}

/// A progress bar that disappears when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// The callback for the facade.
    pub fn callback(&self) -> impl FnMut(u64, u64) + '_ {
        |done, total| {
            self.0.set_length(total);
            self.0.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Writes to stdout. A reader that has gone away is not an error worth telling; a full disk is.
pub fn to_stdout(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What a write to stdout came to.
pub fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            let what = format!("cannot write the answer to stdout: {e}");
            let error = ottava::Error::invalid(ottava::codes::DATA_WRITE, what);
            Err(error.help("check where stdout goes, and the free space there").into())
        }
        _ => Ok(()),
    }
}

/// Writes to stderr.
pub fn to_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Whether errors may be colored.
pub fn stderr_is_colored() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Logs go to stderr: warnings; information with `-v`, everything with `-vv`, errors alone with `-q`.
pub fn start_logging(verbose: u8, quiet: bool) {
    let level = match (quiet, verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        _ => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // A log that cannot be written is no reason to end.
        .log_internal_errors(false)
        .with_max_level(level)
        .with_ansi(stderr_is_colored())
        .with_target(false)
        .without_time()
        .finish();
    // Only a second call in one process could fail, and there is one call.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

//! The `ottava` command: one binary, one verb per job.
//!
//! What a person reads goes to stdout; logs, warnings and progress go to stderr. With `--json`, stdout is one JSON
//! document. Exit codes: 0 done, 1 the check that was asked for did not hold, 2 wrong usage, 3 bad input, 4 a device or
//! driver failed.
//!
//! `args` declares the command line, `verbs` holds one file per verb, `failure` and `render` are the only places that
//! know exit codes and how an error looks.

mod args;
mod failure;
mod files;
mod options;
mod render;
mod text;
mod ui;
mod verbs;

use args::Cli;
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return end(args::usage(&e)),
    };
    end(run(cli).map(|()| ExitCode::SUCCESS))
}

fn end(result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(failure) => {
            ui::to_stderr(&render::failure(&failure, ui::stderr_is_colored()));
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    if cli.verb.has_log() {
        ui::start_logging(cli.global.verbose, cli.global.quiet);
    }
    let cx = verbs::Context::new(&cli.global, cli.verb.loads_libraries())?;
    let answer = cli.verb.run(&cx)?;
    cx.ui.print(&answer)?;
    match answer.failed {
        Some(reason) => Err(Failure::Check(reason)),
        None => Ok(()),
    }
}

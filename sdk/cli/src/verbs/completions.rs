//! `ottava completions SHELL`: completions of a shell, on stdout.

use super::Context;
use crate::args::Cli;
use crate::failure::Result;
use crate::ui::Answer;
use clap::CommandFactory;

/// Print completions of a shell.
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = "Example: ottava completions bash > ottava.bash")]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Prints them.
pub fn run(args: &Args, _: &Context) -> Result<Answer> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ottava", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Answer::new(text.clone(), serde_json::json!({ "script": text })))
}

//! `ottava man`: the manual page, on stdout.

use super::Context;
use crate::args::Cli;
use crate::failure::{Failure, Result};
use crate::ui::Answer;
use clap::CommandFactory;

/// Print the manual page.
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = "Example: ottava man > ottava.1")]
pub struct Args {}

/// Prints it: the command, then every verb.
pub fn run(_: &Args, _: &Context) -> Result<Answer> {
    let mut page = Vec::new();
    let failed = |e: std::io::Error| Failure::Check(format!("cannot render the page: {e}"));
    let command = Cli::command();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(failed)?;
    for verb in command.get_subcommands().filter(|v| !v.is_hide_set()) {
        let man = clap_mangen::Man::new(verb.clone());
        man.render_synopsis_section(&mut page).map_err(failed)?;
        man.render_description_section(&mut page).map_err(failed)?;
        man.render_options_section(&mut page).map_err(failed)?;
    }
    let text = String::from_utf8_lossy(&page).into_owned();
    Ok(Answer::new(text.clone(), serde_json::json!({ "page": text })))
}

//! The command line as a whole: options of every verb, and what is said about wrong usage.

use crate::failure::Result;
use crate::verbs::Verb;
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ottava::RequantMode;
use std::path::PathBuf;
use std::process::ExitCode;

/// Takes a trained network, turns it into integers, runs it on the devices that are there, and proves that the integers
/// are right.
#[derive(Debug, Parser)]
#[command(
    name = "ottava",
    version,
    propagate_version = true,
    max_term_width = 110,
    after_help = "Start with: ottava demo"
)]
pub struct Cli {
    /// Options of every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Debug, clap::Args)]
pub struct Global {
    /// Make stdout one JSON document.
    #[arg(long, global = true)]
    pub json: bool,
    /// The application's RON file [default: ottava.ron, if it is there].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How a TFLite model's integers are rescaled, instead of as LiteRT's reference kernels do (q31_double).
    #[arg(long, global = true, value_name = "MODE", value_parser = requant())]
    pub requant: Option<RequantMode>,
    /// Say more; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing but results and errors.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// A requantization mode by its name; a wrong one gets the list.
fn requant() -> impl TypedValueParser<Value = RequantMode> {
    let names = PossibleValuesParser::new(RequantMode::ALL.map(RequantMode::name));
    names.try_map(|name| RequantMode::from_name(&name).ok_or("no such mode"))
}

/// Says what is wrong with the command line (or shows help, which is no error).
pub fn usage(error: &clap::Error) -> Result<ExitCode> {
    let printed = error.print();
    if error.use_stderr() {
        return Ok(ExitCode::from(2));
    }
    crate::ui::written(printed)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_an_example_in_its_help() {
        for verb in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", verb.get_name());
        }
    }
}

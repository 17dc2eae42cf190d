//! One failure alone: runs it again, and looks into what differs.

use super::Args;
use super::child::Commands;
use crate::failure::{Failure, Result};
use crate::ui::Answer;
use ottava_conformance::{Child, Ending, ReproFile, describe, run_case};
use serde_json::json;
use std::path::Path;

/// Runs a repro file.
pub fn run(args: &Args, commands: &Commands, path: &Path) -> Result<Answer> {
    let bad = |why: String| ottava::Error::invalid(ottava::codes::DATA_FILE, why);
    let file =
        ReproFile::read(path).map_err(|why| Failure::Error(bad(why).help("`--report DIR` writes such files")))?;
    let commands = commands.seeded(file.seed, file.stress);
    let start = commands.starter();
    describe(&start, args.limits()).map_err(|why| super::refused(args, why))?;
    let asked = if file.repro.is_some() { Child::Replay(path.to_path_buf()) } else { Child::Run(file.case.clone()) };
    let outcome = run_case(&file.group, &file.case, start(&asked), args.limits());
    let text = format!(
        "{} ({}), seed {}, recorded with {} on {}\n{}: {}",
        file.case,
        file.group,
        file.seed,
        file.driver,
        file.device,
        outcome.result.name(),
        outcome.detail
    );
    let json = json!({
        "case": file.case, "group": file.group, "seed": file.seed, "driver": file.driver,
        "result": outcome.result.name(), "detail": outcome.detail,
    });
    let failed = (outcome.result != Ending::Passed).then(|| format!("`{}` {}", file.case, outcome.result.name()));
    Ok(Answer { text, json, failed })
}

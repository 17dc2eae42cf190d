//! One failure alone: runs it again, and looks into what differs.

use super::Args;
use super::child::Commands;
use crate::failure::{Failure, Result};
use crate::text::table;
use crate::ui::Answer;
use ottava_conformance::{Child, Diagnosis, Difference, Ending, Finding, ReproFile, describe, diagnose, run_case};
use serde_json::{Value, json};
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
    let mut text = format!(
        "{} ({}), seed {}, recorded with {} on {}\n{}: {}\n",
        file.case,
        file.group,
        file.seed,
        file.driver,
        file.device,
        outcome.result.name(),
        outcome.detail
    );
    let found = outcome.attached.as_deref().map(diagnose);
    found.iter().for_each(|d| text += &in_words(d));
    let json = json!({
        "case": file.case, "group": file.group, "seed": file.seed, "driver": file.driver,
        "result": outcome.result.name(), "detail": outcome.detail, "diagnosis": found.as_ref().map(to_json),
    });
    let failed = (outcome.result != Ending::Passed).then(|| format!("`{}` {}", file.case, outcome.result.name()));
    Ok(Answer { text, json, failed })
}

/// The hypotheses that are shown.
const MOST_SHOWN: usize = 8;

/// The first element that differs, how the reference comes to it, and the hypotheses.
fn in_words(d: &Diagnosis) -> String {
    let mut text = format!("\n{} of {} elements differ", d.differing, d.total);
    if let Some(largest) = d.largest.filter(|n| *n > 0) {
        text += &format!(", by {largest} at most");
    }
    if let Some(first) = &d.first {
        text += &format!("; the first is {:?} of output {} (`{}`):\n\n", first.at, first.output.0, first.output.1);
        text += &table(&["", "value"], &[1], steps(first));
    }
    if d.findings.is_empty() {
        return text + &format!("\nnone of {} known defects explains any of it\n", d.tested);
    }
    text += &format!("\n{} known defects were computed; these give some of the device's elements:\n\n", d.tested);
    let row = |f: &Finding| {
        let verdict = if f.contradicted == 0 { "explains everything" } else { "" };
        vec![
            f.words.clone(),
            format!("{} of {}", f.explained, d.differing),
            f.contradicted.to_string(),
            verdict.to_owned(),
        ]
    };
    text += &table(&["defect", "explains", "contradicts", ""], &[1, 2], d.findings.iter().take(MOST_SHOWN).map(row));
    match d.cause() {
        Some(cause) => text + &format!("\nlikely cause: {cause}\n"),
        None => text + "\nno known defect explains all of it\n",
    }
}

fn steps(first: &Difference) -> Vec<Vec<String>> {
    let ends = [("expected", &first.expected), ("found", &first.actual)];
    let ends = ends.into_iter().map(|(name, value)| vec![name.to_owned(), value.clone()]);
    let between = first.steps.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    between.chain(ends).collect()
}

fn to_json(d: &Diagnosis) -> Value {
    let first = d.first.as_ref().map(|f| {
        let steps: serde_json::Map<String, Value> =
            f.steps.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        json!({
            "output": f.output.0, "name": f.output.1, "at": f.at, "expected": f.expected, "actual": f.actual,
            "steps": steps,
        })
    });
    let finding = |f: &Finding| json!({ "defect": f.words, "explained": f.explained, "contradicted": f.contradicted });
    json!({
        "differing": d.differing, "total": d.total, "largest": d.largest, "first": first, "cause": d.cause(),
        "tested": d.tested, "findings": d.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

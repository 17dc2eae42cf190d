//! `ottava vectors`: test vectors in the layout of the ONNX backend tests.

use super::Context;
use crate::failure::{Failure, Result};
use crate::files::{MAX_SETTINGS, read_text};
use crate::options::DeviceArgs;
use crate::text::table;
use crate::ui::Answer;
use ottava::vectors::{Outcome, Tolerance, cases, run_case, tolerances};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Run folders of `model.onnx` with `test_data_set_*/input_*.pb, output_*.pb`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava vectors node
  ottava vectors node --device cpu --list onnx_node.txt")]
pub struct Args {
    /// Folders of cases, or cases.
    #[arg(required = true)]
    dir: Vec<PathBuf>,
    /// Expected states: lines `NAME pass` or `NAME unsupported(REASON)`; a case that ends in another state, is not in the
    /// list, or is only there exits with 1. The reason is for people.
    #[arg(long, value_name = "F")]
    list: Option<PathBuf>,
    /// Only cases whose name holds this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A case that has run.
struct Done {
    name: String,
    outcome: Outcome,
}

fn name_of(case: &Path) -> String {
    case.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// The manifest in the folder or beside it.
fn manifest(dir: &Path) -> Result<BTreeMap<String, Tolerance>> {
    let places = [dir.join("MANIFEST.tsv"), dir.join("../MANIFEST.tsv"), dir.join("../../MANIFEST.tsv")];
    let Some(found) = places.iter().find(|p| p.exists()) else { return Ok(BTreeMap::new()) };
    Ok(tolerances(&read_text(found, MAX_SETTINGS, ottava::codes::DATA_FILE)?))
}

fn run_all(args: &Args, cx: &Context) -> Result<Vec<Done>> {
    let options = args.device.session(&cx.registry)?;
    let mut todo = Vec::new();
    for dir in &args.dir {
        let known = manifest(dir)?;
        for case in cases(dir)? {
            let name = name_of(&case);
            if args.filter.as_ref().is_none_or(|f| name.contains(f.as_str())) {
                let tolerance = known.get(&name).copied().unwrap_or_default();
                todo.push((case, name, tolerance));
            }
        }
    }
    if todo.is_empty() {
        return Err(Failure::Usage(format!("no case's name holds `{}`", args.filter.as_deref().unwrap_or_default())));
    }
    let bar = cx.ui.bar("vectors");
    let mut progress = bar.callback();
    let total = todo.len() as u64;
    let mut done = Vec::new();
    for (case, name, tolerance) in todo {
        let outcome = run_case(&case, &cx.registry, &options, tolerance);
        done.push(Done { name, outcome });
        progress(done.len() as u64, total);
    }
    Ok(done)
}

/// Expected state by name; empty lines and `#` comments are skipped.
fn read_list(path: &Path) -> Result<BTreeMap<String, String>> {
    let bad = |what: String| {
        let e = ottava::Error::invalid(ottava::codes::DATA_FILE, what).in_file(path);
        Failure::Error(e.help("lines are `NAME pass` or `NAME unsupported(REASON)`"))
    };
    let text = read_text(path, MAX_SETTINGS, ottava::codes::DATA_FILE)?;
    let mut list = BTreeMap::new();
    for (i, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let state = line.split_once(char::is_whitespace).map(|(name, state)| (name, state.trim()));
        match state {
            Some((name, state)) if state == "pass" || state.starts_with("unsupported(") => {
                let short = if state == "pass" { "pass" } else { "unsupported" };
                list.insert(name.to_owned(), short.to_owned());
            }
            _ => return Err(bad(format!("line {i} is `{line}`"))),
        }
    }
    Ok(list)
}

/// What differs from the list, one line each. Cases that were filtered out are not missed.
fn differences(done: &[Done], list: &BTreeMap<String, String>, filtered: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for d in done {
        let found = d.outcome.name();
        match list.get(&d.name) {
            None => wrong.push(format!("{}: {found}, not in the list", d.name)),
            Some(want) if want != found => {
                wrong.push(format!("{}: {found}, the list says {want}: {}", d.name, d.outcome.detail()));
            }
            Some(_) => {}
        }
    }
    if !filtered {
        let gone = list.keys().filter(|name| !done.iter().any(|d| &d.name == *name));
        wrong.extend(gone.map(|name| format!("{name}: in the list, but there is no such case")));
    }
    wrong
}

/// Runs the cases.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let list = args.list.as_ref().map(|path| read_list(path)).transpose()?;
    let done = run_all(args, cx)?;
    let n = |name: &str| done.iter().filter(|d| d.outcome.name() == name).count();
    let (passed, failed, unsupported) = (n("pass"), n("fail"), n("unsupported"));
    let shown = done.iter().filter(|d| d.outcome != Outcome::Pass);
    let rows = shown.map(|d| vec![d.name.clone(), d.outcome.name().to_owned(), d.outcome.detail().to_owned()]);
    let mut text = table(&["case", "result", "detail"], &[], rows);
    let wrong = list.map(|list| differences(&done, &list, args.filter.is_some()));
    wrong.iter().flatten().for_each(|line| text.push_str(&format!("\n{line}")));
    text.push_str(&format!("\n{passed} passed, {failed} failed, {unsupported} unsupported"));
    let cases: Vec<_> = done
        .iter()
        .map(|d| json!({ "name": d.name, "result": d.outcome.name(), "state": d.outcome.state(), "detail": d.outcome.detail() }))
        .collect();
    let json = json!({
        "passed": passed, "failed": failed, "unsupported": unsupported, "cases": cases, "differences": wrong,
    });
    let failed = match &wrong {
        Some(w) if !w.is_empty() => Some(format!("{} cases differ from the list", w.len())),
        None if failed > 0 => Some(format!("{failed} cases failed")),
        _ => None,
    };
    Ok(Answer { text, json, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_compared_both_ways() {
        let done = [
            Done { name: "a".into(), outcome: Outcome::Pass },
            Done { name: "b".into(), outcome: Outcome::Fail("wrong".into()) },
            Done { name: "new".into(), outcome: Outcome::Pass },
        ];
        let list = [("a", "pass"), ("b", "pass"), ("gone", "pass")];
        let list = list.into_iter().map(|(n, s)| (n.to_owned(), s.to_owned())).collect();
        let wrong = differences(&done, &list, false);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].contains("the list says pass: wrong"), "{wrong:?}");
        assert_eq!(differences(&done, &list, true).len(), 2);
    }
}

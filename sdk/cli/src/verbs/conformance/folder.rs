//! The folder of a report.

use super::{Args, page};
use crate::failure::{Failure, Result};
use crate::files::read_text;
use crate::options::{check_writable, make_folder, refuse_same, write_file};
use crate::verbs::Context;
use ottava_conformance::{Baseline, Outcome, Report, ReproFile, to_json, to_junit};
use std::path::{Path, PathBuf};

/// The most bytes of an older report.
const MOST_REPORT: u64 = 256 << 20;
/// End of the names of repro files.
const REPRO: &str = "orepro";
/// Files of a report.
const FILES: [&str; 3] = ["report.json", "report.html", "junit.xml"];

/// Reads an older report.
pub fn baseline(path: &Path) -> Result<Baseline> {
    let text = read_text(path, MOST_REPORT, ottava::codes::DATA_FILE)?;
    let bad = |why: String| ottava::Error::invalid(ottava::codes::DATA_FILE, format!("this is no report.json: {why}"));
    Baseline::from_json(&text).map_err(|why| bad(why).in_file(path).help("`--report DIR` writes one").into())
}

/// A folder that can be written to.
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
}

impl Folder {
    /// Makes the folder and says at once what cannot be written there. Repro files of an earlier report are taken away.
    pub fn new(path: &Path, args: &Args, cx: &Context) -> Result<Self> {
        let inputs: Vec<&Path> =
            [&args.library, &args.expect, &args.baseline].into_iter().flatten().map(PathBuf::as_path).collect();
        for name in FILES {
            refuse_same(&path.join(name), &inputs, cx)?;
        }
        if !args.dry_run {
            make_folder(&path.join("repro"))?;
            FILES.iter().try_for_each(|name| check_writable(&path.join(name)))?;
            let old = std::fs::read_dir(path.join("repro")).into_iter().flatten().flatten().map(|e| e.path());
            for file in old.filter(|p| p.extension().is_some_and(|e| e == REPRO)) {
                // One that stays is written over, or does no harm.
                let _ = std::fs::remove_file(file);
            }
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// Writes every file; the report learns where its repro files are.
    pub fn write(&self, report: &mut Report) -> Result<()> {
        for outcome in report.outcomes.iter().filter(|o| o.result.is_bad()) {
            let name = format!("repro/{}.{REPRO}", file_name(outcome, &report.repros));
            let bytes = repro(outcome, report).to_bytes().map_err(|e| Failure::Check(e.to_string()))?;
            write_file(&self.path.join(&name), &bytes)?;
            report.repros.insert(outcome.name.clone(), name);
        }
        let [json, html, junit] = FILES.map(|name| self.path.join(name));
        write_file(&json, format!("{:#}\n", to_json(report)).as_bytes())?;
        write_file(&junit, to_junit(report).as_bytes())?;
        write_file(&html, ottava::page::render(&page::page(report)).as_bytes())
    }
}

/// A name that every file system takes, and that no other case has.
fn file_name(outcome: &Outcome, taken: &std::collections::BTreeMap<String, String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let base: String = outcome.name.chars().map(plain).take(120).collect();
    let is_taken = |name: &str| taken.values().any(|path| path == &format!("repro/{name}.{REPRO}"));
    let numbered = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") });
    numbered.take(taken.len() + 1).find(|name| !is_taken(name)).unwrap_or(base)
}

fn repro(outcome: &Outcome, report: &Report) -> ReproFile {
    let (h, facts) = (&report.header, &report.header.facts);
    ReproFile {
        group: outcome.group.clone(),
        case: outcome.name.clone(),
        detail: outcome.detail.clone(),
        driver: format!("{} {}", facts.driver, facts.version),
        device: facts.device.clone(),
        seed: h.seed,
        stress: h.stress,
        repro: outcome.attached.as_deref().cloned(),
    }
}

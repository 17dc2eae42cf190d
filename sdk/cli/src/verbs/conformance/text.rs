//! The report for the terminal.

use crate::text::{table, time};
use crate::ui::Answer;
use ottava_conformance::{Ending, GROUPS, Report, to_json};
use std::path::Path;

/// What the command says: regressions first, a table of groups, every bad case, the verdict.
pub fn answer(report: &Report, folder: Option<&Path>) -> Answer {
    let mut text = String::new();
    if let Some(list) = &report.regressions {
        text += &match list.len() {
            0 => "nothing is worse than in the older report\n\n".to_owned(),
            1 => "1 case is worse than in the older report:\n".to_owned(),
            n => format!("{n} cases are worse than in the older report:\n"),
        };
        for r in list {
            text += &format!("  {} ({}): was {}, is {}\n", r.name, r.group, r.was, r.is);
        }
        text += if list.is_empty() { "" } else { "\n" };
    }
    text += &groups(report);
    text += &bad(report, folder);
    text += &format!("\n{}", summary(report));
    if let Some(folder) = folder {
        text += &format!("\nreport: {}", folder.join("report.html").display());
    }
    let failed = (!report.is_conformant()).then(|| report.verdict());
    if failed.is_none() {
        text += &format!("\n{}", report.verdict());
    }
    Answer { text, json: to_json(report), failed }
}

fn groups(report: &Report) -> String {
    let about = |id: &str| GROUPS.iter().find(|g| g.id == id).map_or("", |g| g.name);
    let seen: Vec<Ending> = Ending::ALL.into_iter().filter(|e| report.count(*e) > 0).collect();
    let header: Vec<&str> = ["group", "name"].into_iter().chain(seen.iter().map(|e| e.name())).collect();
    let rows = report.groups().into_iter().map(|(id, counts)| {
        let number = |e: &Ending| counts.get(e.name()).map_or_else(String::new, usize::to_string);
        [id.clone(), about(&id).to_owned()].into_iter().chain(seen.iter().map(number)).collect()
    });
    let right: Vec<usize> = (2..header.len()).collect();
    table(&header, &right, rows)
}

fn bad(report: &Report, folder: Option<&Path>) -> String {
    let mut text = String::new();
    for o in report.outcomes.iter().filter(|o| o.result.is_bad()) {
        text += &format!("\n{}: {} ({})\n  {}\n", o.result.name(), o.name, o.group, o.detail.replace('\n', "\n  "));
        if let Some(cause) = report.causes.get(&o.name) {
            text += &format!("  likely cause: {cause}\n");
        }
        if let (Some(folder), Some(file)) = (folder, report.repros.get(&o.name)) {
            text += &format!("  repro: {}\n", folder.join(file).display());
        }
    }
    if folder.is_none() && !text.is_empty() {
        text += "\n`--report DIR` writes a file for each of them, which `--repro` runs alone\n";
    }
    text
}

fn summary(report: &Report) -> String {
    let counted = Ending::ALL.into_iter().map(|e| (e, report.count(e))).filter(|(_, n)| *n > 0);
    let parts: Vec<String> = counted.map(|(e, n)| format!("{n} {}", e.name())).collect();
    let (facts, h) = (&report.header.facts, &report.header);
    let nanos = (report.seconds * 1e9) as u64;
    format!(
        "{} {} on {}, profile {}, seed {}: {} in {}",
        facts.driver,
        facts.version,
        facts.device,
        h.profile,
        h.seed,
        parts.join(", "),
        time(nanos)
    )
}

//! The report as an HTML page.

use crate::text::time;
use ottava::page::{Cell, Figure, Mark, Page, Section, SectionColumn, Status, Verdict};
use ottava_conformance::{Coverage, Ending, GROUPS, Outcome, Report};
use std::collections::BTreeSet;

/// The page.
pub fn page(report: &Report) -> Page {
    let (h, facts) = (&report.header, &report.header.facts);
    let sections = [
        regressions(report),
        failures(report),
        groups(report),
        coverage(report),
        lists(report),
        rest(report),
        submission(report),
    ];
    Page {
        title: format!("Conformance of {} {}", facts.driver, facts.version),
        subtitle: format!(
            "{}, kind {}, profile {}, seed {}, suite {}",
            facts.device_name, facts.kind, h.profile, h.seed, h.suite
        ),
        verdicts: verdicts(report),
        figures: figures(report),
        sections: sections.into_iter().flatten().collect(),
        notes: vec![format!(
            "Cases: {}, in {}, on {}.",
            report.outcomes.len(),
            time((report.seconds * 1e9) as u64),
            h.date
        )],
        ..Page::default()
    }
}

fn verdicts(report: &Report) -> Vec<Verdict> {
    let status = if report.is_conformant() { Status::Good } else { Status::Bad };
    let mut list = vec![Verdict { status, text: report.verdict() }];
    if let Some(worse) = report.regressions.as_ref().filter(|w| !w.is_empty()) {
        list.push(Verdict { status: Status::Bad, text: format!("worse than in the older report: {}", worse.len()) });
    }
    let remarks = report.remarks.iter();
    list.extend(remarks.map(|text| Verdict { status: Status::Warning, text: text.clone() }));
    list
}

fn figures(report: &Report) -> Vec<Figure> {
    let about = |ending: Ending| match ending {
        Ending::Passed => "the contract is kept",
        Ending::Failed => "the contract is broken",
        Ending::Crashed => "the process died",
        Ending::Hung => "no end in time",
        Ending::Skipped => "could not be tried here",
        Ending::Unsupported => "not offered",
        Ending::Xfail => "fails, as expected for now",
        Ending::Xpass => "passes unexpectedly",
    };
    let counted = Ending::ALL.into_iter().map(|e| (e, report.count(e)));
    let shown = counted
        .filter(|(e, n)| *n > 0 || matches!(e, Ending::Passed | Ending::Failed | Ending::Crashed | Ending::Hung));
    let figure =
        |(e, n): (Ending, usize)| Figure { label: e.name().into(), value: n.to_string(), note: about(e).into() };
    shown.map(figure).collect()
}

fn column(name: &str) -> SectionColumn {
    SectionColumn { name: name.to_owned(), is_number: false }
}

fn number(name: &str) -> SectionColumn {
    SectionColumn { name: name.to_owned(), is_number: true }
}

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

fn marked(text: impl Into<String>, mark: Mark) -> Cell {
    Cell { text: text.into(), mark, link: None }
}

fn mark_of(ending: Ending) -> Mark {
    match ending {
        Ending::Passed => Mark::Good,
        Ending::Xfail => Mark::Warning,
        Ending::Skipped | Ending::Unsupported => Mark::Soft,
        _ => Mark::Bad,
    }
}

fn regressions(report: &Report) -> Option<Section> {
    let list = report.regressions.as_ref().filter(|list| !list.is_empty())?;
    let row = |r: &ottava_conformance::Regression| {
        vec![cell(&r.group), cell(&r.name), marked(&r.was, Mark::Soft), marked(&r.is, Mark::Bad)]
    };
    Some(Section {
        title: "Regressions".into(),
        lead: "Worse than in the older report.".into(),
        columns: ["Group", "Case", "Was", "Is"].map(column).to_vec(),
        rows: list.iter().map(row).collect(),
    })
}

fn failures(report: &Report) -> Option<Section> {
    let bad: Vec<&Outcome> = report.outcomes.iter().filter(|o| o.result.is_bad()).collect();
    let row = |o: &&Outcome| {
        let repro = report.repros.get(&o.name);
        let cause = report.causes.get(&o.name).map_or("", String::as_str);
        let link = Cell { text: repro.map_or("", |_| "repro").into(), mark: Mark::None, link: repro.cloned() };
        vec![cell(&o.group), cell(&o.name), marked(o.result.name(), Mark::Bad), cell(&o.detail), cell(cause), link]
    };
    let section = Section {
        title: "Failures".into(),
        lead: "Each repro file runs alone with `ottava conformance LIB --repro FILE`, which looks for the cause."
            .into(),
        columns: ["Group", "Case", "Result", "What was found", "Likely cause", "File"].map(column).to_vec(),
        rows: bad.iter().map(row).collect(),
    };
    (!bad.is_empty()).then_some(section)
}

fn groups(report: &Report) -> Option<Section> {
    let known = |id: &str| GROUPS.iter().find(|g| g.id == id);
    let seen: Vec<Ending> = Ending::ALL.into_iter().filter(|e| report.count(*e) > 0).collect();
    let row = |(id, counts): (String, std::collections::BTreeMap<&'static str, usize>)| {
        let (name, about) = known(&id).map_or(("", ""), |g| (g.name, g.about));
        let count =
            |e: &Ending| counts.get(e.name()).map_or_else(Cell::default, |n| marked(n.to_string(), mark_of(*e)));
        let head = [cell(id), cell(name), marked(about, Mark::Soft)];
        head.into_iter().chain(seen.iter().map(count)).collect()
    };
    let counts = seen.iter().map(|e| number(e.name()));
    Some(Section {
        title: "Groups".into(),
        lead: String::new(),
        columns: ["Group", "Name", "What it checks"].map(column).into_iter().chain(counts).collect(),
        rows: report.groups().into_iter().map(row).collect(),
    })
}

/// What the device claims, operator by type and mode, with the numeric cases of the operator.
fn coverage(report: &Report) -> Option<Section> {
    let modes: BTreeSet<&String> = report.coverage.iter().flat_map(|c| &c.modes).collect();
    let row = |c: &Coverage| {
        let mode = |m: &&String| if c.modes.contains(*m) { marked("yes", Mark::Good) } else { marked("-", Mark::Soft) };
        let (passed, all) = cases_of(report, &c.op);
        let cases = match (passed, all) {
            (_, 0) => marked("none", Mark::Soft),
            (p, n) if p == n => marked(format!("{p} of {n}"), Mark::Good),
            (p, n) => marked(format!("{p} of {n}"), Mark::Bad),
        };
        let exact = match (c.exact, c.modes.is_empty()) {
            (_, true) => marked("-", Mark::Soft),
            (true, _) => marked("exact", Mark::Good),
            (false, _) => marked("not exact", Mark::Warning),
        };
        [cell(&c.op), cell(&c.dtype)].into_iter().chain(modes.iter().map(mode)).chain([exact, cases]).collect()
    };
    let columns = ["Operator", "Type"].map(column).into_iter().chain(modes.iter().map(|m| column(m)));
    let section = Section {
        title: "Coverage".into(),
        lead: "What the device claims to run, and how many cases of the operator passed.".into(),
        columns: columns.chain(["Integers", "Cases passed"].map(column)).collect(),
        rows: report.coverage.iter().map(row).collect(),
    };
    (!report.coverage.is_empty()).then_some(section)
}

/// How many cases have the operator as a part of their name, and how many of them passed.
fn cases_of(report: &Report, op: &str) -> (usize, usize) {
    let plain = op.rsplit("::").next().unwrap_or(op);
    let is_op = |part: &str| part.replace('_', "").eq_ignore_ascii_case(plain);
    let is_of = |o: &&Outcome| o.name.split('.').skip(1).any(is_op);
    let all: Vec<&Outcome> = report.outcomes.iter().filter(is_of).collect();
    (all.iter().filter(|o| o.result == Ending::Passed).count(), all.len())
}

fn lists(report: &Report) -> Option<Section> {
    let lists = &report.header.expectations;
    let gone = lists.unsupported.iter().map(|(p, why)| vec![cell("unsupported"), cell(p), cell(why), cell("")]);
    let failing = lists
        .expected_failures
        .iter()
        .map(|(p, why, day)| vec![cell("expected failure"), cell(p), cell(why), cell(day.to_string())]);
    let rows: Vec<Vec<Cell>> = gone.chain(failing).collect();
    let section = Section {
        title: "Expectations".into(),
        lead: "The driver's two lists, which are part of the submission.".into(),
        columns: ["List", "Cases", "Reason", "Until"].map(column).to_vec(),
        rows: rows.clone(),
    };
    (!rows.is_empty()).then_some(section)
}

/// The cases that are neither bad nor simply passed, then those that passed.
fn rest(report: &Report) -> Option<Section> {
    let mut others: Vec<&Outcome> = report.outcomes.iter().filter(|o| !o.result.is_bad()).collect();
    others.sort_by_key(|o| o.result == Ending::Passed);
    let row = |o: &&Outcome| {
        let result = marked(o.result.name(), mark_of(o.result));
        vec![cell(&o.group), cell(&o.name), result, cell(o.millis.to_string()), marked(&o.detail, Mark::Soft)]
    };
    let columns = [column("Group"), column("Case"), column("Result"), number("ms"), column("Remark")];
    let section = Section {
        title: "All other cases".into(),
        lead: String::new(),
        columns: columns.to_vec(),
        rows: others.iter().map(row).collect(),
    };
    (!others.is_empty()).then_some(section)
}

fn submission(report: &Report) -> Option<Section> {
    let (h, f) = (&report.header, &report.header.facts);
    let mut all: Vec<(&str, String)> = vec![
        ("driver", format!("{} {}", f.driver, f.version)),
        ("vendor", f.vendor.clone()),
        ("device", format!("{}: {}, kind {}", f.device, f.device_name, f.kind)),
        ("instruction set", f.isa.clone()),
        ("options", f.options.join(", ")),
        ("ABI", f.abi.clone()),
    ];
    if let Some(library) = &h.library {
        let range = library.abi_range.map_or_else(String::new, |(lo, hi)| format!("{lo} to {hi}"));
        all.push(("library", library.file.clone()));
        all.push(("SHA-256", library.sha256.clone()));
        all.push(("ABI major versions", range));
        all.push(("doors", library.doors.join(", ")));
    }
    all.extend(h.system.iter().map(|(name, value)| (*name, value.clone())));
    all.push(("suite", h.suite.to_owned()));
    all.push(("profile", h.profile.clone()));
    all.push(("filter", h.filter.clone()));
    all.push(("seed", h.seed.to_string()));
    all.push(("long forms", if h.stress { "yes" } else { "no" }.to_owned()));
    all.push(("limit of a case", format!("{} s", h.timeout_s)));
    all.push(("command line", h.command.join(" ")));
    all.push(("date", h.date.clone()));
    let rows = all.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| vec![marked(k, Mark::Soft), cell(v)]);
    Some(Section {
        title: "Submission".into(),
        lead: String::new(),
        columns: ["What", "Value"].map(column).to_vec(),
        rows: rows.collect(),
    })
}

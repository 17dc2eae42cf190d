//! Every defect is caught by the case that its table names, with the word that its table says; and the driver without a
//! defect passes every case. The score is printed.
//!
//! Each case runs in a child process, which is this test's own executable: the test `child` is what it runs there.

use ottava_conformance::{Child, Ending, Limits, Outcome, Subject, answer, list, run_case, wild};
use ottava_faulty::{DEFECTS, Defect, FaultyDriver};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The defect, and the case, in the environment of a child.
const FAULT: &str = "OTTAVA_FAULTY_DEFECT";
const CASE: &str = "OTTAVA_FAULTY_CASE";
/// A case that takes longer hangs. The driver without a defect needs a fraction of it on a busy machine.
const LIMITS: Limits = Limits { time: Duration::from_secs(15), log: 4096 };

fn subject(fault: &str) -> Subject {
    let driver = FaultyDriver::new(fault).expect("the defect is in the table");
    Subject::first_of(Arc::new(driver)).expect("the driver lists devices").expect("the driver has a device")
}

/// The command of a child; an empty case lists them.
fn command(fault: &str, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]).env(FAULT, fault).env(CASE, case);
    command
}

#[test]
fn child() {
    let (Ok(fault), Ok(case)) = (std::env::var(FAULT), std::env::var(CASE)) else { return };
    let asked = if case.is_empty() { Child::List } else { Child::Run(case) };
    // The harness has begun a line.
    println!("\n{}", answer(&subject(&fault), &asked).expect("the case is in the list"));
}

/// Runs cases in two children at a time.
fn in_children<T: Sync>(items: &[T], run: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.extend(run(item));
        }
        found
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker does not panic")).collect()
    })
}

fn all_cases() -> Vec<(String, String)> {
    list(command("", ""), LIMITS).expect("the cases can be listed")
}

/// Why a defect counts as not caught.
fn survives(defect: &Defect, cases: &[(String, String)]) -> Option<String> {
    let named: Vec<_> = cases.iter().filter(|(_, name)| wild(defect.case, name)).collect();
    let outcomes: Vec<Outcome> =
        named.iter().map(|(group, name)| run_case(group, name, command(defect.name, name), LIMITS)).collect();
    let bad = [Ending::Failed, Ending::Crashed, Ending::Hung];
    let caught = |o: &Outcome| o.group == defect.group && bad.contains(&o.result) && o.detail.contains(defect.word);
    if outcomes.iter().any(caught) {
        return None;
    }
    let seen: Vec<String> = outcomes.iter().map(|o| format!("{} {:?}: {}", o.name, o.result, o.detail)).collect();
    Some(format!("{} ({} with `{}`): {seen:?}", defect.name, defect.case, defect.word))
}

#[test]
fn every_defect_is_caught_by_its_case() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let only = std::env::var("OTTAVA_DEFECTS").unwrap_or("*".into());
    let all: Vec<&Defect> = DEFECTS.iter().flat_map(|list| list.iter()).filter(|d| wild(&only, d.name)).collect();
    let cases = all_cases();
    let missed = in_children(&all, |defect| survives(defect, &cases));
    println!("mutation score: {} of {} defects are caught", all.len() - missed.len(), all.len());
    assert!(missed.is_empty(), "not caught:\n{}", missed.join("\n"));
}

#[test]
fn the_driver_without_a_defect_passes() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let failed = in_children(&all_cases(), |(group, name)| {
        let outcome = run_case(group, name, command("", name), LIMITS);
        let fine = matches!(outcome.result, Ending::Passed | Ending::Skipped | Ending::Unsupported);
        (!fine).then(|| format!("{name} {:?}: {}", outcome.result, outcome.detail))
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn defects_have_names_of_their_own() {
    let mut names: Vec<&str> = DEFECTS.iter().flat_map(|list| list.iter()).map(|d| d.name).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n);
}

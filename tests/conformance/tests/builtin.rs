//! The built-in drivers pass every case, each in a child process, which is this test's own executable.
//!
//! By default one in six of the cases of arithmetic runs, which are the most; `OTTAVA_EXHAUSTIVE=1` runs them all.

use ottava_conformance::{Child, Ending, Limits, Subject, answer, list, run_case};
use ottava_driver_cpu::CpuDriver;
use ottava_driver_npu::NpuDriver;
use ottava_hal::Driver;
use ottava_reference::ReferenceDriver;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The driver, and the case, in the environment of a child.
const DRIVER: &str = "OTTAVA_CONFORMANCE_DRIVER";
const CASE: &str = "OTTAVA_CONFORMANCE_CASE";
const LIMITS: Limits = Limits { time: Duration::from_secs(60), log: 4096 };

fn subject(name: &str) -> Subject {
    let driver: Arc<dyn Driver> = match name {
        "cpu" => Arc::new(CpuDriver),
        "npu" => Arc::new(NpuDriver),
        _ => Arc::new(ReferenceDriver),
    };
    let mut subject = Subject::first_of(driver).expect("the driver lists devices").expect("the driver has a device");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    subject.seed = number("OTTAVA_SEED").unwrap_or(subject.seed);
    subject.stress = number("OTTAVA_STRESS").is_some();
    subject
}

fn command(driver: &str, case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]).env(DRIVER, driver).env(CASE, case);
    command
}

#[test]
fn child() {
    let (Ok(driver), Ok(case)) = (std::env::var(DRIVER), std::env::var(CASE)) else { return };
    let asked = if case.is_empty() { Child::List } else { Child::Run(case) };
    // The harness has begun a line.
    println!("\n{}", answer(&subject(&driver), &asked).expect("the case is in the list"));
}

/// Runs every case on a driver; what is unsupported is said.
fn passes(driver: &str) {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    let only = std::env::var("OTTAVA_CASES").unwrap_or("*".into());
    let cases = list(command(driver, ""), LIMITS).expect("the cases can be listed");
    let (mut passed, mut failed) = (0, Vec::new());
    let all = std::env::var_os("OTTAVA_EXHAUSTIVE").is_some_and(|v| v == "1");
    let chosen = |(i, (_, name)): &(usize, &(String, String))| {
        ottava_conformance::wild(&only, name) && (all || !name.starts_with("num.") || i.is_multiple_of(6))
    };
    let chosen: Vec<_> = cases.iter().enumerate().filter(chosen).map(|(_, case)| case).collect();
    for (group, name) in &chosen {
        let outcome = run_case(group, name, command(driver, name), LIMITS);
        match outcome.result {
            Ending::Passed => passed += 1,
            Ending::Skipped | Ending::Unsupported => {
                println!("{driver} {name} {:?}: {}", outcome.result, outcome.detail);
            }
            _ => failed.push(format!("{name} {:?} after {} ms: {}", outcome.result, outcome.millis, outcome.detail)),
        }
        if outcome.millis > 2000 {
            println!("{driver} {name} took {} ms", outcome.millis);
        }
    }
    println!("{driver}: {passed} of {} cases passed, {} failed; there are {}", chosen.len(), failed.len(), cases.len());
    assert!(failed.is_empty(), "{driver}:\n{}", failed.join("\n"));
}

#[test]
fn the_reference_passes() {
    passes("reference");
}

#[test]
fn the_cpu_passes() {
    passes("cpu");
}

#[test]
fn the_npu_passes() {
    passes("npu");
}

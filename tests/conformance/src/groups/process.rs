//! H.5: the process that a driver lives in belongs to the application.

use super::Group;
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure};
use std::fs;
use std::process::{Command, Stdio};

pub(super) const GROUP: Group = Group {
    id: "H.5",
    name: "robust.process",
    about: "signals, working directory and children stay as they are; other programs can be started while it is busy",
    cases: |_| {
        vec![
            Case::new("H.5", "robust.process.state", state),
            Case::new("H.5", "robust.process.children", children),
            Case::new("H.5", "robust.process.spawn", spawn),
        ]
    },
};

/// Opens, runs, closes; a device without programs for this suite only opens and closes.
fn work(subject: &Subject) -> Check {
    let device = subject.open()?;
    match Work::small(&*device, subject.seed).and_then(|work| work.run(&*device)) {
        Err(Stop::Unsupported(_)) => Ok(()),
        other => other,
    }
}

/// Masks of ignored and caught signals.
fn signals() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|l| l.starts_with("SigIgn") || l.starts_with("SigCgt")).map(str::to_owned).collect()
}

fn state(subject: &Subject) -> Check {
    let place = || std::env::current_dir().map_err(|e| Stop::Skipped(format!("no working directory: {e}")));
    let (folder, handlers) = (place()?, signals());
    work(subject)?;
    let now = place()?;
    ensure!(now == folder, "the driver changes the working directory to {}", now.display());
    ensure!(signals() == handlers, "the driver changes what happens on signals: {:?}, before {handlers:?}", signals());
    Ok(())
}

/// Processes that this one has started and not seen end.
fn own_children() -> Result<Vec<String>, Stop> {
    let skip = |e: std::io::Error| Stop::Skipped(format!("/proc does not list children: {e}"));
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").map_err(skip)?.flatten() {
        let list = fs::read_to_string(task.path().join("children")).map_err(skip)?;
        found.extend(list.split_whitespace().map(str::to_owned));
    }
    Ok(found)
}

fn children(subject: &Subject) -> Check {
    let before = own_children()?;
    work(subject)?;
    let after = own_children()?;
    ensure!(after.len() <= before.len(), "a process that the driver has started is left: {after:?}");
    Ok(())
}

/// Another program starts and ends while a submission is under way.
fn spawn(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, long) = (device.create_queue()?, Work::long(&*device, subject.seed)?);
    for _ in 0..3 {
        let mut bound = long.bind(&*device)?;
        let fence = bound.signal(&*device)?;
        queue.submit(&bound.submission)?;
        let mut command = Command::new("true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = command.status().map_err(|e| Stop::Skipped(format!("`true` cannot be started: {e}")))?;
        ensure!(ended.success(), "a program that was started while the device is busy ends with {ended}");
        fence.wait(1, LIMIT).map_err(|e| Stop::failed(format!("a submission during which a program ran: {e}")))?;
        bound.check(&long)?;
    }
    Ok(())
}

//! B.4: devices that are open at the same time do not know of each other.

use super::Group;
use crate::kit::{Work, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{Device, Status};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "B.4",
    name: "dev.multi",
    about: "two devices, and two openings of one, are independent",
    cases: |_| {
        vec![
            Case::new("B.4", "dev.multi.two_openings", two_openings),
            Case::new("B.4", "dev.multi.closing_one", closing_one),
            Case::new("B.4", "dev.multi.at_once", at_once),
            Case::new("B.4", "dev.multi.foreign_objects", foreign_objects),
            Case::new("B.4", "dev.multi.each_device", each_device),
        ]
    },
};

fn second(subject: &Subject) -> Result<Arc<dyn Device>, Stop> {
    let opened = subject.driver.open(&subject.device, &subject.options);
    opened.map_err(|e| Stop::failed(format!("the device cannot be opened a second time: {e}")))
}

fn two_openings(subject: &Subject) -> Check {
    let first = subject.open()?;
    let second = second(subject)?;
    for (i, device) in [&first, &second, &first].into_iter().enumerate() {
        Work::small(&**device, subject.seed + i as u64)?.run(&**device)?;
    }
    Ok(())
}

fn closing_one(subject: &Subject) -> Check {
    let first = subject.open()?;
    let work = Work::small(&*first, subject.seed)?;
    drop(second(subject)?);
    let after = |e: Stop| match e {
        Stop::Failed(why) => Stop::Failed(format!("after another opening was closed: {why}")),
        other => other,
    };
    work.run(&*first).map_err(after)
}

fn at_once(subject: &Subject) -> Check {
    let devices = [subject.open()?, second(subject)?];
    let one = |(i, device): (usize, &Arc<dyn Device>)| -> Check {
        (0..20).try_for_each(|k| Work::small(&**device, subject.seed + 100 * i as u64 + k)?.run(&**device))
    };
    let one = &one;
    std::thread::scope(|scope| {
        let runs: Vec<_> = devices.iter().enumerate().map(|d| scope.spawn(move || one(d))).collect();
        runs.into_iter().try_for_each(|r| r.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}

/// Objects of one device at another: refused in words, or, where the memory is the same, right.
fn foreign_objects(subject: &Subject) -> Check {
    let (mine, other) = (subject.open()?, second(subject)?);
    let work = Work::small(&*mine, subject.seed)?;
    let mut bound = work.bind(&*mine)?;
    let fence = bound.signal(&*other)?;
    match other.create_queue()?.submit(&bound.submission) {
        Err(e) => {
            ensure!(e.status() == Status::InvalidArgument, "objects of another device give {:?}: {e}", e.status());
            bound.untouched("by a submission that was refused")
        }
        Ok(_) => {
            done(&*fence, 1, "a submission of another device's objects")?;
            bound.check(&work)
        }
    }
}

fn each_device(subject: &Subject) -> Check {
    let infos = subject.driver.devices()?;
    if infos.len() < 2 {
        return Err(Stop::Unsupported("the driver has one device".into()));
    }
    let mut open = Vec::new();
    for info in infos {
        match subject.driver.open(&info.id, &ottava_hal::Options::new()) {
            Ok(device) => open.push(device),
            Err(e) if e.status() == Status::NotFound => {}
            Err(e) => return Err(Stop::failed(format!("`{}` does not open beside the others: {e}", info.id))),
        }
    }
    open.iter().try_for_each(|device| Work::small(&**device, subject.seed)?.run(&**device))
}

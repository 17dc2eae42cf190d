//! B.1: which devices there are.

use super::Group;
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::Status;
use std::collections::BTreeSet;

pub(super) const GROUP: Group = Group {
    id: "B.1",
    name: "dev.enumerate",
    about: "the list of devices is the same in every call, its ids and uuids are unique, its devices open",
    cases: |_| {
        vec![
            Case::new("B.1", "dev.enumerate.same_each_call", same_each_call),
            Case::new("B.1", "dev.enumerate.unique", unique),
            Case::new("B.1", "dev.enumerate.each_opens", each_opens),
            Case::new("B.1", "dev.enumerate.unknown_id", unknown_id),
            Case::new("B.1", "dev.enumerate.identity", identity),
        ]
    },
};

fn same_each_call(subject: &Subject) -> Check {
    let first = subject.driver.devices()?;
    for call in 2..=4 {
        let again = subject.driver.devices()?;
        ensure!(again.len() == first.len(), "{} devices in call {call}, {} in the first", again.len(), first.len());
        for (a, b) in first.iter().zip(&again) {
            ensure!(a.uuid == b.uuid, "the uuid of `{}` is another one in call {call}", a.id);
            ensure!(a == b, "`{}` is {b:?} in call {call}, {a:?} in the first", a.id);
        }
    }
    Ok(())
}

fn unique(subject: &Subject) -> Check {
    let devices = subject.driver.devices()?;
    let (mut ids, mut uuids) = (BTreeSet::new(), BTreeSet::new());
    for d in &devices {
        ensure!(!d.id.is_empty(), "a device has no id");
        ensure!(d.uuid != [0; 16], "the uuid of `{}` is zero", d.id);
        ensure!(ids.insert(&d.id), "two devices have the id `{}`", d.id);
        ensure!(uuids.insert(d.uuid), "`{}` has the uuid of another device", d.id);
    }
    Ok(())
}

/// A device that is listed opens, or says that it is absent; and is the one that was listed.
fn each_opens(subject: &Subject) -> Check {
    for info in subject.driver.devices()? {
        match subject.driver.open(&info.id, &ottava_hal::Options::new()) {
            Ok(device) => {
                ensure!(device.info().id == info.id, "`{}` opens as `{}`", info.id, device.info().id);
                ensure!(device.info().uuid == info.uuid, "`{}` has another uuid once it is open", info.id);
            }
            Err(e) if e.status() == Status::NotFound => {}
            Err(e) => return Err(Stop::failed(format!("`{}` is listed and does not open: {e}", info.id))),
        }
    }
    Ok(())
}

fn unknown_id(subject: &Subject) -> Check {
    for id in ["", "no such device", "\u{0}"] {
        let opened = subject.driver.open(id, &ottava_hal::Options::new());
        if opened.as_ref().is_err_and(|e| e.status() == Status::NotFound) {
            continue;
        }
        refused(&format!("opening the unknown device {id:?}"), opened, Status::InvalidArgument)?;
    }
    Ok(())
}

/// The driver's own name and version, which are part of every key of a saved executable.
fn identity(subject: &Subject) -> Check {
    let (a, b) = (subject.driver.info(), subject.driver.info());
    ensure!(a == b, "the driver is {b:?}, {a:?} a moment ago");
    ensure!(!a.name.is_empty() && !a.version.is_empty(), "the driver has no name or no version: {a:?}");
    Ok(())
}

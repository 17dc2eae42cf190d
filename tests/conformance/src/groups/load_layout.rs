//! A.4: the tables have the layout that the host knows.

use super::Group;
use super::load_required::{first_device, raw};
use super::load_version::note;
use crate::raw::{RawDevice, driver_extension};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_abi::{
    CORE_HASH, DESCRIBE_HASH, DESCRIBE_NAME, ExtV1, PROFILE_HASH, PROFILE_NAME, TEST_HOOKS_HASH, TEST_HOOKS_NAME, kind,
    status,
};

pub(super) const GROUP: Group = Group {
    id: "A.4",
    name: "load.layout",
    about: "hash of the core tables, and of the table of every extension that the driver offers",
    cases: |_| {
        vec![
            Case::new("A.4", "load.layout.core_hash", core_hash),
            Case::new("A.4", "load.layout.tables", tables),
            Case::new("A.4", "load.layout.extensions", extensions),
        ]
    },
};

fn core_hash(subject: &Subject) -> Check {
    let found = note(subject)?.core_hash;
    ensure!(found == CORE_HASH, "the hash of the tables is {found:016x}, this host's is {CORE_HASH:016x}");
    Ok(())
}

/// The loader compares sizes, kinds and, through the Rust door, every field.
fn tables(subject: &Subject) -> Check {
    raw(subject).map(drop)
}

fn extensions(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    let device = first_device(&tables)?;
    let device = RawDevice::open(&tables, &device).map_err(|s| Stop::Skipped(format!("no device opens: {s:?}")))?;
    let known = [(PROFILE_NAME, PROFILE_HASH), (TEST_HOOKS_NAME, TEST_HOOKS_HASH), (DESCRIBE_NAME, DESCRIBE_HASH)];
    for (name, hash) in known {
        check(name, hash, device.extension(name), "device")?;
        check(name, hash, driver_extension(&tables, name), "driver")?;
    }
    Ok(())
}

fn check(name: &str, hash: u64, (code, ext): (i32, ExtV1), who: &str) -> Check {
    if code != status::OK {
        let fine = [status::NOT_FOUND, status::UNSUPPORTED].contains(&code);
        ensure!(fine, "the {who} answers {code} when it is asked for {name}; expected NOT_FOUND");
        return Ok(());
    }
    ensure!(ext.kind == kind::EXT && !ext.table.is_null(), "the {who} has {name} without a table");
    let found = ext.layout_hash;
    ensure!(found == hash, "{name} of the {who} has the layout {found:016x}, expected {hash:016x}");
    Ok(())
}

//! A.5: what every driver must do with its arguments.

use super::Group;
use super::load_symbol::library;
use crate::raw::{
    RawDevice, Said, count, driver_extension, enumerate, enumerate_longer, enumerate_without_count, open_nowhere,
};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_abi::{DeviceInfoV1, status};
use ottava_loader::raw::{RawTables, tables};

pub(super) const GROUP: Group = Group {
    id: "A.5",
    name: "load.required",
    about: "no function is NULL, arguments are checked, structs say their size, errors have words",
    cases: |_| {
        vec![
            Case::new("A.5", "load.required.no_null", no_null),
            Case::new("A.5", "load.required.unknown_extension", unknown_extension),
            Case::new("A.5", "load.required.two_calls", two_calls),
            Case::new("A.5", "load.required.sizes", sizes),
            Case::new("A.5", "load.required.null_arguments", null_arguments),
            Case::new("A.5", "load.required.error_words", error_words),
        ]
    },
};

/// The tables of the library under test.
pub(super) fn raw(subject: &Subject) -> Result<RawTables, Stop> {
    tables(library(subject)?).map_err(|refusal| Stop::failed(format!("the tables are refused: {refusal}")))
}

/// The uuid of the first device.
pub(super) fn first_device(tables: &RawTables) -> Result<[u8; 16], Stop> {
    let (said, n, infos) = enumerate(tables, count(tables).1, size_of::<DeviceInfoV1>() as u32);
    ensure!(said.code == status::OK, "the devices cannot be listed: {said:?}");
    let first = infos.first().filter(|_| n > 0);
    first.map(|i| i.uuid).ok_or_else(|| Stop::Skipped("the driver has no device".into()))
}

fn no_null(subject: &Subject) -> Check {
    raw(subject).map(drop)
}

fn unknown_extension(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    for name in ["nobody.nothing/1", "ottava.profile/4000", ""] {
        let (code, _) = driver_extension(&tables, name);
        ensure!(code == status::NOT_FOUND, "the driver answers {code} when asked for `{name}`, expected NOT_FOUND");
    }
    let Ok(device) = RawDevice::open(&tables, &first_device(&tables)?) else { return Ok(()) };
    for name in ["nobody.nothing/1", ""] {
        let (code, _) = device.extension(name);
        ensure!(code == status::NOT_FOUND, "the device answers {code} when asked for `{name}`, expected NOT_FOUND");
    }
    Ok(())
}

fn two_calls(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    let (first, n) = count(&tables);
    ensure!(first.code == status::OK, "the number of devices cannot be asked: {first:?}");
    let size = size_of::<DeviceInfoV1>() as u32;
    let (second, filled, infos) = enumerate(&tables, n, size);
    ensure!(n == 0 || second.code == status::OK, "{n} devices into room for {n}: {second:?}");
    ensure!(filled == n, "the first call counts {n} devices, the second one {filled}");
    let zero = infos.iter().take(n as usize).position(|i| i.uuid == [0; 16]);
    ensure!(zero.is_none(), "device {zero:?} was counted and not filled in");
    let (more, filled, _) = enumerate(&tables, n + 3, size);
    ensure!(more.code == status::OK && filled == n, "room for {} devices: {more:?}, {filled} of {n}", n + 3);
    if n > 1 {
        let (less, filled, _) = enumerate(&tables, n - 1, size);
        let code = less.code;
        ensure!(code == status::BUFFER_TOO_SMALL, "{n} devices into room for {}: {code}, expected 14", n - 1);
        ensure!(filled == n, "too small an array: the count says {filled}, {n} are needed");
    }
    Ok(())
}

fn sizes(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    let n = count(&tables).1;
    if n == 0 {
        return Err(Stop::Skipped("the driver has no device".into()));
    }
    for size in [0, 8, size_of::<DeviceInfoV1>() as u32 - 8] {
        let (said, ..) = enumerate(&tables, n, size);
        let code = said.code;
        ensure!(code == status::INVALID_ARGUMENT, "elements of {size} bytes give {code}, expected INVALID_ARGUMENT");
    }
    if n == 1 {
        // The tables never grow, so a longer element may be refused; nobody writes what he does not know.
        let (said, untouched) = enumerate_longer(&tables);
        if said.code != status::OK {
            invalid("an element that is longer than this version", &said)?;
        }
        ensure!(untouched, "bytes behind the known part of a longer element were written");
    }
    Ok(())
}

/// Refused in words.
fn invalid(what: &str, said: &Said) -> Check {
    ensure!(said.code == status::INVALID_ARGUMENT, "{what} gives {}, expected INVALID_ARGUMENT", said.code);
    words(what, said)
}

fn words(what: &str, said: &Said) -> Check {
    ensure!(said.in_error == said.code, "{what} returns {}, its error struct says {}", said.code, said.in_error);
    ensure!(!said.words.trim().is_empty(), "{what} fails without words");
    Ok(())
}

fn null_arguments(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    invalid("enumerate without a count", &enumerate_without_count(&tables))?;
    let uuid = first_device(&tables)?;
    invalid("open without a place for the device", &open_nowhere(&tables, &uuid))?;
    let device = RawDevice::open(&tables, &uuid).map_err(|s| Stop::Skipped(format!("no device opens: {s:?}")))?;
    invalid("queue_create without a place for the queue", &device.queue_nowhere())?;
    invalid("compile without a program", &device.compile_nothing())
}

fn error_words(subject: &Subject) -> Check {
    let tables = raw(subject)?;
    match RawDevice::open(&tables, &[0xee; 16]) {
        Ok(_) => Err(Stop::failed("a device that does not exist opens")),
        Err(said) => {
            let fine = [status::NOT_FOUND, status::INVALID_ARGUMENT].contains(&said.code);
            ensure!(fine, "a device that does not exist gives {}, expected NOT_FOUND", said.code);
            words("opening a device that does not exist", &said)
        }
    }
}

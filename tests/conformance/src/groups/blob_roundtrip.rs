//! E.8: saved executables.

use super::Group;
use crate::kit::{Net, Work, basis};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{BlobKey, Device, Executable, Program, Status, Tensor};

pub(super) const GROUP: Group = Group {
    id: "E.8",
    name: "blob.roundtrip",
    about: "an executable that was saved and loaded in another opening gives the same bits",
    cases: |_| {
        vec![
            Case::new("E.8", "blob.roundtrip.same_bits", same_bits),
            Case::new("E.8", "blob.roundtrip.interface", interface),
            Case::new("E.8", "blob.roundtrip.deterministic", deterministic),
            Case::new("E.8", "blob.roundtrip.again", again),
        ]
    },
};

/// The bytes of an executable; a device without blobs ends the case.
pub(super) fn save(device: &dyn Device, exe: &dyn Executable) -> Result<Vec<u8>, Stop> {
    device.serialize(exe).map_err(|e| match e.status() {
        Status::Unsupported => Stop::Unsupported(format!("the device does not save executables: {e}")),
        _ => e.into(),
    })
}

/// The key of a payload of the driver under test. What hashes the program is the host's business.
pub(super) fn key(subject: &Subject, device: &dyn Device, payload: &[u8]) -> BlobKey {
    let (driver, info) = (subject.driver.info(), device.info());
    BlobKey {
        driver: driver.name,
        driver_version: driver.version,
        uuid: info.uuid,
        hw_rev: info.hw_rev,
        ir_version: ottava_hal::wire::VERSION,
        core_hash: ottava_abi::CORE_HASH,
        ops_hash: 1,
        program_hash: 2,
        quant_hash: 3,
        options_hash: 4,
        payload_len: payload.len() as u64,
        payload_sha256: [0; 32],
    }
}

/// Two outputs, three inputs, a constant: enough for everything to be in the wrong place.
pub(super) fn program(device: &dyn Device) -> Result<Program, Stop> {
    let ty = basis(device, 24)?;
    let bytes: Vec<u8> = (0..ty.byte_len().unwrap_or(0)).map(|i| (i * 5 % 61) as u8).collect();
    let mut net = Net::new(&ty);
    let (x, y) = (net.input(), net.input());
    let c = net.constant(Tensor::from_bytes(ty.dtype, &ty.shape.known().unwrap_or_default(), &bytes)?);
    let a = net.add(x, c);
    let b = net.add(a, y);
    Ok(net.finish(&[b, a]))
}

fn same_bits(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::new(&*device, program(&*device)?, subject.seed)?;
    let payload = save(&*device, &*work.exe)?;
    work.run(&*device)?;
    drop(device);
    let other = subject.open()?;
    let exe = other.deserialize(&key(subject, &*other, &payload), &payload)?;
    drop(payload);
    let loaded = Work { exe, program: work.program, inputs: work.inputs, expected: work.expected };
    (0..3).try_for_each(|i| loaded.with_seed(subject.seed + i)?.run(&*other))
}

fn interface(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::new(&*device, program(&*device)?, subject.seed)?;
    let payload = save(&*device, &*work.exe)?;
    let exe = device.deserialize(&key(subject, &*device, &payload), &payload)?;
    for (what, a, b) in [("inputs", work.exe.inputs(), exe.inputs()), ("outputs", work.exe.outputs(), exe.outputs())] {
        let same =
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.dtype == b.dtype && a.byte_len() == b.byte_len());
        ensure!(same, "the {what} of a loaded executable are {b:?}, those of the saved one {a:?}");
    }
    Ok(())
}

fn deterministic(subject: &Subject) -> Check {
    let device = subject.open()?;
    let first = Work::new(&*device, program(&*device)?, subject.seed)?;
    let second = Work::new(&*device, program(&*device)?, subject.seed)?;
    let (a, b, c) = (save(&*device, &*first.exe)?, save(&*device, &*first.exe)?, save(&*device, &*second.exe)?);
    ensure!(a == b, "an executable that is saved twice gives other bytes");
    ensure!(a == c, "a program that is compiled twice gives other bytes");
    Ok(())
}

/// What was loaded can be saved and loaded again.
fn again(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::new(&*device, program(&*device)?, subject.seed)?;
    let payload = save(&*device, &*work.exe)?;
    let exe = device.deserialize(&key(subject, &*device, &payload), &payload)?;
    let second = save(&*device, &*exe)?;
    let exe = device.deserialize(&key(subject, &*device, &second), &second)?;
    Work { exe, ..work }.run(&*device)
}

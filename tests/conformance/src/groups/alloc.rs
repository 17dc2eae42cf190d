//! C.1: allocation.

use super::Group;
use crate::kit::{Holdings, bytes_of};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{Buffer, BufferDesc, Device, Status};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "C.1",
    name: "mem.alloc",
    about: "sizes of 0, 1, odd and huge; alignments; exhaustion is an error and recovers",
    cases: |_| {
        vec![
            Case::new("C.1", "mem.alloc.zero", zero),
            Case::new("C.1", "mem.alloc.sizes", sizes),
            Case::new("C.1", "mem.alloc.alignments", alignments),
            Case::new("C.1", "mem.alloc.apart", apart),
            Case::new("C.1", "mem.alloc.huge", huge),
            Case::new("C.1", "mem.alloc.exhaustion", exhaustion),
            Case::new("C.1", "mem.alloc.freed", freed),
        ]
    },
};

fn alloc(device: &dyn Device, bytes: usize, alignment: usize) -> Result<Arc<dyn Buffer>, Stop> {
    let buffer = device.alloc(&BufferDesc { bytes, alignment });
    buffer.map_err(|e| Stop::failed(format!("{bytes} bytes, aligned to {alignment}, are refused: {e}")))
}

fn zero(subject: &Subject) -> Check {
    let device = subject.open()?;
    let buffer = alloc(&*device, 0, 64)?;
    ensure!(buffer.is_empty(), "a buffer of 0 bytes has {}", buffer.len());
    buffer.read(0, &mut [])?;
    buffer.write(0, &[])?;
    refused("a byte of an empty buffer", buffer.read(0, &mut [0]), Status::InvalidArgument)
}

/// Every byte is there: the first and the last keep what is written.
fn sizes(subject: &Subject) -> Check {
    let device = subject.open()?;
    for size in [1, 2, 3, 7, 63, 64, 65, 255, 4095, 4096, 4097, 65_537] {
        let buffer = alloc(&*device, size, 64)?;
        ensure!(buffer.len() == size, "a buffer of {size} bytes has {}", buffer.len());
        let data: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8 | 1).collect();
        buffer.write(0, &data)?;
        let found = bytes_of(&*buffer)?;
        let wrong = found.iter().zip(&data).position(|(f, d)| f != d);
        ensure!(wrong.is_none(), "byte {} of a buffer of {size} does not keep what is written", wrong.unwrap_or(0));
    }
    Ok(())
}

fn alignments(subject: &Subject) -> Check {
    let device = subject.open()?;
    for alignment in [1, 2, 8, 64, device.info().alignment] {
        alloc(&*device, 100, alignment)?;
    }
    Ok(())
}

fn apart(subject: &Subject) -> Check {
    let device = subject.open()?;
    let buffers = (0..8).map(|_| alloc(&*device, 64, 64)).collect::<Result<Vec<_>, Stop>>()?;
    for (i, buffer) in buffers.iter().enumerate() {
        buffer.write(0, &[i as u8 + 1; 64])?;
    }
    for (i, buffer) in buffers.iter().enumerate() {
        ensure!(bytes_of(&**buffer)? == [i as u8 + 1; 64], "buffer {i} has bytes that were written to another one");
    }
    Ok(())
}

fn out_of_memory(e: &ottava_hal::Error) -> bool {
    matches!(e.status(), Status::OutOfDeviceMemory | Status::OutOfHostMemory)
}

/// More than any machine has. Sizes that only this machine lacks would make it swap.
fn huge(subject: &Subject) -> Check {
    let device = subject.open()?;
    for bytes in [1 << 50, 1 << 62, isize::MAX as usize, usize::MAX - 7, usize::MAX] {
        match device.alloc(&BufferDesc { bytes, alignment: 64 }) {
            Ok(_) => return Err(Stop::failed(format!("a buffer of {bytes} bytes was allocated"))),
            // Whoever says how large a buffer may be refuses a larger one as unsupported.
            Err(e) if e.status() == Status::Unsupported && (1..bytes as u64).contains(&device.info().max_buffer) => {}
            Err(e) => ensure!(out_of_memory(&e), "{bytes} bytes give {:?}, expected out of memory: {e}", e.status()),
        }
    }
    alloc(&*device, 4096, 64).map(drop)
}

/// A device whose memory can be made small is filled to its end.
fn exhaustion(subject: &Subject) -> Check {
    // An option of that name with a list of values is something else.
    if !subject.driver.option_schema().iter().any(|o| o.key == "memory" && o.allowed.is_empty()) {
        return Err(Stop::Unsupported("the driver has no option `memory` that makes the device's memory small".into()));
    }
    let mut options = subject.options.clone();
    options.insert("memory".into(), (8 << 20).to_string());
    let device = subject.driver.open(&subject.device, &options)?;
    for round in 1..=3 {
        let mut held = Vec::new();
        let error = loop {
            match device.alloc(&BufferDesc { bytes: 1 << 20, alignment: 64 }) {
                Ok(buffer) => held.push(buffer),
                Err(e) => break e,
            }
            ensure!(held.len() <= 8, "8 MiB of memory hold {} buffers of 1 MiB", held.len());
        };
        let status = error.status();
        ensure!(status == Status::OutOfDeviceMemory, "the full device gives {status:?}: {error}");
        ensure!(held.len() >= 4, "8 MiB hold {} buffers of 1 MiB in round {round}", held.len());
        held.pop();
        let again = alloc(&*device, 1 << 20, 64);
        ensure!(again.is_ok(), "the full device does not recover when a buffer is freed: {:?}", again.err());
    }
    Ok(())
}

fn freed(subject: &Subject) -> Check {
    let device = subject.open()?;
    let cycle = || alloc(&*device, 32 << 10, 64)?.write(0, &[1; 32 << 10]).map_err(Stop::from);
    (0..100).try_for_each(|_| cycle())?;
    let before = Holdings::now()?;
    (0..1000).try_for_each(|_| cycle())?;
    before.returned("1000 buffers of 32 KiB that were freed")
}

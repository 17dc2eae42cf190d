//! C.4: memory of the host that a device is lent.

use super::Group;
use crate::kit::{Work, bytes_of, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::host::HostMemory;
use ottava_hal::{Binding, Buffer, BufferDesc, Device, Status};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

pub(super) const GROUP: Group = Group {
    id: "C.4",
    name: "mem.import",
    about: "lent memory is used in place, given back once, and refused in words where it does not fit",
    cases: |_| {
        vec![
            Case::new("C.4", "mem.import.in_place", in_place),
            Case::new("C.4", "mem.import.given_back", given_back),
            Case::new("C.4", "mem.import.wrong_length", wrong_length),
            Case::new("C.4", "mem.import.refused_gives_back", refused_gives_back),
        ]
    },
};

/// Lent memory, aligned to 64 bytes, which is sent home when it is given back.
struct Lent {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    home: Sender<Vec<u8>>,
}

impl Lent {
    fn lend(data: &[u8], shift: usize) -> (Box<dyn HostMemory>, Receiver<Vec<u8>>) {
        let mut bytes = vec![0; data.len() + 128];
        let start = bytes.as_ptr().align_offset(64) + shift;
        bytes[start..start + data.len()].copy_from_slice(data);
        let (home, back) = channel();
        (Box::new(Self { bytes, start, len: data.len(), home }), back)
    }
}

impl HostMemory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Nobody listens in some cases.
        let _ = self.home.send(self.bytes().to_vec());
    }
}

type Imported = (Arc<dyn Buffer>, Receiver<Vec<u8>>);

fn import(device: &dyn Device, data: &[u8]) -> Result<Imported, Stop> {
    let (memory, back) = Lent::lend(data, 0);
    match device.import_host(memory, &BufferDesc { bytes: data.len(), alignment: 64 }) {
        Ok(buffer) => Ok((buffer, back)),
        Err(e) if e.status() == Status::Unsupported => Err(Stop::Unsupported(format!("no host memory: {e}"))),
        Err(e) => Err(Stop::failed(format!("host memory that fits is refused: {e}"))),
    }
}

/// A run on lent memory: its inputs are read there, and its outputs are there when the signal has come.
fn in_place(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    let (mut backs, mut homes) = (Vec::new(), Vec::new());
    let Some((inputs, outputs)) = bound.bindings_mut() else { return Ok(()) };
    for (binding, data) in inputs.iter_mut().zip(&work.inputs) {
        let (buffer, back) = import(&*device, data)?;
        *binding = Binding::whole(buffer);
        homes.push(back);
    }
    for (binding, data) in outputs.iter_mut().zip(&work.expected) {
        let (buffer, back) = import(&*device, &vec![0x5a; data.len()])?;
        *binding = Binding::whole(buffer);
        backs.push(back);
    }
    device.create_queue()?.submit(&bound.submission)?;
    done(&*fence, 1, "a run on lent memory")?;
    drop(bound);
    for (i, (back, want)) in backs.iter().zip(&work.expected).enumerate() {
        let limit = std::time::Duration::from_secs(2);
        let found =
            back.recv_timeout(limit).map_err(|_| Stop::failed("lent memory of an output was not given back"))?;
        ensure!(found == *want, "output {i} is not in the lent memory after the run");
    }
    Ok(())
}

fn given_back(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (buffer, back) = import(&*device, &[1, 2, 3, 4, 5, 6, 7, 8])?;
    buffer.write(2, &[9])?;
    ensure!(bytes_of(&*buffer)? == [1, 2, 9, 4, 5, 6, 7, 8], "lent memory does not read as it was written");
    ensure!(back.try_recv().is_err(), "lent memory was given back while its buffer lived");
    drop(buffer);
    let found = back.recv_timeout(std::time::Duration::from_secs(2));
    let found = found.map_err(|_| Stop::failed("lent memory was not given back with its buffer"))?;
    ensure!(found == [1, 2, 9, 4, 5, 6, 7, 8], "a write to the buffer is not in the lent memory");
    ensure!(back.try_recv().is_err(), "lent memory was given back twice");
    Ok(())
}

/// A description that does not fit the memory is refused, or the memory alone counts.
fn wrong_length(subject: &Subject) -> Check {
    let device = subject.open()?;
    import(&*device, &[0; 64])?;
    for described in [63, 65, 0, 4096] {
        let (memory, _back) = Lent::lend(&[3; 64], 0);
        match device.import_host(memory, &BufferDesc { bytes: described, alignment: 64 }) {
            Err(e) => {
                ensure!(e.status() == Status::InvalidArgument, "{described} of 64 bytes give {:?}: {e}", e.status())
            }
            Ok(buffer) => {
                ensure!(buffer.len() <= 64, "a buffer of 64 lent bytes says that it has {}", buffer.len());
                ensure!(buffer.read(64, &mut [0]).is_err(), "a byte behind 64 lent bytes could be read");
            }
        }
    }
    Ok(())
}

/// Memory that cannot be used: refused in words and given back, or used as it is.
fn refused_gives_back(subject: &Subject) -> Check {
    let device = subject.open()?;
    import(&*device, &[0; 64])?;
    for shift in [1, 3, 4] {
        let (memory, back) = Lent::lend(&[3; 16], shift);
        let imported = device.import_host(memory, &BufferDesc { bytes: 16, alignment: 64 });
        if let Err(e) = &imported {
            let named = [Status::InvalidArgument, Status::Unsupported].contains(&e.status());
            ensure!(named, "memory at an odd address gives {:?}: {e}", e.status());
        }
        drop(imported);
        let home = back.recv_timeout(std::time::Duration::from_secs(2));
        ensure!(home.is_ok(), "memory that was lent at an odd address was not given back");
    }
    Ok(())
}

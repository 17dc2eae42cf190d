//! C.3: copies and fills on the device, over sizes, alignments and patterns. A model in host memory says what every byte of
//! the buffers must be, so that one byte too much or too little is seen wherever it is.

use super::Group;
use crate::kit::{buffer_of, bytes_of, first_difference, submit_and_wait};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{Binding, Buffer, Command, Device, Queue, Status, Submission};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "C.3",
    name: "mem.transfer",
    about: "fill and copy over size, alignment and pattern; overlap; no byte outside is touched",
    cases: |_| {
        vec![
            Case::new("C.3", "mem.transfer.copy", copy),
            Case::new("C.3", "mem.transfer.fill", fill),
            Case::new("C.3", "mem.transfer.within", within),
            Case::new("C.3", "mem.transfer.overlap", overlap),
            Case::new("C.3", "mem.transfer.lengths", lengths),
            Case::new("C.3", "mem.transfer.outside", outside),
            Case::new("C.3", "mem.transfer.in_order", in_order),
        ]
    },
};

const SIZE: usize = 512;
const SIZES: [usize; 9] = [0, 1, 3, 4, 5, 63, 64, 65, 200];
const OFFSETS: [usize; 6] = [0, 1, 2, 7, 64, 129];

/// A queue and a device.
struct Place {
    device: Arc<dyn Device>,
    queue: Arc<dyn Queue>,
}

impl Place {
    fn new(subject: &Subject) -> Result<Self, Stop> {
        let device = subject.open()?;
        Ok(Self { queue: device.create_queue()?, device })
    }

    fn run(&self, commands: Vec<Command>) -> Check {
        submit_and_wait(&*self.device, &*self.queue, Submission { commands, ..Submission::default() })
    }

    fn submit(&self, commands: Vec<Command>) -> ottava_hal::Result<u64> {
        self.queue.submit(&Submission { commands, ..Submission::default() })
    }
}

fn pattern(seed: usize) -> Vec<u8> {
    (0..SIZE).map(|i| (i * 31 + seed * 17 + i / 256) as u8).collect()
}

fn part(buffer: &Arc<dyn Buffer>, offset: usize, len: usize) -> Binding {
    Binding { buffer: buffer.clone(), offset, len }
}

fn compare(buffer: &Arc<dyn Buffer>, model: &[u8], what: &str) -> Check {
    let difference = first_difference(&bytes_of(&**buffer)?, model);
    ensure!(difference.is_none(), "{what}: {}", difference.unwrap_or_default());
    Ok(())
}

fn copy(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    let source = pattern(1);
    let from = buffer_of(&*place.device, &source)?;
    for len in SIZES {
        for (i, offset) in OFFSETS.into_iter().enumerate() {
            let to_offset = OFFSETS[(i + 2) % OFFSETS.len()];
            let mut model = pattern(2);
            let to = buffer_of(&*place.device, &model)?;
            place.run(vec![Command::Copy { from: part(&from, offset, len), to: part(&to, to_offset, len) }])?;
            model[to_offset..to_offset + len].copy_from_slice(&source[offset..offset + len]);
            compare(&to, &model, &format!("a copy of {len} bytes from {offset} to {to_offset}"))?;
        }
    }
    compare(&from, &source, "the source of copies")
}

fn fill(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    for pattern_word in [0u32, 0xffff_ffff, 0x0403_0201] {
        for len in SIZES {
            for offset in OFFSETS {
                let mut model = pattern(3);
                let to = buffer_of(&*place.device, &model)?;
                place.run(vec![Command::Fill { to: part(&to, offset, len), pattern: pattern_word }])?;
                let bytes = pattern_word.to_le_bytes();
                model[offset..offset + len].iter_mut().zip(bytes.iter().cycle()).for_each(|(m, p)| *m = *p);
                compare(&to, &model, &format!("a fill of {len} bytes at {offset} with {pattern_word:#010x}"))?;
            }
        }
    }
    Ok(())
}

fn within(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    for (from, to, len) in [(0, 256, 100), (300, 3, 57), (0, 1, 1), (100, 200, 100), (200, 100, 100)] {
        let mut model = pattern(4);
        let buffer = buffer_of(&*place.device, &model)?;
        place.run(vec![Command::Copy { from: part(&buffer, from, len), to: part(&buffer, to, len) }])?;
        model.copy_within(from..from + len, to);
        compare(&buffer, &model, &format!("a copy of {len} bytes from {from} to {to} of the same buffer"))?;
    }
    Ok(())
}

/// A copy onto itself is not asked for; a device refuses it, or reads everything before it writes.
fn overlap(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    for (from, to) in [(0, 10), (10, 0), (5, 5)] {
        let mut model = pattern(5);
        let buffer = buffer_of(&*place.device, &model)?;
        let command = Command::Copy { from: part(&buffer, from, 100), to: part(&buffer, to, 100) };
        match place.submit(vec![command]) {
            Err(e) => ensure!(e.status() == Status::InvalidArgument, "an overlap gives {:?}: {e}", e.status()),
            Ok(_) => {
                place.run(vec![])?;
                model.copy_within(from..from + 100, to);
            }
        }
        compare(&buffer, &model, &format!("an overlapping copy from {from} to {to}"))?;
    }
    Ok(())
}

fn lengths(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    let (a, b) = (buffer_of(&*place.device, &pattern(6))?, buffer_of(&*place.device, &pattern(7))?);
    for (from, to) in [(10, 11), (11, 10), (0, 1)] {
        let command = Command::Copy { from: part(&a, 0, from), to: part(&b, 0, to) };
        refused(&format!("a copy from {from} bytes to {to}"), place.submit(vec![command]), Status::InvalidArgument)?;
    }
    compare(&b, &pattern(7), "the destination of copies that were refused")
}

fn outside(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    let buffer = buffer_of(&*place.device, &pattern(8))?;
    for (offset, len) in [(SIZE, 1), (SIZE - 1, 2), (usize::MAX, 1), (usize::MAX - 1, 4)] {
        let fill = Command::Fill { to: part(&buffer, offset, len), pattern: 0 };
        refused(&format!("a fill of {offset}+{len}"), place.submit(vec![fill]), Status::InvalidArgument)?;
        let copy = Command::Copy { from: part(&buffer, offset, len), to: part(&buffer, offset, len) };
        refused(&format!("a copy of {offset}+{len}"), place.submit(vec![copy]), Status::InvalidArgument)?;
    }
    compare(&buffer, &pattern(8), "a buffer behind which was nothing to write")
}

/// The second command of a submission sees what the first did.
fn in_order(subject: &Subject) -> Check {
    let place = Place::new(subject)?;
    let (a, b) = (buffer_of(&*place.device, &pattern(9))?, buffer_of(&*place.device, &pattern(10))?);
    let (from, to) = (part(&a, 0, SIZE), part(&b, 0, SIZE));
    let fill = |pattern| Command::Fill { to: part(&a, 0, SIZE), pattern };
    place.run(vec![fill(0x0101_0101), fill(0x0202_0202), Command::Copy { from, to }, fill(0x0303_0303)])?;
    compare(&b, &[2; SIZE], "a copy between two fills")?;
    compare(&a, &[3; SIZE], "the last of three fills")
}

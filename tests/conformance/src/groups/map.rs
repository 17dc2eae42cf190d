//! C.2: the host's view of a buffer. The driver contract has `read` and `write`; behind the plugin boundary they are `map`
//! and `unmap`.

use super::Group;
use crate::kit::{Rng, buffer_of, bytes_of};
use crate::{Case, Check, Subject, ensure, refused};
use ottava_hal::Status;

pub(super) const GROUP: Group = Group {
    id: "C.2",
    name: "mem.map",
    about: "reading and writing parts; what is outside is refused and touches nothing",
    cases: |_| {
        vec![
            Case::new("C.2", "mem.map.parts", parts),
            Case::new("C.2", "mem.map.outside", outside),
            Case::new("C.2", "mem.map.refused_writes_nothing", refused_writes_nothing),
            Case::new("C.2", "mem.map.threads", threads),
        ]
    },
};

/// Random parts against a model in host memory.
fn parts(subject: &Subject) -> Check {
    let device = subject.open()?;
    let mut rng = Rng::new(subject.seed);
    let mut model: Vec<u8> = (0..301).map(|_| rng.bits() as u8).collect();
    let buffer = buffer_of(&*device, &model)?;
    for step in 0..200 {
        let offset = rng.below(model.len());
        let len = rng.below(model.len() - offset + 1);
        let data: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        buffer.write(offset, &data)?;
        model[offset..offset + len].copy_from_slice(&data);
        let at = rng.below(model.len());
        let mut found = vec![0; rng.below(model.len() - at + 1)];
        buffer.read(at, &mut found)?;
        ensure!(found == model[at..at + found.len()], "step {step}: bytes {at}+{} are wrong", found.len());
    }
    ensure!(bytes_of(&*buffer)? == model, "the whole buffer is wrong after writes of parts");
    Ok(())
}

/// Ranges that do not fit a buffer of 16 bytes.
const OUTSIDE: [(usize, usize); 6] = [(16, 1), (15, 2), (0, 17), (17, 0), (usize::MAX, 1), (usize::MAX - 3, 8)];

fn outside(subject: &Subject) -> Check {
    let device = subject.open()?;
    let buffer = buffer_of(&*device, &[7; 16])?;
    for (offset, len) in OUTSIDE {
        let mut bytes = vec![1; len];
        refused(
            &format!("reading {offset}+{len} of 16 bytes"),
            buffer.read(offset, &mut bytes),
            Status::InvalidArgument,
        )?;
        let words = format!("writing {offset}+{len} of 16 bytes");
        refused(&words, buffer.write(offset, &bytes), Status::InvalidArgument)?;
    }
    buffer.read(16, &mut [])?;
    Ok(())
}

fn refused_writes_nothing(subject: &Subject) -> Check {
    let device = subject.open()?;
    let buffer = buffer_of(&*device, &[7; 16])?;
    for (offset, len) in OUTSIDE {
        // Whether it is refused is another case.
        let _ = buffer.write(offset, &vec![9; len]);
        ensure!(bytes_of(&*buffer)? == [7; 16], "a write of {offset}+{len} that was refused changed bytes");
    }
    Ok(())
}

/// Threads that own a part each.
fn threads(subject: &Subject) -> Check {
    let device = subject.open()?;
    let buffer = &buffer_of(&*device, &[0; 64])?;
    std::thread::scope(|scope| {
        let one = |t: usize| -> Check {
            for round in 0..200u8 {
                buffer.write(8 * t, &[round; 8])?;
                let mut found = [0; 8];
                buffer.read(8 * t, &mut found)?;
                ensure!(found == [round; 8], "thread {t} reads {found:?}, it wrote {round}");
            }
            Ok(())
        };
        let all: Vec<_> = (0..8).map(|t| scope.spawn(move || one(t))).collect();
        all.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(crate::Stop::failed("a thread panicked"))))
    })
}

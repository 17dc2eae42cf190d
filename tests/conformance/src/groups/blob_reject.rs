//! E.9: blobs that are none.
//!
//! The host has compared the payload's hash before a driver sees it, so a driver need not notice each flipped bit; it must
//! notice what is no blob of its own, and never crash.

use super::Group;
use super::blob_roundtrip::{key, program, save};
use crate::kit::{Rng, Work};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{Device, Result as Answer, Status};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "E.9",
    name: "blob.reject",
    about: "truncated, corrupted and foreign blobs are refused with a code, and nothing crashes",
    cases: |_| {
        vec![
            Case::new("E.9", "blob.reject.truncated", truncated),
            Case::new("E.9", "blob.reject.magic", magic),
            Case::new("E.9", "blob.reject.longer", longer),
            Case::new("E.9", "blob.reject.garbage", garbage),
            Case::new("E.9", "blob.reject.each_byte", each_byte),
        ]
    },
};

/// A device, its payload, and what it is made of.
struct Saved<'s> {
    subject: &'s Subject,
    device: Arc<dyn Device>,
    work: Work,
    payload: Vec<u8>,
}

impl<'s> Saved<'s> {
    fn new(subject: &'s Subject) -> Result<Self, Stop> {
        let device = subject.open()?;
        let work = Work::new(&*device, program(&*device)?, subject.seed)?;
        let payload = save(&*device, &*work.exe)?;
        Ok(Self { subject, device, work, payload })
    }

    fn load(&self, payload: &[u8]) -> Answer<()> {
        self.device.deserialize(&key(self.subject, &*self.device, payload), payload).map(drop)
    }

    /// It is refused, with a code for blobs.
    fn refuses(&self, what: &str, payload: &[u8]) -> Check {
        match self.load(payload) {
            Ok(()) => Err(Stop::failed(format!("{what} was accepted"))),
            Err(e) => code(what, e.status(), &e.to_string()),
        }
    }

    /// The right payload still loads.
    fn still_loads(&self) -> Check {
        let exe = self.device.deserialize(&key(self.subject, &*self.device, &self.payload), &self.payload)?;
        let (program, inputs, expected) =
            (self.work.program.clone(), self.work.inputs.clone(), self.work.expected.clone());
        Work { exe, program, inputs, expected }.run(&*self.device)
    }
}

fn code(what: &str, status: Status, words: &str) -> Check {
    let fine = [Status::CorruptBlob, Status::IncompatibleBlob].contains(&status);
    ensure!(fine, "{what} gives {status:?}, expected CorruptBlob or IncompatibleBlob: {words}");
    Ok(())
}

fn truncated(subject: &Subject) -> Check {
    let saved = Saved::new(subject)?;
    let n = saved.payload.len();
    let lengths = (0..n.min(16)).chain((16..n).step_by(1 + n / 40)).chain([n - 1]);
    lengths.into_iter().try_for_each(|len| saved.refuses(&format!("{len} of {n} bytes"), &saved.payload[..len]))?;
    saved.still_loads()
}

fn magic(subject: &Subject) -> Check {
    let saved = Saved::new(subject)?;
    for i in 0..4 {
        let mut bad = saved.payload.clone();
        bad[i] ^= 0x55;
        saved.refuses(&format!("a blob whose byte {i} is another"), &bad)?;
    }
    saved.still_loads()
}

fn longer(subject: &Subject) -> Check {
    let saved = Saved::new(subject)?;
    for more in [1, 8, 4096] {
        let mut bad = saved.payload.clone();
        bad.resize(saved.payload.len() + more, 0);
        saved.refuses(&format!("a blob with {more} bytes behind it"), &bad)?;
    }
    saved.still_loads()
}

fn garbage(subject: &Subject) -> Check {
    let saved = Saved::new(subject)?;
    let mut rng = Rng::new(subject.seed);
    for len in [0, 1, 7, 8, 64, 1000, saved.payload.len()] {
        let bytes: Vec<u8> = (0..len).map(|_| rng.bits() as u8).collect();
        saved.refuses(&format!("{len} random bytes"), &bytes)?;
        saved.refuses(&format!("{len} zeros"), &vec![0; len])?;
        saved.refuses(&format!("{len} bytes of ones"), &vec![0xff; len])?;
    }
    saved.still_loads()
}

/// A bit of each byte in turn: refused with a code, or accepted, never a crash.
fn each_byte(subject: &Subject) -> Check {
    let saved = Saved::new(subject)?;
    let n = saved.payload.len();
    for i in (0..n).step_by(1 + n / 500) {
        let mut bad = saved.payload.clone();
        bad[i] ^= 1 << (i % 8);
        if let Err(e) = saved.load(&bad) {
            let memory =
                [Status::OutOfDeviceMemory, Status::OutOfHostMemory, Status::InvalidArgument, Status::Unsupported];
            if !memory.contains(&e.status()) {
                code(&format!("a blob with a flipped bit in byte {i}"), e.status(), &e.to_string())?;
            }
        }
    }
    saved.still_loads()
}

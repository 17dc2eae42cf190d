//! Bindings resolved to host memory, and the locks of a run.
//!
//! Protocol: every bound buffer is locked once, in the order of addresses: whatever two submissions bind, they lock in
//! the same order and cannot wait for each other. A buffer that an output binds is bound nowhere else, so it is locked
//! for writing and all others for reading.

use super::buffer::{HostBuffer, Storage};
use crate::{Binding, Error, Result, Status, TensorType};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;
use std::ops::Range;

/// A list that is usually short.
pub(super) type Few<T> = SmallVec<[T; 4]>;

/// A binding resolved to host memory.
pub(super) struct Bound<'a> {
    pub buffer: &'a HostBuffer,
    pub range: Range<usize>,
}

impl Bound<'_> {
    /// What buffers are ordered by.
    fn address(&self) -> *const HostBuffer {
        std::ptr::from_ref(self.buffer)
    }
}

/// A binding of a copy or fill.
pub(super) fn resolve(b: &Binding) -> Result<Bound<'_>> {
    let foreign = || Error::invalid("a copy or fill names a buffer of another device");
    let buffer = b.buffer.as_any().downcast_ref::<HostBuffer>().ok_or_else(foreign)?;
    Ok(Bound { buffer, range: buffer.range(b.offset, b.len)? })
}

/// The bindings of all inputs or outputs; `bytes` are the sizes of `types`.
pub(super) fn bind<'a>(
    bindings: &'a [Binding],
    types: &[TensorType],
    bytes: &[Option<usize>],
    what: &str,
) -> Result<Few<Bound<'a>>> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    let mut bound = Few::with_capacity(bindings.len());
    for (i, ((b, ty), bytes)) in bindings.iter().zip(types).zip(bytes).enumerate() {
        let foreign = || Error::invalid(format!("{what} {i} is a buffer of another device"));
        let buffer = b.buffer.as_any().downcast_ref::<HostBuffer>().ok_or_else(foreign)?;
        if *bytes != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {bytes:?}", b.len)));
        }
        if b.offset % 8 != 0 {
            return Err(Error::invalid(format!("{what} {i}: offset {} is not a multiple of 8", b.offset)));
        }
        bound.push(Bound { buffer, range: buffer.range(b.offset, b.len)? });
    }
    Ok(bound)
}

/// An output buffer must not be bound a second time in the same submission.
pub(super) fn check_distinct(ins: &[Bound], outs: &[Bound]) -> Result<()> {
    for (i, out) in outs.iter().enumerate() {
        let others = outs[i + 1..].iter().chain(ins);
        if others.into_iter().any(|o| std::ptr::eq(o.buffer, out.buffer)) {
            return Err(Error::invalid(format!(
                "the buffer of output {i} is bound twice; give it a buffer of its own"
            )));
        }
    }
    Ok(())
}

/// A buffer held for a run.
enum Guard<'a> {
    Read(RwLockReadGuard<'a, Storage>),
    Write(RwLockWriteGuard<'a, Storage>),
}

/// The bytes of a buffer held for a run.
enum Bytes<'a> {
    Read(&'a [u8]),
    /// Taken by the one output that binds it.
    Write(Option<&'a mut [u8]>),
}

impl Guard<'_> {
    fn bytes(&mut self) -> Bytes<'_> {
        match self {
            Self::Read(storage) => Bytes::Read(storage.bytes()),
            Self::Write(storage) => Bytes::Write(Some(storage.bytes_mut())),
        }
    }
}

/// The guards of a run, in the order of their buffers' addresses.
type Guards<'a> = SmallVec<[(*const HostBuffer, Guard<'a>); 8]>;

fn lock<'a>(ins: &[Bound<'a>], outs: &[Bound<'a>]) -> Guards<'a> {
    let reads = ins.iter().map(|b| (b.address(), b.buffer, false));
    let mut all: SmallVec<[_; 8]> = outs.iter().map(|b| (b.address(), b.buffer, true)).chain(reads).collect();
    all.sort_unstable_by_key(|(address, _, _)| *address);
    all.dedup_by_key(|(address, _, _)| *address);
    let hold = |(address, buffer, write): (_, &'a HostBuffer, bool)| {
        let guard = if write { Guard::Write(buffer.storage.write()) } else { Guard::Read(buffer.storage.read()) };
        (address, guard)
    };
    all.into_iter().map(hold).collect()
}

/// Runs `f` on the bytes of inputs and outputs, which have passed [`check_distinct`], while their buffers are locked.
pub(super) fn with_locked(
    ins: &[Bound],
    outs: &[Bound],
    f: impl FnOnce(&[&[u8]], &mut [&mut [u8]]) -> Result<()>,
) -> Result<()> {
    let mut guards = lock(ins, outs);
    let held = guards.iter_mut().map(|(address, guard)| (*address, guard.bytes()));
    let mut held: SmallVec<[(*const HostBuffer, Bytes); 8]> = held.collect();
    let gone = || Error::failed(Status::Internal, "a bound buffer was not locked");
    let mut outputs = Few::with_capacity(outs.len());
    for b in outs {
        let i = held.binary_search_by_key(&b.address(), |(address, _)| *address).map_err(|_| gone())?;
        let Bytes::Write(bytes) = &mut held[i].1 else { return Err(gone()) };
        outputs.push(&mut bytes.take().ok_or_else(gone)?[b.range.clone()]);
    }
    let mut inputs = Few::with_capacity(ins.len());
    for b in ins {
        let i = held.binary_search_by_key(&b.address(), |(address, _)| *address).map_err(|_| gone())?;
        let Bytes::Read(bytes) = held[i].1 else { return Err(gone()) };
        inputs.push(&bytes[b.range.clone()]);
    }
    f(&inputs, &mut outputs)
}

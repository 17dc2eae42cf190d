//! Executables as bytes: the program without the weights that are packed, and the packed weights. Reading them back runs the
//! builder again, which is fast, and takes each packed weight from the bytes, which compiling would have spent its time on.
//!
//! Layout, in the encoding of [`ottava_hal::wire`]: four bytes of magic; the version; how many of the program's last inputs
//! stand for weights; the program; the packed weights in the order in which the builder asks for them, each at a multiple of
//! 64 bytes, so that a mapped file serves them in place. The bytes do not depend on the instruction set.
//!
//! The bytes may come from a stranger. The program is checked and assessed like any other, packed weights are checked by
//! `ottava-kernels`, and no memory is taken that the bytes do not account for. Weights that are not in the bytes become zeros
//! that nobody but the assessment reads: only constants that nothing else than packing uses are left out.

mod packs;
#[cfg(test)]
mod tests;

pub(crate) use packs::{Job, Pack, Packed, Packs, Slot};

use crate::executable::CpuProgram;
use crate::ops::product::is_packed;
use ottava_hal::host::HostExecutable;
use ottava_hal::wire::{Inline, Reader, Writer, corrupt, decode, encode};
use ottava_hal::{Error, Executable, Program, Result, SharedBytes, Tensor, ValueId};
use ottava_kernels::PackedBytes;
use std::sync::Arc;

/// First bytes of a payload.
const MAGIC: [u8; 4] = *b"OCPU";
/// Version of the layout and of the packed formats.
const VERSION: u32 = 5;

/// Where packed weights begin: at a multiple of this.
const ALIGN: usize = 64;

/// A payload, and the memory that keeps it, if that may be used for longer.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'b> {
    /// Bytes to copy from.
    Lent(&'b [u8]),
    /// Bytes that may be kept.
    Shared(&'b SharedBytes),
}

impl<'b> Payload<'b> {
    fn bytes(self) -> &'b [u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Shared(memory) => (**memory).as_ref(),
        }
    }

    /// The next packed weights.
    fn packed(self, r: &mut Reader<'b>) -> Result<PackedBytes<'b>> {
        let n = r.count(1)?;
        r.align(ALIGN)?;
        let (at, bytes) = (r.position(), r.raw(n)?);
        match self {
            Self::Lent(_) => Ok(bytes.into()),
            Self::Shared(memory) => {
                PackedBytes::shared(memory, at, n).ok_or_else(|| corrupt("the memory of the program has changed"))
            }
        }
    }
}

/// A payload, read but not built.
pub(crate) struct Loaded<'b> {
    /// The program; packed weights are zeros.
    pub(crate) program: Program,
    /// Packed weights in the order of the builder.
    pub(crate) packs: Packs<'b>,
}

/// The program without the constants that only packing reads: they become its last inputs. The number of those.
pub(crate) fn bare(program: &Program) -> (Program, u32) {
    let mut bare = program.clone();
    let (only, mut n) = (only_packed(program), 0);
    for (i, value) in bare.values.iter_mut().enumerate() {
        if only[i] && value.constant.take().is_some() {
            bare.inputs.push(ValueId(i));
            n += 1;
        }
    }
    (bare, n)
}

/// Per value: packing reads it, and nothing else does.
fn only_packed(program: &Program) -> Vec<bool> {
    let (mut packed, mut other) = (vec![false; program.values.len()], vec![false; program.values.len()]);
    for node in &program.nodes {
        for (i, id) in node.inputs.iter().enumerate() {
            if let Some(id) = id {
                let uses = if is_packed(program, node, i) { &mut packed } else { &mut other };
                uses[id.0] = true;
            }
        }
    }
    program.outputs.iter().for_each(|id| other[id.0] = true);
    packed.iter().zip(other).map(|(packed, other)| *packed && !other).collect()
}

/// The bytes of an executable of this driver.
pub(crate) fn save(executable: &dyn Executable) -> Result<Vec<u8>> {
    let program = executable.as_any().downcast_ref::<HostExecutable>().map(HostExecutable::program);
    let program = program.and_then(|p| p.as_any().downcast_ref::<CpuProgram>());
    program.ok_or_else(|| Error::invalid("the executable is not one of the cpu driver"))?.save()
}

/// The bytes of a program and its packed weights.
pub(crate) fn write(bare: &Program, n_packed: u32, packed: &[Packed]) -> Result<Vec<u8>> {
    let mut w = Writer::default();
    w.raw(&MAGIC);
    w.u32(VERSION);
    w.u32(n_packed);
    encode(bare, &mut Inline, &mut w)?;
    w.list(packed, |w, packed| {
        let bytes = packed.to_bytes();
        w.size(bytes.len());
        w.align(ALIGN);
        w.raw(&bytes);
    });
    Ok(w.into_bytes())
}

/// Reads a payload.
pub(crate) fn load(payload: Payload<'_>) -> Result<Loaded<'_>> {
    let mut r = Reader::new(payload.bytes());
    if r.raw(MAGIC.len())? != MAGIC {
        return Err(corrupt("this is no compiled program of the cpu driver"));
    }
    let version = r.u32()?;
    if version != VERSION {
        return Err(corrupt(format!("a compiled program of version {version}, this driver reads {VERSION}")));
    }
    let n_packed = r.u32()?;
    let bare = decode(&mut r, &mut Inline)?;
    let stored = r.list(8, |r| payload.packed(r))?;
    r.end()?;
    Ok(Loaded { program: whole(bare, n_packed, payload.bytes().len())?, packs: Packs::stored(stored) })
}

/// The program that [`bare`] was made of, with zeros for the weights. A packed weight takes at least half of the bytes
/// that it took before, so none is larger than twice the payload; the zeros are pages that are never touched, shared by all.
fn whole(mut program: Program, n_packed: u32, payload: usize) -> Result<Program> {
    let first = usize::try_from(n_packed).ok().and_then(|n| program.inputs.len().checked_sub(n));
    let first = first.ok_or_else(|| corrupt("more weights than inputs"))?;
    let only = only_packed(&program);
    let zeros: SharedBytes = Arc::new(vec![0u8; payload.saturating_mul(2)]);
    for id in program.inputs.split_off(first) {
        let value = &mut program.values[id.0];
        let dims = value.ty.shape.known().filter(|_| only[id.0]);
        let dims = dims.ok_or_else(|| corrupt(format!("`{}` cannot be a packed weight", value.name)))?;
        let data = Tensor::from_shared(value.ty.dtype, &dims, Arc::clone(&zeros), 0);
        value.constant = Some(data.map_err(|_| corrupt(format!("`{}` is larger than the data", value.name)))?);
    }
    if let Some(value) = program.values.iter().find(|v| v.ty.byte_len().is_none()) {
        return Err(corrupt(format!("`{}` is {}, which has no size", value.name, value.ty)));
    }
    program.check()?;
    Ok(program)
}

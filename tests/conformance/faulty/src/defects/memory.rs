//! Group C: buffers, copies, lent memory.

use super::Defect;
use crate::executable::Compiled;
use crate::{Core, FaultyBuffer, memory, queue};
use ottava_hal::{Binding, BufferDesc, Command, Error, Program, Result, Status, Submission};
use std::sync::Arc;

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("zero_refused", "C.1", "mem.alloc.zero", "0 bytes", |b| b.alloc = not_zero),
    Defect::new("size_rounded_up", "C.1", "mem.alloc.sizes", "has 64", |b| b.len = |m| m.size.next_multiple_of(64)),
    Defect::new("last_byte_lost", "C.1", "mem.alloc.sizes", "does not keep", |b| b.write = all_but_last),
    Defect::new("huge_is_internal", "C.1", "mem.alloc.huge", "Internal", |b| b.alloc = internal_when_full),
    Defect::new("huge_panics", "C.1", "mem.alloc.huge", "panicked", |b| b.alloc = panics_when_full),
    Defect::new("memory_not_counted_back", "C.1", "mem.alloc.exhaustion", "recover", |b| b.free = |_| {}),
    Defect::new("memory_not_counted", "C.1", "mem.alloc.exhaustion", "hold 9", |b| {
        b.alloc = |core, desc| core.take_memory(desc.bytes as u64 >> 40).and_then(|()| unlimited(core, desc));
    }),
    Defect::new("freed_leaks", "C.1", "mem.alloc.freed", "memory", |b| {
        b.free = |m| {
            std::mem::forget(vec![1u8; m.size]);
            memory::free(m);
        };
    }),
    Defect::new("read_offset_ignored", "C.2", "mem.map.parts", "wrong", |b| b.read = |m, _, to| memory::read(m, 0, to)),
    Defect::new("outside_is_cut", "C.2", "mem.map.outside", "accepted", |b| b.read = cut),
    Defect::new("outside_overflows", "C.2", "mem.map.outside", "panicked", |b| b.write = overflowing),
    Defect::new("refused_write_writes", "C.2", "mem.map.refused_writes_nothing", "changed bytes", |b| {
        b.write = partial
    }),
    Defect::new("copy_one_short", "C.3", "mem.transfer.copy", "1 of 512 differ", |b| b.copy = |f, t| resized(f, t, -1)),
    Defect::new("copy_one_more", "C.3", "mem.transfer.copy", "1 of 512 differ", |b| b.copy = |f, t| resized(f, t, 1)),
    Defect::new("overlap_smears", "C.3", "mem.transfer.overlap", "overlapping", |b| {
        b.submit = without_overlap;
        b.copy = byte_by_byte;
    }),
    Defect::new("copy_lengths_differ", "C.3", "mem.transfer.lengths", "accepted", |b| {
        b.submit = without_lengths;
    }),
    Defect::new("fill_big_endian", "C.3", "mem.transfer.fill", "a fill of", |b| {
        b.fill = |to, p| memory::fill(to, p.swap_bytes());
    }),
    Defect::new("fill_in_words", "C.3", "mem.transfer.fill", "a fill of 1 bytes", |b| {
        b.fill = |to, p| memory::fill(&Binding { len: to.len & !3, ..to.clone() }, p);
    }),
    Defect::new("lent_output_not_written", "C.4", "mem.import.in_place", "lent memory", |b| {
        b.write_output =
            |to, bytes| if memory::of(to)?.is_lent() { Ok(()) } else { crate::executable::write_output(to, bytes) };
    }),
    Defect::new("lent_memory_kept", "C.4", "mem.import.given_back", "not given back", |b| {
        b.free = |m| if m.is_lent() { std::mem::forget(m.take()) } else { memory::free(m) };
    }),
    Defect::new("lent_length_believed", "C.4", "mem.import.wrong_length", "lent bytes", |b| {
        b.import_ok = |_, _| Ok(());
        b.len = |m| if m.is_lent() { m.size + 1 } else { m.size };
    }),
    Defect::new("odd_address_is_internal", "C.4", "mem.import.refused_gives_back", "Internal", |b| {
        b.import_ok =
            |bytes, desc| memory::import_ok(bytes, desc).map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("output_forgotten", "C.5", "mem.requirements.types", "outputs", |b| {
        b.compile = |core, capability, program| {
            crate::executable::compile(core, capability, program).map(|exe| fewer_outputs(core, exe))
        };
    }),
];

fn not_zero(core: &Arc<Core>, desc: &BufferDesc) -> Result<FaultyBuffer> {
    if desc.bytes == 0 { Err(Error::invalid("nothing to allocate")) } else { memory::alloc(core, desc) }
}

fn internal_when_full(core: &Arc<Core>, desc: &BufferDesc) -> Result<FaultyBuffer> {
    memory::alloc(core, desc).map_err(|e| Error::failed(Status::Internal, e.to_string()))
}

fn panics_when_full(core: &Arc<Core>, desc: &BufferDesc) -> Result<FaultyBuffer> {
    Ok(memory::alloc(core, desc).expect("there is always memory"))
}

/// Memory that nobody counts.
fn unlimited(core: &Arc<Core>, desc: &BufferDesc) -> Result<FaultyBuffer> {
    FaultyBuffer::owned(core, desc.bytes, 0)
}

fn all_but_last(buffer: &FaultyBuffer, offset: usize, from: &[u8]) -> Result<()> {
    let last = usize::from(offset + from.len() == buffer.size && !from.is_empty());
    memory::write(buffer, offset, &from[..from.len() - last])
}

/// Reads what is there of a range.
fn cut(buffer: &FaultyBuffer, offset: usize, to: &mut [u8]) -> Result<()> {
    let start = offset.min(buffer.size);
    let len = to.len().min(buffer.size - start);
    memory::read(buffer, start, &mut to[..len])
}

/// Adds offset and length without a thought.
fn overflowing(buffer: &FaultyBuffer, offset: usize, from: &[u8]) -> Result<()> {
    if offset.wrapping_add(from.len()) <= buffer.size {
        buffer.change(|bytes| bytes[offset..offset.wrapping_add(from.len())].copy_from_slice(from));
        return Ok(());
    }
    memory::write(buffer, offset, from)
}

/// Writes what fits before it looks.
fn partial(buffer: &FaultyBuffer, offset: usize, from: &[u8]) -> Result<()> {
    let start = offset.min(buffer.size);
    memory::write(buffer, start, &from[..from.len().min(buffer.size - start)])?;
    memory::write(buffer, offset, from)
}

/// A copy with another length, where there is one.
fn resized(from: &Binding, to: &Binding, by: isize) -> Result<()> {
    let len = from.len.saturating_add_signed(by);
    let fits = |b: &Binding| b.offset + len <= b.buffer.len();
    let len = if fits(from) && fits(to) { len } else { from.len };
    memory::copy(&Binding { len, ..from.clone() }, &Binding { len, ..to.clone() })
}

/// Looks at copies one side after the other.
fn without_overlap(core: &Core, s: &Submission) -> Result<()> {
    let whole = |c: &Command| match c {
        Command::Copy { from, to } if from.len == to.len => {
            queue::check_one(core, from).and(queue::check_one(core, to))
        }
        _ => queue::check(core, &Submission { commands: vec![c.clone()], ..Submission::default() }),
    };
    s.commands.iter().try_for_each(whole)
}

/// Takes the source's length for both.
fn without_lengths(core: &Core, s: &Submission) -> Result<()> {
    let mut same = s.clone();
    for command in &mut same.commands {
        if let Command::Copy { from, to } = command {
            to.len = from.len;
        }
    }
    queue::check(core, &same)
}

fn byte_by_byte(from: &Binding, to: &Binding) -> Result<()> {
    for i in 0..from.len {
        let mut byte = [0];
        memory::read(memory::of(from)?, from.offset + i, &mut byte)?;
        memory::write(memory::of(to)?, to.offset + i, &byte)?;
    }
    Ok(())
}

/// The last output of several is forgotten.
fn fewer_outputs(core: &Arc<Core>, exe: Compiled) -> Compiled {
    let mut program: Program = exe.program.clone();
    if program.outputs.len() > 1 {
        program.outputs.pop();
    }
    Compiled::new(core, program)
}

//! Groups E.5 to E.7: what compilation makes of a program.

use super::Defect;
use crate::{Compiled, Core, executable};
use ottava_hal::device::Profile;
use ottava_hal::{Capability, Error, Program, Result, Status, Tensor};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The one program that is being compiled.
static DRAFT: Mutex<Option<Program>> = Mutex::new(None);
/// Threads that compile.
static COMPILING: AtomicUsize = AtomicUsize::new(0);
/// The first program of the process.
static FIRST: Mutex<Option<Program>> = Mutex::new(None);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("chain_forgets_one", "E.5", "compile.basic.chain", "differs", |b| {
        b.run = |e, i, p| changed(e, i, p, skip_one)
    }),
    Defect::new("freed_after_first_reader", "E.5", "compile.basic.diamond", "differs", |b| {
        b.run = |e, i, p| changed(e, i, p, first_reader_only);
    }),
    Defect::new("outputs_in_other_order", "E.5", "compile.basic.outputs", "output 0 differs", |b| {
        b.run = |e, i, p| changed(e, i, p, |program| program.outputs.reverse());
    }),
    Defect::new("constants_are_zero", "E.5", "compile.basic.constants", "differs", |b| {
        b.run = |e, i, p| changed(e, i, p, zero_constants);
    }),
    Defect::new("unused_input_refused", "E.5", "compile.basic.unused_input", "never read", |b| b.compile = every_input),
    Defect::new("output_is_overwritten", "E.5", "compile.basic.output_used_again", "output 0 differs", |b| {
        b.run = |e, i, p| changed(e, i, p, last_output_for_all);
    }),
    Defect::new("empty_is_internal", "E.5", "compile.basic.without_nodes", "Internal", |b| b.compile = something),
    Defect::new("compile_once", "E.5", "compile.basic.twice", "differs", |b| b.compile = first_program),
    Defect::new("cycle_taken", "E.6", "compile.invalid.structure", "a cycle was accepted", |b| {
        b.compile = without_order
    }),
    Defect::new("index_panics", "E.6", "compile.invalid.structure", "panicked", |b| b.compile = indexes_blindly),
    Defect::new("invalid_is_internal", "E.6", "compile.invalid.structure", "Internal", |b| b.compile = internal),
    Defect::new("scale_taken", "E.6", "compile.invalid.quantization", "accepted", |b| b.compile = without_quantization),
    Defect::new("constant_not_checked", "E.6", "compile.invalid.constants", "accepted", |b| {
        b.compile = without_constants
    }),
    Defect::new("arity_panics", "E.6", "compile.invalid.random", "panicked", |b| b.compile = takes_first_input),
    Defect::new("compile_busy", "E.7", "compile.concurrent.threads", "Busy", |b| b.compile = one_at_a_time),
    Defect::new("compile_shares_a_draft", "E.7", "compile.concurrent.threads", "bound", |b| b.compile = shared_draft),
];

/// Runs a program that is not quite the one that was compiled.
fn changed(
    exe: &Compiled,
    inputs: Vec<Tensor>,
    profile: Option<&mut Profile>,
    change: fn(&mut Program),
) -> Result<Vec<Tensor>> {
    let mut program = exe.program.clone();
    change(&mut program);
    executable::interpret(&Compiled::new(&exe.core, program), inputs, profile)
}

/// Of more than eight nodes the last but one is not run.
fn skip_one(program: &mut Program) {
    if let [.., before, skipped, last] = program.nodes.as_mut_slice()
        && let (Some(from), Some(slot)) = (before.outputs.first(), last.inputs.first_mut())
    {
        *slot = Some(*from);
        *skipped = before.clone();
        skipped.outputs.clone_from(&before.outputs);
    }
}

/// Memory of a value is given away when its first reader is done: later readers see the first input.
fn first_reader_only(program: &mut Program) {
    let (mut read, first) = (std::collections::BTreeSet::new(), program.inputs.first().copied());
    for node in &mut program.nodes {
        let mut now = Vec::new();
        for slot in node.inputs.iter_mut().flatten() {
            let computed = !program.inputs.contains(slot) && program.values[slot.0].constant.is_none();
            if computed && read.contains(slot) {
                *slot = first.unwrap_or(*slot);
            }
            now.push(*slot);
        }
        read.extend(now);
    }
}

fn zero_constants(program: &mut Program) {
    for constant in program.values.iter_mut().filter_map(|v| v.constant.as_mut()) {
        constant.bytes_mut().fill(0);
    }
}

fn last_output_for_all(program: &mut Program) {
    if let Some(last) = program.outputs.last().copied() {
        program.outputs.iter_mut().for_each(|id| *id = last);
    }
}

fn every_input(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let read = |id: &ottava_hal::ValueId| p.nodes.iter().any(|n| n.inputs.contains(&Some(*id)));
    match p.inputs.iter().find(|id| !read(id)) {
        Some(id) => Err(Error::invalid(format!("input {} is never read", id.0))),
        None => executable::compile(core, c, p),
    }
}

fn something(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    if p.nodes.is_empty() {
        return Err(Error::failed(Status::Internal, "nothing to do"));
    }
    executable::compile(core, c, p)
}

/// Later programs with the same inputs are believed to be the first one.
fn first_program(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let first = FIRST.lock().get_or_insert_with(|| p.clone()).clone();
    let same = first.inputs.len() == p.inputs.len() && first.outputs.len() == p.outputs.len();
    executable::compile(core, c, if same { &first } else { p })
}

/// Checks everything but the order of nodes.
fn without_order(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let mut computed: Vec<bool> = vec![true; p.values.len()];
    computed.push(false);
    let inside = |id: &ottava_hal::ValueId| id.0 < p.values.len();
    let fine = p.nodes.iter().all(|n| n.inputs.iter().flatten().chain(&n.outputs).all(inside));
    if fine && p.inputs.iter().chain(&p.outputs).all(inside) && p.check().is_err() && p.nodes.len() == 2 {
        return Ok(Compiled::new(core, p.clone()));
    }
    executable::compile(core, c, p)
}

fn indexes_blindly(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let bytes: usize = p.inputs.iter().filter_map(|id| p.values[id.0].ty.byte_len()).sum();
    tracing::trace!(bytes, "inputs of a program");
    executable::compile(core, c, p)
}

fn internal(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    p.check().map_err(|e| Error::failed(Status::Internal, e.to_string()))?;
    executable::compile(core, c, p)
}

/// A program without the quantization of its types, for what does not look at it.
fn without_quantization(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let mut plain = p.clone();
    plain.values.iter_mut().for_each(|v| v.ty.quant = None);
    if plain.check().is_ok() && p.check().is_err() {
        return Ok(Compiled::new(core, plain));
    }
    executable::compile(core, c, p)
}

fn without_constants(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let mut open = p.clone();
    for (i, value) in open.values.iter_mut().enumerate() {
        if value.constant.take().is_some() && !open.inputs.contains(&ottava_hal::ValueId(i)) {
            open.inputs.push(ottava_hal::ValueId(i));
        }
    }
    if open.check().is_ok() && p.check().is_err() {
        return Ok(Compiled::new(core, p.clone()));
    }
    executable::compile(core, c, p)
}

fn takes_first_input(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    if p.check().is_ok() {
        let last = p.nodes.iter().map(|n| n.outputs[0].0).max();
        tracing::trace!(?last, "results of a program");
    }
    executable::compile(core, c, p)
}

fn one_at_a_time(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let others = COMPILING.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(2));
    COMPILING.fetch_sub(1, Ordering::SeqCst);
    if others > 0 {
        return Err(Error::failed(Status::Busy, "the compiler is at work"));
    }
    executable::compile(core, c, p)
}

/// Every compilation works on the same draft.
fn shared_draft(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    *DRAFT.lock() = Some(p.clone());
    std::thread::sleep(Duration::from_millis(2));
    let draft = DRAFT.lock().clone().unwrap_or_default();
    executable::compile(core, c, &draft)
}

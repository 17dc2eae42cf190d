//! Group F: submissions, queues, bindings.

use super::Defect;
use crate::executable::compiled;
use crate::{Behaviour, Compiled, Core, Job, executable, memory, queue};
use ottava_hal::device::{Command, Profile};
use ottava_hal::{Binding, Error, Result, Status, Submission, Tensor};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Outputs by executable, for those who do not compute again.
static CACHE: Mutex<BTreeMap<usize, Vec<Tensor>>> = Mutex::new(BTreeMap::new());
/// The one slot for bindings.
static SLOT: Mutex<Option<Vec<Binding>>> = Mutex::new(None);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("output_not_written", "F.1", "exec.sync.runs", "not written", |b| b.write_output = |_, _| Ok(())),
    Defect::new("writes_one_more", "F.1", "exec.sync.runs", "1 behind output", |b| b.write_output = one_more),
    Defect::new("writes_one_before", "F.1", "exec.sync.runs", "in front of output", |b| b.write_output = one_before),
    Defect::new("scratch_in_the_input", "F.1", "exec.sync.runs", "input 0 was changed", |b| b.read_input = destroy),
    Defect::new("stale_output", "F.1", "exec.sync.again", "differs", |b| b.run = cached),
    Defect::new("empty_never_signals", "F.1", "exec.sync.empty", "not signalled", |b| b.finish = only_work),
    Defect::new("numbers_repeat", "F.1", "exec.sync.numbers", "numbers grow", |b| b.number = |_| 1),
    Defect::new("first_command_only", "F.1", "exec.sync.several_commands", "not written", |b| b.command = first_only),
    Defect::new("host_in_secret", "F.1", "exec.sync.ran_there", "did not run on the device", |b| b.run = unrecorded),
    Defect::new("signalled_early", "F.2", "exec.async.signal_after_work", "when the fence was signalled", |b| {
        b.started = |job| (Behaviour::right().finish)(job, &Ok(()));
    }),
    Defect::new(
        "waits_on_other_queues_ignored",
        "F.2",
        "exec.async.across_queues",
        "another queue's signal is wrong",
        |b| {
            b.ready = |job| if job.line > 1 { Some(Ok(())) } else { job.waits.outcome() };
        },
    ),
    Defect::new("writes_after_signal", "F.2", "exec.async.no_write_after_signal", "after it had signalled", |b| {
        b.write_output = twice;
    }),
    Defect::new("never_signalled", "F.2", "exec.async.signal_after_work", "not signalled", |b| b.finish = |_, _| {}),
    Defect::new("signalled_twice", "F.2", "exec.async.signal_once", "leaves the timeline at", |b| {
        b.finish = twice_signalled
    }),
    Defect::new("first_signal_only", "F.2", "exec.async.every_signal", "signal 1 of 5", |b| b.finish = first_signal),
    Defect::new("last_in_first_out", "F.2", "exec.async.order", "order", |b| b.first_job = |n| n.saturating_sub(1)),
    Defect::new("signals_out_of_order", "F.2", "exec.async.signals_in_order", "in the order", |b| {
        b.finish = late_if_even
    }),
    Defect::new("not_kept_alive", "F.2", "exec.async.kept_alive", "was dropped before", |b| {
        b.ready = dropped_is_an_error
    }),
    Defect::new("binding_per_device", "F.3", "exec.rebind.two_queues", "submission", |b| {
        b.enqueued = |_, job| remember(job);
        b.command = from_slot;
    }),
    Defect::new("second_offset_ignored", "F.3", "exec.rebind.offsets", "shifted", |b| {
        b.read_input = |x| executable::read_input(&Binding { offset: x.offset % 256, ..x.clone() });
    }),
    Defect::new("input_bound_twice_refused", "F.3", "exec.rebind.same_input", "bound twice", |b| {
        b.submit = inputs_apart
    }),
    Defect::new("few_inputs_taken", "F.4", "exec.validate.count", "accepted", |b| b.submit = without_counts),
    Defect::new("wrong_size_taken", "F.4", "exec.validate.size", "accepted", |b| b.submit = without_sizes),
    Defect::new("range_overflows", "F.4", "exec.validate.range", "panicked", |b| b.submit = adds_blindly),
    Defect::new("refused_with_other_code", "F.4", "exec.validate.size", "Internal", |b| {
        b.submit = |core, s| queue::check(core, s).map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("alias_taken", "F.4", "exec.validate.aliased", "accepted", |b| b.submit = without_alias),
    Defect::new("refused_touches_outputs", "F.4", "exec.validate.untouched", "was touched", |b| {
        b.submit = clears_first
    }),
    Defect::new("refused_fails_fences", "F.4", "exec.validate.count", "fence of a submission", |b| {
        b.submit = fails_fences
    }),
    Defect::new("dynamic_claimed", "F.5", "exec.dynamic.extents", "fixed", |b| {
        b.capability = ottava_reference_capability;
    }),
    Defect::new("deadline_ignored", "F.6", "exec.deadline.passed", "accepted", |b| b.expired = |_| false),
    Defect::new("deadline_code", "F.6", "exec.deadline.passed", "Cancelled", |b| b.finish = cancelled_not_late),
    Defect::new("deadline_only_at_start", "F.6", "exec.deadline.waiting", "neither", |b| {
        b.expired = |job| job.waits.outcome().is_some() && (Behaviour::right().expired)(job);
    }),
    Defect::new("any_deadline_expires", "F.6", "exec.deadline.far", "hour", |b| {
        b.expired = |job| job.submission.deadline.is_some();
    }),
    Defect::new("hang_without_end", "F.6", "exec.deadline.hang", "no end", |b| {
        b.strike = |_, _, _| loop {
            std::thread::park();
        };
    }),
    Defect::new("waiting_blocks_all", "F.7", "exec.fairness.blocked", "holds up", |b| b.ready = in_line_of_submission),
    Defect::new("first_queue_first", "F.7", "exec.fairness.busy", "had to wait", |b| b.first_line = |_, _| 0),
];

/// Writes another byte behind the binding, where the buffer has one.
fn one_more(to: &Binding, bytes: &[u8]) -> Result<()> {
    executable::write_output(to, bytes)?;
    let end = to.offset + to.len;
    if end < to.buffer.len() { memory::write(memory::of(to)?, end, &[0]) } else { Ok(()) }
}

fn one_before(to: &Binding, bytes: &[u8]) -> Result<()> {
    executable::write_output(to, bytes)?;
    if to.offset > 0 { memory::write(memory::of(to)?, to.offset - 1, &[0]) } else { Ok(()) }
}

/// Reads an input and uses its memory for something else.
fn destroy(binding: &Binding) -> Result<Vec<u8>> {
    let bytes = executable::read_input(binding)?;
    memory::write(memory::of(binding)?, binding.offset, &vec![0; binding.len])?;
    Ok(bytes)
}

/// Computes once for each executable.
fn cached(exe: &Compiled, inputs: Vec<Tensor>, profile: Option<&mut Profile>) -> Result<Vec<Tensor>> {
    let key = std::ptr::from_ref(exe).addr();
    if let Some(outputs) = CACHE.lock().get(&key) {
        return Ok(outputs.clone());
    }
    let outputs = executable::interpret(exe, inputs, profile)?;
    CACHE.lock().insert(key, outputs.clone());
    Ok(outputs)
}

/// The host computes; the device's profile knows nothing of it.
fn unrecorded(exe: &Compiled, inputs: Vec<Tensor>, _: Option<&mut Profile>) -> Result<Vec<Tensor>> {
    executable::interpret(exe, inputs, None)
}

fn only_work(job: &Job, result: &Result<()>) {
    if !job.submission.commands.is_empty() {
        (Behaviour::right().finish)(job, result);
    }
}

/// The second dispatch of a device and all later even ones are forgotten.
fn first_only(core: &Core, command: &Command, profile: Option<&mut Profile>) -> Result<()> {
    let odd = core.used.fetch_xor(1, std::sync::atomic::Ordering::Relaxed) & 1 == 1;
    if odd { Ok(()) } else { executable::command(core, command, profile) }
}

/// Writes an output now, and once more when the host believes that it is done.
fn twice(to: &Binding, bytes: &[u8]) -> Result<()> {
    let (later, copy) = (to.clone(), bytes.to_vec());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(25));
        executable::write_output(&later, &copy)
    });
    executable::write_output(to, bytes)
}

fn twice_signalled(job: &Job, result: &Result<()>) {
    (Behaviour::right().finish)(job, result);
    for (fence, value) in &job.submission.signals {
        // A second signal of the next value.
        let _ = fence.signal(value + 1);
    }
}

fn first_signal(job: &Job, result: &Result<()>) {
    for (fence, value) in job.submission.signals.iter().take(1) {
        match result {
            Ok(()) => drop(fence.signal(*value)),
            Err(e) => fence.fail(e.clone()),
        }
    }
}

/// Signals of every second submission take another way, which is longer.
fn late_if_even(job: &Job, result: &Result<()>) {
    if job.id % 2 == 1 {
        return (Behaviour::right().finish)(job, result);
    }
    let (signals, result) = (job.submission.signals.clone(), result.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        signals.iter().for_each(|(fence, value)| drop(result.clone().and_then(|()| fence.signal(*value))));
    });
}

/// The queue holds what it needs only as long as the caller does.
fn dropped_is_an_error(job: &Job) -> Option<Result<()>> {
    let outcome = job.waits.outcome()?;
    let alone = job.submission.commands.iter().any(|c| match c {
        Command::Dispatch { executable, .. } => std::sync::Arc::strong_count(executable) == 1,
        _ => false,
    });
    let gone = || Err(Error::failed(Status::Internal, "the executable was dropped before it ran"));
    Some(if alone { gone() } else { outcome })
}

fn remember(job: &Job) {
    if let Some(Command::Dispatch { inputs, .. }) = job.submission.commands.first() {
        *SLOT.lock() = Some(inputs.clone());
    }
}

/// Runs on the inputs that were bound last, whoever bound them.
fn from_slot(core: &Core, command: &Command, profile: Option<&mut Profile>) -> Result<()> {
    let mut command = command.clone();
    if let (Command::Dispatch { inputs, .. }, Some(last)) = (&mut command, SLOT.lock().clone()) {
        *inputs = last;
    }
    executable::command(core, &command, profile)
}

fn each_dispatch(s: &Submission, check: impl Fn(&Compiled, &[Binding], &[Binding]) -> Result<()>) -> Result<()> {
    for command in &s.commands {
        if let Command::Dispatch { executable, inputs, outputs } = command {
            check(compiled(executable.as_ref())?, inputs, outputs)?;
        }
    }
    Ok(())
}

fn inputs_apart(core: &Core, s: &Submission) -> Result<()> {
    queue::check(core, s)?;
    each_dispatch(s, |_, inputs, _| {
        inputs
            .iter()
            .enumerate()
            .try_for_each(|(i, x)| queue::check_distinct(&inputs[i + 1..], std::slice::from_ref(x)))
    })
}

/// Looks at the bindings that are there.
fn without_counts(core: &Core, s: &Submission) -> Result<()> {
    each_dispatch(s, |exe, inputs, outputs| {
        let (i, o) = (inputs.len().min(exe.inputs.len()), outputs.len().min(exe.outputs.len()));
        queue::check_all(core, &inputs[..i], &exe.inputs[..i], "input")?;
        queue::check_all(core, &outputs[..o], &exe.outputs[..o], "output")
    })
}

/// Looks at the numbers of bindings and at their ranges.
fn without_sizes(core: &Core, s: &Submission) -> Result<()> {
    each_dispatch(s, |exe, inputs, outputs| {
        if (inputs.len(), outputs.len()) != (exe.inputs.len(), exe.outputs.len()) {
            return queue::check(core, s);
        }
        inputs.iter().chain(outputs).try_for_each(|b| queue::check_one(core, b))
    })
}

/// Compares the end of a range, whatever the sum is.
fn adds_blindly(core: &Core, s: &Submission) -> Result<()> {
    each_dispatch(s, |_, inputs, outputs| {
        for b in inputs.iter().chain(outputs) {
            let end = b.offset.checked_add(b.len).expect("ranges are small");
            if end > b.buffer.len() {
                return Err(Error::invalid("outside"));
            }
        }
        Ok(())
    })?;
    queue::check(core, s)
}

fn without_alias(core: &Core, s: &Submission) -> Result<()> {
    each_dispatch(s, |exe, inputs, outputs| {
        queue::check_all(core, inputs, &exe.inputs, "input")?;
        queue::check_all(core, outputs, &exe.outputs, "output")
    })
}

/// Clears the outputs, then looks whether the submission is right.
fn clears_first(core: &Core, s: &Submission) -> Result<()> {
    let clear = |b: &Binding| memory::write(memory::of(b)?, b.offset, &vec![0; b.len]);
    each_dispatch(s, |_, _, outputs| outputs.iter().try_for_each(clear))?;
    queue::check(core, s)
}

fn fails_fences(core: &Core, s: &Submission) -> Result<()> {
    queue::check(core, s).inspect_err(|e| s.signals.iter().for_each(|(fence, _)| fence.fail(e.clone())))
}

fn ottava_reference_capability() -> ottava_hal::Capability {
    ottava_hal::Capability { dynamic_shapes: true, ..(Behaviour::right().capability)() }
}

fn cancelled_not_late(job: &Job, result: &Result<()>) {
    let code = |e: Error| match e.status() {
        Status::Timeout => Error::failed(Status::Cancelled, e.to_string()),
        _ => e,
    };
    (Behaviour::right().finish)(job, &result.clone().map_err(code));
}

/// Stays with a submission until its waits are met.
fn in_line_of_submission(job: &Job) -> Option<Result<()>> {
    loop {
        match job.waits.outcome() {
            Some(outcome) => return Some(outcome),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

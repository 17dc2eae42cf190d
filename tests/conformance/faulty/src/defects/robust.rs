//! Group H: loss, lack of memory, panics, stress, logs, profiles.

use super::Defect;
use crate::{Behaviour, Compiled, Core, Job, core, executable, memory, queue};
use ottava_hal::device::Profile;
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{BufferDesc, Error, Fence, Result, Status, Tensor};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Something bad has happened in this process.
static SPOILT: AtomicBool = AtomicBool::new(false);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("lost_is_fine", "H.1", "robust.lost.fences", "accepted", |b| {
        b.strike =
            |core, job, fault| if fault.kind == FaultKind::Lost { Ok(()) } else { core::strike(core, job, fault) };
    }),
    Defect::new("lost_is_internal", "H.1", "robust.lost.fences", "got Internal", |b| {
        b.fail = |f, e| f.inner.fail(Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("lost_fails_one_fence", "H.1", "robust.lost.fences", "another fence", |b| {
        b.strike = |core, job, fault| match fault.kind {
            FaultKind::Lost => {
                core.lost.set(true);
                Err(ottava_hal::fault::lost(&core.id))
            }
            _ => core::strike(core, job, fault),
        };
    }),
    Defect::new("lost_device_allocates", "H.1", "robust.lost.calls", "accepted", |b| {
        b.strike = |core, job, fault| match fault.kind {
            FaultKind::Lost => {
                let error = core.lose();
                core.lost.set(false);
                Err(error)
            }
            _ => core::strike(core, job, fault),
        };
    }),
    Defect::new("reset_does_nothing", "H.1", "robust.lost.reset", "lost", |b| b.reset = |_| {}),
    Defect::new("reset_keeps_old_objects", "H.1", "robust.lost.reset", "before the reset was accepted", |b| {
        b.reset = |core| core.lost.set(false);
    }),
    Defect::new("lost_takes_others_along", "H.1", "robust.lost.reopen", "lost", |b| {
        b.strike = |core, job, fault| {
            SPOILT.store(true, Ordering::SeqCst);
            core::strike(core, job, fault)
        };
        b.submit = |core, s| if SPOILT.load(Ordering::SeqCst) { Err(core.lose()) } else { queue::check(core, s) };
    }),
    Defect::new("oom_is_internal", "H.2", "robust.oom.nth", "Internal", |b| b.strike = internal_memory),
    Defect::new("oom_for_ever", "H.2", "robust.oom.allocation", "does not come back", |b| b.alloc = never_again),
    Defect::new("oom_ignored", "H.2", "robust.oom.nth", "did not strike", |b| {
        b.inject = |core, fault| {
            if fault.kind != FaultKind::OutOfMemory {
                core::inject(core, fault)
            }
        };
    }),
    Defect::new("oom_leaks", "H.2", "robust.oom.no_leak", "memory", |b| {
        b.strike = |core, job, fault| {
            std::mem::forget(vec![1u8; 64 << 10]);
            core::strike(core, job, fault)
        };
        b.inject = |core, fault| core.faults.arm(fault);
    }),
    Defect::new("panic_is_internal", "H.3", "robust.panic.code", "got Internal", |b| {
        b.strike = |core, job, fault| match fault.kind {
            FaultKind::Panic => Err(Error::failed(Status::Internal, "something went wrong")),
            _ => core::strike(core, job, fault),
        };
    }),
    Defect::new("panic_is_success", "H.3", "robust.panic.code", "accepted", |b| {
        b.finish = |job, result| {
            let fine = result.as_ref().is_err_and(|e| e.status() == Status::Panic);
            core::finish(job, if fine { &Ok(()) } else { result });
        };
    }),
    Defect::new("panic_exits", "H.3", "robust.panic.code", "ended without a result", |b| {
        b.strike = |_, _, _| std::process::exit(0);
    }),
    Defect::new("panic_aborts", "H.3", "robust.panic.afterwards", "signal", |b| {
        b.strike = |_, _, _| std::process::abort()
    }),
    Defect::new("panic_kills_the_worker", "H.3", "robust.panic.afterwards", "not signalled", |b| {
        b.finish = |job, result| match result {
            Err(e) if e.status() == Status::Panic => panic!("again"),
            _ => core::finish(job, result),
        };
    }),
    Defect::new("panic_spoils_others", "H.3", "robust.panic.others", "beside a device", |b| {
        b.strike = |core, job, fault| {
            SPOILT.store(true, Ordering::SeqCst);
            core::strike(core, job, fault)
        };
        b.submit = |core, s| match SPOILT.load(Ordering::SeqCst) {
            true => Err(Error::failed(Status::Panic, "poisoned")),
            false => queue::check(core, s),
        };
    }),
    Defect::new("wrong_now_and_then", "H.4", "robust.stress.repeat", "on the same data", |b| b.run = every_hundredth),
    Defect::new("third_queue_forgotten", "H.4", "robust.stress.random", "not signalled", |b| {
        b.ready = |job| if job.line % 3 == 0 { None } else { job.waits.outcome() };
    }),
    Defect::new("descriptor_per_run", "H.4", "robust.stress.no_leak", "descriptors", |b| {
        b.started = |_| std::mem::forget(File::open("/dev/null"));
    }),
    Defect::new("thread_per_run", "H.4", "robust.stress.no_leak", "threads", |b| {
        b.started = |_| drop(std::thread::spawn(std::thread::park));
    }),
    Defect::new("executable_leaks", "H.4", "robust.stress.no_leak", "memory", |b| {
        b.compile = |core, c, p| {
            std::mem::forget(vec![1u8; 64 << 10]);
            executable::compile(core, c, p)
        };
    }),
    Defect::new("working_directory", "H.5", "robust.process.state", "working directory", |b| {
        b.opened = |_| drop(std::env::set_current_dir("/"));
    }),
    Defect::new("process_left", "H.5", "robust.process.children", "process", |b| {
        b.opened = |_| drop(std::process::Command::new("sleep").arg("3").spawn());
    }),
    Defect::new("logs_errors", "H.6", "obs.log.quiet", "while all is well", |b| {
        b.started = |job| tracing::error!("submission {} has begun", job.id);
    }),
    Defect::new("logs_every_run", "H.6", "obs.log.quiet", "belongs to DEBUG", |b| {
        b.started = |job| tracing::info!("submission {} has begun", job.id);
    }),
    Defect::new("logs_after_close", "H.6", "obs.log.after_close", "after its device was closed", |b| {
        b.closed = |_| talk()
    }),
    Defect::new("profile_ends_first", "H.7", "obs.profile.times", "before it begins", |b| {
        b.profile = |p| std::mem::swap(&mut p.begin, &mut p.end);
    }),
    Defect::new("profile_in_microseconds", "H.7", "obs.profile.times", "ns", |b| {
        b.profile = |p| p.nodes.iter_mut().for_each(|n| n.duration_ns = (n.duration_ns + 1) * 1000);
    }),
    Defect::new("profile_out_of_order", "H.7", "obs.profile.times", "not in order", |b| {
        b.profile = |p| p.nodes.reverse()
    }),
    Defect::new("profile_names_kernels", "H.7", "obs.profile.names", "no node", |b| {
        b.profile = |p| p.nodes.iter_mut().for_each(|n| n.node = "kernel_17".into());
    }),
    Defect::new("profile_without_nodes", "H.7", "obs.profile.names", "without nodes", |b| {
        b.profile = |p| p.nodes.clear()
    }),
];

fn internal_memory(core: &Core, job: &Job, fault: Fault) -> Result<()> {
    core::strike(core, job, fault).map_err(|e| Error::failed(Status::Internal, e.to_string()))
}

/// One lack of memory is for ever.
fn never_again(core: &Arc<Core>, desc: &BufferDesc) -> Result<crate::FaultyBuffer> {
    let result = memory::alloc(core, desc);
    if result.is_err() {
        core.no_memory.store(true, Ordering::SeqCst);
    }
    result
}

/// One bit of every hundredth run.
fn every_hundredth(exe: &Compiled, inputs: Vec<Tensor>, profile: Option<&mut Profile>) -> Result<Vec<Tensor>> {
    let mut outputs = (Behaviour::right().run)(exe, inputs, profile)?;
    if CALLS.fetch_add(1, Ordering::Relaxed) % 100 == 99
        && let Some(byte) = outputs.first_mut().and_then(|y| y.bytes_mut().first_mut())
    {
        *byte ^= 4;
    }
    Ok(outputs)
}

/// A thread that nobody has told that the device is gone.
fn talk() {
    std::thread::spawn(|| {
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(5));
            tracing::debug!("still here");
        }
    });
}

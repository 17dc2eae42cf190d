//! Commands on an OpenCL queue: how they get there, how their end is noticed, and how long they took.

use crate::job::{Bound, Work, own};
use crate::shared::{copy, fill, marker};
use crate::status::{failed, run_failed};
use opencl3::command_queue::CommandQueue;
use opencl3::event::{CL_COMPLETE, Event, cl_event, set_event_callback};
use ottava_gpu::engine::Completion;
use ottava_hal::device::{NodeTime, Profile, WorkKind};
use ottava_hal::{Executable, Result};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// What an event is the end of.
enum Piece {
    /// A kernel or copy of a node of an executable, by its number.
    Node(usize, usize),
    /// A copy or fill.
    Transfer,
    /// Something that takes no time of its own.
    Other,
}

/// Enqueued commands, and what they need until they are done.
pub(crate) struct Running {
    queue: Arc<CommandQueue>,
    profile: bool,
    /// Executables with the number of the instance that each uses.
    instances: Vec<(Arc<dyn Executable>, u64)>,
    events: Vec<(Piece, Event)>,
}

impl Running {
    /// Nothing yet.
    pub(crate) fn new(queue: Arc<CommandQueue>, profile: bool) -> Self {
        Self { queue, profile, instances: Vec::new(), events: Vec::new() }
    }

    /// Enqueues a command. What the host has lent is handed to the device before it and back behind it.
    pub(crate) fn enqueue(&mut self, work: &Work) -> Result<()> {
        for bound in work.read().iter().chain(work.written()) {
            self.lent(bound, true)?;
        }
        match work {
            Work::Dispatch { executable, inputs, outputs } => self.dispatch(executable, inputs, outputs)?,
            Work::Copy { from, .. } if from.len == 0 => {}
            Work::Copy { from, to } => {
                let place = |b: &Bound| Ok((b.buffer()?.mem().raw(), b.offset));
                let event = copy(&self.queue, place(from)?, place(to)?, from.len)?;
                self.events.push((Piece::Transfer, event));
            }
            Work::Fill { to, pattern } => self.fill(to, *pattern)?,
        }
        work.written().iter().try_for_each(|bound| self.lent(bound, false))
    }

    fn lent(&mut self, bound: &Bound, to_device: bool) -> Result<()> {
        for event in bound.buffer()?.exchange(&self.queue, to_device)? {
            self.events.push((Piece::Other, event));
        }
        Ok(())
    }

    fn dispatch(&mut self, executable: &Arc<dyn Executable>, ins: &[Bound], outs: &[Bound]) -> Result<()> {
        let exe = own(executable.as_ref())?;
        let mut instance = exe.take(&self.queue)?;
        let number = self.instances.len();
        let done = instance.bind(exe, ins, outs).and_then(|()| {
            let (queue, events) = (&self.queue, &mut self.events);
            let see = &mut |node: Option<usize>, event| {
                let piece = node.map_or(Piece::Other, |n| Piece::Node(number, n));
                events.push((piece, event));
            };
            instance.enqueue(exe, queue, (ins, outs), see)
        });
        // Also after a failure: some of its kernels may run.
        self.instances.push((Arc::clone(executable), exe.put(instance, &self.queue)));
        done
    }

    /// A fill of any range: its whole words at once, bytes before and behind them by themselves.
    fn fill(&mut self, to: &Bound, pattern: u32) -> Result<()> {
        let (begin, end) = (to.offset, to.offset + to.len);
        let bytes = pattern.to_le_bytes();
        let byte = |at: usize| bytes[(at - begin) % 4];
        let first = begin.next_multiple_of(4).min(end);
        let last = (end / 4 * 4).max(first);
        let mem = Arc::clone(to.buffer()?.mem());
        for at in (begin..first).chain(last..end) {
            self.events.push((Piece::Transfer, fill(&self.queue, &mem, &[byte(at)], at, 1)?));
        }
        if first < last {
            let turned: [u8; 4] = std::array::from_fn(|i| byte(first + i));
            self.events.push((Piece::Transfer, fill(&self.queue, &mem, &turned, first, last - first)?));
        }
        Ok(())
    }

    /// Starts everything and has the end of the last command told.
    pub(crate) fn watch(&mut self, done: Completion) -> Result<()> {
        if self.events.is_empty() {
            self.events.push((Piece::Other, marker(&self.queue)?));
        }
        let Some((_, last)) = self.events.last() else { return Ok(()) };
        let data = Box::into_raw(Box::new(done)).cast::<c_void>();
        if let Err(e) = set_event_callback(last.get(), CL_COMPLETE, told, data) {
            // SAFETY: the pointer is that of the box made above, and a callback that was refused is never called.
            drop(unsafe { Box::from_raw(data.cast::<Completion>()) });
            return Err(failed("the end of a run cannot be watched", e));
        }
        self.queue.flush().map_err(|e| run_failed("the run", e.0))
    }

    /// Waits until nothing of it runs any more; after an error of a call.
    pub(crate) fn abandon(self) {
        if let Err(e) = self.queue.finish() {
            tracing::warn!(code = e.0, "a queue could not be emptied");
        }
        self.give_back();
    }

    /// How it ended; its memory serves the next runs.
    pub(crate) fn end(self, profile: Option<&mut Profile>) -> Result<()> {
        let mut result = Ok(());
        for (_, event) in &self.events {
            match event.command_execution_status() {
                Ok(status) if status.0 < 0 => result = result.and(Err(run_failed("the run", status.0))),
                Ok(_) => {}
                Err(e) => result = result.and(Err(run_failed("the run", e.0))),
            }
        }
        if let Some(profile) = profile.filter(|_| self.profile) {
            self.times(profile);
        }
        self.give_back();
        result
    }

    fn give_back(&self) {
        for (executable, instance) in &self.instances {
            if let Ok(exe) = own(executable.as_ref()) {
                exe.release(*instance);
            }
        }
    }

    /// Adds the times of the events. They are those of the device's clock; the last one's end is taken for now.
    fn times(&self, profile: &mut Profile) {
        let span = |e: &Event| Some((e.profiling_command_start().ok()?, e.profiling_command_end().ok()?));
        let spans: Vec<(&Piece, (u64, u64))> = self.events.iter().filter_map(|(p, e)| Some((p, span(e)?))).collect();
        let Some(first) = spans.iter().map(|s| s.1.0).min() else { return };
        let last = spans.iter().map(|s| s.1.1).max().unwrap_or(first);
        let length = Duration::from_nanos(last.saturating_sub(first));
        profile.begin = profile.end.checked_sub(length).unwrap_or(profile.begin);
        let mut known: Vec<(usize, usize, usize)> = Vec::new();
        for (piece, (start, end)) in spans {
            let time = NodeTime {
                start_ns: start - first,
                duration_ns: end.saturating_sub(start),
                kind: WorkKind::Dispatch,
                ..NodeTime::default()
            };
            match piece {
                Piece::Node(exe, node) => match known.iter().find(|k| (k.0, k.1) == (*exe, *node)) {
                    Some(&(_, _, at)) => profile.nodes[at].duration_ns += time.duration_ns,
                    None => {
                        known.push((*exe, *node, profile.nodes.len()));
                        let (node, kernel) = self.name(*exe, *node);
                        profile.nodes.push(NodeTime { node, kernel, ..time });
                    }
                },
                Piece::Transfer => {
                    let (node, kernel) = ("transfer".into(), "copy".into());
                    profile.nodes.push(NodeTime { node, kernel, kind: WorkKind::Copy, ..time });
                }
                Piece::Other => {}
            }
        }
    }

    fn name(&self, exe: usize, node: usize) -> (String, String) {
        let exe = self.instances.get(exe).and_then(|(e, _)| own(e.as_ref()).ok());
        let names = exe.and_then(|e| e.recipe().kernels.get(node));
        names.cloned().unwrap_or_else(|| (format!("node {node}"), String::new()))
    }
}

/// OpenCL calls this once when the event is done or has failed.
extern "C" fn told(_: cl_event, status: i32, data: *mut c_void) {
    // SAFETY: `data` is the box that was given away with this callback, which is called once.
    let done = unsafe { Box::from_raw(data.cast::<Completion>()) };
    done.tell(if status < 0 { Err(run_failed("the run", status)) } else { Ok(()) });
}

//! Hands checked commands to an OpenCL queue.

use crate::executable::ClExecutable;
use crate::instance::Instance;
use crate::job::{Bound, Work, own};
use crate::shared::{copy, fill};
use opencl3::command_queue::CommandQueue;
use opencl3::event::Event;
use ottava_hal::{Executable, Result};
use std::sync::Arc;

/// What enqueued commands still need until they are done.
#[derive(Default)]
pub(crate) struct Running {
    instances: Vec<(Arc<dyn Executable>, Instance)>,
    /// The event of each command of a profiled run, with the executable's node; of other runs only the last event.
    pub events: Vec<(Option<(Arc<dyn Executable>, usize)>, Event)>,
}

impl Running {
    /// Enqueues a command.
    pub(crate) fn enqueue(&mut self, queue: &CommandQueue, work: &Work, profile: bool) -> Result<()> {
        match work {
            Work::Dispatch { executable, inputs, outputs } => {
                let exe = own(executable.as_ref())?;
                let mut instance = exe.instance()?;
                let done = self.dispatch(queue, (executable, exe), &mut instance, (inputs, outputs), profile);
                // Also after a failure: some of its kernels may run.
                self.instances.push((Arc::clone(executable), instance));
                done
            }
            Work::Copy { from, .. } if from.len == 0 => Ok(()),
            Work::Copy { from, to } => {
                let place = |b: &Bound| Ok((b.buffer()?.mem().raw(), b.offset));
                let event = copy(queue, place(from)?, place(to)?, from.len)?;
                self.keep(None, event, profile);
                Ok(())
            }
            Work::Fill { to, pattern } => self.fill(queue, to, *pattern, profile),
        }
    }

    fn dispatch(
        &mut self,
        queue: &CommandQueue,
        (executable, exe): (&Arc<dyn Executable>, &ClExecutable),
        instance: &mut Instance,
        (ins, outs): (&[Bound], &[Bound]),
        profile: bool,
    ) -> Result<()> {
        instance.bind(exe, ins, outs)?;
        instance.enqueue(exe, queue, (ins, outs), &mut |node, event| {
            self.keep(node.map(|n| (Arc::clone(executable), n)), event, profile);
        })
    }

    /// A fill of any range: its whole words at once, bytes before and behind them by themselves.
    fn fill(&mut self, queue: &CommandQueue, to: &Bound, pattern: u32, profile: bool) -> Result<()> {
        let (begin, end) = (to.offset, to.offset + to.len);
        let bytes = pattern.to_le_bytes();
        let byte = |at: usize| bytes[(at - begin) % 4];
        let words = begin.next_multiple_of(4).min(end)..(end / 4 * 4).max(begin.next_multiple_of(4).min(end));
        let mem = to.buffer()?.mem();
        for at in (begin..words.start).chain(words.end..end) {
            let event = fill(queue, mem, &[byte(at)], at, 1)?;
            self.keep(None, event, profile);
        }
        if !words.is_empty() {
            let turned: [u8; 4] = std::array::from_fn(|i| byte(words.start + i));
            let event = fill(queue, mem, &turned, words.start, words.len())?;
            self.keep(None, event, profile);
        }
        Ok(())
    }

    fn keep(&mut self, node: Option<(Arc<dyn Executable>, usize)>, event: Event, profile: bool) {
        if !profile {
            self.events.clear();
        }
        self.events.push((node, event));
    }

    /// The commands are done: their memory serves the next ones.
    pub(crate) fn finish(&mut self) {
        for (executable, instance) in self.instances.drain(..) {
            if let Ok(exe) = own(executable.as_ref()) {
                exe.give_back(instance);
            }
        }
    }
}

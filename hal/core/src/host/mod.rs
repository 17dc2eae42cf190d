//! Building blocks for devices whose memory is the host's: buffers, timelines, an in-order queue.
//!
//! A driver implements [`HostProgram`] and gets the rest. The queue runs each submission in the caller's thread, so
//! [`crate::Queue::submit`] returns when the work is done; fences still carry the result, as on any other device.
//!
//! Protocol: buffers are locked for reading (inputs) or writing (outputs) during a run, in the order of their addresses;
//! a buffer that is bound as both is refused before any lock is taken, so a submission cannot deadlock with itself or
//! with another one.

mod bind;
mod buffer;
mod fence;
mod program;
mod queue;

pub use buffer::{HostBuffer, HostMemory, alloc, import};
pub use fence::HostFence;
pub use program::{HostExecutable, HostProgram};
pub use queue::HostQueue;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Command, NodeTime};
    use crate::{Binding, Buffer, BufferDesc, DataType, Error, Fence, Queue, Result, Status, Submission, TensorType};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    struct AddOne;

    impl HostProgram for AddOne {
        fn run(&self, i: &[&[u8]], o: &mut [&mut [u8]], _: Option<&mut Vec<NodeTime>>) -> Result<()> {
            for (x, y) in i[0].iter().zip(o[0].iter_mut()) {
                *y = x.checked_add(1).ok_or_else(|| Error::failed(Status::Internal, "overflow"))?;
            }
            Ok(())
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    /// Adds one to each input.
    struct EachAddOne;

    impl HostProgram for EachAddOne {
        fn run(&self, i: &[&[u8]], o: &mut [&mut [u8]], _: Option<&mut Vec<NodeTime>>) -> Result<()> {
            i.iter().zip(o).for_each(|(x, y)| y[0] = x[0] + 1);
            Ok(())
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    /// The executable and bindings of the one dispatch.
    fn parts(s: &mut Submission) -> (&mut Arc<dyn crate::Executable>, &mut Vec<Binding>, &mut Vec<Binding>) {
        let Command::Dispatch { executable, inputs, outputs } = &mut s.commands[0] else { unreachable!() };
        (executable, inputs, outputs)
    }

    fn submission(data: &[u8]) -> (Submission, Arc<dyn Buffer>, Arc<HostFence>) {
        let ty = TensorType::fixed(DataType::U8, &[data.len()]);
        let desc = BufferDesc { bytes: data.len(), alignment: 64 };
        let (a, b) = (alloc(&desc).unwrap(), alloc(&desc).unwrap());
        a.write(0, data).unwrap();
        let fence = Arc::new(HostFence::new(0));
        let executable = Arc::new(HostExecutable::new(vec![ty.clone()], vec![ty], Box::new(AddOne)));
        let mut s = Submission::dispatch(executable, vec![Binding::whole(a)], vec![Binding::whole(b.clone())]);
        s.signals = vec![(fence.clone(), 1)];
        (s, b, fence)
    }

    #[test]
    fn a_run_signals_its_fence() {
        let (s, out, fence) = submission(&[1, 2, 3]);
        HostQueue::default().submit(&s).unwrap();
        assert_eq!(fence.query(), Ok(1));
        let mut y = [0; 3];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [2, 3, 4]);
    }

    #[test]
    fn a_failed_run_fails_its_fence_and_everything_that_waits() {
        let (s, _, fence) = submission(&[255]);
        let queue = HostQueue::default();
        queue.submit(&s).unwrap();
        assert!(fence.wait(1, Duration::ZERO).is_err());
        let (mut next, _, after) = submission(&[1]);
        next.waits = vec![(fence, 1)];
        queue.submit(&next).unwrap();
        assert!(after.query().unwrap_err().to_string().contains("overflow"));
    }

    #[test]
    fn crossing_submissions_do_not_wait_for_each_other() {
        let (forth, _, _) = submission(&[1; 64]);
        let mut back = forth.clone();
        let (_, inputs, outputs) = parts(&mut back);
        std::mem::swap(inputs, outputs);
        std::thread::scope(|scope| {
            for mut s in [forth, back] {
                scope.spawn(move || {
                    let queue = HostQueue::default();
                    for _ in 0..60 {
                        s.signals = vec![];
                        queue.submit(&s).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn an_input_may_be_bound_twice() {
        let ty = TensorType::fixed(DataType::U8, &[1]);
        let (mut s, out, _) = submission(&[4]);
        let (executable, inputs, _) = parts(&mut s);
        inputs.push(inputs[0].clone());
        *executable = Arc::new(HostExecutable::new(vec![ty.clone(), ty.clone()], vec![ty], Box::new(AddOne)));
        HostQueue::default().submit(&s).unwrap();
        let mut y = [0];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [5]);
    }

    #[test]
    fn aliased_outputs_and_wrong_sizes_are_refused() {
        let (mut s, _, fence) = submission(&[1]);
        let (_, inputs, outputs) = parts(&mut s);
        *outputs = inputs.clone();
        assert!(HostQueue::default().submit(&s).unwrap_err().to_string().contains("bound twice"));
        parts(&mut s).2[0].len = 2;
        assert!(HostQueue::default().submit(&s).is_err());
        assert_eq!(fence.query(), Ok(0));
    }

    #[test]
    fn copies_and_fills_run_in_order() {
        let (mut s, out, _) = submission(&[1; 6]);
        let (_, inputs, outputs) = parts(&mut s);
        let (from, to) = (inputs[0].clone(), outputs[0].clone());
        let tail = Binding { offset: 4, len: 2, ..to.clone() };
        s.commands = vec![Command::Copy { from, to }, Command::Fill { to: tail, pattern: 0x0807 }];
        HostQueue::default().submit(&s).unwrap();
        let mut y = [0; 6];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [1, 1, 1, 1, 7, 8]);
    }

    #[test]
    fn a_buffer_may_be_copied_into_itself() {
        let (mut s, out, _) = submission(&[0; 6]);
        out.write(0, &[1, 2, 3, 4, 5, 6]).unwrap();
        let whole = parts(&mut s).2[0].clone();
        let part = |offset| Binding { offset, len: 2, ..whole.clone() };
        s.commands = vec![Command::Copy { from: part(0), to: part(4) }];
        HostQueue::default().submit(&s).unwrap();
        let mut y = [0; 6];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [1, 2, 3, 4, 1, 2]);
    }

    #[test]
    fn many_bindings_work_as_few_do() {
        let ty = TensorType::fixed(DataType::U8, &[1]);
        let buffer = |value: u8| {
            let buffer = alloc(&BufferDesc { bytes: 1, alignment: 64 }).unwrap();
            buffer.write(0, &[value]).unwrap();
            buffer
        };
        let (ins, outs): (Vec<_>, Vec<_>) = (0..40).map(|i| (buffer(i), buffer(0))).unzip();
        let exe = HostExecutable::new(vec![ty.clone(); 40], vec![ty; 40], Box::new(EachAddOne));
        let whole = |buffers: &[Arc<dyn Buffer>]| buffers.iter().cloned().map(Binding::whole).collect();
        HostQueue::default().submit(&Submission::dispatch(Arc::new(exe), whole(&ins), whole(&outs))).unwrap();
        for (i, out) in (0..40).zip(&outs) {
            let mut y = [0];
            out.read(0, &mut y).unwrap();
            assert_eq!(y, [i + 1]);
        }
    }

    #[test]
    fn a_passed_deadline_fails_the_signals() {
        let (mut s, _, fence) = submission(&[1]);
        s.waits = vec![(Arc::new(HostFence::new(0)), 1)];
        s.deadline = Some(Instant::now() + Duration::from_millis(2));
        HostQueue::default().submit(&s).unwrap();
        assert_eq!(fence.query().unwrap_err().status(), Status::Timeout);
    }

    #[test]
    fn profiles_are_kept_by_submission() {
        let (mut s, _, _) = submission(&[1]);
        (s.profile, s.signals) = (true, vec![]);
        let queue = HostQueue::default();
        let (first, second) = (queue.submit(&s).unwrap(), queue.submit(&s).unwrap());
        assert!(first != second && queue.take_profile(second).is_some());
        assert!(queue.take_profile(second).is_none() && queue.take_profile(first).is_some());
    }

    struct Lent(Vec<u8>);

    impl HostMemory for Lent {
        fn bytes(&self) -> &[u8] {
            &self.0
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    #[test]
    fn lent_memory_is_a_buffer() {
        let buffer = import(Box::new(Lent(vec![7; 16]))).unwrap();
        buffer.write(3, &[1]).unwrap();
        let mut y = [0; 2];
        buffer.read(3, &mut y).unwrap();
        assert_eq!((y, buffer.len()), ([1, 7], 16));
        assert!(buffer.read(15, &mut y).is_err());
    }
}

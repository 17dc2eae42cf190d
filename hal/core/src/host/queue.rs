//! A queue that runs each submission in the caller's thread.
//!
//! Every list of a submission has a usual size that fits on the stack, so a steady state allocates nothing.

use super::bind::{Bound, Few, bind, check_distinct, resolve, with_locked};
use super::program::HostExecutable;
use crate::device::{Command, NodeTime, Profile};
use crate::{Error, Queue, Result, Status, Submission};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::slice::from_ref;
use std::time::{Duration, Instant};

/// Profiles that nobody has taken are dropped beyond this number, oldest first.
const KEPT_PROFILES: usize = 64;

/// A queue that runs each submission in the caller's thread. Its lock is held during a run: a queue runs in order.
#[derive(Default)]
pub struct HostQueue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submissions: u64,
    profiles: VecDeque<(u64, Profile)>,
}

impl State {
    fn keep(&mut self, id: u64, mut profile: Profile) {
        profile.end = Instant::now();
        if self.profiles.len() == KEPT_PROFILES {
            self.profiles.pop_front();
        }
        self.profiles.push_back((id, profile));
    }
}

/// A command whose objects are known to be of this kind of device and to fit.
enum Ready<'a> {
    Dispatch { exe: &'a HostExecutable, ins: Few<Bound<'a>>, outs: Few<Bound<'a>> },
    Copy { from: Bound<'a>, to: Bound<'a> },
    Fill { to: Bound<'a>, pattern: u32 },
}

impl<'a> Ready<'a> {
    fn check(command: &'a Command) -> Result<Self> {
        match command {
            Command::Dispatch { executable, inputs, outputs } => {
                let foreign = || Error::invalid("the executable belongs to another device");
                let exe = executable.as_any().downcast_ref::<HostExecutable>().ok_or_else(foreign)?;
                let ins = bind(inputs, &exe.inputs, &exe.input_bytes, "input")?;
                let outs = bind(outputs, &exe.outputs, &exe.output_bytes, "output")?;
                check_distinct(&ins, &outs)?;
                Ok(Self::Dispatch { exe, ins, outs })
            }
            Command::Copy { from, to } if from.len != to.len => {
                Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)))
            }
            Command::Copy { from, to } => Ok(Self::Copy { from: resolve(from)?, to: resolve(to)? }),
            Command::Fill { to, pattern } => Ok(Self::Fill { to: resolve(to)?, pattern: *pattern }),
        }
    }

    fn run(&self, times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        match self {
            Self::Dispatch { exe, ins, outs } => {
                with_locked(ins, outs, |inputs, outputs| exe.program().run(inputs, outputs, times))
            }
            Self::Copy { from, to } if std::ptr::eq(from.buffer, to.buffer) => {
                to.buffer.storage.write().bytes_mut().copy_within(from.range.clone(), to.range.start);
                Ok(())
            }
            Self::Copy { from, to } => with_locked(from_ref(from), from_ref(to), |inputs, outputs| {
                outputs[0].copy_from_slice(inputs[0]);
                Ok(())
            }),
            Self::Fill { to, pattern } => with_locked(&[], from_ref(to), |_, outputs| {
                let pattern = pattern.to_le_bytes();
                outputs[0].iter_mut().zip(pattern.iter().cycle()).for_each(|(b, p)| *b = *p);
                Ok(())
            }),
        }
    }
}

/// Waits as long as the deadline allows.
fn wait_all(s: &Submission) -> Result<()> {
    for (fence, value) in &s.waits {
        let left = s.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
        fence.wait(*value, left)?;
    }
    match s.deadline {
        Some(deadline) if Instant::now() > deadline => {
            Err(Error::failed(Status::Timeout, "the deadline had passed before the run could start"))
        }
        _ => Ok(()),
    }
}

impl Queue for HostQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let mut ready = SmallVec::<[Ready; 1]>::new();
        for command in &s.commands {
            ready.push(Ready::check(command)?);
        }
        let mut state = self.state.lock();
        let waited = wait_all(s);
        let mut profile = s.profile.then(Profile::begin);
        let result = waited
            .and_then(|()| ready.iter().try_for_each(|command| command.run(profile.as_mut().map(|p| &mut p.nodes))));
        state.submissions += 1;
        let id = state.submissions;
        if let Some(profile) = profile {
            state.keep(id, profile);
        }
        drop(state);
        for (fence, value) in &s.signals {
            match &result {
                Ok(()) => fence.signal(*value)?,
                Err(e) => fence.fail(e.clone()),
            }
        }
        Ok(id)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        let mut state = self.state.lock();
        let i = state.profiles.iter().position(|(id, _)| *id == submission)?;
        state.profiles.remove(i).map(|(_, profile)| profile)
    }
}

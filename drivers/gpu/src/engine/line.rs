//! Submissions that wait, and those that run.

use super::backend::Backend;
use super::profiles::Profiles;
use super::waits::Waits;
use ottava_hal::{Error, Fence, Result, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Submissions of one queue that the device may have at once: enough to keep it busy.
const ON_DEVICE: usize = 4;

/// A submission, checked.
pub(super) struct Job<B: Backend> {
    pub id: u64,
    pub work: Vec<B::Work>,
    pub waits: Arc<Waits>,
    pub signals: Signals,
    pub deadline: Option<Instant>,
    pub profile: Option<Arc<Profiles>>,
}

/// Who is told how a submission ended.
#[derive(Default)]
pub(super) struct Signals(pub Vec<(Arc<dyn Fence>, u64)>);

impl Signals {
    /// Tells everyone.
    pub(super) fn finish(&self, result: &Result<()>) {
        for (fence, value) in &self.0 {
            match result {
                // A timeline that someone else moved or failed keeps what it has.
                Ok(()) => drop(fence.signal(*value)),
                Err(e) => fence.fail(e.clone()),
            }
        }
    }
}

/// The submissions of one queue that the device does not have yet.
pub(super) struct Line<B: Backend> {
    pub id: u64,
    pub queue: Arc<B::Queue>,
    pub jobs: VecDeque<Job<B>>,
    pub open: bool,
}

/// A submission that the device has.
pub(super) struct Active<B: Backend> {
    pub ticket: u64,
    pub line: u64,
    /// Outlives the work that it was given.
    pub _queue: Arc<B::Queue>,
    /// `None` while it is handed over.
    pub job: Option<Job<B>>,
    /// `None` while it is handed over, and where it hangs.
    pub running: Option<B::Running>,
    /// How it ended, if it has.
    pub ended: Option<Result<()>>,
    /// An injected fault: a bit to flip in the result.
    pub flip: Option<u64>,
    /// An injected fault: it never ends by itself.
    pub hangs: bool,
}

/// What the worker does next.
pub(super) enum Next<B: Backend> {
    /// Hand it to the device; its entry among the active ones is there already.
    Start { ticket: u64, job: Job<B>, queue: Arc<B::Queue> },
    /// Tell its fences that it failed.
    Fail(Job<B>, Error),
    /// The device is done with it.
    End(Active<B>),
}

/// All submissions of a device.
pub(super) struct Lines<B: Backend> {
    pub lines: Vec<Line<B>>,
    pub active: Vec<Active<B>>,
    next_line: u64,
    next_ticket: u64,
    /// The line after the one that was served last.
    turn: usize,
}

impl<B: Backend> Default for Lines<B> {
    fn default() -> Self {
        Self { lines: Vec::new(), active: Vec::new(), next_line: 0, next_ticket: 0, turn: 0 }
    }
}

impl<B: Backend> Lines<B> {
    /// Adds a queue.
    pub(super) fn open(&mut self, queue: B::Queue) -> u64 {
        self.next_line += 1;
        let id = self.next_line;
        self.lines.push(Line { id, queue: Arc::new(queue), jobs: VecDeque::new(), open: true });
        id
    }

    /// Closes a queue; its submissions still run.
    pub(super) fn close(&mut self, id: u64) {
        self.lines.iter_mut().filter(|l| l.id == id).for_each(|l| l.open = false);
        self.lines.retain(|l| l.open || !l.jobs.is_empty());
    }

    /// What can be done now. With `is_lost` nothing is started.
    pub(super) fn pick(&mut self, is_lost: Option<&Error>) -> Option<Next<B>> {
        if let Some(i) = self.active.iter().position(|a| a.running.is_some() && a.ended.is_some()) {
            return Some(Next::End(self.active.remove(i)));
        }
        if let Some((job, error)) = self.expired() {
            return Some(Next::Fail(job, error));
        }
        let n = self.lines.len();
        for i in (0..n).map(|i| (self.turn + i) % n) {
            let Some(job) = self.lines[i].jobs.front() else { continue };
            let outcome = is_lost.map_or_else(|| job.waits.outcome(), |e| Some(Err(e.clone())));
            let Some(outcome) = outcome else { continue };
            if outcome.is_ok() && self.is_full(self.lines[i].id) {
                continue;
            }
            self.turn = (i + 1) % n;
            let (line, queue) = (self.lines[i].id, Arc::clone(&self.lines[i].queue));
            let job = self.take(i, 0)?;
            return Some(match outcome {
                Ok(()) => Next::Start { ticket: self.activate(line, Arc::clone(&queue)), job, queue },
                Err(e) => Next::Fail(job, e),
            });
        }
        None
    }

    /// A queue whose device has enough, is being given a submission, or is held by one that hangs.
    fn is_full(&self, line: u64) -> bool {
        let mut of_line = self.active.iter().filter(|a| a.line == line);
        of_line.clone().any(|a| a.running.is_none()) || of_line.nth(ON_DEVICE - 1).is_some()
    }

    fn activate(&mut self, line: u64, queue: Arc<B::Queue>) -> u64 {
        self.next_ticket += 1;
        self.active.push(Active {
            ticket: self.next_ticket,
            line,
            _queue: queue,
            job: None,
            running: None,
            ended: None,
            flip: None,
            hangs: false,
        });
        self.next_ticket
    }

    /// Whether nothing of a queue is left that will end by itself.
    pub(super) fn is_done(&self, line: u64) -> bool {
        let never = |a: &Active<B>| a.hangs && a.job.as_ref().is_none_or(|j| j.deadline.is_none());
        let hangs = self.active.iter().any(|a| a.line == line && never(a));
        let waits = self.lines.iter().any(|l| l.id == line && !l.jobs.is_empty());
        let runs = self.active.iter().any(|a| a.line == line && !never(a));
        !runs && (hangs || !waits)
    }

    /// The entry of a ticket.
    pub(super) fn entry(&mut self, ticket: u64) -> Option<&mut Active<B>> {
        self.active.iter_mut().find(|a| a.ticket == ticket)
    }

    /// Takes the entry of a ticket out.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Active<B>> {
        let i = self.active.iter().position(|a| a.ticket == ticket)?;
        Some(self.active.remove(i))
    }

    fn take(&mut self, line: usize, job: usize) -> Option<Job<B>> {
        let taken = self.lines[line].jobs.remove(job);
        if !self.lines[line].open && self.lines[line].jobs.is_empty() {
            self.lines.remove(line);
        }
        taken
    }

    /// The first submission whose deadline has passed: it waits, or it hangs.
    fn expired(&mut self) -> Option<(Job<B>, Error)> {
        let now = Instant::now();
        let late = |j: &Job<B>| j.deadline.is_some_and(|d| d <= now);
        if let Some(i) = self.active.iter().position(|a| a.hangs && a.job.as_ref().is_some_and(late)) {
            let error = Error::failed(Status::Timeout, "the submission hung beyond its deadline (injected)");
            return self.active.remove(i).job.map(|job| (job, error));
        }
        let find = |(i, l): (usize, &Line<B>)| l.jobs.iter().position(late).map(|j| (i, j));
        let (line, job) = self.lines.iter().enumerate().find_map(find)?;
        let error = Error::failed(Status::Timeout, "the deadline had passed before the run could start");
        self.take(line, job).map(|job| (job, error))
    }

    /// When the next submission is late.
    pub(super) fn first_deadline(&self) -> Option<Instant> {
        let hung = self.active.iter().filter(|a| a.hangs).filter_map(|a| a.job.as_ref());
        self.lines.iter().flat_map(|l| &l.jobs).chain(hung).filter_map(|j| j.deadline).min()
    }

    /// Takes the submissions that hang.
    pub(super) fn hung(&mut self) -> Vec<Job<B>> {
        let (hung, rest) = std::mem::take(&mut self.active).into_iter().partition(|a| a.hangs);
        self.active = rest;
        let hung: Vec<Active<B>> = hung;
        hung.into_iter().filter_map(|a| a.job).collect()
    }

    /// Everyone who has not been told. What the device has stays as an entry and keeps its memory.
    pub(super) fn give_up(&mut self) -> Vec<Signals> {
        let mut signals: Vec<Signals> = self.hung().into_iter().map(|j| j.signals).collect();
        let active = self.active.iter_mut().filter_map(|a| a.job.as_mut());
        signals.extend(active.map(|j| std::mem::take(&mut j.signals)));
        signals.extend(self.lines.iter_mut().flat_map(|l| l.jobs.drain(..)).map(|j| j.signals));
        self.lines.retain(|l| l.open);
        signals
    }
}

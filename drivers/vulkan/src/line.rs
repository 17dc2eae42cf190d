//! The jobs of the queues and those that the device has; what comes next.

use crate::gpu::Few;
use crate::job::Job;
use ottava_hal::{Error, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The jobs of one queue.
struct Line {
    id: u64,
    lane: usize,
    jobs: VecDeque<Job>,
    open: bool,
}

/// A job that the device has.
struct Flight {
    serial: u64,
    line: u64,
    /// `None`: it has been given up, and only what it uses is kept.
    job: Option<Job>,
    /// What a job that was given up uses.
    kept: Option<Job>,
}

/// Everything that is under the lock of the device.
pub(crate) struct State {
    lines: Vec<Line>,
    next_line: u64,
    /// The line after the one that ran last.
    turn: usize,
    /// Per lane: the last submission's number, and what is in flight.
    lanes: Vec<(u64, VecDeque<Flight>)>,
    /// A submission that never ends (an injected fault); it holds the device.
    pub hung: Option<Job>,
    pub stop: bool,
}

/// What is done next.
pub(crate) enum Next {
    /// A job of a line can be handed over.
    Run(u64, Job),
    End(Job, Error),
}

impl State {
    /// No queues.
    pub(crate) fn new(lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| (0, VecDeque::new())).collect();
        Self { lines: Vec::new(), next_line: 0, turn: 0, lanes, hung: None, stop: false }
    }

    /// Adds a queue; its number and its lane.
    pub(crate) fn open_line(&mut self) -> (u64, usize) {
        self.next_line += 1;
        let (id, lane) = (self.next_line, self.next_line as usize % self.lanes.len());
        self.lines.push(Line { id, lane, jobs: VecDeque::new(), open: true });
        (id, lane)
    }

    /// Closes a queue; its jobs still run.
    pub(crate) fn close_line(&mut self, id: u64) {
        self.lines.iter_mut().filter(|l| l.id == id).for_each(|l| l.open = false);
        self.lines.retain(|l| l.open || !l.jobs.is_empty());
    }

    /// Adds a job to a queue.
    pub(crate) fn push(&mut self, line: u64, job: Job) {
        if let Some(line) = self.lines.iter_mut().find(|l| l.id == line) {
            line.jobs.push_back(job);
        }
    }

    /// Puts a job back that was picked.
    pub(crate) fn push_front(&mut self, line: u64, job: Job) {
        if let Some(line) = self.lines.iter_mut().find(|l| l.id == line) {
            line.jobs.push_front(job);
            return;
        }
        // Its queue was closed and had no other job.
        let lane = job.lane;
        self.lines.push(Line { id: line, lane, jobs: VecDeque::from([job]), open: false });
    }

    /// What can be done now.
    pub(crate) fn pick(&mut self, is_lost: Option<&Error>) -> Option<Next> {
        let now = Instant::now();
        if let Some(job) = self.expired(now) {
            return Some(Next::End(job, timeout("the deadline had passed before the run could start")));
        }
        if self.hung.as_ref().is_some_and(|j| is_late(j, now)) {
            let what = "the submission hung beyond its deadline (injected)";
            return self.hung.take().map(|job| Next::End(job, timeout(what)));
        }
        if self.hung.is_some() {
            return None;
        }
        let delayed =
            self.lines.iter_mut().flat_map(|l| &mut l.jobs).filter(|j| j.not_before.is_some_and(|t| t <= now));
        delayed.for_each(|j| j.not_before = None);
        let n = self.lines.len();
        for i in (0..n).map(|i| (self.turn + i) % n) {
            let Some(job) = self.lines[i].jobs.front() else { continue };
            let outcome = is_lost.map_or_else(|| job.outcome(), |e| Some(Err(e.clone())));
            let Some(outcome) = outcome else { continue };
            if outcome.is_ok() && (job.not_before.is_some() || self.must_wait(&self.lines[i], job)) {
                continue;
            }
            self.turn = (i + 1) % n;
            let id = self.lines[i].id;
            let job = self.take(i, 0)?;
            return Some(match outcome {
                Ok(()) => Next::Run(id, job),
                Err(e) => Next::End(job, e),
            });
        }
        None
    }

    /// A job with a deadline starts when it is handed over: not behind another one of its queue.
    fn must_wait(&self, line: &Line, job: &Job) -> bool {
        job.deadline.is_some() && self.lanes[line.lane].1.iter().any(|f| f.line == line.id)
    }

    fn take(&mut self, line: usize, job: usize) -> Option<Job> {
        let taken = self.lines[line].jobs.remove(job);
        if !self.lines[line].open && self.lines[line].jobs.is_empty() {
            self.lines.remove(line);
        }
        taken
    }

    /// The first job whose deadline has passed.
    fn expired(&mut self, now: Instant) -> Option<Job> {
        let find = |(i, l): (usize, &Line)| l.jobs.iter().position(|j| is_late(j, now)).map(|j| (i, j));
        let (line, job) = self.lines.iter().enumerate().find_map(find)?;
        self.take(line, job)
    }

    /// When something may change without anybody's doing.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let jobs = self.lines.iter().flat_map(|l| &l.jobs).chain(&self.hung);
        jobs.flat_map(|j| [j.deadline, j.not_before]).flatten().min()
    }

    /// A number for the next submission of a lane.
    pub(crate) fn next_serial(&mut self, lane: usize) -> u64 {
        self.lanes[lane].0 += 1;
        self.lanes[lane].0
    }

    /// The submission was not taken.
    pub(crate) fn give_back_serial(&mut self, lane: usize) {
        self.lanes[lane].0 -= 1;
    }

    /// The device has a job.
    pub(crate) fn fly(&mut self, line: u64, serial: u64, job: Job) {
        self.lanes[job.lane].1.push_back(Flight { serial, line, job: Some(job), kept: None });
    }

    /// The first submission in flight of each lane that has one, and how long to wait for them at most; none if there are
    /// none.
    pub(crate) fn flying(&self, slice: Duration) -> Option<(Few<(usize, u64)>, Duration)> {
        let first = |(lane, (_, flights)): (usize, &(u64, VecDeque<Flight>))| Some((lane, flights.front()?.serial));
        let all: Few<_> = self.lanes.iter().enumerate().filter_map(first).collect();
        let left = self.next_time().map(|t| t.saturating_duration_since(Instant::now()));
        (!all.is_empty()).then(|| (all, left.map_or(slice, |l| l.clamp(Duration::from_millis(1), slice))))
    }

    /// The next job of a lane that is finished where its timeline stands at `done`; what was given up is dropped.
    pub(crate) fn land(&mut self, lane: usize, done: u64) -> Option<Job> {
        let flights = &mut self.lanes[lane].1;
        while flights.front().is_some_and(|f| f.serial <= done) {
            if let Some(Flight { job: Some(job), .. }) = flights.pop_front() {
                return Some(job);
            }
        }
        None
    }

    /// Takes all that waits. What is in flight is given up, but kept until the device is done with it.
    pub(crate) fn abandon(&mut self) -> Vec<Job> {
        for flight in self.lanes.iter_mut().flat_map(|(_, flights)| flights) {
            flight.kept = flight.job.take().or(flight.kept.take());
        }
        self.drain()
    }

    /// Takes all that waits.
    pub(crate) fn drain(&mut self) -> Vec<Job> {
        let waiting: Vec<Job> = self.lines.iter_mut().flat_map(|l| l.jobs.drain(..)).chain(self.hung.take()).collect();
        self.lines.retain(|l| l.open);
        waiting
    }

    /// Takes all that is in flight: the device is lost for good and touches nothing any more.
    pub(crate) fn let_go(&mut self) -> Vec<Job> {
        let flights = self.lanes.iter_mut().flat_map(|(_, flights)| flights.drain(..));
        flights.filter_map(|f| f.job.or(f.kept)).collect()
    }
}

fn is_late(job: &Job, now: Instant) -> bool {
    job.deadline.is_some_and(|d| d <= now)
}

fn timeout(what: &str) -> Error {
    Error::failed(Status::Timeout, what)
}

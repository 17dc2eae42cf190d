//! The answer of an inference that runs elsewhere.
//!
//! Protocol: the answer is given once, by the thread that ran the inference or by dropping the sending side; the
//! receiving side takes it. A wait ends a little after the inference's own deadline even if a driver never returns.

use crate::report::RunReport;
use crate::sync::{Condvar, Mutex};
use ottava_hal::{Error, Result, Status, Tensor};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The thread that runs the inference answers at the deadline; this much later nobody waits for it any more.
const GRACE: Duration = Duration::from_millis(250);

/// Outputs and report, or what went wrong.
pub(crate) type Answer = Result<(Vec<Tensor>, RunReport)>;

struct Shared {
    answer: Mutex<Option<Answer>>,
    changed: Condvar,
}

/// An inference that was started by [`crate::Runner::run_async`].
pub struct Pending {
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

/// Gives the answer.
pub(crate) struct Promise(Option<Arc<Shared>>);

/// Both sides of an answer.
pub(crate) fn pair(deadline: Option<Instant>) -> (Promise, Pending) {
    let shared = Arc::new(Shared { answer: Mutex::new(None), changed: Condvar::new() });
    (Promise(Some(shared.clone())), Pending { shared, deadline })
}

impl Promise {
    /// Answers.
    pub fn keep(mut self, answer: Answer) {
        self.give(answer);
    }

    fn give(&mut self, answer: Answer) {
        if let Some(shared) = self.0.take() {
            *shared.answer.lock() = Some(answer);
            shared.changed.notify_all();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.give(Err(Error::failed(Status::Cancelled, "the runner went away before the inference was run")));
    }
}

impl Pending {
    /// Whether the inference is over.
    pub fn is_done(&self) -> bool {
        self.shared.answer.lock().is_some()
    }

    /// Waits for the end of the inference.
    pub fn wait(self) -> Result<(Vec<Tensor>, RunReport)> {
        let until = self.deadline.and_then(|d| d.checked_add(GRACE));
        let mut answer = self.shared.answer.lock();
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            let late;
            (answer, late) = self.shared.changed.wait(answer, until);
            if late && answer.is_none() {
                let what = "the deadline has passed, and a driver has not returned from a call";
                return Err(Error::failed(Status::Timeout, what));
            }
        }
    }
}

//! Semaphores that nobody needs any more, kept until the lanes have done something else.
//!
//! A submission is over for the host when its lane's timeline says so, but a driver whose queue is a thread may still
//! be busy with the other semaphores of that submission. When a later submission of the lane is over, it no longer is.

use ash::vk;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Where each lane stands.
pub(crate) type Progress = SmallVec<[u64; 4]>;

/// The semaphores, the oldest first, each with where the lanes must be beyond.
#[derive(Debug, Default)]
pub(crate) struct Retired(Mutex<VecDeque<(vk::Semaphore, Progress)>>);

impl Retired {
    /// Keeps a semaphore that submissions up to these numbers may have used.
    pub(crate) fn keep(&self, semaphore: vk::Semaphore, submitted: Progress) {
        self.0.lock().push_back((semaphore, submitted));
    }

    /// One semaphore that can be destroyed where the lanes stand there.
    pub(crate) fn take(&self, done: &[u64]) -> Option<vk::Semaphore> {
        let mut kept = self.0.lock();
        // A lane that has had no submission has touched nothing.
        let is_over = |submitted: &Progress| submitted.iter().zip(done).all(|(s, d)| *s == 0 || s < d);
        let first = kept.front().is_some_and(|(_, submitted)| is_over(submitted)).then(|| kept.pop_front());
        first.flatten().map(|(semaphore, _)| semaphore)
    }

    /// Everything, for the device's end.
    pub(crate) fn take_all(&self) -> Vec<vk::Semaphore> {
        self.0.lock().drain(..).map(|(semaphore, _)| semaphore).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn a_semaphore_is_kept_until_every_lane_that_may_have_used_it_has_gone_on() {
        let retired = Retired::default();
        let semaphore = vk::Semaphore::from_raw;
        retired.keep(semaphore(1), [3, 0].into_iter().collect());
        retired.keep(semaphore(2), [3, 5].into_iter().collect());
        assert_eq!(retired.take(&[3, 9]), None);
        assert_eq!(retired.take(&[4, 0]), Some(semaphore(1)));
        assert_eq!(retired.take(&[4, 5]), None);
        assert_eq!(retired.take_all(), [semaphore(2)]);
    }
}

//! Times of finished submissions that nobody has taken yet.

use ottava_hal::device::Profile;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Profiles beyond this number are dropped, oldest first.
const KEPT_PROFILES: usize = 64;

/// Profiles of a queue's finished submissions.
#[derive(Default)]
pub struct Profiles(Mutex<VecDeque<(u64, Profile)>>);

impl Profiles {
    /// Keeps a profile.
    pub fn put(&self, id: u64, profile: Profile) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT_PROFILES {
            kept.pop_front();
        }
        kept.push_back((id, profile));
    }

    /// Takes a profile.
    pub fn take(&self, id: u64) -> Option<Profile> {
        let mut kept = self.0.lock();
        let i = kept.iter().position(|(found, _)| *found == id)?;
        kept.remove(i).map(|(_, profile)| profile)
    }
}

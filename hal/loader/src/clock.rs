//! The host's monotonic clock, as drivers see it: nanoseconds since the loader was first asked for the time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The time now. Never 0, which stands for "no deadline".
pub(crate) fn now_ns() -> u64 {
    ns_of(Instant::now())
}

/// A moment as the clock's time; moments before its start are the start.
pub(crate) fn ns_of(moment: Instant) -> u64 {
    u64::try_from(moment.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// The moment of a time of the clock; the start for a time that is out of range.
pub(crate) fn moment_of(ns: u64) -> Instant {
    epoch().checked_add(Duration::from_nanos(ns)).unwrap_or_else(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_numbers_are_the_same_clock() {
        let (first, now) = (now_ns(), Instant::now());
        assert!(first >= 1 && first <= ns_of(now) && ns_of(now) <= now_ns());
        let back = moment_of(ns_of(now));
        assert!(back == now || ns_of(now) == 1);
        assert_eq!(moment_of(u64::MAX).max(epoch()), moment_of(u64::MAX));
    }
}

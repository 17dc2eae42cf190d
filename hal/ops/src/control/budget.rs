//! A bound on the passes of loops. (C1) all passes inside the outermost loop count together, because loops in loops
//! multiply: a file of a few bytes can ask for any number of them.

use ottava_hal::{Error, Reason, Result};
use std::cell::Cell;

/// Passes that a loop may take, those of the loops inside it counted too.
pub(super) const MAX_PASSES: u64 = 1 << 18;

thread_local! {
    /// Loops that are running in this thread, and the passes that they have taken.
    static RUNNING: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// A loop that is running.
pub(super) struct Running(());

impl Running {
    /// A loop begins; the outermost one begins to count.
    pub(super) fn begin() -> Self {
        RUNNING.with(|r| {
            let (depth, passes) = r.get();
            r.set((depth + 1, if depth == 0 { 0 } else { passes }));
        });
        Self(())
    }

    /// One more pass.
    pub(super) fn pass(&self, op: &str) -> Result<()> {
        let (depth, passes) = RUNNING.get();
        if passes >= MAX_PASSES {
            let what = format!(
                "{op}: more than {MAX_PASSES} passes, those of loops in loops counted together; they are the most that \
                 is supported"
            );
            return Err(Error::unsupported(Reason::AttrValue, what));
        }
        RUNNING.set((depth, passes + 1));
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (depth, passes) = RUNNING.get();
        RUNNING.set((depth.saturating_sub(1), passes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_passes_of_inner_loops_count_and_the_next_loop_begins_anew() {
        for _ in 0..2 {
            let outer = Running::begin();
            let mut taken = 0;
            let spent = loop {
                let inner = Running::begin();
                match (0..1000).try_for_each(|_| inner.pass("Loop")) {
                    Ok(()) => taken += 1000,
                    Err(e) => break e,
                }
            };
            assert_eq!(taken, MAX_PASSES / 1000 * 1000);
            assert!(spent.to_string().contains("262144 passes"), "{spent}");
            assert!(outer.pass("Loop").is_err());
        }
    }
}

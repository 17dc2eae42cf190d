//! The pool of a build without the standard library: the caller is its only thread.

use crate::error::Result;

/// Runs regions on the caller's thread.
pub struct ThreadPool(());

impl ThreadPool {
    /// A pool of the caller's thread alone, whatever is asked for.
    ///
    /// # Errors
    /// None; the signature is that of the build with threads.
    pub fn new(_threads: usize) -> Result<Self> {
        Ok(Self(()))
    }

    /// Always one.
    pub fn threads(&self) -> usize {
        1
    }

    /// Runs `task(0)`, ..., `task(n_tasks - 1)`. A panic is not caught.
    ///
    /// # Errors
    /// None; the signature is that of the build with threads.
    pub fn parallel_for(&self, n_tasks: usize, task: &(dyn Fn(usize) + Sync)) -> Result<()> {
        (0..n_tasks).for_each(task);
        Ok(())
    }
}

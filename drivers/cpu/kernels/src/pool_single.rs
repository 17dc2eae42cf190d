//! The pool of a build without the standard library: the caller is its only thread.

use crate::error::Result;

/// Multiply-adds of the smallest task, where nothing else is asked for.
pub const GRAIN: usize = 1 << 18;

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

    /// As [`ThreadPool::new`]; there is nothing to cut into tasks.
    ///
    /// # Errors
    /// None.
    pub fn with_grain(_threads: usize, _grain: usize) -> Result<Self> {
        Ok(Self(()))
    }

    /// Multiply-adds of the smallest task.
    pub(crate) fn grain(&self) -> usize {
        GRAIN
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

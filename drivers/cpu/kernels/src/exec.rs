//! Where a kernel runs: an instruction set and a pool.

use crate::error::Result;
use crate::isa::Isa;
use crate::pool::ThreadPool;

/// Instruction set and threads of a call. Results do not depend on either.
#[derive(Clone, Copy)]
pub struct Exec<'a> {
    /// Instruction set to use.
    pub isa: Isa,
    /// Threads to use.
    pub pool: &'a ThreadPool,
}

impl Exec<'_> {
    /// Into how many parts to cut work of `cost` multiply-adds (bytes count as four) that has at most `max` parts.
    pub(crate) fn parts(&self, cost: usize, max: usize) -> usize {
        if self.pool.threads() == 1 {
            return max.min(1);
        }
        (cost / self.pool.grain()).clamp(1, self.pool.threads() * 4).min(max)
    }

    /// Splits `0..len` into `parts` ranges whose lengths are multiples of `unit` (the last may be shorter) and runs `task` on each.
    pub(crate) fn split(
        &self,
        len: usize,
        unit: usize,
        parts: usize,
        task: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<()> {
        let parts = parts.max(1);
        let step = len.div_ceil(parts).next_multiple_of(unit.max(1)).max(1);
        self.pool.parallel_for(len.div_ceil(step), &|i| task(i * step, ((i + 1) * step).min(len)))
    }
}

//! The two-buffer recurrence (`npu.md` section 4): one shared channel to memory, two buffers, the array.
//!
//! The load of fold i may start when the compute of fold i-2 has ended, because its buffer is then free. Stores wait in a
//! queue; one that is ready goes before the next load. At most the stores of two folds wait at any time, because a load
//! never starts before the compute of the fold before the last has ended.

use super::{Bandwidth, Error, Result, Time};
use std::collections::VecDeque;

/// Largest number of folds that a closed walk accepts: about a second of work.
pub const MAX_FOLDS: u64 = 1 << 26;

/// The memory behind the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dram {
    /// Bytes per cycle; `None` is a memory that never limits.
    pub bandwidth: Option<Bandwidth>,
    /// L, cycles before the first byte of each transfer.
    pub latency: u64,
}

impl From<&crate::config::Dram> for Dram {
    /// A rate that is too large to matter is no limit.
    fn from(dram: &crate::config::Dram) -> Self {
        Self { bandwidth: Bandwidth::from_f64(dram.bytes_per_cycle()), latency: dram.latency() }
    }
}

impl Dram {
    /// A memory that never makes the array wait.
    pub const UNLIMITED: Self = Self { bandwidth: None, latency: 0 };

    /// How long one transfer holds the channel.
    pub fn transfer(&self, bytes: u64) -> Result<Time> {
        Time::from_cycles(self.latency)?.plus(self.stream(bytes)?)
    }

    /// How long bytes take without the latency.
    pub(super) fn stream(&self, bytes: u64) -> Result<Time> {
        self.bandwidth.map_or(Ok(Time::ZERO), |bandwidth| bandwidth.transfer(bytes))
    }
}

/// Bytes between memory and chip, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Traffic {
    /// Left operand, read.
    pub a: u64,
    /// Weights, read.
    pub w: u64,
    /// Partial sums, read back.
    pub psum_in: u64,
    /// Outputs, written.
    pub out: u64,
    /// Partial sums, written.
    pub psum_out: u64,
}

impl Traffic {
    /// Bytes read.
    pub fn loads(&self) -> Result<u64> {
        sum(&[self.a, self.w, self.psum_in])
    }

    /// Bytes written.
    pub fn stores(&self) -> Result<u64> {
        sum(&[self.out, self.psum_out])
    }

    /// This and `other` together.
    pub fn plus(&self, other: &Self) -> Result<Self> {
        self.zip(other, u64::checked_add)
    }

    /// `n` times this.
    pub fn times(&self, n: u64) -> Result<Self> {
        self.zip(&Self { a: n, w: n, psum_in: n, out: n, psum_out: n }, u64::checked_mul)
    }

    fn zip(&self, other: &Self, op: fn(u64, u64) -> Option<u64>) -> Result<Self> {
        let op = |x, y| op(x, y).ok_or(Error::Overflow { what: "number of bytes" });
        Ok(Self {
            a: op(self.a, other.a)?,
            w: op(self.w, other.w)?,
            psum_in: op(self.psum_in, other.psum_in)?,
            out: op(self.out, other.out)?,
            psum_out: op(self.psum_out, other.psum_out)?,
        })
    }
}

fn sum(terms: &[u64]) -> Result<u64> {
    let sum = terms.iter().try_fold(0u64, |sum, &term| sum.checked_add(term));
    sum.ok_or(Error::Overflow { what: "number of bytes" })
}

/// What a layer took. `compute + wait_in + wait_out + drain = total`, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Run {
    /// From the first load to the end of the last store or fold.
    pub total: Time,
    /// Cycles in which the array was busy.
    pub compute: u64,
    /// The array waited for operands that were on their way.
    pub wait_in: Time,
    /// The array waited for operands whose load waited for stores.
    pub wait_out: Time,
    /// Last stores, after the last fold.
    pub drain: Time,
    /// Bytes moved.
    pub traffic: Traffic,
    /// Folds that ran.
    pub folds: u64,
}

impl Run {
    /// `n` runs like this one, one after the other.
    pub fn repeat(&self, n: u64) -> Result<Self> {
        let cycles = |count: u64, what| count.checked_mul(n).ok_or(Error::Overflow { what });
        Ok(Self {
            total: self.total.times(n)?,
            compute: cycles(self.compute, "number of compute cycles")?,
            wait_in: self.wait_in.times(n)?,
            wait_out: self.wait_out.times(n)?,
            drain: self.drain.times(n)?,
            traffic: self.traffic.times(n)?,
            folds: cycles(self.folds, "number of folds")?,
        })
    }
}

/// The state of the recurrence; folds are given to it in order.
#[derive(Debug, Clone)]
pub struct TwoBuffers {
    dram: Dram,
    /// When the channel is free.
    channel: Time,
    /// End of the last fold and of the one before it.
    ends: [Time; 2],
    /// Stores that wait: when their data is ready, and bytes.
    pending: VecDeque<(Time, u64)>,
    run: Run,
}

impl TwoBuffers {
    /// Nothing has run yet.
    pub fn new(dram: Dram) -> Self {
        Self { dram, channel: Time::ZERO, ends: [Time::ZERO; 2], pending: VecDeque::new(), run: Run::default() }
    }

    /// One fold: its loads, `cycles` of the array, its stores.
    pub fn fold(&mut self, cycles: u64, traffic: &Traffic) -> Result<()> {
        let start = self.store_ready()?;
        let loads = traffic.loads()?;
        let duration = if loads > 0 { self.dram.transfer(loads)? } else { Time::ZERO };
        let load_end = start.plus(duration)?;
        if loads > 0 {
            self.channel = load_end;
        }
        let [last_end, _] = self.ends;
        let idle = load_end.since(last_end);
        self.run.wait_in = self.run.wait_in.plus(idle.min(duration))?;
        self.run.wait_out = self.run.wait_out.plus(idle.since(duration))?;
        let end = last_end.max(load_end).plus(Time::from_cycles(cycles)?)?;
        self.ends = [end, last_end];
        let stores = traffic.stores()?;
        if stores > 0 {
            self.pending.push_back((end, stores));
        }
        self.run.compute = sum(&[self.run.compute, cycles])?;
        self.run.traffic = self.run.traffic.plus(traffic)?;
        self.run.folds += 1;
        Ok(())
    }

    /// Writes the stores that are ready when the next load could start, and says when it can.
    fn store_ready(&mut self) -> Result<Time> {
        let mut start = self.channel.max(self.ends[1]);
        while let Some(&(ready, bytes)) = self.pending.front().filter(|(ready, _)| *ready <= start) {
            self.pending.pop_front();
            self.channel = self.channel.max(ready).plus(self.dram.transfer(bytes)?)?;
            start = self.channel.max(self.ends[1]);
        }
        Ok(start)
    }

    /// Writes what is left and sums up.
    pub fn finish(mut self) -> Result<Run> {
        let [end, _] = self.ends;
        let mut total = end;
        while let Some((ready, bytes)) = self.pending.pop_front() {
            self.channel = self.channel.max(ready).plus(self.dram.transfer(bytes)?)?;
            total = total.max(self.channel);
        }
        Ok(Run { total, drain: total.since(end), ..self.run })
    }
}

/// Between what any schedule of the same work must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The slower of array and channel, the other one hidden.
    pub lower: Time,
    /// Both, and two latencies per fold, nothing hidden.
    pub upper: Time,
}

/// `max(compute, bytes/B) <= total <= compute + bytes/B + 2L·F`.
///
/// Each transfer is rounded up to 1/256 of a cycle; the upper bound allows for that.
pub fn bounds(run: &Run, dram: Dram) -> Result<Bounds> {
    let compute = Time::from_cycles(run.compute)?;
    let bytes = sum(&[run.traffic.loads()?, run.traffic.stores()?])?;
    // Transfers that are rounded up one by one never take less than all of them rounded up together.
    let stream = dram.stream(bytes)?;
    let per_fold = Time::from_cycles(dram.latency)?.plus(Time::from_parts(1))?.times(2)?;
    let upper = compute.plus(stream)?.plus(per_fold.times(run.folds)?)?;
    Ok(Bounds { lower: compute.max(stream), upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dram(bytes: u64, latency: u64) -> Dram {
        Dram { bandwidth: Some(Bandwidth::from_bytes_per_cycle(bytes).unwrap()), latency }
    }

    fn run(dram: Dram, folds: &[(u64, u64, u64)]) -> Run {
        let mut state = TwoBuffers::new(dram);
        for &(load, cycles, store) in folds {
            state.fold(cycles, &Traffic { a: load, out: store, ..Traffic::default() }).unwrap();
        }
        state.finish().unwrap()
    }

    #[test]
    fn one_fold_is_load_compute_store() {
        let run = run(dram(4, 10), &[(40, 100, 8)]);
        assert_eq!(run.total, Time::from_cycles(20 + 100 + 12).unwrap());
        assert_eq!((run.wait_in.floor(), run.wait_out.floor(), run.drain.floor()), (20, 0, 12));
    }

    #[test]
    fn a_load_hides_behind_the_fold_before() {
        let run = run(dram(1, 0), &[(10, 100, 0), (90, 100, 0), (120, 100, 0)]);
        // The third load may start when the first fold has ended, at 110; it ends at 230, the second fold at 210.
        assert_eq!((run.total.floor(), run.wait_in.floor()), (330, 30));
    }

    #[test]
    fn a_ready_store_goes_before_the_next_load() {
        let run = run(dram(1, 0), &[(10, 10, 50), (10, 10, 0), (10, 10, 0)]);
        // Fold 1 ends at 20, its store takes the channel to 70, the load of fold 3 to 80.
        assert_eq!(run.total.floor(), 90);
        assert_eq!((run.wait_in.floor(), run.wait_out.floor()), (10 + 10, 40));
    }

    #[test]
    fn the_parts_add_up_and_lie_in_the_bounds() {
        for bytes in [1, 3, 7, 64] {
            let dram = dram(bytes, 13);
            let run = run(dram, &[(100, 40, 9), (1, 3, 77), (0, 90, 0), (500, 10, 1), (33, 33, 33)]);
            let parts = [Time::from_cycles(run.compute).unwrap(), run.wait_in, run.wait_out, run.drain];
            assert_eq!(parts.iter().map(|t| t.parts()).sum::<u64>(), run.total.parts());
            let bounds = bounds(&run, dram).unwrap();
            assert!(bounds.lower <= run.total && run.total <= bounds.upper);
        }
    }

    #[test]
    fn an_unlimited_memory_never_stalls() {
        let run = run(Dram::UNLIMITED, &[(1 << 40, 10, 1 << 40); 5]);
        assert_eq!((run.total.floor(), run.compute), (50, 50));
    }
}

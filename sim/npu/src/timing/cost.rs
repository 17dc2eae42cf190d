//! What one step costs: cycles of its unit, bytes of its transfer, and the static counters.

use super::banks;
use crate::NpuConfig;
use crate::analytic::{ArrayShape, Depthwise, Fold, Gemm, compute_cycles, fold_cycles, sram_accesses};
use crate::config::Depthwise as Policy;
use crate::error::Fault;
use crate::isa::{Dtype, Queue, Space};
use crate::machine::Counters;
use crate::program::{Access, Dwconv, Place, Pool, Step, Unary, Work};

/// The cost of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the array or the vector unit until the results are there, or of a move between two places of the chip;
    /// 0 for transfers over the bus and control.
    pub cycles: u64,
    /// Cycles until the next instruction of the queue may start; less than `cycles` where an array overlaps products.
    pub hold: u64,
    /// Cycles of these in which the unit waited for a bank of a scratchpad.
    pub bank: u64,
    /// Bytes over the memory bus; `None` for all but transfers with memory.
    pub dma_bytes: Option<u64>,
    /// The counters that do not depend on data.
    pub counters: Counters,
}

impl Cost {
    /// Adds cycles in which the unit waits for a bank.
    fn conflicts(&mut self, cycles: u64) {
        self.cycles = self.cycles.saturating_add(cycles);
        self.hold = self.hold.saturating_add(cycles);
        self.bank = cycles;
        self.counters.bank_conflicts = cycles;
    }
}

/// The cost of `step` on a device.
pub fn cost(config: &NpuConfig, step: &Step) -> Result<Cost, Fault> {
    let tokens = u64::from(step.tokens.pop_prev) + u64::from(step.tokens.pop_next);
    let events = u64::from(matches!(step.work, Work::Wait(_) | Work::Signal(_)));
    let counters = Counters { instructions: 1, tokens, events, ..Counters::default() };
    let mut cost = Cost { counters, ..Cost::default() };
    for access in step.accesses() {
        count_access(&mut cost.counters, &access);
    }
    match &step.work {
        Work::Nop | Work::Irq | Work::Wait(_) | Work::Signal(_) | Work::Preload => {}
        Work::Load { .. } | Work::Im2col(_) | Work::Store { .. } => transfer(config, &mut cost, step),
        Work::Gemm(g) => {
            let shape = ArrayShape::from(&config.array);
            let gemm = Gemm::new(g.a.rows.into(), g.w.n.into(), g.w.k.into());
            cost.cycles = compute_cycles(&shape, &gemm).map_err(range)?;
            cost.hold = hold(&shape, &gemm, cost.cycles).map_err(range)?;
            let accesses = sram_accesses(&shape, &gemm).map_err(range)?;
            cost.counters.macs = gemm.macs().map_err(range)?;
            if g.input.dtype == Dtype::S16 {
                cost.counters.macs_s16 = cost.counters.macs;
            }
            let spaces = [g.a.space, g.w.tile.space];
            cost.conflicts(banks::of_product(config, &shape, &gemm, spaces).map_err(range)?);
            cost.counters.sram_bytes_read = accesses.a.saturating_mul(g.input.dtype.bytes()).saturating_add(accesses.w);
            cost.counters.acc_written = accesses.o;
        }
        Work::Dwconv(d) => depthwise(config, &mut cost, step, d)?,
        _ => vector(config, &mut cost, step),
    }
    Ok(cost)
}

/// How long a product of `cycles` keeps the array: its first fold fills the array while the product before drains.
pub fn hold(shape: &ArrayShape, gemm: &Gemm, cycles: u64) -> crate::analytic::Result<u64> {
    let Some(first) = shape.folds(gemm)?.iter().next() else { return Ok(cycles) };
    let alone = fold_cycles(shape, &first)?;
    let behind_another = fold_cycles(shape, &Fold { row: 1, ..first })?;
    Ok(cycles.saturating_sub(alone).saturating_add(behind_another))
}

fn range(e: crate::analytic::Error) -> Fault {
    Fault::Constants(e.to_string())
}

/// Adds an access, each unit once.
fn count_access(counters: &mut Counters, access: &Access) {
    let (slot, units) = match access.place {
        Place::Dram(t) if access.write => (&mut counters.dram_bytes_written, u64::from(t.rows) * u64::from(t.len)),
        Place::Dram(t) => (&mut counters.dram_bytes_read, u64::from(t.rows) * u64::from(t.len)),
        Place::Local(t) if t.space == Space::Acc && access.write => (&mut counters.acc_written, t.units()),
        Place::Local(t) if t.space == Space::Acc => (&mut counters.acc_read, t.units()),
        Place::Local(t) if access.write => (&mut counters.sram_bytes_written, t.units()),
        Place::Local(t) => (&mut counters.sram_bytes_read, t.units()),
    };
    *slot = slot.saturating_add(units);
}

fn transfer(config: &NpuConfig, cost: &mut Cost, step: &Step) {
    let outer = match &step.work {
        Work::Im2col(w) => &w.image,
        Work::Load { from: outer, .. } | Work::Store { to: outer, .. } => outer,
        _ => return,
    };
    let counters = &mut cost.counters;
    if let Some(space) = outer.region.space() {
        move_on_chip(config, cost, step, space);
        return;
    }
    if let Work::Im2col(w) = &step.work {
        // Rows of taps overlap; the engine fetches a byte once where that is less than fetching every tap.
        counters.dram_bytes_read = counters.dram_bytes_read.min(w.to.units());
    }
    counters.requantized = requantized(&step.work);
    let bytes = counters.dram_bytes_read.saturating_add(counters.dram_bytes_written);
    cost.dma_bytes = Some(bytes);
    counters.dma_transfers = 1;
    counters.dma_bursts = bytes.div_ceil(config.dma.max_burst.into());
}

fn requantized(work: &Work) -> u64 {
    match work {
        Work::Store { requant: Some(r), from, .. } => from.units() / r.sums.accumulators(),
        _ => 0,
    }
}

/// A move: the DMA engine takes a word of each port of the outer scratchpad per cycle. As in transfers with memory, its
/// other end finds free slots, and im2col fetches a byte once where that is less than fetching every tap.
fn move_on_chip(config: &NpuConfig, cost: &mut Cost, step: &Step, space: Space) {
    let bytes = match &step.work {
        Work::Im2col(w) => w.footprint().local().map_or(0, |t| t.units()).min(w.to.units()),
        Work::Load { from, .. } => u64::from(from.rows).saturating_mul(from.len.into()),
        Work::Store { to, .. } => to.local().map_or(0, |t| t.units()),
        _ => 0,
    };
    let pad = if space == Space::W { &config.sram.w } else { &config.sram.a };
    let rate = u64::from(pad.ports).saturating_mul(pad.port_bytes.into()).max(1);
    cost.cycles = bytes.div_ceil(rate);
    cost.hold = cost.cycles;
    if matches!(step.work, Work::Im2col(_)) {
        cost.counters.sram_bytes_read = bytes;
    }
    cost.counters.requantized = requantized(&step.work);
}

fn depthwise(config: &NpuConfig, cost: &mut Cost, step: &Step, d: &Dwconv) -> Result<(), Fault> {
    let taps = u64::from(d.window.kh).saturating_mul(d.window.kw.into());
    let layer = Depthwise { gemm: Gemm::new(d.acc.rows.into(), 1, taps), channels: d.acc.len.into() };
    // The queue has chosen between array and vector unit; the policy chooses among the ways of the array.
    let policies: &[Policy] = match (step.queue, config.array.depthwise) {
        (Queue::Vec, _) => &[Policy::Vector],
        (_, Policy::PerChannel) => &[Policy::PerChannel],
        (_, Policy::Packed) => &[Policy::Packed],
        _ => &[Policy::PerChannel, Policy::Packed],
    };
    let shape = ArrayShape::from(&config.array);
    let costs = policies.iter().map(|&p| layer.cost(&shape, p, config.vector.lanes.into()).map_err(range));
    let costs = costs.collect::<Result<Vec<_>, _>>()?;
    let per_op = if step.queue == Queue::Vec { config.vector_cycles("mac") } else { 1 };
    cost.cycles = costs.iter().map(|c| c.cycles).min().unwrap_or(0).saturating_mul(per_op);
    cost.hold = cost.cycles;
    cost.counters.macs = d.acc.units().saturating_mul(taps);
    Ok(())
}

/// Operations of the vector unit: `ceil(elements / lanes)` times the cycles of the operation.
fn vector(config: &NpuConfig, cost: &mut Cost, step: &Step) {
    let elements = elements(&step.work);
    let name = step.op.info().cycles.unwrap_or("nop");
    let groups = elements.div_ceil(config.vector.lanes.into());
    cost.cycles = groups.saturating_mul(config.vector_cycles(name));
    cost.hold = cost.cycles;
    cost.conflicts(banks::of_lanes(config, step).saturating_mul(groups));
    cost.counters.vector_ops = elements;
    match &step.work {
        Work::Requant { from, requant, .. } | Work::Residual { from, requant, .. } => {
            cost.counters.requantized = from.units() / requant.sums.accumulators();
        }
        Work::Unary { op: Unary::Lut8 { .. } | Unary::Softmax { .. }, from, .. } => {
            cost.counters.lut_lookups = from.units();
        }
        Work::Unary { op: Unary::Lut16 { .. }, from, .. } => cost.counters.lut_lookups = from.units() / 2,
        _ => {}
    }
}

/// Elementary operations of a vector instruction; a Softmax walks each row three times.
fn elements(work: &Work) -> u64 {
    match work {
        Work::Requant { from, requant, .. } | Work::Residual { from, requant, .. } => {
            from.units() / requant.sums.accumulators()
        }
        Work::Shift { from, .. } => from.units(),
        Work::Redsum { from, .. } | Work::Redmax { from, .. } => from.units(),
        Work::Binary(b) => b.out.units() / b.output.dtype.bytes(),
        Work::Unary { op: Unary::Softmax { .. } | Unary::TfliteSoftmax { .. }, from, .. } => {
            from.units().saturating_mul(3)
        }
        Work::Unary { op: Unary::Lut16 { .. }, from, .. } => from.units() / 2,
        Work::Unary {
            op: Unary::Cast { input, .. } | Unary::Rescale { input, .. } | Unary::TfliteRescale { input, .. },
            from,
            ..
        } => from.units() / input.dtype.bytes(),
        Work::Unary { from, .. } => from.units(),
        Work::Pool(Pool { to, window, .. }) => {
            to.units().saturating_mul(window.kh.into()).saturating_mul(window.kw.into())
        }
        Work::Xpose { from, element, .. } => from.units() / u64::from((*element).max(1)),
        _ => 0,
    }
}

//! What devices and the ways between them cost, in nanoseconds.
//!
//! Figures come from drivers, so they are cut at [`MAX_NS`] and sums saturate.

use super::Target;
use ottava_graph::Diagnostic;
use ottava_hal::capability::QuantKind;
use ottava_hal::device::LinkMode;
use ottava_hal::{Program, ValueId};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Speed of a copy where the device does not say it.
const UNKNOWN_BYTES_PER_S: f64 = 4e9;

/// The longest time that a figure counts as: three days.
pub(super) const MAX_NS: u64 = 1 << 48;

/// The way between host memory and one device.
#[derive(Debug, Clone, Copy)]
struct Leg {
    copies: bool,
    latency_ns: u64,
    ns_per_byte: f64,
}

/// The ways between the host and all targets.
#[derive(Debug, Clone)]
pub(super) struct Links(Vec<Leg>);

impl Links {
    /// The links of all targets.
    pub fn of(targets: &[Target]) -> Self {
        let leg = |t: &Target| {
            let link = t.device.info().link;
            let speed = if link.bytes_per_s >= 1.0 { link.bytes_per_s } else { UNKNOWN_BYTES_PER_S };
            Leg {
                copies: link.mode == LinkMode::Copy,
                latency_ns: link.latency_ns.min(MAX_NS),
                ns_per_byte: 1e9 / speed,
            }
        };
        Self(targets.iter().map(leg).collect())
    }

    /// Cost of one submission to a target.
    pub fn submit(&self, target: usize) -> u64 {
        self.0[target].latency_ns
    }

    /// Cost of bringing bytes from one place to another; `None` is host memory.
    pub fn hop(&self, from: Option<usize>, to: Option<usize>, bytes: u64) -> u64 {
        if from == to {
            return 0;
        }
        let leg = |target: usize| {
            let leg = self.0[target];
            let moving = (bytes as f64 * leg.ns_per_byte) as u64;
            if leg.copies { leg.latency_ns.saturating_add(moving) } else { 0 }
        };
        from.map_or(0, leg).saturating_add(to.map_or(0, leg))
    }
}

/// Answers of [`ottava_hal::Device::estimate`], asked once per target and form of program.
#[derive(Default)]
pub(super) struct Estimates {
    memo: BTreeMap<(usize, String), u64>,
    /// Targets that could not answer, with the first error.
    failed: BTreeMap<usize, String>,
}

impl Estimates {
    /// Time of one run of a program. A device that cannot say it is taken to move one byte per nanosecond.
    pub fn ns(&mut self, targets: &[Target], target: usize, program: &Program) -> u64 {
        let key = (target, signature(program));
        if let Some(ns) = self.memo.get(&key) {
            return *ns;
        }
        let ns = match targets[target].device.estimate(program) {
            Ok(cost) => cost.time_ns.min(MAX_NS),
            Err(e) => {
                self.failed.entry(target).or_insert_with(|| e.to_string());
                let bytes = program.values.iter().filter_map(|v| v.ty.byte_len());
                bytes.fold(1_000, |n: u64, b| n.saturating_add(b as u64))
            }
        };
        self.memo.insert(key, ns);
        ns
    }

    /// One finding per target that could not estimate.
    pub fn notes(&self, targets: &[Target]) -> Vec<Diagnostic> {
        let note = |(t, e): (&usize, &String)| {
            let what = format!("device `{}` cannot say what a program costs: {e}", targets[*t].id);
            Diagnostic::warning("P0106", "", what).with_help("placement takes one byte per nanosecond for it")
        };
        self.failed.iter().map(note).collect()
    }
}

/// What costs depend on: operators, attributes, types; not names, scales or data of constants.
pub(super) fn signature(program: &Program) -> String {
    let mut text = String::new();
    for node in &program.nodes {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{}/{}/{}{:?}{:?}{:?}",
            node.domain, node.op, node.version, node.attrs, node.requant, node.fused
        );
        for id in node.inputs.iter().flatten().chain(&node.outputs) {
            describe(&mut text, program, *id);
        }
    }
    let _ = write!(text, "{:?}{:?}", program.inputs, program.outputs);
    text
}

fn describe(text: &mut String, program: &Program, id: ValueId) {
    let value = program.value(id);
    let kind = QuantKind::of(&value.ty);
    let _ = write!(text, "|{}:{}{kind:?}{}", id.0, value.ty, u8::from(value.constant.is_some()));
}

/// A time for people.
pub(super) fn human(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{} us", ns / 1_000),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(legs: &[(bool, u64, f64)]) -> Links {
        let leg = |&(copies, latency_ns, ns_per_byte)| Leg { copies, latency_ns, ns_per_byte };
        Links(legs.iter().map(leg).collect())
    }

    #[test]
    fn a_hop_has_a_leg_for_each_device_that_copies() {
        let links = links(&[(false, 100, 1.0), (true, 200, 1.0), (true, 50, 0.5)]);
        assert_eq!(links.hop(None, Some(0), 1_000), 0);
        assert_eq!(links.hop(None, Some(1), 1_000), 1_200);
        assert_eq!(links.hop(Some(1), Some(2), 1_000), 1_200 + 550);
        assert_eq!(links.hop(Some(1), Some(1), 1_000), 0);
        assert_eq!(links.submit(0), 100);
    }

    #[test]
    fn figures_without_sense_saturate() {
        let links = links(&[(true, MAX_NS, f64::INFINITY), (true, MAX_NS, f64::NAN)]);
        assert_eq!(links.hop(None, Some(0), u64::MAX), u64::MAX);
        assert!(links.hop(Some(0), Some(1), u64::MAX) >= MAX_NS);
    }

    #[test]
    fn times_are_short() {
        let cases = [(999, "999 ns"), (1_500, "1.5 us"), (12_345, "12 us"), (2_500_000, "2.50 ms")];
        cases.iter().for_each(|(ns, text)| assert_eq!(human(*ns), *text));
    }
}

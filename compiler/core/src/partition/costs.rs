//! What devices and the ways between them cost, in nanoseconds.
//!
//! Figures come from drivers, so sums saturate and nothing divides by them unchecked.

use super::Target;
use ottava_graph::Diagnostic;
use ottava_hal::capability::QuantKind;
use ottava_hal::device::LinkMode;
use ottava_hal::{Program, ValueId};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Speed of a copy where the device does not say it.
const UNKNOWN_BYTES_PER_S: f64 = 4e9;

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
            Leg { copies: link.mode == LinkMode::Copy, latency_ns: link.latency_ns, ns_per_byte: 1e9 / speed }
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
            Ok(cost) => cost.time_ns,
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
fn signature(program: &Program) -> String {
    let mut text = String::new();
    for node in &program.nodes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}/{}/{}{:?}{:?}{:?}", node.domain, node.op, node.version, node.attrs, node.requant, node.fused);
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

//! Times of nodes (`ottava.profile/1`).
//!
//! Records are in ticks of the device's clock. Two readings of both clocks, when the device was opened and when a profile
//! is read, give rate and offset.

use super::call::two_call;
use super::device::Shared;
use super::error;
use super::label::node_names;
use crate::{clock, foreign};
use ottava_abi::types::{Device as RawDevice, Queue as RawQueue};
use ottava_abi::{ProfileCounterV1, ProfileRecordV1, ProfileV1, record_kind, status, text_of};
use ottava_hal::Result;
use ottava_hal::device::{NodeTime, Profile, WorkKind};
use std::collections::HashMap;

/// More records or counters than this are not read.
const MAX_RECORDS: u64 = 1 << 22;
/// Readings that are nearer to each other give no rate.
const LEAST_NS: u64 = 1_000;
/// A device clock whose rate is this near to 1 counts nanoseconds.
const SAME_CLOCK: f64 = 1e-3;

/// Device clock and host clock at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    ticks: u64,
    host_ns: u64,
}

impl ClockReading {
    /// The clocks now; none if the driver does not say.
    pub fn now(profile: &ProfileV1, device: *mut RawDevice) -> Option<Self> {
        let (mut ticks, mut host_ns, mut err) = (0, 0, error::blank());
        // SAFETY: the device is open, the results are valid during the call.
        let code = unsafe { (profile.clock)(device, &mut ticks, &mut host_ns, &mut err) };
        (code == status::OK).then_some(Self { ticks, host_ns })
    }
}

/// Turns ticks into nanoseconds of the host's clock.
#[derive(Debug, Clone, Copy)]
struct Scale {
    at: ClockReading,
    ns_per_tick: f64,
}

impl Scale {
    fn between(first: ClockReading, second: ClockReading) -> Self {
        let ticks = second.ticks.saturating_sub(first.ticks);
        let ns = second.host_ns.saturating_sub(first.host_ns);
        let known = ticks > 0 && ns >= LEAST_NS;
        Self { at: second, ns_per_tick: if known { ns as f64 / ticks as f64 } else { 1.0 } }
    }

    fn host_ns(&self, ticks: u64) -> u64 {
        // The difference is small beside either value, so it is taken before the change to floats.
        let back = self.at.ticks.wrapping_sub(ticks) as i64 as f64 * self.ns_per_tick;
        (self.at.host_ns as f64 - back).max(0.0) as u64
    }

    fn duration_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    fn counts_ns(&self) -> bool {
        (self.ns_per_tick - 1.0).abs() < SAME_CLOCK
    }
}

/// Names of what ran in a submission.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// Names of nodes by id; empty if several executables ran, whose ids would be mixed up.
    pub nodes: Vec<String>,
    /// Kernels by name of node.
    pub kernels: HashMap<String, String>,
}

/// Reads the records of a submission that is done.
pub(crate) fn read(shared: &Shared, queue: *mut RawQueue, submission: u64, names: &Names) -> Result<Option<Profile>> {
    let Some(profile) = &shared.profile else { return Ok(None) };
    let who = &shared.info.id;
    let records = two_call(who, "profile.read", MAX_RECORDS, ProfileRecordV1::blank(), |cap, out, count| {
        let mut n = 0;
        let result = shared.call("profile.read", |device, err| {
            // SAFETY: device and queue are alive, `out` holds `cap` prepared elements.
            unsafe { (profile.read)(device, queue, submission, cap as u32, out, &mut n, err) }
        });
        *count = u64::from(n);
        result
    })?;
    let counters = two_call(who, "profile.counters", MAX_RECORDS, ProfileCounterV1::blank(), |cap, out, count| {
        let mut n = 0;
        let result = shared.call("profile.counters", |device, err| {
            // SAFETY: device and queue are alive, `out` holds `cap` prepared elements.
            unsafe { (profile.counters)(device, queue, submission, cap as u32, out, &mut n, err) }
        });
        *count = u64::from(n);
        result
    });
    let now = ClockReading::now(profile, shared.raw);
    let scale = match (shared.opened_at, now) {
        (Some(first), Some(second)) => Scale::between(first, second),
        _ => Scale { at: ClockReading { ticks: 0, host_ns: 0 }, ns_per_tick: 1.0 },
    };
    Ok(convert(&records, &counters.unwrap_or_default(), scale, names))
}

/// The records for the host; none if there are none. The first one may stand for the whole submission.
fn convert(records: &[ProfileRecordV1], counters: &[ProfileCounterV1], scale: Scale, names: &Names) -> Option<Profile> {
    let whole = records.iter().find(|r| r.record_kind == record_kind::SUBMISSION);
    let spans = || whole.into_iter().chain(records.iter().filter(|_| whole.is_none()));
    let begin = spans().map(|r| scale.host_ns(r.start)).min()?;
    let end = spans().map(|r| scale.host_ns(r.end)).max()?;
    let parts: Vec<_> = records.iter().filter(|r| r.record_kind != record_kind::SUBMISSION).collect();
    let labels = node_names(&parts, &names.nodes);
    let times = parts.iter().zip(labels).map(|(r, node)| node_time(r, node, counters, scale, names, begin));
    let nodes = times.collect();
    Some(Profile { begin: clock::moment_of(begin), end: clock::moment_of(end.max(begin)), nodes })
}

fn node_time(
    r: &ProfileRecordV1,
    node: String,
    counters: &[ProfileCounterV1],
    scale: Scale,
    names: &Names,
    begin: u64,
) -> NodeTime {
    // What the record says may be the beginning of what is known, or nothing.
    let said = text_of(&r.kernel);
    let known = names.kernels.get(&node).filter(|k| k.starts_with(said.as_str()));
    let kernel = known.cloned().unwrap_or_else(|| foreign::printable(&said));
    let ticks = r.end.saturating_sub(r.start);
    NodeTime {
        node,
        kernel,
        kind: match r.record_kind {
            record_kind::COPY => WorkKind::Copy,
            record_kind::WAIT => WorkKind::Wait,
            _ => WorkKind::Dispatch,
        },
        start_ns: scale.host_ns(r.start).saturating_sub(begin),
        duration_ns: scale.duration_ns(ticks),
        cycles: cycles(r, counters).unwrap_or(if scale.counts_ns() { 0 } else { ticks }),
        bytes: r.bytes,
    }
}

/// The counter `cycles` of a record.
fn cycles(r: &ProfileRecordV1, counters: &[ProfileCounterV1]) -> Option<u64> {
    let first = r.counter_first as usize;
    let own = counters.get(first..first.checked_add(r.counter_count as usize)?)?;
    own.iter().find(|c| text_of(&c.name) == "cycles").map(|c| c.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::copy_text;

    fn record(node: u32, start: u64, end: u64) -> ProfileRecordV1 {
        ProfileRecordV1 { node, start, end, record_kind: record_kind::DISPATCH, ..ProfileRecordV1::blank() }
    }

    fn names() -> Names {
        let kernels = HashMap::from([("conv".to_owned(), "gemm".to_owned())]);
        Names { nodes: vec!["pool".into(), "conv".into()], kernels }
    }

    #[test]
    fn ticks_become_nanoseconds_of_the_host() {
        let reading = |ticks, host_ns| ClockReading { ticks, host_ns };
        // 4 ns per tick.
        let scale = Scale::between(reading(1_000, 10_000), reading(2_000, 14_000));
        let profile = convert(&[record(1, 1_500, 1_510), record(0, 1_520, 1_530)], &[], scale, &names()).unwrap();
        assert_eq!(profile.begin, clock::moment_of(12_000));
        assert_eq!(profile.end, clock::moment_of(12_120));
        let first = &profile.nodes[0];
        assert_eq!((first.node.as_str(), first.kernel.as_str()), ("conv", "gemm"));
        assert_eq!((first.start_ns, first.duration_ns, first.cycles), (0, 40, 10));
        assert_eq!((profile.nodes[1].start_ns, profile.nodes[1].kernel.as_str()), (80, ""));
    }

    #[test]
    fn the_driver_s_own_words_and_the_whole_submission_come_first() {
        let scale = Scale { at: ClockReading { ticks: 100, host_ns: 100 }, ns_per_tick: 1.0 };
        let mut own = record(1, 20, 30);
        copy_text(&mut own.label, "conv+relu");
        copy_text(&mut own.kernel, "gemm_4x4");
        let whole = ProfileRecordV1 { record_kind: record_kind::SUBMISSION, ..record(0, 10, 90) };
        let profile = convert(&[whole, own], &[], scale, &names()).unwrap();
        assert_eq!((profile.begin, profile.end), (clock::moment_of(10), clock::moment_of(90)));
        let node = &profile.nodes[0];
        assert_eq!((profile.nodes.len(), node.node.as_str(), node.kernel.as_str()), (1, "conv+relu", "gemm_4x4"));
        assert_eq!(node.start_ns, 10);
    }

    #[test]
    fn counters_and_nonsense_are_handled() {
        let scale = Scale { at: ClockReading { ticks: 100, host_ns: 100 }, ns_per_tick: 1.0 };
        let mut counter = ProfileCounterV1::blank();
        copy_text(&mut counter.name, "cycles");
        counter.value = 77;
        let counted = ProfileRecordV1 { counter_count: 1, ..record(9, 10, 20) };
        let outside = ProfileRecordV1 { counter_first: u32::MAX, counter_count: u32::MAX, ..record(0, 30, 25) };
        let profile = convert(&[counted, outside], &[counter], scale, &names()).unwrap();
        assert_eq!((profile.nodes[0].cycles, profile.nodes[0].node.as_str()), (77, "node 9"));
        assert_eq!((profile.nodes[1].cycles, profile.nodes[1].duration_ns), (0, 0));
        assert!(convert(&[], &[], scale, &names()).is_none());
    }
}

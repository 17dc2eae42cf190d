//! `ottava.profile/1`: times of submissions as plain records.
//!
//! Ticks are nanoseconds since the driver was made. The first record is the submission as a whole.

use crate::device::{DeviceHandle, handle, on_device};
use crate::guard::{check_out, fill};
use crate::work::QueueHandle;
use ottava_abi::{
    Device, ErrorV1, ProfileCounterV1, ProfileRecordV1, ProfileV1, Queue, Table, copy_text, index, record_kind,
};
use ottava_hal::device::{NodeTime, Profile};
use ottava_hal::{Error, Result, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Profiles that are kept for a second reading, and submissions whose names are kept.
const KEPT: usize = 64;

/// Name of the counter of device cycles.
const CYCLES: &str = "cycles";

/// Ids of nodes by name, per dispatched executable.
pub(crate) type Names = Vec<Arc<BTreeMap<String, u32>>>;

/// What a queue remembers of profiled submissions.
#[derive(Default)]
pub(crate) struct Profiles {
    names: VecDeque<(u64, Names)>,
    read: VecDeque<(u64, Arc<Records>)>,
}

/// The answer to `read` and `counters`.
struct Records {
    records: Vec<ProfileRecordV1>,
    counters: Vec<ProfileCounterV1>,
}

impl Profiles {
    /// Remembers the names of a submission's nodes.
    pub(crate) fn submitted(&mut self, id: u64, names: Names) {
        if self.names.len() == KEPT {
            self.names.pop_front();
        }
        self.names.push_back((id, names));
    }

    fn node_id(&self, submission: u64, name: &str) -> u32 {
        let names = self.names.iter().find(|(id, _)| *id == submission);
        let id = names.and_then(|(_, lists)| lists.iter().find_map(|list| list.get(name)));
        id.copied().unwrap_or(index::NONE)
    }
}

/// The records of a submission: those read before, or what the queue has.
fn records(d: &DeviceHandle, queue: &QueueHandle, submission: u64) -> Result<Arc<Records>> {
    let mut profiles = queue.profiles.lock();
    if let Some((_, records)) = profiles.read.iter().find(|(id, _)| *id == submission) {
        return Ok(Arc::clone(records));
    }
    let gone = || {
        Error::failed(
            Status::NotFound,
            format!("no profile of submission {submission}; it was not profiled, is not done or is too old"),
        )
    };
    let profile = queue.queue.take_profile(submission).ok_or_else(gone)?;
    let records = Arc::new(convert(&profile, d.cx.epoch, |name| profiles.node_id(submission, name)));
    if profiles.read.len() == KEPT {
        profiles.read.pop_front();
    }
    profiles.read.push_back((submission, Arc::clone(&records)));
    Ok(records)
}

fn ticks(epoch: Instant, at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(epoch).as_nanos()).unwrap_or(u64::MAX)
}

fn convert(profile: &Profile, epoch: Instant, node_id: impl Fn(&str) -> u32) -> Records {
    let begin = ticks(epoch, profile.begin);
    let mut whole = ProfileRecordV1 { node: index::NONE, ..ProfileRecordV1::blank() };
    (whole.record_kind, whole.start, whole.end) = (record_kind::SUBMISSION, begin, ticks(epoch, profile.end));
    let mut all = Records { records: vec![whole], counters: Vec::new() };
    for time in &profile.nodes {
        let record = record(time, begin, node_id(&time.node), &mut all.counters);
        all.records.push(record);
    }
    all
}

fn record(time: &NodeTime, begin: u64, node: u32, counters: &mut Vec<ProfileCounterV1>) -> ProfileRecordV1 {
    let start = begin.saturating_add(time.start_ns);
    let mut record = ProfileRecordV1 {
        node,
        record_kind: time.kind as u32,
        start,
        end: start.saturating_add(time.duration_ns),
        bytes: time.bytes,
        counter_first: u32::try_from(counters.len()).unwrap_or(index::NONE),
        ..ProfileRecordV1::blank()
    };
    copy_text(&mut record.label, &time.node);
    copy_text(&mut record.kernel, &time.kernel);
    if time.cycles != 0 {
        let mut counter = ProfileCounterV1 { value: time.cycles, ..ProfileCounterV1::blank() };
        copy_text(&mut counter.name, CYCLES);
        counters.push(counter);
        record.counter_count = 1;
    }
    record
}

pub(crate) static TABLE: ProfileV1 =
    ProfileV1 { size: size_of::<ProfileV1>() as u32, kind: ProfileV1::KIND, enable, read, clock, counters };

unsafe extern "C" fn enable(device: *mut Device, flags: u64, err: *mut ErrorV1) -> i32 {
    let body = |d: &DeviceHandle| {
        if flags > 1 {
            return Err(Error::invalid(format!("flags {flags:#x}; 1 is on, 0 is off")));
        }
        d.profiling.store(flags == 1, Ordering::Relaxed);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("profile.enable", device, err, body) }
}

unsafe extern "C" fn read(
    device: *mut Device,
    queue: *mut Queue,
    submission: u64,
    cap: u32,
    out: *mut ProfileRecordV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host passes NULL or a queue of this device.
        let all = records(d, unsafe { handle(queue, "queue")? }, submission)?;
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill(cap, out, count, &all.records) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("profile.read", device, err, body) }
}

unsafe extern "C" fn clock(device: *mut Device, device_ticks: *mut u64, host_ns: *mut u64, err: *mut ErrorV1) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(device_ticks, "device_ticks")?;
        check_out(host_ns, "host_ns")?;
        let host = &d.cx.host;
        // SAFETY: both are checked above, and the host's table is valid until `shutdown`.
        unsafe {
            device_ticks.write(ticks(d.cx.epoch, Instant::now()));
            host_ns.write((host.now_ns)(host.user));
        }
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("profile.clock", device, err, body) }
}

unsafe extern "C" fn counters(
    device: *mut Device,
    queue: *mut Queue,
    submission: u64,
    cap: u32,
    out: *mut ProfileCounterV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host passes NULL or a queue of this device.
        let all = records(d, unsafe { handle(queue, "queue")? }, submission)?;
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill(cap, out, count, &all.counters) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("profile.counters", device, err, body) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::text_of;
    use ottava_hal::device::WorkKind;
    use std::time::Duration;

    #[test]
    fn records_are_ticks_and_cycles_are_a_counter() {
        let epoch = Instant::now();
        let time = |node: &str, kind, start_ns, cycles| {
            let (node, kernel) = (node.to_owned(), "k".to_owned());
            NodeTime { node, kernel, kind, start_ns, duration_ns: 5, cycles, bytes: 9 }
        };
        let begin = epoch + Duration::from_nanos(1000);
        let nodes = vec![time("dma", WorkKind::Copy, 0, 0), time("conv", WorkKind::Dispatch, 20, 77)];
        let profile = Profile { begin, end: begin + Duration::from_nanos(30), nodes };
        let all = convert(&profile, epoch, |name| if name == "conv" { 3 } else { index::NONE });
        let seen: Vec<_> = all.records.iter().map(|r| (r.record_kind, r.node, r.start, r.end)).collect();
        let (whole, copy) =
            ((record_kind::SUBMISSION, index::NONE, 1000, 1030), (record_kind::COPY, index::NONE, 1000, 1005));
        assert_eq!(seen, [whole, copy, (record_kind::DISPATCH, 3, 1020, 1025)]);
        assert_eq!(
            all.records.iter().map(|r| (r.counter_first, r.counter_count)).collect::<Vec<_>>(),
            [(0, 0), (0, 0), (0, 1)]
        );
        assert_eq!(
            all.counters.iter().map(|c| (text_of(&c.name), c.value)).collect::<Vec<_>>(),
            [("cycles".into(), 77)]
        );
    }
}

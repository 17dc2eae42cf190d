//! Timestamps of the device as times of nodes.
//!
//! The device counts ticks; where it offers calibrated timestamps, one reading of its clock beside the host's says when a
//! tick was. Elsewhere the last tick is taken as the moment at which the end was noticed.

use crate::executable::VulkanExecutable;
use crate::gpu::Gpu;
use crate::job::Job;
use ash::vk;
use ottava_gpu::Step;
use ottava_hal::Result;
use ottava_hal::device::{NodeTime, Profile, WorkKind};
use std::time::{Duration, Instant};

/// A span of ticks of one node.
struct Span {
    node: Option<usize>,
    begin: u64,
    end: u64,
}

/// The times of a finished job.
pub(crate) fn read(gpu: &Gpu, job: &Job) -> Result<Profile> {
    let (host_now, device_now) = now(gpu);
    let mut works = Vec::new();
    for work in &job.works {
        let exe = work.executable.as_ref().and_then(|e| e.as_any().downcast_ref::<VulkanExecutable>());
        if let Some(exe) = exe {
            works.push((exe, spans(gpu, exe, work.commands.queries)?));
        }
    }
    let all = || works.iter().flat_map(|(_, spans)| spans);
    let last = all().map(|s| s.end).max().unwrap_or(0);
    let first = all().map(|s| s.begin).min().unwrap_or(last);
    let tick = f64::from(gpu.found.traits.tick_ns);
    let ns = |ticks: u64| (ticks as f64 * tick) as u64;
    let reference = device_now.unwrap_or(last);
    let before = |ticks: u64| host_now.checked_sub(Duration::from_nanos(ns(reference.saturating_sub(ticks))));
    let begin = before(first).unwrap_or(host_now);
    let mut profile = Profile { begin, end: before(last).unwrap_or(host_now), nodes: Vec::new() };
    for (exe, spans) in &works {
        for span in spans {
            let named = span.node.and_then(|n| exe.recipe().kernels.get(n));
            let (node, kernel) = named.cloned().unwrap_or_else(|| ("inputs and outputs".into(), "copy".into()));
            profile.nodes.push(NodeTime {
                node,
                kernel,
                kind: if span.node.is_some() { WorkKind::Dispatch } else { WorkKind::Copy },
                start_ns: ns(span.begin - first),
                duration_ns: ns(span.end - span.begin),
                cycles: span.end - span.begin,
                bytes: 0,
            });
        }
    }
    Ok(profile)
}

/// The clocks of host and device at one moment; without the device's where it cannot be read.
fn now(gpu: &Gpu) -> (Instant, Option<u64>) {
    let Some(calibrated) = &gpu.calibrated else { return (Instant::now(), None) };
    let wanted = [vk::CalibratedTimestampInfoEXT::default().time_domain(vk::TimeDomainEXT::DEVICE)];
    // SAFETY: the extension is enabled, and every device that has it knows its own clock.
    let read = unsafe { calibrated.get_calibrated_timestamps(&wanted) };
    (Instant::now(), read.ok().and_then(|(ticks, _)| ticks.first().copied()))
}

/// The spans of an executable's steps, those of one node that follow each other joined.
fn spans(gpu: &Gpu, exe: &VulkanExecutable, queries: vk::QueryPool) -> Result<Vec<Span>> {
    let steps = &exe.recipe().steps;
    let mut ticks = vec![0u64; 2 * steps.len()];
    if ticks.is_empty() || queries == vk::QueryPool::null() {
        return Ok(Vec::new());
    }
    // SAFETY: the pool has two queries per step, and the submission that wrote them is done.
    let read = unsafe { gpu.raw.get_query_pool_results(queries, 0, &mut ticks, vk::QueryResultFlags::TYPE_64) };
    read.map_err(|e| gpu.error("timestamps", e))?;
    let bits = gpu.found.traits.tick_bits;
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let mut spans: Vec<Span> = Vec::new();
    for (step, pair) in steps.iter().zip(ticks.chunks_exact(2)) {
        let node = match step {
            Step::Dispatch(launch) => Some(launch.node),
            Step::Copy { .. } => None,
        };
        let (begin, end) = (pair[0] & mask, pair[1] & mask);
        match spans.last_mut().filter(|s| s.node == node) {
            Some(last) => last.end = last.end.max(end),
            None => spans.push(Span { node, begin, end: end.max(begin) }),
        }
    }
    Ok(spans)
}

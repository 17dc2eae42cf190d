//! H.7: times of submissions.

use super::Group;
use crate::kit::{Net, Work, basis, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::device::Profile;
use std::time::Instant;

pub(super) const GROUP: Group = Group {
    id: "H.7",
    name: "obs.profile",
    about: "times are in order and within the run, names are those of nodes, profiles are kept only where asked for",
    cases: |_| {
        vec![
            Case::new("H.7", "obs.profile.times", times),
            Case::new("H.7", "obs.profile.names", names),
            Case::new("H.7", "obs.profile.taken_once", taken_once),
            Case::new("H.7", "obs.profile.not_asked", not_asked),
        ]
    },
};

/// A profiled run: the profile, the work, and when the run began and was seen to end.
fn profiled(subject: &Subject) -> Result<(Profile, Work, Instant, Instant), Stop> {
    let device = subject.open()?;
    let work = Work::new(&*device, Net::chain(&basis(&*device, 1024)?, 12), subject.seed)?;
    let (queue, mut bound) = (device.create_queue()?, work.bind(&*device)?);
    let fence = bound.signal(&*device)?;
    bound.submission.profile = true;
    let begin = Instant::now();
    let id = queue.submit(&bound.submission)?;
    done(&*fence, 1, "a profiled submission")?;
    let end = Instant::now();
    bound.check(&work)?;
    let none = || Stop::Unsupported("the driver keeps no profiles".into());
    let profile = queue.take_profile(id).ok_or_else(none)?;
    Ok((profile, work, begin, end))
}

fn times(subject: &Subject) -> Check {
    let (profile, _, begin, end) = profiled(subject)?;
    ensure!(profile.begin <= profile.end, "the run ends before it begins");
    ensure!(profile.begin >= begin, "the run begins before it was submitted");
    // The signal may be seen a moment before the last time is taken, never long before.
    let slack = std::time::Duration::from_secs(1);
    ensure!(profile.end <= end + slack, "the run ends long after its signal");
    let wall = (profile.end - profile.begin).as_nanos() as u64;
    let mut sum = 0u64;
    for node in &profile.nodes {
        let stop = node.start_ns.saturating_add(node.duration_ns);
        ensure!(stop <= wall + 1_000_000, "`{}` ends {stop} ns after the beginning of a run of {wall} ns", node.node);
        sum = sum.saturating_add(node.duration_ns);
    }
    ensure!(sum <= wall + 1_000_000, "the nodes take {sum} ns, the run {wall} ns");
    let sorted = profile.nodes.is_sorted_by_key(|n| n.start_ns);
    ensure!(sorted, "nodes that run one after the other are not in order");
    Ok(())
}

fn names(subject: &Subject) -> Check {
    let (profile, work, ..) = profiled(subject)?;
    ensure!(!profile.nodes.is_empty(), "a profile without nodes");
    for time in &profile.nodes {
        // Nodes that run as one are named together.
        let known = work.program.nodes.iter().any(|n| time.node.contains(n.name.as_str()));
        ensure!(known, "the profile names `{}`, which is no node of the program", time.node);
    }
    Ok(())
}

fn taken_once(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, work) = (device.create_queue()?, Work::small(&*device, subject.seed)?);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut bound = work.bind(&*device)?;
        let fence = bound.signal(&*device)?;
        bound.submission.profile = true;
        ids.push(queue.submit(&bound.submission)?);
        done(&*fence, 1, "a profiled submission")?;
    }
    if queue.take_profile(ids[1]).is_none() {
        return Err(Stop::Unsupported("the driver keeps no profiles".into()));
    }
    ensure!(queue.take_profile(ids[1]).is_none(), "a profile can be taken twice");
    ensure!(queue.take_profile(ids[0]).is_some(), "taking one profile loses another one");
    ensure!(queue.take_profile(ids[2] + 1000).is_none(), "there is a profile of a submission that never was");
    Ok(())
}

fn not_asked(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, work) = (device.create_queue()?, Work::small(&*device, subject.seed)?);
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    let id = queue.submit(&bound.submission)?;
    done(&*fence, 1, "a submission")?;
    ensure!(queue.take_profile(id).is_none(), "a profile is kept of a submission that did not ask for one");
    Ok(())
}

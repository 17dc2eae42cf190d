//! H.4: random programs on random queues, and what they leave behind.

use super::Group;
use crate::kit::{Bound, Holdings, Net, Rng, Work, basis, done};
use crate::{Case, Check, Stop, Subject};
use ottava_hal::{Device, Program, Tensor, TensorType};
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "H.4",
    name: "robust.stress",
    about: "random valid programs, several at once, are right every time and leave nothing behind",
    cases: |_| {
        vec![
            Case::new("H.4", "robust.stress.random", random),
            Case::new("H.4", "robust.stress.repeat", repeat),
            Case::new("H.4", "robust.stress.no_leak", no_leak),
        ]
    },
};

/// A net of additions of whatever is there already.
fn random_net(ty: &TensorType, rng: &mut Rng) -> Program {
    let mut net = Net::new(ty);
    let mut values: Vec<_> = (0..1 + rng.below(3)).map(|_| net.input()).collect();
    let first = values.len();
    let bytes: Vec<u8> = (0..ty.byte_len().unwrap_or(0)).map(|_| rng.below(64) as u8).collect();
    let tensor = Tensor::from_bytes(ty.dtype, &ty.shape.known().unwrap_or_default(), &bytes);
    let constant = tensor.ok().filter(|_| rng.below(2) == 0).map(|t| net.constant(t));
    for i in 0..1 + rng.below(12) {
        let (a, b) = (values[rng.below(values.len())], values[rng.below(values.len())]);
        // The sum of two constants is no work for a device.
        values.push(net.add(a, constant.filter(|_| i % 3 == 0).unwrap_or(b)));
    }
    let n = 1 + rng.below(3);
    let outputs: Vec<_> = values[first..].iter().rev().take(n).copied().collect();
    net.finish(&outputs)
}

/// Rounds of several programs, each on one of three queues, all in flight at once.
fn random(subject: &Subject) -> Check {
    let device = subject.open()?;
    let mut rng = Rng::new(subject.seed);
    let queues = (0..3).map(|_| device.create_queue()).collect::<ottava_hal::Result<Vec<_>>>()?;
    let rounds = if subject.stress { 5000 } else { 25 };
    for round in 0..rounds {
        let mut flight: Vec<(Work, Bound, Arc<dyn ottava_hal::Fence>)> = Vec::new();
        for i in 0..6 {
            let ty = basis(&*device, 1 + rng.below(70))?;
            let work = Work::new(&*device, random_net(&ty, &mut rng), rng.bits())?;
            let mut bound = work.bind(&*device)?;
            if let Some((_, _, before)) = flight.last().filter(|_| rng.below(2) == 0) {
                bound.submission.waits.push((before.clone(), 1));
            }
            let fence = bound.signal(&*device)?;
            queues[(round + i) % 3].submit(&bound.submission)?;
            flight.push((work, bound, fence));
        }
        for (work, bound, fence) in &flight {
            let seed = subject.seed;
            let named = |e: Stop| match e {
                Stop::Failed(why) => Stop::Failed(format!("round {round} of seed {seed}: {why}")),
                other => other,
            };
            done(&**fence, 1, "a random program").and_then(|()| bound.check(work)).map_err(named)?;
        }
    }
    Ok(())
}

/// The same run many times: always the same bits.
fn repeat(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let n = if subject.stress { 20_000 } else { 300 };
    for i in 0..n {
        work.run(&*device).map_err(|e| Stop::failed(format!("run {i} of {n} on the same data: {e:?}")))?;
    }
    Ok(())
}

fn no_leak(subject: &Subject) -> Check {
    let device = subject.open()?;
    let cycle = |device: &dyn Device| -> Check {
        let ty = basis(device, 4096)?;
        let work = Work::new(device, Net::chain(&ty, 2), subject.seed)?;
        work.run(device)
    };
    (0..30).try_for_each(|_| cycle(&*device))?;
    let before = Holdings::now()?;
    (0..150).try_for_each(|_| cycle(&*device))?;
    before.returned("150 programs that were compiled, run and dropped")
}

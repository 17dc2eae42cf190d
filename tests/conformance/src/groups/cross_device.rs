//! D.4: work that goes to and fro between the device and the reference, over a proxy timeline on each side.

use super::Group;
use crate::kit::{LIMIT, Work};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{Device, Error, Fence, Notify, Status};
use ottava_reference::ReferenceDevice;
use std::sync::Arc;

pub(super) const GROUP: Group = Group {
    id: "D.4",
    name: "fence.cross_device",
    about: "timelines of two devices follow each other through listeners, in values and in failures",
    cases: |_| {
        vec![
            Case::new("D.4", "fence.cross_device.ping_pong", ping_pong),
            Case::new("D.4", "fence.cross_device.failure", failure),
        ]
    },
};

/// Hands the news of one timeline on to another one: the token is the value.
struct Proxy(Arc<dyn Fence>);

impl Notify for Proxy {
    fn notified(&self, token: u64, result: Result<(), Error>) {
        match result {
            // A proxy that has passed or failed keeps what it has.
            Ok(()) => drop(self.0.signal(token)),
            Err(e) => self.0.fail(e),
        }
    }
}

/// A device with a timeline that its submissions signal, and one that stands for the other device's.
struct Side {
    device: Arc<dyn Device>,
    work: Work,
    mine: Arc<dyn Fence>,
    theirs: Arc<dyn Fence>,
}

impl Side {
    fn new(device: Arc<dyn Device>, seed: u64) -> Result<Self, Stop> {
        let work = Work::small(&*device, seed)?;
        let (mine, theirs) = (device.create_fence(0)?, device.create_fence(0)?);
        Ok(Self { device, work, mine, theirs })
    }

    /// Submits `rounds` steps, each of which waits for the other side.
    fn play(&self, rounds: u64, lead: u64) -> Check {
        let queue = self.device.create_queue()?;
        let mut steps = Vec::new();
        for i in 1..=rounds {
            let mut bound = self.work.bind(&*self.device)?;
            bound.submission.waits = if i > lead { vec![(self.theirs.clone(), i - lead)] } else { vec![] };
            bound.submission.signals = vec![(self.mine.clone(), i)];
            queue.submit(&bound.submission)?;
            steps.push(bound);
        }
        let end = self.mine.wait(rounds, LIMIT);
        end.map_err(|e| Stop::failed(format!("the ping-pong stops on `{}`: {e}", self.device.info().id)))?;
        steps.iter().try_for_each(|s| s.check(&self.work))
    }
}

fn connect(from: &Side, to: &Side, rounds: u64) {
    let proxy = Arc::new(Proxy(to.theirs.clone()));
    (1..=rounds).for_each(|i| from.mine.notify(i, proxy.clone(), i));
}

fn ping_pong(subject: &Subject) -> Check {
    const ROUNDS: u64 = 30;
    let device = Side::new(subject.open()?, subject.seed)?;
    let reference = Side::new(Arc::new(ReferenceDevice::new()), subject.seed + 1)?;
    connect(&device, &reference, ROUNDS);
    connect(&reference, &device, ROUNDS);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| reference.play(ROUNDS, 0));
        let mine = device.play(ROUNDS, 1);
        if mine.is_err() {
            // Nobody waits for what will not come.
            reference.theirs.fail(Error::failed(Status::Cancelled, "the other side has stopped"));
        }
        let theirs = other.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")));
        mine.and(theirs)
    })
}

fn failure(subject: &Subject) -> Check {
    let device = Side::new(subject.open()?, subject.seed)?;
    let reference = Side::new(Arc::new(ReferenceDevice::new()), subject.seed + 1)?;
    connect(&device, &reference, 3);
    device.mine.signal(1)?;
    reference.theirs.wait(1, LIMIT).map_err(|e| Stop::failed(format!("the proxy of 1 is not signalled: {e}")))?;
    device.mine.fail(Error::failed(Status::DeviceLost, "gone"));
    refused("a proxy of a failed timeline", reference.theirs.wait(3, LIMIT), Status::DeviceLost)?;
    ensure!(reference.mine.query().is_ok(), "the failure went further than its proxy");
    Ok(())
}

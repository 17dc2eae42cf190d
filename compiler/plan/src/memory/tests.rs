//! Sizes of known plans, and random plans run in random interleavings on a memory that remembers who wrote each byte.

use super::{ALIGN, arenas};
use crate::testing::{Net, Rng};
use crate::{Arena, Place, Plan, Work};
use ottava_hal::DataType;

#[test]
fn a_chain_on_one_device_needs_two_neighbours() {
    let mut net = Net::new(&["a"]);
    let mut x = vec![net.input(1000)];
    for _ in 0..9 {
        x = net.partition("a", &x, &[1000]);
    }
    let plan = net.finish(&x);
    let Arena { bytes, sum_bytes, lower_bound, .. } = plan.arenas[0];
    assert_eq!((bytes, sum_bytes, lower_bound), (2024, 9 * 1024 + 1000, 2000));
}

#[test]
fn a_copy_that_may_be_late_keeps_its_bytes() {
    let mut net = Net::new(&["a", "b"]);
    let x = net.input(64);
    let y = net.partition("a", &[x], &[64]);
    let other = net.partition("b", &y, &[64]);
    // Nothing makes the second run on `a` wait for the copy of `y` to `b`.
    let z = net.partition("a", &[x], &[64]);
    let plan = net.finish(&[other[0], z[0]]);
    let at = |slot: usize| plan.arenas[0].slots.iter().find(|(s, _)| *s == slot).unwrap().1;
    assert_ne!(at(y[0]), at(z[0]));
    assert_eq!(plan.arenas[0].bytes, 192);
}

#[test]
fn slots_of_unknown_size_have_no_place() {
    let mut net = Net::new(&["a"]);
    let x = net.input(10);
    let y = net.partition("a", &[x], &[20]);
    let ty = ottava_hal::TensorType::unranked(DataType::U8);
    net.plan.slots[y[0]].ty = ty.clone();
    net.plan.partitions[0].program.values[1].ty = ty;
    let plan = net.finish(&y);
    assert_eq!(plan.arenas[0].slots, [(x, 0)]);
}

#[test]
fn memory_that_no_machine_has_is_refused() {
    let mut net = Net::new(&["a"]);
    let x = net.input(usize::MAX / 2);
    let y = net.partition("a", &[x], &[usize::MAX / 2 + 1]);
    net.plan.outputs = y;
    assert!(net.plan.finish().unwrap_err().to_string().contains("exceeds this machine"));
}

/// Partitions on three devices that read some of the newest slots.
fn random_plan(rng: &mut Rng) -> Plan {
    let devices = ["a", "b", "c"];
    let mut net = Net::new(&devices);
    let mut slots: Vec<usize> = (0..1 + rng.below(2)).map(|_| net.input(1 + rng.below(300))).collect();
    for _ in 0..2 + rng.below(14) {
        let recent = slots.len().min(5);
        let mut inputs: Vec<usize> =
            (0..1 + rng.below(3)).map(|_| slots[slots.len() - 1 - rng.below(recent)]).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let sizes: Vec<usize> = (0..1 + rng.below(2)).map(|_| rng.below(400)).collect();
        slots.extend(net.partition(devices[rng.below(3)], &inputs, &sizes));
    }
    let outputs: Vec<usize> = slots[slots.len() - 1 - rng.below(2)..].to_vec();
    net.finish(&outputs)
}

/// What a step reads and writes, straight from the definition of its work.
fn touches(plan: &Plan, step: usize) -> [Vec<(usize, Place)>; 2] {
    match &plan.steps[step].work {
        Work::Run { partition } => {
            let p = &plan.partitions[*partition];
            let place = Place::Device(plan.devices.iter().position(|d| d.id == p.device).unwrap());
            let on = |slots: &[usize]| slots.iter().map(|s| (*s, place)).collect();
            [on(&p.inputs), on(&p.outputs)]
        }
        Work::Copy { slot, from, to } => [vec![(*slot, *from)], vec![(*slot, *to)]],
        other => panic!("{other:?}"),
    }
}

/// The arenas, each byte marked with the slot that was written last.
struct Memory<'p> {
    plan: &'p Plan,
    bytes: Vec<Vec<usize>>,
}

impl<'p> Memory<'p> {
    fn new(plan: &'p Plan) -> Self {
        Self { plan, bytes: plan.arenas.iter().map(|a| vec![usize::MAX; a.bytes]).collect() }
    }

    fn cells(&mut self, (slot, place): (usize, Place)) -> &mut [usize] {
        let Place::Device(d) = place else { return &mut [] };
        let (_, at) = self.plan.arenas[d].slots.iter().find(|(s, _)| *s == slot).unwrap();
        &mut self.bytes[d][*at..*at + self.plan.slots[slot].ty.byte_len().unwrap()]
    }

    fn has(&mut self, at: (usize, Place)) -> bool {
        self.cells(at).iter().all(|owner| *owner == at.0)
    }
}

/// Runs the steps in a random order that waits and queues allow; a step takes time, so others start meanwhile.
fn simulate(plan: &Plan, rng: &mut Rng) {
    let n = plan.steps.len();
    let (mut started, mut done) = (vec![false; n], vec![false; n]);
    let mut memory = Memory::new(plan);
    let queue = |i: usize| match plan.steps[i].work {
        Work::Run { partition } => Some(plan.partitions[partition].device.as_str()),
        _ => None,
    };
    while done.iter().any(|d| !d) {
        let i = rng.below(n);
        let [reads, writes] = touches(plan, i);
        let waited = plan.steps[i].waits.iter().all(|w| done[*w]);
        let turn = queue(i).is_none_or(|q| (0..i).all(|j| queue(j) != Some(q) || done[j]));
        if !started[i] && waited && turn {
            started[i] = true;
            writes.iter().for_each(|at| memory.cells(*at).fill(at.0));
            assert!(reads.iter().all(|at| memory.has(*at)), "step {i} reads what is overwritten");
        } else if started[i] && !done[i] {
            assert!(reads.iter().chain(&writes).all(|at| memory.has(*at)), "step {i} was overwritten while it ran");
            done[i] = true;
        }
    }
}

#[test]
fn no_interleaving_overwrites_what_is_needed() {
    let (mut bytes, mut sum) = (0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let plan = random_plan(&mut rng);
        for arena in &plan.arenas {
            assert!(arena.lower_bound <= arena.bytes && arena.bytes <= arena.sum_bytes, "{arena:?}");
            assert!(arena.slots.iter().all(|(_, at)| at.is_multiple_of(ALIGN)));
            (bytes, sum) = (bytes + arena.bytes, sum + arena.sum_bytes);
        }
        assert_eq!(arenas(&plan).unwrap(), plan.arenas, "another answer to the same question");
        for _ in 0..12 {
            simulate(&plan, &mut rng);
        }
    }
    assert!(bytes * 4 < sum * 3, "{bytes} of {sum} bytes: too little is shared");
}

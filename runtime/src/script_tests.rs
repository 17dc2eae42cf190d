//! Scripts of small plans.

#[allow(dead_code)] // The tests of the runner use the rest.
#[path = "../tests/fakes/net.rs"]
mod net;

use super::*;
use net::Net;

fn script(plan: &Plan, sync: &[bool]) -> Result<Script> {
    let kind = |p: &ottava_plan::Partition| {
        let sync_only = plan.device(&p.device).is_some_and(|d| sync[d]);
        PartitionKind { is_static: p.program.is_static(), sync_only }
    };
    Script::new(plan, &plan.partitions.iter().map(kind).collect::<Vec<_>>())
}

#[test]
fn queues_of_asynchronous_devices_have_turns() {
    let script = script(&Net::zigzag("a", "b"), &[true, false]).unwrap();
    let submits: Vec<Op> = script.ops.iter().copied().filter(|op| matches!(op, Op::Submit { .. })).collect();
    let submit = |partition, turn| Op::Submit { device: 1, partition, turn };
    assert_eq!(submits, [submit(1, 0), submit(3, 1)]);
    assert_eq!(script.ops.iter().filter(|op| matches!(op, Op::Call { device: 0, .. })).count(), 2);
    assert!(script.is_concurrent);
}

#[test]
fn a_plan_of_synchronous_devices_has_no_queues() {
    let script = script(&Net::zigzag("a", "b"), &[true, true]).unwrap();
    assert!(!script.is_concurrent && script.flow.turns.iter().all(Vec::is_empty));
}

#[test]
fn slots_that_share_bytes_keep_their_order() {
    // Two networks without a common value: only the memory plan relates them.
    let mut net = Net::new(&["a"]);
    let (x, y) = (net.input(64), net.input(64));
    for input in [x, y] {
        let out = net.run("a", &[input]);
        net.output(out);
    }
    let mut plan = net.finish();
    let step = |work: &Work| plan.steps.iter().position(|s| s.work == *work).unwrap();
    let (first, second) = (step(&Work::Run { partition: 0 }), step(&Work::Run { partition: 1 }));
    // The output of the second run takes the place of the input of the first.
    let at = |slot: usize| plan.arenas[0].slots.iter().position(|(s, _)| *s == slot).unwrap();
    let (theirs, mine) = (at(x), at(plan.partitions[1].outputs[0]));
    for i in 0..plan.arenas[0].slots.len() {
        plan.arenas[0].slots[i].1 = 64 * i;
    }
    plan.arenas[0].slots[mine].1 = plan.arenas[0].slots[theirs].1;
    plan.arenas[0].bytes = 64 * plan.arenas[0].slots.len();
    assert_eq!(plan.check(), Ok(()));
    let script = script(&plan, &[true]).unwrap();
    assert!(script.flow.dependents[first].contains(&second), "{:?}", script.flow);
}

#[test]
fn branches_and_loops_are_refused_by_name() {
    let mut plan = Net::zigzag("a", "a");
    let body = || Box::new(Plan::default());
    let work = Work::Loop { max_trips: None, condition: None, body: body(), inputs: vec![], outputs: vec![] };
    plan.steps.push(Step { name: "decode".into(), work, waits: vec![] });
    let error = script(&plan, &[true]).unwrap_err();
    assert!(error.to_string().contains("step `decode` is a branch or loop"), "{error}");
}

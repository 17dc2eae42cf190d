//! Plans that hold, and what is said about those that do not.

use crate::testing::{Net, slot};
use crate::{Alternative, Arena, MAX_DEPTH, Place, Plan, StateVar, Step, Work};
use ottava_hal::{DataType, Tensor, TensorType};

fn plan(inputs: Vec<usize>, outputs: Vec<usize>) -> Plan {
    Plan { slots: vec![slot("x", 1)], inputs, outputs, ..Plan::default() }
}

fn message(plan: &Plan) -> String {
    plan.check().unwrap_err().to_string()
}

#[test]
fn a_slot_is_written_once_and_before_it_is_read() {
    assert_eq!(plan(vec![0], vec![0]).check(), Ok(()));
    assert!(message(&plan(vec![], vec![0])).contains("never written"));
    assert!(plan(vec![0, 0], vec![]).check().is_err());
    assert!(plan(vec![7], vec![]).check().is_err());
}

#[test]
fn partitions_fit_their_slots_and_devices_are_known_once() {
    let good = chain();
    let mut bad = good.clone();
    bad.slots[1] = slot("y", 201);
    assert!(message(&bad).contains("slot 1 has 201 bytes, its program expects 200"));
    let mut fewer = good.clone();
    fewer.partitions[0].inputs.clear();
    assert!(message(&fewer).contains("another number of slots"));
    let mut twice = good.clone();
    twice.devices[1] = twice.devices[0].clone();
    assert!(message(&twice).contains("lists a device twice"));
    let mut many = good;
    many.devices = (0..1000).map(|i| crate::DeviceNeed { id: i.to_string(), ..many.devices[0].clone() }).collect();
    assert!(message(&many).contains("1000 devices"));
}

/// x -> a -> y -> b -> z.
fn chain() -> Plan {
    let mut net = Net::new(&["a", "b"]);
    let x = net.input(100);
    let y = net.partition("a", &[x], &[200]);
    let z = net.partition("b", &y, &[300]);
    net.finish(&z)
}

#[test]
fn data_is_in_its_place_before_it_is_read() {
    let good = chain();
    assert_eq!(good.check(), Ok(()));
    let names: Vec<&str> = good.steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["copy s0: host to a", "p0", "copy s1: a to b", "p1", "copy s2: b to host"]);
    for (step, wanted) in [(1, "slot 0 on a"), (2, "slot 1 on a"), (3, "slot 1 on b"), (4, "slot 2 on b")] {
        let mut bad = good.clone();
        bad.steps[step].waits.clear();
        let e = message(&bad);
        assert!(e.contains("before it is surely there") && e.contains(wanted), "{e}");
    }
    let mut twice = good.clone();
    twice.steps.push(good.steps[2].clone());
    assert!(message(&twice).contains("a second time"));
    let mut never = good.clone();
    never.steps.pop();
    assert!(message(&never).contains("no step brings output slot 2"));
    let mut idle = good.clone();
    idle.steps[3].work = Work::Run { partition: 0 };
    assert!(message(&idle).contains("runs 2 times"));
    let mut outside = good;
    outside.steps[0].work = Work::Copy { slot: 0, from: Place::Host, to: Place::Device(2) };
    assert!(message(&outside).contains("names what is not there"));
}

#[test]
fn arenas_keep_living_slots_apart() {
    let good = chain();
    let bad = |change: &dyn Fn(&mut Arena)| {
        let mut plan = good.clone();
        change(&mut plan.arenas[0]);
        message(&plan)
    };
    assert!(bad(&|a| a.slots[1].1 = a.slots[0].1).contains("share bytes"));
    assert!(bad(&|a| a.slots[1].1 += 8).contains("not aligned"));
    assert!(bad(&|a| a.bytes -= 1).contains("outside"));
    assert!(bad(&|a| a.slots.truncate(1)).contains("has no place"));
    assert!(bad(&|a| a.slots.push((2, 0))).contains("no step uses it"));
    let mut fewer = good.clone();
    fewer.arenas.pop();
    assert!(message(&fewer).contains("1 arenas for 2 devices"));
}

#[test]
fn states_live_on_the_host_between_runs() {
    let mut net = Net::new(&["a"]);
    let x = net.input(4);
    let h = net.state(8);
    let out = net.partition("a", &[x, h], &[4, 8]);
    net.keep(out[1]);
    let plan = net.finish(&out[..1]);
    assert_eq!(plan.check(), Ok(()));
    assert!(plan.steps.iter().any(|s| s.name == "copy s3: a to host"), "{:?}", plan.steps);
    let mut bad = plan;
    bad.states[0].initial = Tensor::zeros(DataType::F32, &[1]).unwrap();
    assert!(message(&bad).contains("state `h1`"));
}

/// A plan that hands its input through.
fn through() -> Plan {
    Plan { slots: vec![slot("x", 4)], inputs: vec![0], outputs: vec![0], ..Plan::default() }
}

/// A plan whose only step chooses between two bodies.
fn choice(then: Plan, otherwise: Plan) -> Plan {
    let condition = crate::Slot { name: "c".into(), ty: TensorType::fixed(DataType::Bool, &[]) };
    let work = Work::If {
        condition: 0,
        then: Box::new(then),
        otherwise: Box::new(otherwise),
        inputs: vec![1],
        outputs: vec![2],
    };
    Plan {
        slots: vec![condition, slot("x", 4), slot("y", 4)],
        inputs: vec![0, 1],
        outputs: vec![2],
        steps: vec![Step { name: "if".into(), work, waits: vec![] }],
        ..Plan::default()
    }
}

#[test]
fn bodies_fit_and_do_not_lie_too_deep() {
    assert_eq!(choice(through(), through()).check(), Ok(()));
    let none = Plan { inputs: vec![], outputs: vec![], ..through() };
    assert!(message(&choice(through(), none)).contains("does not fit"));
    let broken = Plan { outputs: vec![9], ..through() };
    assert!(message(&choice(broken, through())).contains("never written"));
    let nested = |depth: usize| {
        (0..depth).fold(through(), |inner, _| {
            let constants = vec![(0, Tensor::from_bools(&[], &[true]).unwrap())];
            Plan { constants, inputs: vec![1], ..choice(inner, through()) }
        })
    };
    assert_eq!(nested(MAX_DEPTH).check(), Ok(()));
    assert!(message(&nested(MAX_DEPTH + 1)).contains("deep"));
}

#[test]
fn alternatives_are_whole_plans_without_alternatives() {
    let inner = Alternative { lost: "a".into(), plan: through() };
    let mut plan = Plan { alternatives: vec![inner.clone()], ..through() };
    assert_eq!(plan.check(), Ok(()));
    plan.alternatives[0].plan.alternatives.push(inner);
    assert!(message(&plan).contains("no alternatives"));
}

#[test]
fn constants_have_the_type_of_their_slot() {
    let data = Tensor::from_slice(&[1], &[1u8]).unwrap();
    let mut plan = Plan { constants: vec![(0, data)], ..plan(vec![], vec![0]) };
    assert_eq!(plan.check(), Ok(()));
    plan.constants[0].1 = Tensor::scalar(1.0f32);
    assert!(message(&plan).contains("not its type"));
    plan.states.push(StateVar { name: "s".into(), input: 9, output: 9, initial: Tensor::scalar(1.0f32) });
    assert!(plan.check().is_err());
}

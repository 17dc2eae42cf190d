//! The table of planted faults, each in a program that is accepted otherwise.

use super::*;

/// One planted fault: what it is, the change, and a part of what the verifier must say.
type Planted = (&'static str, fn(&mut Stream), &'static str);

/// Deadlocks, races and accesses out of bounds, each in the product that is accepted otherwise. Where the order of a race
/// happens to put the read first, the verifier says that nothing has written the place.
const PLANTED: &[Planted] = &[
    ("deadlock: a load without its token", |s| s.commands[2].tokens.push_next = false, "deadlock"),
    ("deadlock: a product without its token", |s| s.commands[7].tokens.push_next = false, "deadlock"),
    ("deadlock: the vector unit passes nothing on", |s| s.commands[8].tokens.push_next = false, "deadlock"),
    ("deadlock: a load waits for a free token", |s| s.commands[1].tokens.pop_next = true, "deadlock"),
    ("deadlock: the array waits for the vector unit", |s| s.commands[7].tokens.pop_next = true, "deadlock"),
    ("deadlock: the vector unit waits for the store", |s| s.commands[8].tokens.pop_next = true, "deadlock"),
    ("deadlock: an event that nobody signals", |s| insert(s, 1, event(Opcode::Wait, 3, Queue::Ld)), "deadlock"),
    (
        "deadlock: a signal behind its own wait",
        |s| {
            insert(s, 1, event(Opcode::Wait, 3, Queue::Ex));
            insert(s, 9, event(Opcode::Signal, 3, Queue::Ex));
        },
        "deadlock",
    ),
    (
        "deadlock: two queues wait for each other",
        |s| {
            insert(s, 1, event(Opcode::Wait, 3, Queue::Ld));
            insert(s, 2, event(Opcode::Wait, 4, Queue::St));
            insert(s, 3, event(Opcode::Signal, 4, Queue::Ld));
            insert(s, 4, event(Opcode::Signal, 3, Queue::St));
        },
        "deadlock",
    ),
    (
        "deadlock: a queue full behind a wait",
        |s| {
            insert(s, 1, event(Opcode::Wait, 3, Queue::Vec));
            (0..40).for_each(|_| insert(s, 2, nop(Queue::Vec)));
            insert(s, 42, event(Opcode::Signal, 3, Queue::St));
        },
        "deadlock",
    ),
    ("tokens left: a load gives twice", |s| s.commands[1].tokens.push_next = true, "tokens or signals"),
    (
        "tokens left: a store frees what nobody waits for",
        |s| s.commands[10].tokens.push_prev = true,
        "tokens or signals",
    ),
    ("tokens left: a signal too many", |s| insert(s, 1, event(Opcode::Signal, 5, Queue::Ld)), "event 5"),
    (
        "an event of two queues",
        |s| {
            insert(s, 1, event(Opcode::Signal, 5, Queue::Ld));
            insert(s, 2, event(Opcode::Signal, 5, Queue::Ex));
            insert(s, 3, event(Opcode::Wait, 5, Queue::St));
            insert(s, 4, event(Opcode::Wait, 5, Queue::St));
        },
        "used by two queues",
    ),
    ("race: rows loaded while they are read", |s| drop(s.commands.splice(9..9, again(Local::a(0).bits()))), "race"),
    ("race: weights loaded while they are read", |s| drop(s.commands.splice(9..9, again(Local::w(4).bits()))), "race"),
    (
        "race: accumulators loaded while they are written",
        |s| {
            insert(s, 3, Inst::new(Opcode::Ld2d, 0, Local::acc(4).bits(), 0));
        },
        "write-after-write",
    ),
    (
        "race: the store does not wait for the product",
        |s| {
            s.commands[10].tokens.pop_prev = false;
            s.commands[8].tokens.push_next = false;
        },
        "acc+0",
    ),
    (
        "race: the product does not wait for the loads",
        |s| {
            s.commands[6].tokens.pop_prev = false;
            s.commands[2].tokens.push_next = false;
        },
        "+0",
    ),
    (
        "race: output read back before it is stored",
        |s| {
            let from = DramAddr { region: Region::Output, offset: 0 }.bits();
            let load = Inst::new(Opcode::Ld2d, from, Local::a(512).bits(), 0);
            drop(s.commands.splice(11..11, [Inst::set(Reg::Rowb, 64), load]));
        },
        "out+0",
    ),
    ("out of bounds: a load behind its region", |s| s.commands[0] = Inst::set(Reg::Rowb, 65), "memory in at 64"),
    (
        "out of bounds: a load behind the scratchpad",
        |s| s.commands[1].b = Local::a(262_140).bits(),
        "memory A at 262144",
    ),
    (
        "out of bounds: weights behind the scratchpad",
        |s| s.commands[6].a = Local::w(262_140).bits(),
        "memory W at 262144",
    ),
    (
        "out of bounds: products behind the accumulators",
        |s| s.commands[7].b = Local::acc(16_380).bits(),
        "memory acc at 16384",
    ),
    ("out of bounds: a store behind its region", |s| s.commands[9] = Inst::set(Reg::Rowb, 68), "memory out at 64"),
    (
        "out of bounds: strided rows behind the region",
        |s| {
            drop(s.commands.splice(1..1, [Inst::set(Reg::Rows, 3), Inst::set(Reg::Dstride, 32)]));
        },
        "memory in at 64",
    ),
    (
        "out of bounds: a store into the constants",
        |s| {
            s.commands[10].b = DramAddr { region: Region::Const, offset: 0 }.bits();
        },
        "region const is read only",
    ),
    ("unwritten: rows that nothing loaded", |s| s.commands[7].a = Local::a(4).bits(), "nothing has written"),
    ("unwritten: sums added to nothing", |s| s.commands[7].b |= 1 << 30, "nothing has written"),
    (
        "unwritten: scratch that nothing stored",
        |s| {
            s.commands[1].a = DramAddr { region: Region::Scratch, offset: 0 }.bits();
        },
        "nothing has written",
    ),
];

#[test]
fn every_planted_fault_is_found() {
    for (what, change, message) in PLANTED {
        let found = violations(change);
        assert!(found.iter().any(|v| v.to_string().contains(message)), "{what}: wanted `{message}`, found {found:?}");
    }
    let kinds = ["deadlock", "race", "out of bounds", "unwritten"];
    let n = kinds.map(|kind| PLANTED.iter().filter(|(what, ..)| what.starts_with(kind)).count());
    println!("planted: {} faults, all found ({kinds:?}: {n:?})", PLANTED.len());
    assert!(PLANTED.len() >= 20 && n.iter().all(|n| *n >= 3));
}

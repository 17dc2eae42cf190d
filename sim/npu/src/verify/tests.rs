//! One program per kind of violation, and programs that are right.

mod planted;

use super::*;
use crate::isa::{DramAddr, Inst, Local, Opcode, Reg, Region};
use crate::{NpuError, Program};

/// A program of loads, a product and a store, with tokens between neighbours.
fn product() -> Vec<Inst> {
    crate::asm::assemble(include_str!("../../tests/product.npu")).unwrap().commands
}

fn load(commands: Vec<Inst>, change: impl Fn(&mut Stream)) -> Result<Program, Vec<Violation>> {
    let config = NpuConfig::default();
    let mut stream = Stream { commands, constants: vec![1; 64], regions: [64; 4], ..Stream::default() };
    stream.nodes = vec![crate::isa::NodeMark { first: 3, node: 8 }];
    stream.config_hash = config.hash64();
    change(&mut stream);
    match Program::load(&config, stream) {
        Ok(program) => Ok(program),
        Err(NpuError::Rejected(violations)) => Err(violations),
        Err(other) => panic!("{other}"),
    }
}

/// The violations of the product after a change.
fn violations(change: impl Fn(&mut Stream)) -> Vec<Violation> {
    load(product(), change).err().unwrap_or_default()
}

#[track_caller]
fn expect(change: impl Fn(&mut Stream), index: usize, message: &str) {
    let found = violations(change);
    let hit = found.iter().any(|v| v.index == index && v.to_string().contains(message));
    assert!(hit, "wanted `{message}` at {index}, found {found:?}");
}

fn insert(s: &mut Stream, at: usize, inst: Inst) {
    s.commands.insert(at, inst);
}

fn event(op: Opcode, e: u32, queue: Queue) -> Inst {
    Inst::new(op, e, 0, 0).on(queue)
}

fn nop(queue: Queue) -> Inst {
    Inst::new(Opcode::Nop, 0, 0, 0).on(queue)
}

/// Loads of four bytes at a place, without any order towards what is there.
fn again(at: u32) -> [Inst; 2] {
    [Inst::set(Reg::Rowb, 4), Inst::new(Opcode::Ld2d, 0, at, 0)]
}

#[test]
fn the_product_itself_is_accepted() {
    let program = load(product(), |_| {}).unwrap();
    assert!(program.timing().adds_up());
    assert_eq!(program.static_counters().macs, 64);
}

#[test]
fn v1_header() {
    expect(|s| s.config_hash ^= 1, 0, "made for configuration");
    expect(|s| s.constants.push(0), 0, "65 bytes, region const only 64");
    expect(|s| _ = s.commands.pop(), 10, "does not finish with END");
    expect(|s| s.commands.push(Inst::set(Reg::M, 1)), 12, "goes on after END");
}

#[test]
fn bounds_shapes_and_types() {
    expect(|s| s.commands[0] = Inst::set(Reg::Rowb, 65), 1, "ends at 65, memory in at 64");
    expect(|s| s.commands[0] = Inst::set(Reg::Rowb, 0), 1, "expected a positive size");
    expect(|s| s.commands[1].b = Local::a(262_140).bits(), 1, "ends at 262156, memory A at 262144");
    expect(|s| s.commands[7].b = Local::acc(16_380).bits(), 7, "memory acc at 16384; use a smaller tile");
    expect(|s| s.commands[10].b = 0, 10, "region in is read only");
    expect(|s| s.commands[4] = Inst::set(Reg::DtypeW, 3), 6, "the weights has type s16");
    expect(|s| s.commands[3] = Inst::set(Reg::PitchW, 3), 6, "rows of 4 at a pitch of 3");
    expect(|s| s.commands[3] = Inst::set(Reg::Za, 200), 7, "ZA is 200");
    expect(|s| s.commands[6] = Inst::new(Opcode::Nop, 0, 0, 0).on(Queue::Ex).pop_prev(), 7, "without a PRELOAD");
    expect(|s| s.commands[7].a = Local::acc(0).bits(), 7, "must lie in a scratchpad");
    let node = violations(|s| s.commands[7].b = Local::acc(16_380).bits());
    assert!(node[0].to_string().starts_with("instruction 7 (node 8): "), "{}", node[0]);
}

#[test]
fn v2_tokens_events_and_deadlock() {
    expect(|s| s.commands[2].tokens.push_next = false, 6, "deadlock: no queue can go on; waiting at 6 PRELOAD in ex");
    expect(|s| s.commands[1].tokens.push_next = true, 10, "1 tokens or signals of ld -> ex");
    expect(|s| s.commands[8].tokens.push_prev = true, 10, "vec -> ex");
    let event = |op, queue| Inst::new(op, 5, 0, 0).on(queue);
    expect(|s| s.commands.insert(1, event(Opcode::Signal, Queue::Ld)), 11, "event 5");
    expect(|s| s.commands.insert(1, event(Opcode::Wait, Queue::Ld)), 1, "deadlock");
    let shared = |s: &mut Stream| {
        let signals = [Queue::Ld, Queue::Ex].map(|q| event(Opcode::Signal, q));
        let waits = [event(Opcode::Wait, Queue::St), event(Opcode::Wait, Queue::St)];
        s.commands.splice(1..1, signals.into_iter().chain(waits));
    };
    expect(shared, 2, "event 5 is used by two queues");
    // A full counter stops the queue that gives: 16 pushes before the first pop never end.
    let flood = |s: &mut Stream| {
        let nop = Inst::new(Opcode::Nop, 0, 0, 0);
        let waits = event(Opcode::Wait, Queue::Ex);
        let signal = event(Opcode::Signal, Queue::Ld);
        let pushes = std::iter::repeat_n(nop.push_next(), 16);
        let pops = std::iter::repeat_n(nop.on(Queue::Ex).pop_prev(), 16);
        s.commands.splice(1..1, std::iter::once(waits).chain(pushes).chain([signal]).chain(pops));
    };
    expect(flood, 1, "deadlock");
}

#[test]
fn fences_need_no_partner() {
    let fenced = |s: &mut Stream| {
        s.commands.insert(1, Inst::new(Opcode::Wait, 40, 0, 0));
        s.commands.insert(2, Inst::new(Opcode::Signal, 41, 0, 0));
    };
    assert!(violations(fenced).is_empty());
}

#[test]
fn v3_races_of_all_three_kinds() {
    // Without the token the store reads accumulators while the array may write them.
    let unordered = |s: &mut Stream| {
        s.commands[10].tokens.pop_prev = false;
        s.commands[8].tokens.push_next = false;
    };
    let found = violations(unordered);
    let text = format!("{found:?}");
    assert!(text.contains("Race") || text.contains("Unwritten"), "{text}");
    // Overwrites the rows that the product reads.
    let again = Inst::new(Opcode::Ld2d, 0, Local::a(0).bits(), 0);
    let war = |s: &mut Stream| s.commands.splice(9..9, [Inst::set(Reg::Rowb, 4), again]).for_each(drop);
    let found = violations(war);
    assert!(found.iter().any(|v| matches!(&v.fault, Fault::Race { space: "A", .. })), "{found:?}");
    // Writes accumulators that the product writes.
    let waw = |s: &mut Stream| s.commands.insert(3, Inst::new(Opcode::Ld2d, 0, Local::acc(4).bits(), 0));
    let found = violations(waw);
    let is_waw = |v: &Violation| matches!(v.fault, Fault::Race { kind: "write-after-write", .. });
    assert!(found.iter().any(is_waw), "{found:?}");
}

#[test]
fn v3_free_tokens_order_reuse() {
    // A second load into the same place, ordered behind the product by a free token.
    let reuse = |s: &mut Stream| {
        s.commands[7].tokens.push_prev = true;
        let nop = Inst::new(Opcode::Nop, 0, 0, 0).pop_next();
        let again = Inst::new(Opcode::Ld2d, 0, Local::a(0).bits(), 0);
        s.commands.splice(11..11, [Inst::set(Reg::Rowb, 16), nop, again]);
    };
    assert_eq!(violations(reuse), []);
}

#[test]
fn v4_reads_of_what_nothing_wrote() {
    expect(|s| s.commands[7].a = Local::a(4).bits(), 7, "the rows reads A+16, which nothing has written");
    expect(|s| s.commands[6].a = Local::w(1).bits(), 7, "the preloaded operand reads W+16");
    expect(|s| s.commands[7].b |= 1 << 30, 7, "the accumulators reads acc+0");
    // Four channels need 48 bytes of table; the weights' 16 bytes are all there is.
    let short_table = |s: &mut Stream| {
        let requant = Inst::new(Opcode::Requant, Local::acc(0).bits(), Local::a(64).bits(), 0);
        s.commands[8] = requant.with(flags::PC).pop_prev().push_next();
        s.commands.insert(8, Inst::set(Reg::RqTable, Local::w(0).bits()));
    };
    expect(short_table, 9, "the requantizer's table reads W+16");
    let scratch = |s: &mut Stream| s.commands[1].a = DramAddr { region: Region::Scratch, offset: 0 }.bits();
    expect(scratch, 1, "the load reads scratch+0");
}

#[test]
fn v5_sums_fit_by_type() {
    let with = |k: u32, more: u32| {
        move |s: &mut Stream| {
            s.regions = [1 << 20; 4];
            let sizes = [(Reg::Rowb, k), (Reg::M, 1), (Reg::N, 1), (Reg::K, k), (Reg::DtypeA, 1)];
            let mut commands: Vec<Inst> = sizes.map(|(r, v)| Inst::set(r, v)).to_vec();
            commands.push(Inst::new(Opcode::Ld2d, 0, Local::a(0).bits(), 0));
            commands.push(Inst::new(Opcode::Ld2d, 0, Local::w(0).bits(), 0).push_next());
            commands.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0).pop_prev());
            commands.push(Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0));
            for _ in 0..more {
                commands.push(Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc_add(0).bits(), 0));
            }
            commands.push(Inst::new(Opcode::End, 0, 0, 0));
            s.commands = commands;
        }
    };
    // u8 times s8: 65 793 terms of 255 * 128 fit, 65 794 do not; a second pass of 32 897 is one too many.
    assert!(violations(with(65_793, 0)).is_empty());
    expect(with(65_794, 0), 8, "ACC_OVERFLOW: the sum may reach 2147516160");
    assert!(violations(with(32_896, 1)).is_empty());
    expect(with(32_897, 1), 9, "ACC_OVERFLOW");
}

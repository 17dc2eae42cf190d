//! Random command streams: every one gives a result or an error, in bounded time and memory.

use super::conv::Conv;
use crate::isa::regs::REGS;
use crate::isa::table::OPS;
use crate::isa::{Inst, Opcode, OperandKind, Queue, Reg, Stream, Tokens};
use crate::testing::{Rng, run};
use crate::{NpuConfig, NpuError, Program};
use ottava_hal::refmath::RequantMode;

fn small() -> NpuConfig {
    NpuConfig::parse(
        "Npu(array: (rows: 8, cols: 8), sram: (a: (bytes: 2048), w: (bytes: 2048), acc: (bytes: 2048)), \
         watchdog_cycles: 2000000)",
    )
    .unwrap()
}

/// A value that is often small, sometimes extreme, sometimes anything.
fn number(rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => 0,
        1..=4 => rng.below(9) as u32,
        5 => rng.below(300) as u32,
        6 => [u32::MAX, i32::MAX as u32, i32::MIN as u32, 1 << 24, 1 << 16][rng.below(5) as usize],
        _ => rng.next() as u32,
    }
}

fn operand(rng: &mut Rng, kind: OperandKind) -> u32 {
    match kind {
        OperandKind::None => 0,
        OperandKind::Reg => rng.below(REGS.len() as u64) as u32,
        OperandKind::Event => rng.below(8) as u32,
        OperandKind::Dram => (rng.below(4) as u32) << 29 | rng.below(600) as u32,
        OperandKind::Local => {
            let space = [0, 1 << 28, 1 << 31, 3 << 30, 5 << 29][rng.below(5) as usize];
            space | rng.below(400) as u32
        }
        OperandKind::Value | OperandKind::Number => number(rng),
    }
}

/// A stream of instructions that are valid one by one.
fn stream(rng: &mut Rng, config: &NpuConfig) -> Stream {
    let n = 1 + rng.below(40);
    let mut commands = Vec::new();
    for _ in 0..n {
        // Half of the instructions set registers to plausible values.
        let info = if rng.below(2) == 0 { Opcode::Set.info() } else { &OPS[rng.below(OPS.len() as u64) as usize] };
        let [a, b, c] = info.operands.map(|kind| operand(rng, kind));
        let mut inst = Inst { flags: rng.next() as u16 & info.flag_mask(), ..Inst::new(info.op, a, b, c) };
        if !info.is_control() {
            let queue = Queue::ALL[rng.below(4) as usize];
            inst.queue = if info.allows(queue) { queue } else { inst.queue };
            if rng.below(8) == 0 {
                inst.tokens = Tokens::from_bits(rng.below(16) as u8);
            }
        }
        commands.push(inst);
    }
    if rng.below(4) > 0 {
        commands.push(Inst::new(Opcode::End, 0, 0, 0));
    }
    Stream { commands, constants: rng.bytes(600), regions: [600; 4], nodes: vec![], config_hash: config.hash64() }
}

#[test]
fn ten_thousand_random_streams() {
    let config = small();
    let (mut ran, mut refused) = (0, 0);
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let input = rng.bytes(600);
        match run(&config, stream(&mut rng, &config), &input) {
            Ok(_) => ran += 1,
            Err(NpuError::Rejected(violations)) => {
                assert!(!violations.is_empty());
                refused += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(ran > 10, "some streams run: {ran} of {}", ran + refused);
}

#[test]
fn ten_thousand_changes_of_a_working_stream() {
    // Changes to a stream that does real work get past the verifier more often than random streams do.
    let config = NpuConfig { watchdog_cycles: Some(20_000_000), ..NpuConfig::default() };
    let conv = Conv { size: [4, 4], channels: [3, 4], batch: 1, ..Conv::small(RequantMode::Q31Double) };
    let mut rng = Rng::new(5);
    let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
    let good = conv.stream(&config, &constants, [3, 4], false);
    let mut ran = 0;
    for _ in 0..10_000 {
        let mut bad = good.clone();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bad.commands.len() as u64) as usize;
            let inst = &mut bad.commands[at];
            match rng.below(4) {
                0 => inst.a ^= 1 << rng.below(32),
                1 => inst.b = number(&mut rng),
                2 => inst.c ^= 1 << rng.below(32),
                _ => *inst = good.commands[rng.below(good.commands.len() as u64) as usize],
            }
        }
        ran += usize::from(run(&config, bad, &input).is_ok());
    }
    assert!(ran > 300, "many changes are harmless: {ran}");
}

#[test]
fn random_bytes_and_damaged_containers() {
    let config = small();
    let mut rng = Rng::new(77);
    for _ in 0..10_000 {
        let n = rng.below(200) as usize;
        assert!(Program::from_bytes(&config, &rng.bytes(n)).is_err());
    }
    let mut good = Stream { regions: [64; 4], config_hash: config.hash64(), ..Stream::default() };
    good.commands = vec![Inst::set(Reg::Rowb, 8), Inst::new(Opcode::Ld2d, 0, 0, 0), Inst::new(Opcode::End, 0, 0, 0)];
    let good = good.to_bytes(false);
    assert!(Program::from_bytes(&config, &good).is_ok());
    for _ in 0..10_000 {
        let mut bad = good.clone();
        let at = rng.below(bad.len() as u64) as usize;
        bad[at] = rng.next() as u8;
        // Any answer is fine; a panic is not.
        let _ = Program::from_bytes(&config, &bad);
    }
}

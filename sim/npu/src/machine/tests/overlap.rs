//! A double-buffered program: four queues at work at the same time, ordered by tokens alone.

use super::conv::dram;
use super::{entry, requant, target_registers};
use crate::config::{Dma, Dram, Overlap};
use crate::isa::{Dtype, Inst, Local, Opcode, Queue, Reg, Region, Stream, Tokens, flags};
use crate::testing::{Builder, Rng, run};
use crate::{Fault, NpuConfig, NpuError, Program};
use ottava_hal::refmath::{RequantMode, Target};

const TILES: u32 = 8;
const ROWS: u32 = 8;
const K: u32 = 32;
const N: u32 = 16;
const MODE: RequantMode = RequantMode::Fp32Rne;
const TARGET: Target = Target { scale: 1.0, zp: 3, lo: -128, hi: 127 };

/// Bytes of the input.
pub(super) const INPUT: usize = (TILES * ROWS * K) as usize;

pub(super) fn constants(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.bytes((K * N) as usize);
    bytes.extend((0..N).flat_map(|n| entry(MODE, 0.001 + n as f32 * 0.000_2, n as i32).0));
    bytes
}

fn expected(input: &[u8], constants: &[u8]) -> Vec<u8> {
    let (k, n) = (K as usize, N as usize);
    let mut out = Vec::new();
    for row in input.chunks_exact(k) {
        for j in 0..n {
            let sum: i32 = (0..k).map(|i| i32::from(row[i] as i8) * i32::from(constants[i * n + j] as i8)).sum();
            let multiplier = entry(MODE, 0.001 + j as f32 * 0.000_2, 0).1;
            out.push(requant(MODE, multiplier, TARGET).apply(sum + j as i32) as u8);
        }
    }
    out
}

/// Tile i of every stage uses half `i % 2` of its memories. A stage takes a ready token and, from its third tile on, a
/// free token of the stage behind; it gives a free token as long as a later tile waits for one.
pub(super) fn stream(config: &NpuConfig, constants: &[u8]) -> Stream {
    let mut b = Builder::new((TILES * ROWS * K) as usize, (TILES * ROWS * N) as usize, 0, constants.to_vec());
    b.set(&target_registers(Dtype::S8, TARGET)).set(&[(Reg::M, ROWS), (Reg::N, N), (Reg::K, K)]);
    b.set(&[(Reg::RqTable, Local::w(4096).bits()), (Reg::Rowb, K * N)]);
    let commands = &mut b.stream.commands;
    commands.push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
    commands.push(Inst::set(Reg::Rowb, 12 * N));
    commands.push(Inst::new(Opcode::Ld2d, dram(Region::Const, K * N), Local::w(4096).bits(), 0));
    commands.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0));
    for i in 0..TILES {
        let (a, acc, out) = (Local::a(i % 2 * 1024), Local::acc(i % 2 * 512), Local::a(8192 + i % 2 * 512));
        let again = i >= 2;
        let more = i + 2 < TILES;
        let inner = Tokens { pop_prev: true, pop_next: again, push_prev: more, push_next: true };
        let load = Inst::new(Opcode::Ld2d, dram(Region::Input, i * ROWS * K), a.bits(), 0);
        let product = Inst::new(Opcode::Gemm, a.bits(), acc.bits(), 0);
        let narrow = Inst::new(Opcode::Requant, acc.bits(), out.bits(), 0).with(flags::PC);
        let store = Inst::new(Opcode::St2d, out.bits(), dram(Region::Output, i * ROWS * N), 0);
        commands.extend([
            Inst::set(Reg::Rowb, ROWS * K),
            Inst { tokens: Tokens { pop_next: again, push_next: true, ..Tokens::NONE }, ..load },
            Inst { tokens: inner, ..product },
            Inst { tokens: inner, ..narrow },
            Inst::set(Reg::Rowb, ROWS * N),
            Inst { tokens: Tokens { pop_prev: true, push_prev: more, ..Tokens::NONE }, ..store },
        ]);
    }
    b.finish(config)
}

/// Devices on which the queues overtake each other differently.
fn devices() -> Vec<NpuConfig> {
    let mut devices = Vec::new();
    for bytes_per_cycle in [0.25, 4.0, 512.0] {
        for (in_flight, overlap) in [(1, Overlap::DoubleBuffer), (16, Overlap::DoubleBuffer), (4, Overlap::None)] {
            for depth in [1, 8] {
                let mut config = NpuConfig::default();
                config.dram = Dram::Simple { bytes_per_cycle, latency: 20 };
                config.dma = Dma { in_flight, overlap, ..config.dma };
                config.queues.depth = crate::config::Depth { ld: depth, ex: depth, vec: depth, st: depth };
                devices.push(config);
            }
        }
    }
    devices
}

#[test]
fn double_buffering_gives_the_same_bytes_and_hides_transfers() {
    let mut rng = Rng::new(51);
    let (input, constants) = (rng.bytes((TILES * ROWS * K) as usize), constants(&mut rng));
    let expected = expected(&input, &constants);
    for config in devices() {
        let (out, _) = run(&config, stream(&config, &constants), &input).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(out, expected, "{:?} {:?}", config.dram, config.dma);
    }
    let total = |overlap| {
        let mut config = NpuConfig::default();
        config.dma.overlap = overlap;
        let program = Program::load(&config, stream(&config, &constants)).unwrap();
        program.timing().total_cycles
    };
    assert!(total(Overlap::DoubleBuffer) < total(Overlap::None));
}

#[test]
fn without_free_tokens_the_buffers_race() {
    let config = NpuConfig::default();
    let constants = constants(&mut Rng::new(52));
    for (giver, taker) in
        [(Opcode::Gemm, Opcode::Ld2d), (Opcode::Requant, Opcode::Gemm), (Opcode::St2d, Opcode::Requant)]
    {
        let mut bad = stream(&config, &constants);
        for inst in &mut bad.commands {
            inst.tokens.push_prev &= inst.op != giver;
            inst.tokens.pop_next &= inst.op != taker;
        }
        let Err(NpuError::Rejected(found)) = Program::load(&config, bad) else { panic!("{giver:?} was accepted") };
        let race = |f: &Fault| matches!(f, Fault::Race { kind: "write-after-read" | "write-after-write", .. });
        assert!(found.iter().any(|v| race(&v.fault)), "{giver:?}: {found:?}");
    }
}

#[test]
fn what_the_verifier_accepts_runs_the_same_on_every_device() {
    let mut rng = Rng::new(53);
    let (input, constants) = (rng.bytes((TILES * ROWS * K) as usize), constants(&mut rng));
    let devices = devices();
    let good = stream(&devices[0], &constants);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..200 {
        let mut changed = good.clone();
        for _ in 0..1 + rng.below(2) {
            let at = rng.below(changed.commands.len() as u64) as usize;
            let inst = &mut changed.commands[at];
            match rng.below(3) {
                0 => inst.tokens = Tokens::from_bits(inst.tokens.bits() ^ (1 << rng.below(4))),
                1 => inst.b ^= 512,
                _ if inst.queue != Queue::Ld => inst.a ^= 512,
                _ => {}
            }
        }
        let outputs: Vec<_> = devices
            .iter()
            .filter_map(|config| {
                let stream = Stream { config_hash: config.hash64(), ..changed.clone() };
                run(config, stream, &input).ok()
            })
            .map(|(out, _)| out)
            .collect();
        match outputs.first() {
            Some(first) => assert!(outputs.iter().all(|out| out == first), "an accepted stream is not deterministic"),
            None => refused += 1,
        }
        accepted += usize::from(!outputs.is_empty());
    }
    assert!(accepted > 20 && refused > 20, "{accepted} accepted, {refused} refused");
}

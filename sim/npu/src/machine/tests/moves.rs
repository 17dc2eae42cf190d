//! Transfers between two places of the chip: the same bytes as through memory, no traffic, the verifier's rules.

use super::conv::{Conv, dram};
use crate::asm::{assemble, disassemble};
use crate::isa::{DramAddr, Inst, Local, Opcode, Queue, Reg, Region, Stream};
use crate::testing::{Builder, Rng, run};
use crate::{Fault, NpuConfig, NpuError, Program};
use ottava_hal::refmath::RequantMode;

/// Where inputs and outputs lie while they are on the chip.
const IMAGE: u32 = 100_000;
const RESULT: u32 = 150_000;

fn end(region: Region, offset: u32) -> u32 {
    DramAddr { region, offset }.bits()
}

/// The same convolution with its image loaded once to A, from which the windows come, and its result gathered in W, from
/// which it is stored at the end.
fn on_chip(conv: &Conv, stream: &Stream, config: &NpuConfig) -> Stream {
    let (input, output) = (conv.input_bytes(), conv.output_bytes());
    let mut b = Builder::new(input, output, 0, stream.constants.clone());
    b.set(&[(Reg::Rowb, input as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(IMAGE).bits(), 0));
    for inst in stream.commands.iter().filter(|i| !matches!(i.op, Opcode::Signal | Opcode::Wait | Opcode::End)) {
        let mut inst = *inst;
        match inst.op {
            Opcode::LdIm2col => inst.a = end(Region::A, IMAGE),
            Opcode::St2d => {
                let to = DramAddr::from_bits(inst.b).unwrap();
                inst.b = end(Region::W, RESULT + to.offset);
            }
            _ => {}
        }
        b.push(inst);
    }
    b.set(&[(Reg::Rows, 1), (Reg::Rowb, output as u32), (Reg::Dstride, 0)]);
    b.push(Inst::new(Opcode::St2d, Local::w(RESULT).bits(), dram(Region::Output, 0), 0));
    b.finish(config)
}

#[test]
fn moves_give_the_bytes_of_the_way_through_memory_without_its_traffic() {
    let config = NpuConfig::default();
    let mut rng = Rng::new(31);
    for mode in RequantMode::ALL {
        let conv = Conv::small(mode);
        let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
        for (tile, direct) in [([64, 16], false), ([5, 4], true)] {
            let plain = conv.stream(&config, &constants, tile, direct);
            let moved = on_chip(&conv, &plain, &config);
            let (out, report) = run(&config, moved, &input).unwrap_or_else(|e| panic!("{conv:?}: {e}"));
            assert_eq!(out, conv.expected(&input, &constants));
            assert_eq!(report.counters.dram_bytes_written, conv.output_bytes() as u64);
            let (_, through) = run(&config, plain, &input).unwrap();
            assert_eq!(report.counters.requantized, through.counters.requantized);
            assert_eq!(report.counters.saturated_high, through.counters.saturated_high);
            // Every byte of the input and of the constants is read once, whatever the tiles.
            assert_eq!(report.counters.dram_bytes_read, (input.len() + constants.len()) as u64);
        }
    }
}

/// A load of 64 bytes, a move of them, and a store of what was moved.
fn copy(change: impl Fn(&mut Vec<Inst>)) -> Stream {
    let config = NpuConfig::default();
    let mut commands = vec![
        Inst::set(Reg::Rowb, 64),
        Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0),
        Inst::new(Opcode::Ld2d, end(Region::A, 0), Local::w(256).bits(), 0),
        Inst::new(Opcode::Signal, 0, 0, 0).on(Queue::Ld),
        Inst::new(Opcode::Wait, 0, 0, 0).on(Queue::St),
        Inst::new(Opcode::St2d, Local::w(256).bits(), end(Region::A, 512), 0),
        Inst::new(Opcode::St2d, Local::a(512).bits(), dram(Region::Output, 0), 0),
        Inst::new(Opcode::End, 0, 0, 0),
    ];
    change(&mut commands);
    Stream { commands, regions: [64, 64, 0, 0], config_hash: config.hash64(), ..Stream::default() }
}

#[test]
fn a_move_takes_the_words_of_a_port_and_no_part_of_the_bus() {
    let config = NpuConfig::default();
    let program = Program::load(&config, copy(|_| ())).unwrap();
    let costs: Vec<_> = program.costs().iter().map(|c| (c.cycles, c.dma_bytes)).collect();
    let moved = [(0, Some(64)), (4, None), (0, None), (0, None), (4, None), (0, Some(64))];
    assert_eq!(costs, moved, "64 bytes in words of 16");
    let counters = program.static_counters();
    assert_eq!((counters.dram_bytes_read, counters.dram_bytes_written, counters.dma_transfers), (64, 64, 2));
    assert_eq!((counters.sram_bytes_read, counters.sram_bytes_written), (3 * 64, 3 * 64));
    assert!(program.timing().adds_up());
    let input: Vec<u8> = (0..64).collect();
    let (out, _) = run(&config, copy(|_| ()), &input).unwrap();
    assert_eq!(out, input);
}

#[test]
fn the_verifier_sees_moves() {
    let rejected = |change: fn(&mut Vec<Inst>)| match Program::load(&NpuConfig::default(), copy(change)) {
        Err(NpuError::Rejected(violations)) => violations.into_iter().map(|v| v.fault).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let race = rejected(|c| {
        c.drain(3..5);
    });
    assert!(race.iter().any(|f| matches!(f, Fault::Race { space: "W", .. })), "{race:?}");
    let unwritten = rejected(|c| c[2].a = end(Region::A, 32));
    assert!(matches!(unwritten[..], [Fault::Unwritten { space: "A", at: 64, .. }]), "{unwritten:?}");
    let outside = rejected(|c| c[2].a = end(Region::A, 262_144 - 63));
    assert!(matches!(outside[..], [Fault::Bounds { space: "chip.A", .. }, ..]), "{outside:?}");
    let onto_itself = rejected(|c| c[2].b = Local::a(63).bits());
    assert!(matches!(onto_itself[..], [Fault::Place { .. }, ..]), "{onto_itself:?}");
    let onto_itself = rejected(|c| c[5].b = end(Region::W, 256));
    assert!(matches!(onto_itself[..], [Fault::Place { .. }, ..]), "{onto_itself:?}");
}

#[test]
fn moves_have_a_text() {
    let stream = copy(|_| ());
    let text = disassemble(&stream);
    assert!(text.contains("chip.A+512"), "{text}");
    assert_eq!(assemble(&text).unwrap().commands, stream.commands);
}

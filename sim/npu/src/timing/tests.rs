//! Times of small programs that can be computed by hand.

use super::*;
use crate::config::{Dma, Dram, Overlap, Queues};
use crate::isa::{Inst, Local, Opcode, Reg, Stream};
use crate::{NpuConfig, Program};

/// No decode time, 16 bytes per cycle, latency 100, one transfer at a time.
fn device() -> NpuConfig {
    let base = NpuConfig::default();
    NpuConfig {
        dma: Dma { in_flight: 1, ..base.dma },
        queues: Queues { decode_cycles: 0, ..base.queues },
        dram: Dram::Simple { bytes_per_cycle: 16.0, latency: 100 },
        ..base
    }
}

fn timing(config: &NpuConfig, mut commands: Vec<Inst>) -> Timing {
    commands.push(Inst::new(Opcode::End, 0, 0, 0));
    let stream =
        Stream { commands, constants: vec![0; 4096], regions: [4096; 4], nodes: vec![], config_hash: config.hash64() };
    Program::load(config, stream).unwrap_or_else(|e| panic!("{e}")).timing().clone()
}

fn load(bytes: u32, at: u32) -> [Inst; 2] {
    [Inst::set(Reg::Rowb, bytes), Inst::new(Opcode::Ld2d, 0, Local::a(at).bits(), 0)]
}

#[test]
fn a_transfer_is_latency_and_bytes() {
    let t = timing(&device(), load(160, 0).to_vec());
    assert_eq!(t.total_cycles, 110);
    assert_eq!(t.queue(Queue::Ld).busy, 110);
    assert_eq!(t.queue(Queue::Ex).stalls[Reason::Drain as usize], 110);
    // 33 bytes take 2 1/16 cycles, rounded up.
    assert_eq!(timing(&device(), load(33, 0).to_vec()).total_cycles, 103);
}

#[test]
fn latencies_overlap_up_to_the_limit() {
    let three = [load(160, 0), load(160, 160), load(160, 320)].concat();
    assert_eq!(timing(&device(), three.clone()).total_cycles, 330);
    let mut config = device();
    config.dma.in_flight = 2;
    // The third request waits for the end of the first at 110 and needs its latency again.
    assert_eq!(timing(&config, three.clone()).total_cycles, 220);
    config.dma.in_flight = 3;
    assert_eq!(timing(&config, three).total_cycles, 130);
}

#[test]
fn products_behind_one_another_overlap_on_a_pipelined_array() {
    let cycles = |timing, n| {
        let mut config = device();
        config.array.timing = timing;
        let mut commands = load(256, 0).to_vec();
        commands.push(Inst::new(Opcode::Ld2d, 0, Local::w(0).bits(), 0).push_next());
        commands.extend([Reg::M, Reg::N, Reg::K].map(|r| Inst::set(r, 16)));
        commands.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0).pop_prev());
        let product = Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0);
        commands.extend(std::iter::repeat_n(product, n));
        self::timing(&config, commands).queue(Queue::Ex).busy
    };
    // One fold of 16 x 16 alone: 16 + 2 * 16 + 16 - 2; another one each 16 cycles.
    assert_eq!([1, 2, 5].map(|n| cycles(crate::config::Timing::Pipelined, n)), [62, 78, 126]);
    assert_eq!([1, 2].map(|n| cycles(crate::config::Timing::FoldSerial, n)), [62, 124]);
}

#[test]
fn stalls_name_their_reason() {
    let vector = Inst::new(Opcode::Cast, Local::a(0).bits(), Local::a(1024).bits(), 0);
    let mut commands = load(160, 0).to_vec();
    commands[1] = commands[1].push_next();
    commands.push(Inst::new(Opcode::Nop, 0, 0, 0).on(Queue::Ex).pop_prev().push_next());
    commands.extend([Inst::set(Reg::N, 160), vector.pop_prev().push_next()]);
    commands.push(Inst::new(Opcode::St2d, Local::a(1024).bits(), 1 << 29, 0).pop_prev());
    let t = timing(&device(), commands);
    // Load to 110, 160 elements on 16 lanes in 10 cycles, store 110.
    assert_eq!(t.total_cycles, 110 + 10 + 110);
    assert_eq!(t.queue(Queue::Ex).stalls[Reason::DmaIn as usize], 110);
    assert_eq!(t.queue(Queue::Vec).stalls[Reason::DepToken as usize], 110);
    assert_eq!(t.queue(Queue::Vec).busy, 10);
    assert_eq!(t.queue(Queue::St).stalls[Reason::Vector as usize], 120);
    assert_eq!((t.cold_start, t.drain), (110, 110));
}

#[test]
fn decoding_and_depth_delay_issue() {
    let mut config = device();
    config.queues.decode_cycles = 7;
    // SET and LD2D are decoded in 14 cycles.
    let t = timing(&config, load(160, 0).to_vec());
    assert_eq!((t.total_cycles, t.queue(Queue::Ld).stalls[Reason::Issue as usize]), (124, 14));
    // A queue of one: the second load enters when the first starts, the cast only behind both.
    let mut config = device();
    config.queues.depth.ld = 1;
    let mut commands = [load(160, 0), load(160, 160), load(160, 320)].concat();
    commands.push(Inst::new(Opcode::Nop, 0, 0, 0).on(Queue::Vec));
    let t = timing(&config, commands);
    // The third load enters when the second starts, at 110.
    let nop = t.spans.iter().find(|s| s.step == 3).unwrap();
    assert_eq!(nop.start, 110);
}

#[test]
fn without_overlap_transfers_and_arithmetic_alternate() {
    let vector = Inst::new(Opcode::Cast, Local::a(0).bits(), Local::a(1024).bits(), 0);
    let mut commands = load(160, 0).to_vec();
    commands.push(Inst::new(Opcode::Signal, 0, 0, 0));
    commands.extend(load(160, 512));
    commands.push(Inst::new(Opcode::Wait, 0, 0, 0).on(Queue::Vec));
    commands.extend([Inst::set(Reg::N, 160), vector]);
    assert_eq!(timing(&device(), commands.clone()).total_cycles, 220);
    let mut config = device();
    config.dma.overlap = Overlap::None;
    let total = timing(&config, commands).total_cycles;
    assert_eq!(total, 230);
}

#[test]
fn banks_that_are_too_few_are_waited_for_and_named() {
    let cycles = |banks, ports| {
        let mut config = device();
        config.sram.a.banks = banks;
        config.sram.a.ports = ports;
        let mut commands = load(256, 0).to_vec();
        commands.push(Inst::new(Opcode::Ld2d, 0, Local::w(0).bits(), 0).push_next());
        commands.extend([Reg::M, Reg::N, Reg::K].map(|r| Inst::set(r, 16)));
        commands.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0).pop_prev());
        commands.push(Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0));
        config.sram.a.port_bytes = 4;
        let t = timing(&config, commands);
        assert!(t.adds_up());
        let ex = t.queue(Queue::Ex);
        (ex.busy, ex.stalls[Reason::Bank as usize])
    };
    // Sixteen bytes enter per cycle, four words of four bytes: 4, 2 and 1 cycle for each of 16 rows.
    assert_eq!([cycles(1, 1), cycles(2, 1), cycles(4, 1), cycles(1, 2)], [(62, 48), (62, 16), (62, 0), (62, 16)]);
}

#[test]
fn conflicts_of_the_vector_unit_count_all_its_operands() {
    let bank = |banks| {
        let mut config = device();
        config.sram.a.banks = banks;
        let vector = Inst::new(Opcode::Cast, Local::a(0).bits(), Local::a(1024).bits(), 0);
        let mut commands = load(160, 0).to_vec();
        commands.push(Inst::new(Opcode::Signal, 0, 0, 0));
        commands.push(Inst::new(Opcode::Wait, 0, 0, 0).on(Queue::Vec));
        commands.extend([Inst::set(Reg::N, 160), vector]);
        let t = timing(&config, commands);
        assert!(t.adds_up());
        t.queue(Queue::Vec).stalls[Reason::Bank as usize]
    };
    // Ten groups of sixteen lanes, one word in and one word out.
    assert_eq!([bank(1), bank(2)], [10, 0]);
}

#[test]
fn rows_of_the_memory_are_hit_or_opened() {
    let banked = |channels, banks, row_miss, turnaround| {
        let mut config = device();
        config.dma.in_flight = 4;
        config.dram = Dram::Banked {
            bytes_per_cycle: 16.0,
            latency: 10,
            channels,
            banks,
            interleave: 1024,
            row_bytes: 1024,
            row_miss,
            turnaround,
        };
        config
    };
    let run = |config: &NpuConfig, commands: Vec<Inst>| {
        let t = timing(config, commands);
        let rows = t.transfers.iter().fold((0, 0), |(h, m), t| (h + t.rows.0, m + t.rows.1));
        assert!(t.adds_up());
        (t.total_cycles, rows)
    };
    let two = [load(512, 0), load(512, 512)].concat();
    // The first load opens the row: 20 + 10 + 32; the second finds it open and waits for the bus.
    assert_eq!(run(&banked(1, 1, 20, 0), two.clone()), (94, (1, 1)));
    assert_eq!(run(&banked(1, 1, 0, 0), two), (74, (1, 1)));
    // Four rows behind one another: one bank opens each behind the last, two banks open ahead, two channels halve the data.
    let long = load(4096, 0).to_vec();
    assert_eq!(run(&banked(1, 1, 20, 0), long.clone()), (4 * (20 + 64) + 4 * 10, (0, 4)));
    assert_eq!(run(&banked(1, 2, 20, 0), long.clone()), (20 + 10 + 4 * 64, (0, 4)));
    // Each channel has half the rate: two rows of 128 cycles.
    assert_eq!(run(&banked(2, 2, 20, 0), long), (20 + 10 + 2 * 128, (0, 4)));
    // A store behind a load waits until the channel has turned around.
    let mut both = load(512, 0).to_vec();
    both.push(Inst::new(Opcode::Signal, 0, 0, 0));
    both.push(Inst::new(Opcode::Wait, 0, 0, 0).on(Queue::St));
    both.push(Inst::new(Opcode::St2d, Local::a(0).bits(), 1 << 29, 0).on(Queue::St));
    let [plain, turned] = [0, 50].map(|turnaround| run(&banked(1, 4, 0, turnaround), both.clone()).0);
    assert_eq!((plain, turned), (84, 62 - 20 + 50 + 32));
}

//! Bytes do not depend on the device, counters do not depend on the run, and time behaves.

use super::conv::Conv;
use crate::config::{Dataflow, Dram, Overlap, Timing};
use crate::isa::Queue;
use crate::testing::{Rng, run};
use crate::{NpuConfig, NpuError, Program};
use ottava_hal::refmath::RequantMode;

const ARRAYS: [(u32, u32); 8] = [(8, 8), (8, 32), (16, 16), (32, 8), (32, 32), (64, 16), (128, 128), (256, 256)];

fn device(rows: u32, cols: u32, dataflow: Dataflow, bytes_per_cycle: f64) -> NpuConfig {
    let mut config = NpuConfig::default();
    config.array = crate::config::Array { rows, cols, dataflow, ..config.array };
    config.dram = Dram::Simple { bytes_per_cycle, latency: 100 };
    config
}

#[test]
fn bytes_are_the_same_on_every_array_dataflow_and_bandwidth() {
    let conv = Conv::small(RequantMode::Fp32Rne);
    let mut rng = Rng::new(31);
    let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
    let expected = conv.expected(&input, &constants);
    let mut totals = std::collections::BTreeSet::new();
    for (rows, cols) in ARRAYS {
        for dataflow in [Dataflow::Os, Dataflow::Ws, Dataflow::Is] {
            for bytes in [0.5, 16.0, 1024.0] {
                let config = device(rows, cols, dataflow, bytes);
                let stream = conv.stream(&config, &constants, [6, 8], false);
                totals.insert(Program::load(&config, stream.clone()).unwrap().timing().total_cycles);
                let (out, report) = run(&config, stream.clone(), &input).unwrap();
                assert_eq!(out, expected, "{rows} x {cols} {dataflow:?} {bytes}");
                assert_eq!(run(&config, stream, &input).unwrap().1, report, "a rerun counts the same");
            }
        }
    }
    assert!(totals.len() > 20, "the devices differ in time: {}", totals.len());
}

#[test]
fn books_close_and_time_is_monotone() {
    let conv = Conv::small(RequantMode::Q31Single);
    let mut rng = Rng::new(32);
    let constants = conv.constants(&mut rng);
    for overlap in [Overlap::None, Overlap::DoubleBuffer] {
        for in_flight in [1, 4] {
            let mut last = 0;
            for bytes in [64.0, 8.0, 1.0, 0.25] {
                let mut config = device(16, 16, Dataflow::Ws, bytes);
                config.dma = crate::config::Dma { overlap, in_flight, ..config.dma };
                let program = Program::load(&config, conv.stream(&config, &constants, [6, 8], false)).unwrap();
                let timing = program.timing();
                assert!(timing.adds_up(), "{timing:?}");
                assert!(timing.total_cycles >= last, "less bandwidth is never faster");
                last = timing.total_cycles;
                let counters = program.static_counters();
                let bytes_moved = counters.dram_bytes_read + counters.dram_bytes_written;
                assert!(timing.total_cycles as f64 >= bytes_moved as f64 / bytes, "the bus is a bound");
                assert!(timing.total_cycles >= timing.queue(Queue::Ex).busy);
            }
        }
    }
}

/// S7 on the machine: more banks, larger rows and quicker memories never take longer; the limits are array and bus.
#[test]
fn s7_the_machine_is_monotone_and_has_its_limits() {
    let conv = Conv { size: [20, 20], channels: [16, 32], ..Conv::small(RequantMode::Q31Single) };
    let constants = conv.constants(&mut Rng::new(36));
    let time = |change: &dyn Fn(&mut NpuConfig)| {
        let mut config = device(16, 16, Dataflow::Ws, 16.0);
        change(&mut config);
        let program = Program::load(&config, conv.stream(&config, &constants, [50, 16], false)).unwrap();
        assert!(program.timing().adds_up());
        let c = program.static_counters();
        (program.timing().clone(), c.dram_bytes_read + c.dram_bytes_written)
    };
    let totals = |values: &[u32], change: &dyn Fn(&mut NpuConfig, u32)| -> Vec<u64> {
        values.iter().map(|v| time(&|c| change(c, *v)).0.total_cycles).collect()
    };
    let banked = |channels, banks, row_miss| {
        move |c: &mut NpuConfig| {
            c.dram = Dram::Banked {
                bytes_per_cycle: 16.0,
                latency: 20,
                channels,
                banks,
                interleave: 64,
                row_bytes: 512,
                row_miss,
                turnaround: 10,
            };
        }
    };
    let sweeps = [
        ("banks of A", totals(&[1, 2, 4, 8], &|c, n| (c.sram.a.banks, c.sram.a.port_bytes) = (n, 4))),
        ("ports of A", totals(&[1, 2, 4], &|c, n| (c.sram.a.ports, c.sram.a.port_bytes) = (n, 2))),
        (
            "latency",
            totals(&[400, 100, 10], &|c, n| c.dram = Dram::Simple { bytes_per_cycle: 16.0, latency: n.into() }),
        ),
        ("cost of a row", totals(&[200, 50, 0], &|c, n| banked(1, 4, n)(c))),
        ("banks of the memory", totals(&[1, 4, 16], &|c, n| banked(1, n, 60)(c))),
    ];
    for (what, totals) in &sweeps {
        println!("S7: {what}: {totals:?} cycles");
        assert!(totals.windows(2).all(|pair| pair[0] >= pair[1]), "{what}: {totals:?}");
        assert!(totals[0] > totals[totals.len() - 1], "{what} matters: {totals:?}");
    }
    let (slow, bytes) = time(&|c| c.dram = Dram::Simple { bytes_per_cycle: 1.0 / 64.0, latency: 0 });
    let above = slow.total_cycles as f64 / (bytes as f64 * 64.0) - 1.0;
    println!("S7: a slow bus, {:.3} % above its own time", above * 100.0);
    assert!((0.0..0.01).contains(&above), "{above}");
    // Queues hand over one after the other in this stream, so with an endless bus they add up.
    let (fast, _) = time(&|c| {
        c.dram = Dram::Simple { bytes_per_cycle: 1e6, latency: 0 };
        c.queues.decode_cycles = 0;
    });
    let work = fast.queue(Queue::Ex).busy + fast.queue(Queue::Vec).busy;
    let transfers = fast.transfers.len() as u64;
    assert!(fast.total_cycles <= work + transfers, "{} cycles, {work} of work", fast.total_cycles);
}

/// S7 on the machine: twice the channels, each as quick as before, never take longer for the same instructions.
#[test]
fn s7_more_channels_never_take_longer() {
    let chip = |rows, bytes_per_cycle, latency, channels, interleave| {
        let mut config = device(rows, rows, Dataflow::Ws, 16.0);
        config.dma.in_flight = 4;
        let (banks, row_bytes, row_miss, turnaround) = (8, 2048, 30, 8);
        config.dram =
            Dram::Banked { bytes_per_cycle, latency, channels, banks, interleave, row_bytes, row_miss, turnaround };
        config
    };
    let convs = [
        Conv { size: [20, 20], channels: [16, 32], ..Conv::small(RequantMode::Q31Single) },
        Conv { size: [31, 17], channels: [3, 24], ..Conv::small(RequantMode::Fp32Rne) },
        Conv { size: [9, 9], channels: [64, 64], ..Conv::small(RequantMode::Fp32Rne) },
    ];
    for conv in &convs {
        let constants = conv.constants(&mut Rng::new(37));
        let cycles = |config: &NpuConfig| {
            let program = Program::load(config, conv.stream(config, &constants, [50, 16], false)).unwrap();
            program.timing().total_cycles
        };
        for (rows, each, latency, interleave) in
            [(8, 1.0, 20, 64), (16, 4.0, 100, 64), (16, 2.0, 0, 16), (32, 8.0, 50, 256)]
        {
            let doubled: Vec<u64> =
                [1, 2, 4, 8, 16].map(|n| cycles(&chip(rows, each * f64::from(n), latency, n, interleave))).to_vec();
            println!("S7: 1 to 16 channels of {each} bytes per cycle, blocks of {interleave}: {doubled:?} cycles");
            assert!(doubled.windows(2).all(|pair| pair[0] >= pair[1]), "{doubled:?}");
        }
    }
}

#[test]
fn slower_array_timing_takes_longer() {
    let conv = Conv::small(RequantMode::Fp32Rne);
    let mut rng = Rng::new(33);
    let constants = conv.constants(&mut rng);
    let busy = |timing| {
        let mut config = device(8, 8, Dataflow::Ws, 16.0);
        config.array.timing = timing;
        let program = Program::load(&config, conv.stream(&config, &constants, [64, 9], false)).unwrap();
        program.timing().queue(Queue::Ex).busy
    };
    assert!(busy(Timing::Pipelined) < busy(Timing::FoldSerial));
    // K = 45, N = 9 on 8 x 8: 12 folds of 64 - 0 rows; batch 2 of 4 x 3 pixels is M = 24.
    assert_eq!(busy(Timing::FoldSerial), 12 * (24 + 2 * 8 + 8 - 2));
}

#[test]
fn a_device_with_checksum_refuses_streams_without() {
    let conv = Conv::small(RequantMode::Fp32Rne);
    let constants = conv.constants(&mut Rng::new(35));
    let config = NpuConfig { crc: true, ..NpuConfig::default() };
    let stream = conv.stream(&config, &constants, [64, 16], false);
    assert!(Program::from_bytes(&config, &stream.to_bytes(true)).is_ok());
    let error = Program::from_bytes(&config, &stream.to_bytes(false)).unwrap_err();
    assert!(error.to_string().contains("wants a checksum"), "{error}");
}

#[test]
fn the_watchdog_and_short_memory_are_errors() {
    let conv = Conv::small(RequantMode::Fp32Rne);
    let mut rng = Rng::new(34);
    let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
    let config = NpuConfig { watchdog_cycles: Some(100), ..NpuConfig::default() };
    let error = run(&config, conv.stream(&config, &constants, [64, 16], false), &input).unwrap_err();
    assert!(matches!(error, NpuError::Watchdog { limit: 100, cycles } if cycles > 100), "{error}");
    let config = NpuConfig::default();
    let error = run(&config, conv.stream(&config, &constants, [64, 16], false), &input[1..]).unwrap_err();
    assert!(matches!(error, NpuError::Memory { region: "in", .. }), "{error}");
}

//! Faults of every kind, by many seeds, under every protection: what is detected, masked, silent.

use super::conv::Conv;
use super::overlap;
use crate::config::FaultSpec;
use crate::fault::{Outcome, Trial, trial};
use crate::testing::Rng;
use crate::{Fault, NpuConfig, NpuError, Program, Stream};

/// Kind and place of every fault there is.
const FAULTS: &[(&str, &str)] = &[
    ("bit_flip", "a"),
    ("bit_flip", "w"),
    ("bit_flip", "acc"),
    ("bit_flip", "in"),
    ("bit_flip", "out"),
    ("bit_flip", "const"),
    ("bit_flip", "command"),
    ("dma_drop", "ld"),
    ("dma_drop", "st"),
    ("dma_delay", "ld"),
    ("dma_delay", "st"),
    ("dma_truncate", "ld"),
    ("dma_truncate", "st"),
    ("token_lost", "ld->ex"),
    ("token_lost", "ex->vec"),
    ("token_lost", "st->vec"),
    ("token_stuck", "ld->ex"),
    ("token_stuck", "vec->st"),
    ("token_stuck", "ex->ld"),
    ("event_lost", "any"),
    ("table_corrupt", "any"),
    ("device_lost", "any"),
];
const SEEDS: u64 = 24;

struct Bench {
    input: Vec<u8>,
    constants: Vec<u8>,
    /// Of a run without faults.
    cycles: u64,
}

impl Bench {
    fn new() -> Self {
        let mut rng = Rng::new(51);
        let mut bench = Self { input: rng.bytes(overlap::INPUT), constants: overlap::constants(&mut rng), cycles: 0 };
        let config = Self::config(false);
        bench.cycles = Program::load(&config, bench.stream(&config)).unwrap().timing().total_cycles;
        bench
    }

    /// Small memories, so that flips often hit what is in use; protections as asked.
    fn config(protected: bool) -> NpuConfig {
        let small = "Npu(sram: (a: (bytes: 16384), w: (bytes: 8192), acc: (bytes: 4096)))";
        let mut config = NpuConfig::parse(small).unwrap();
        config.crc = protected;
        config.parity = protected;
        config.watchdog_cycles = protected.then_some(50_000);
        config
    }

    fn stream(&self, config: &NpuConfig) -> Stream {
        overlap::stream(config, &self.constants)
    }

    fn run(&self, protected: bool, kind: &str, place: &str, seed: u64) -> Trial {
        let clean = Self::config(protected);
        let mut rng = Rng::new(seed);
        let (when, seed) = (rng.below(self.cycles), rng.next());
        let config = NpuConfig { fault: vec![FaultSpec(kind.into(), place.into(), when, seed)], ..clean };
        trial(&config, &self.stream(&config), &self.input).unwrap()
    }
}

/// Detected, masked, silent, hung.
fn count(trials: &[Trial]) -> [usize; 4] {
    ["detected", "masked", "silent", "hung"].map(|name| trials.iter().filter(|t| t.outcome.name() == name).count())
}

#[test]
fn runs_are_classified_and_the_same_by_seed() {
    let bench = Bench::new();
    let mut sums = [[0; 4]; 2];
    for &(kind, place) in FAULTS {
        let trials = [false, true].map(|on| (0..SEEDS).map(|s| bench.run(on, kind, place, s)).collect::<Vec<_>>());
        let counts = trials.each_ref().map(|t| count(t));
        println!(
            "fault {kind} {place}: unprotected {:?}, protected {:?} (detected, masked, silent, hung)",
            counts[0], counts[1]
        );
        assert_eq!(trials[0][3], bench.run(false, kind, place, 3), "{kind} {place}: by seed");
        assert_eq!(counts[1][3], 0, "{kind} {place}: the watchdog sees every hung run");
        let on_chip = kind == "bit_flip" && ["a", "w", "acc", "command"].contains(&place);
        if on_chip {
            assert_eq!(counts[1][2], 0, "{kind} {place}: parity and checksum leave no silent flip");
        }
        if kind == "dma_delay" {
            assert_eq!(counts[0], [0, SEEDS as usize, 0, 0], "late transfers change no byte");
        }
        for (sum, counts) in sums.iter_mut().zip(counts) {
            sum.iter_mut().zip(counts).for_each(|(s, c)| *s += c);
        }
    }
    println!(
        "faults: unprotected {:?}, protected {:?} of {} runs each",
        sums[0],
        sums[1],
        SEEDS as usize * FAULTS.len()
    );
    assert!(sums[0][2] > 20 && sums[0][3] > 5, "without protection some are silent and some hang: {:?}", sums[0]);
    assert!(sums[1][0] > sums[0][0] && sums[1][2] < sums[0][2], "protection detects more: {sums:?}");
}

/// One fault at a place that is known to matter.
fn certain(kind: &str, place: &str, when: u64, seed: u64, protect: impl Fn(&mut NpuConfig)) -> Outcome {
    let bench = Bench::new();
    let mut config = Bench::config(false);
    config.fault = vec![FaultSpec(kind.into(), place.into(), when, seed)];
    protect(&mut config);
    trial(&config, &bench.stream(&config), &bench.input).unwrap().outcome
}

#[test]
fn each_protection_finds_its_fault() {
    // The first load of rows is the third transfer; dropped, the product sees zeros.
    assert_eq!(certain("dma_drop", "ld", 4, 0, |_| {}), Outcome::Silent);
    assert!(matches!(certain("device_lost", "any", 300, 0, |_| {}), Outcome::Detected(NpuError::Lost { cycle: 300 })));
    assert_eq!(certain("token_lost", "ld->ex", 0, 0, |_| {}), Outcome::Hung);
    let watched = certain("token_lost", "ld->ex", 0, 0, |c| c.watchdog_cycles = Some(50_000));
    let Outcome::Detected(stopped @ NpuError::Stopped { limit: 50_000, .. }) = watched else { panic!("{watched:?}") };
    let text = stopped.to_string();
    assert!(text.contains("never ends") && text.contains(" in ex") && text.contains("50000 cycles"), "{text}");
    // A late transfer is no harm, until it is too late for the watchdog.
    assert_eq!(certain("dma_delay", "ld", 0, 1, |_| {}), Outcome::Masked);
    let late = certain("dma_delay", "ld", 0, 1, |c| c.watchdog_cycles = Some(3_000));
    assert!(matches!(late, Outcome::Detected(NpuError::Watchdog { .. })), "{late:?}");
    // Bit 0 of byte 0 of W is a weight; it is flipped when the second product is about to start.
    assert_eq!(certain("bit_flip", "w", 400, 7, |_| {}), Outcome::Silent);
    let parity = certain("bit_flip", "w", 400, 7, |c| c.parity = true);
    let is_parity =
        |e: &NpuError| matches!(e, NpuError::Run(v) if matches!(v.fault, Fault::Parity { space: "W", at: 0 }));
    assert!(matches!(&parity, Outcome::Detected(e) if is_parity(e)), "{parity:?}");
    // A stream whose queues hand over by events.
    let conv = Conv::small(ottava_hal::refmath::RequantMode::Fp32Rne);
    let mut rng = Rng::new(3);
    let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
    let fault = vec![FaultSpec("event_lost".into(), "any".into(), 0, 0)];
    let lost = NpuConfig { fault, ..NpuConfig::default() };
    let outcome = trial(&lost, &conv.stream(&lost, &constants, [6, 8], false), &input).unwrap().outcome;
    assert_eq!(outcome, Outcome::Hung);
    let crc = certain("bit_flip", "command", 0, 12_345, |c| c.crc = true);
    assert!(matches!(&crc, Outcome::Detected(NpuError::Container(crate::isa::ContainerError::Crc { .. }))), "{crc:?}");
}

#[test]
fn a_configuration_without_faults_is_not_changed_by_the_machinery() {
    let bench = Bench::new();
    let config = Bench::config(false);
    let stream = bench.stream(&config);
    // A flip of the bit that the padding of an unused byte holds changes nothing that is read.
    let unused = NpuConfig { fault: vec![FaultSpec("bit_flip".into(), "a".into(), 0, 8 * 16_000)], ..config };
    let outcome = trial(&unused, &stream, &bench.input).unwrap().outcome;
    assert_eq!(outcome, Outcome::Masked, "the order by ends gives the bytes of the order by starts");
}

//! Traces, read back as the JSON that viewers read.

use super::*;
use crate::isa::{Inst, Local, Opcode, Reg, Stream};

#[test]
fn tracks_hold_every_instruction_and_every_byte() {
    let config = NpuConfig::default();
    let load = |at| Inst::new(Opcode::Ld2d, 0, Local::a(at).bits(), 0);
    let commands = vec![Inst::set(Reg::Rowb, 160), load(0), load(160), Inst::new(Opcode::End, 0, 0, 0)];
    let stream = Stream { commands, regions: [4096; 4], config_hash: config.hash64(), ..Stream::default() };
    let timed = Timed::of(&config, &stream).unwrap();
    let part = |offset| Part { timed: &timed, offset, nodes: &[] };
    let text = chrome(&config, &[part(0), part(1000)]);
    assert_eq!(text, chrome(&config, &[part(0), part(1000)]));
    let document: Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let named = |ph: &str, name: &str| events.iter().filter(|e| e["ph"] == ph && e["name"] == name).count();
    assert_eq!(named("X", "LD2D"), 4);
    assert_eq!(named("X", "read"), 8, "a channel and the memory each");
    // Two loads overlap in their latencies: two lines of the queue, named once.
    assert_eq!(named("M", "thread_name"), 5, "nodes, ld, ld 2, dma 0, dram");
    let rates = events.iter().filter(|e| e["name"] == "dram bytes per cycle").map(|e| e["args"]["value"].as_f64());
    assert_eq!(rates.collect::<Vec<_>>(), [Some(16.0), Some(0.0), Some(16.0), Some(0.0)]);
}

/// The changes of a counter as (time, value).
fn counter(document: &Value, name: &str) -> Vec<(f64, f64)> {
    let events = document["traceEvents"].as_array().unwrap().iter();
    let own = events.filter(|e| e["ph"] == "C" && e["name"] == name);
    own.map(|e| (e["ts"].as_f64().unwrap(), e["args"]["value"].as_f64().unwrap())).collect()
}

/// What a counter per cycle adds up to.
fn sum(changes: &[(f64, f64)]) -> f64 {
    changes.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0)).sum()
}

#[test]
fn each_bank_has_a_counter_that_adds_up_to_its_words() {
    let mut config = NpuConfig::default();
    config.array.rows = 32;
    config.array.cols = 32;
    // 32 operands per cycle need two words of 16 bytes, and there is one bank.
    config.sram.a.banks = 1;
    let set = |reg, value| Inst::set(reg, value);
    let commands = vec![
        set(Reg::Rowb, 1024),
        Inst::new(Opcode::Ld2d, 0, Local::a(0).bits(), 0),
        Inst::new(Opcode::Ld2d, 0, Local::w(32).bits(), 0).push_next(),
        set(Reg::M, 32),
        set(Reg::N, 32),
        set(Reg::K, 32),
        Inst::new(Opcode::Preload, Local::w(32).bits(), 0, 0).pop_prev(),
        Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0),
        Inst::new(Opcode::End, 0, 0, 0),
    ];
    let stream = Stream { commands, regions: [4096; 4], config_hash: config.hash64(), ..Stream::default() };
    let timed = Timed::of(&config, &stream).unwrap();
    let document: Value =
        serde_json::from_str(&chrome(&config, &[Part { timed: &timed, offset: 7, nodes: &[] }])).unwrap();
    // 1024 bytes are 64 words, written once and read once; in W they begin at bank 2 and go round four.
    let words = |name: &str| sum(&counter(&document, &format!("sram {name} words per cycle")));
    assert!((words("a bank 0") - 128.0).abs() < 1e-6, "{}", words("a bank 0"));
    for bank in 0..4 {
        assert!((words(&format!("w bank {bank}")) - 32.0).abs() < 1e-6, "{bank}: {}", words(&format!("w bank {bank}")));
    }
    // The product waits a cycle per row.
    let conflicts = counter(&document, "bank conflicts");
    assert!((sum(&conflicts) - 32.0).abs() < 1e-6, "{conflicts:?}");
    assert!(conflicts.iter().all(|(at, _)| *at >= 7.0) && conflicts.last().unwrap().1 == 0.0);
    assert!(counter(&document, "sram a bank 1 words per cycle").is_empty());
}

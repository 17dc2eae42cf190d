//! The closed forms on sizes at the ends of their ranges: a value or an error, never a panic and never a wrapped number.

use ottava_npu::NpuConfig;
use ottava_npu::analytic::{
    ARRAY_MAX, ArrayShape, Bandwidth, Buffers, DIM_MAX, Depthwise, Dram, Error, Gemm, cold_start_run, compute_cycles,
    gemm_run, sram_accesses,
};
use ottava_npu::config::{Dataflow, Depthwise as Policy, Timing};
use ottava_npu::layers::{parse, simulate};

const DATAFLOWS: [Dataflow; 3] = [Dataflow::Os, Dataflow::Ws, Dataflow::Is];
const TIMINGS: [Timing; 3] = [Timing::FoldSerial, Timing::EdgeTrim, Timing::Pipelined];

/// Arrays and products whose every size is the least, a usual or the largest one.
fn cases() -> impl Iterator<Item = (ArrayShape, Gemm)> {
    let sides = [1, 16, ARRAY_MAX];
    let arrays = sides.into_iter().flat_map(move |rows| sides.map(|cols| (rows, cols)));
    let kinds = DATAFLOWS.into_iter().flat_map(|dataflow| TIMINGS.map(|timing| (dataflow, timing)));
    let shapes = kinds.flat_map(move |(dataflow, timing)| {
        arrays.clone().map(move |(rows, cols)| ArrayShape { rows, cols, dataflow, timing, ports: Some(1) })
    });
    let dims = [1, 100, DIM_MAX];
    shapes.flat_map(move |shape| {
        let gemms = dims.into_iter().flat_map(move |m| dims.into_iter().flat_map(move |n| dims.map(|k| (m, n, k))));
        gemms.map(move |(m, n, k)| (shape, Gemm::new(m, n, k)))
    })
}

#[test]
fn cycles_and_accesses_are_values_or_overflow() {
    for (array, gemm) in cases() {
        for result in [compute_cycles(&array, &gemm), sram_accesses(&array, &gemm).map(|s| s.a), gemm.macs()] {
            assert!(matches!(result, Ok(1..) | Err(Error::Overflow { .. })), "{array:?} {gemm:?}: {result:?}");
        }
        let depthwise = Depthwise { gemm, channels: DIM_MAX };
        for policy in [Policy::PerChannel, Policy::Packed, Policy::Vector, Policy::Best] {
            let cost = depthwise.cost(&array, policy, 1);
            assert!(!matches!(cost, Err(Error::Range { .. })), "{array:?} {gemm:?}: {cost:?}");
        }
    }
}

#[test]
fn runs_are_values_or_errors() {
    let buffers = Buffers { a_bytes: u64::MAX, w_bytes: 1, acc_bytes: 0 };
    let slow = Dram { bandwidth: Bandwidth::from_f64(1.0 / 65536.0), latency: 1 << 40 };
    for (array, gemm) in cases() {
        // The long walks that are allowed would only take time here.
        if array.folds(&gemm).unwrap().count() > 10_000 {
            continue;
        }
        for dram in [Dram::UNLIMITED, slow] {
            for run in [gemm_run(&array, &gemm, &buffers, dram), cold_start_run(&array, &gemm, &buffers, dram)] {
                let covers = |run: &ottava_npu::analytic::Run| run.total.floor() >= run.compute;
                assert!(run.as_ref().map_or_else(|e| matches!(e, Error::Overflow { .. }), covers), "{run:?}");
            }
        }
    }
}

/// Whole lists through the public entry, with the sizes and texts that a hostile file could hold.
#[test]
fn hostile_lists_are_errors() {
    let lists = [
        "layer,kind,M,N,K,channels,count\na,gemm,4294967295,1,1,4294967295,4294967295\n",
        "layer,kind,M,N,K,channels,count\na,dw,1,1,1,4294967295,4294967295\n",
        "layer,kind,M,N,K,channels,count\na,dw,4294967295,4294967295,4294967295,4294967295,4294967295\n",
        "layer,kind,M,N,K\na,gemm,-1,1,1\n",
        "layer,kind,M,N,K\na,gemm,18446744073709551616,1,1\n",
        "layer,kind,M,N,K\n\"a,gemm,1,1,1\n",
        "\"layer\",kind,M,N,K,\n",
        ",,,,\n",
        "\u{0}",
    ];
    for text in lists {
        let result = parse(text, "l.csv").and_then(|layers| simulate(&layers, &NpuConfig::default(), None));
        assert!(result.is_err(), "{text:?}");
    }
}

//! Writes an example of the report page to standard output, so that a change of its looks can be seen.
//!
//! The figures are invented by a small generator with a fixed seed; they show every part of the page, none of them was
//! measured.

use ottava_validate::page::{
    Accuracy, Figure, LayerError, NpuLayer, Page, PartitionRow, PlacedNode, Span, SpanKind, Status, Track, Verdict,
    render,
};

/// Nodes of the invented network.
const N_NODES: u64 = 84;
/// Inferences in flight.
const N_INFERENCES: u64 = 4;

fn main() {
    print!("{}", render(&page()));
}

fn page() -> Page {
    Page {
        title: "mobilenet_v1_025 on npu0 and cpu0".to_owned(),
        subtitle: "An invented example: quantized network, two devices, 100 images".to_owned(),
        verdicts: verdicts(),
        figures: figures(),
        accuracy: accuracy(),
        partitions: partitions(),
        placement: (0..N_NODES).map(placed).collect(),
        timeline: timeline(),
        layers: (0..N_NODES).map(layer).collect(),
        npu: (0..N_NODES).filter(|&i| on_npu(i)).map(npu).collect(),
        notes: vec![
            "Figures of this page are invented. Cycles are simulated, times are measured on one core.".to_owned(),
        ],
        ..Page::default()
    }
}

/// A number of 0 to `below`, the same for the same `i` on every run.
fn noise(i: u64, below: u64) -> u64 {
    let mixed = i.wrapping_add(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below
}

fn on_npu(i: u64) -> bool {
    !(24..30).contains(&i) && i < 72
}

fn device(i: u64) -> String {
    if on_npu(i) { "npu0" } else { "cpu0" }.to_owned()
}

fn op(i: u64) -> &'static str {
    ["QLinearConv", "QLinearConv", "QLinearAdd", "LeakyRelu"][usize::try_from(noise(i, 4)).unwrap_or(0)]
}

fn name(i: u64) -> String {
    format!("features/block_{}/{}_{i}", i / 6, op(i).to_lowercase())
}

fn verdicts() -> Vec<Verdict> {
    let verdict = |status, text: &str| Verdict { status, text: text.to_owned() };
    vec![
        verdict(Status::Good, "reference, cpu0 and the split give the same bytes for all 100 samples."),
        verdict(Status::Good, "Top-1 is 0.4 points below the float network; at most 1.0 was asked for."),
        verdict(Status::Warning, "3 layers have less than 20 dB; all of them run on npu0."),
        verdict(Status::Bad, "The drift against the baseline plan is 1.7 %; at most 1.0 % was asked for."),
        verdict(Status::Info, "cpu0 waits for npu0 during 38 % of the time."),
    ]
}

fn figures() -> Vec<Figure> {
    let figure = |label: &str, value: &str, note: &str| Figure {
        label: label.to_owned(),
        value: value.to_owned(),
        note: note.to_owned(),
    };
    let cycles: u64 = (0..N_NODES).filter(|&i| on_npu(i)).map(|i| npu(i).cycles).sum();
    vec![
        figure("Latency, median", "4.21 ms", "p90 4.60 ms, 50 runs"),
        figure("Throughput, 4 in flight", "612 /s", "2.6 times one at a time"),
        figure("NPU cycles", &format!("{} k", cycles / 1000), "41 % of the array in use"),
        figure("Arena", "412 KiB", "sum of tensors 1.9 MiB, bound 398 KiB"),
        figure("Bridges", "3", "61 KiB per inference"),
    ]
}

fn accuracy() -> Vec<Accuracy> {
    let row = |name: &str, metric: &str, value, is_share| Accuracy {
        name: name.to_owned(),
        metric: metric.to_owned(),
        value,
        is_share,
        samples: 100,
    };
    vec![
        row("float network on the reference", "top-1", 0.724, true),
        row("int8 on cpu0", "top-1", 0.72, true),
        row("int8 on npu0 and cpu0", "top-1", 0.72, true),
        row("int8 on npu0 and cpu0 against float", "cosine", 0.99873, false),
    ]
}

fn partitions() -> Vec<PartitionRow> {
    let row = |device: &str, nodes, bridges: &[&str]| PartitionRow {
        device: device.to_owned(),
        nodes,
        bridges: bridges.iter().map(|&b| b.to_owned()).collect(),
    };
    vec![
        row("npu0", 24, &["quantize f32 to u8: input, 48 KiB", "u8 to s8 by XOR: input, 48 KiB"]),
        row("cpu0", 6, &["s8 to u8 by XOR: block_3/out, 8 KiB"]),
        row("npu0", 42, &["requantize 0.0235:0 to 0.0241:-3: block_4/out, 4 KiB"]),
        row("cpu0", 12, &[]),
    ]
}

fn placed(i: u64) -> PlacedNode {
    let reason = if on_npu(i) {
        "cheapest: 4.1 µs here, 21 µs on cpu0".to_owned()
    } else {
        format!("npu0 refuses: operator {} is not in its table", op(i))
    };
    PlacedNode {
        node: name(i),
        op: op(i).to_owned(),
        device: device(i),
        reason,
        cost_ns: (!i.is_multiple_of(17)).then(|| 900 + noise(i, 60_000)),
    }
}

fn layer(i: u64) -> LayerError {
    let sqnr_db = if i % 23 == 5 { f64::INFINITY } else { 44.0 - i as f64 * 0.25 + noise(i, 90) as f64 / 10.0 - 6.0 };
    let dip = if i % 29 == 11 { 14.0 } else { 0.0 };
    let sqnr_db = sqnr_db - dip;
    let cosine = 1.0 - 0.5 * 10f64.powf(-sqnr_db / 10.0);
    LayerError { name: name(i), device: device(i), sqnr_db, cosine, max_abs: 10f64.powf(-sqnr_db / 20.0) * 3.0 }
}

fn npu(i: u64) -> NpuLayer {
    let utilization = 0.1 + noise(i + 100, 80) as f64 / 100.0;
    NpuLayer { layer: name(i), cycles: 2_000 + noise(i, 60_000), utilization }
}

/// Two devices that take turns on four inferences, and bridges between them.
fn timeline() -> Vec<Track> {
    let mut npu = Vec::new();
    let mut cpu = Vec::new();
    for inference in 0..N_INFERENCES {
        let mut at = inference * 1_150_000;
        for (i, part) in partitions().iter().enumerate() {
            let index = i as u64;
            let span = |name: &str, start_ns, duration_ns, kind| Span {
                name: format!("{name} #{inference}"),
                start_ns,
                duration_ns,
                kind,
            };
            let track = if part.device == "npu0" { &mut npu } else { &mut cpu };
            for bridge in &part.bridges {
                track.push(span(bridge, at, 35_000, SpanKind::Bridge));
                at += 35_000;
            }
            let time = part.nodes as u64 * 18_000 + noise(inference * 9 + index, 90_000);
            track.push(span(&format!("partition {}", i + 1), at, time, SpanKind::Compute));
            at += time;
            if index == 1 {
                track.push(span("wait for npu0", at, 120_000, SpanKind::Wait));
            } else if index == 2 {
                track.push(span("copy to host", at, 50_000, SpanKind::Transfer));
                at += 50_000;
            }
        }
    }
    vec![Track { device: "npu0".to_owned(), spans: npu }, Track { device: "cpu0".to_owned(), spans: cpu }]
}

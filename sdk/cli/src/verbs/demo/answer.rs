//! The demo's findings for the terminal.

use super::page::same_bits;
use super::{Args, Findings};
use crate::text::{bytes, count, decibels, number, table};
use crate::ui::Answer;
use crate::verbs::explain::node_table;
use crate::verbs::run::partitions;
use crate::verbs::validate::{layer_json, layer_table};
use ottava::{Evaluation, PartitionReport, Plan};
use serde_json::{Value, json};

/// What the demo has to say.
pub fn answer(args: &Args, f: &Findings) -> Answer {
    let mut text = comparison(f);
    text += &format!(
        "\nint8 against float: SQNR {}; {} nodes quantized, {} in float; on the CPU alone: {}\n",
        decibels(f.validation.output_sqnr_db),
        f.quantized.report.quantized.len(),
        f.quantized.report.float.len(),
        ran(&f.int8_session.report().partitions)
    );
    text += &format!("both int8 placements give {} bits\n\n", if same_bits(f) { "the same" } else { "DIFFERENT" });
    text += "Where each node runs in the split, and why:\n\n";
    text += &node_table(&f.split.compiled.plan.placed, false);
    text += "\nOne image through the split:\n\n";
    text += &steps(f);
    text += &format!("\n{}", cycles(f));
    text += "\nError by layer:\n\n";
    text += &layer_table(&f.validation.layers);
    text.push('\n');
    for name in ["digits_int8.onnx", "trace.json", "report.html"] {
        text += &format!("written: {}\n", args.output.join(name).display());
    }
    Answer::new(text, json_of(args, f))
}

fn ran(parts: &[PartitionReport]) -> String {
    parts.iter().map(|p| format!("{} nodes on {}", p.nodes, p.device)).collect::<Vec<_>>().join(", ")
}

fn comparison(f: &Findings) -> String {
    let percent = |e: &Evaluation| format!("{:.2} % ({} of {})", e.value.unwrap_or(0.0) * 100.0, e.hits, e.n);
    let split_ms = f.split.reports.first().map_or(0.0, |r| r.total_ns as f64 / 1e6);
    let ms = |ms: f64| format!("{ms:.3} ms");
    let int8_size = bytes(f.quantized.bytes.len() as u64);
    let row = |cells: [String; 4]| cells.to_vec();
    let rows = [
        row(["accuracy".into(), percent(&f.float), percent(&f.int8), percent(&f.split.accuracy)]),
        row(["file".into(), bytes(f.model.size_bytes), int8_size.clone(), int8_size]),
        row(["latency, 1 image".into(), ms(f.float_ms), ms(f.int8_ms), ms(split_ms)]),
    ];
    table(&["", "float, cpu", "int8, cpu", "int8, npu + cpu"], &[1, 2, 3], rows)
}

/// The steps of the first inference of the timeline.
fn steps(f: &Findings) -> String {
    let list = f.split.reports.first().map_or(&[][..], |r| &r.steps);
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let row = |s: &ottava::StepTime| {
        let kind = format!("{:?}", s.kind).to_lowercase();
        vec![s.name.clone(), s.device.clone(), kind, us(s.start_ns), us(s.duration_ns)]
    };
    table(&["step", "device", "kind", "start us", "us"], &[3, 4], list.iter().map(row))
}

fn cycles(f: &Findings) -> String {
    let layers = f.split.cycles();
    let total: u64 = layers.iter().map(|(_, c)| c).sum();
    let overlap = ottava::overlap_ratio(&f.split.reports);
    format!(
        "{} NPU cycles in {} nodes; {} bridges; {} inferences in flight keep the devices busy {overlap:.2} times the wall time\n",
        count(total),
        layers.len(),
        bridges(&f.split.compiled.plan),
        f.split.reports.len(),
    )
}

fn bridges(plan: &Plan) -> usize {
    plan.placed.iter().filter(|p| p.bridge).count()
}

fn json_of(args: &Args, f: &Findings) -> Value {
    let plan = &f.split.compiled.plan;
    let parts: Vec<Value> = plan
        .partitions
        .iter()
        .map(|p| json!({ "device": p.device, "nodes": p.program.nodes.len(), "bridges": p.bridges }))
        .collect();
    let file = |name: &str| args.output.join(name).display().to_string();
    json!({
        "float_top1": f.float.value, "int8_top1": f.int8.value, "split_top1": f.split.accuracy.value,
        "same_bits": same_bits(f), "partitions": parts,
        "cpu_partitions": partitions(&f.int8_session.report().partitions),
        "npu_cycles": f.split.cycles().iter().map(|(_, c)| c).sum::<u64>(), "bridges": bridges(plan),
        "report": {
            "n": f.int8.n, "float_ms": f.float_ms, "int8_ms": f.int8_ms, "float_bytes": f.model.size_bytes,
            "int8_bytes": f.quantized.bytes.len(), "sqnr_db": number(f.validation.output_sqnr_db),
            "nodes_quantized": f.quantized.report.quantized.len(), "layers": layer_json(&f.validation.layers),
            "output": file("digits_int8.onnx"), "trace": file("trace.json"), "html": file("report.html"),
        },
    })
}

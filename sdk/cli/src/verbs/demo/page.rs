//! The demo's findings as an HTML page.

use super::Findings;
use crate::text::{bytes, decibels};
use ottava::page::{
    Accuracy, Figure, LayerError, NpuLayer, Page, PartitionRow, PlacedNode, Span, SpanKind, Status, Track, Verdict,
};
use ottava::{Evaluation, Plan, RunReport, StepKind, StepTime};
use std::collections::BTreeMap;

/// The page.
pub fn page(f: &Findings) -> Page {
    let plan = &f.split.compiled.plan;
    Page {
        title: "Ottava demo: handwritten digits".into(),
        subtitle: "one network in float, in int8 on the CPU, and in int8 split over a simulated NPU and the CPU".into(),
        verdicts: verdicts(f),
        figures: figures(f),
        accuracy: [("float, cpu", &f.float), ("int8, cpu", &f.int8), ("int8, npu + cpu", &f.split.accuracy)]
            .map(|(name, e)| accuracy(name, e))
            .to_vec(),
        partitions: partitions(plan),
        placement: placement(plan),
        timeline: timeline(&f.split.reports),
        layers: layers(f),
        npu: npu(f),
        notes: f.split.compiled.diagnostics.iter().map(ToString::to_string).collect(),
        ..Page::default()
    }
}

/// Whether both placements gave the same bits.
pub fn same_bits(f: &Findings) -> bool {
    !f.int8.outputs.is_empty() && f.int8.outputs == f.split.accuracy.outputs
}

fn verdicts(f: &Findings) -> Vec<Verdict> {
    let equal = match same_bits(f) {
        true => (Status::Good, format!("both int8 placements give the same bits on all {} images", f.int8.n)),
        false => (Status::Bad, "the int8 placements differ".to_owned()),
    };
    let lost = f.float.hits.saturating_sub(f.int8.hits);
    let status = if lost * 100 > f.float.n { Status::Warning } else { Status::Good };
    let text = format!("int8 is right on {} of {} images, float on {}", f.int8.hits, f.int8.n, f.float.hits);
    vec![Verdict { status: equal.0, text: equal.1 }, Verdict { status, text }]
}

fn figures(f: &Findings) -> Vec<Figure> {
    let figure = |label: &str, value: String, note: String| Figure { label: label.into(), value, note };
    let cycles: u64 = f.split.cycles().iter().map(|(_, c)| c).sum();
    vec![
        figure("file", bytes(f.quantized.bytes.len() as u64), format!("float {}", bytes(f.model.size_bytes))),
        figure("latency, cpu", format!("{:.3} ms", f.int8_ms), format!("float {:.3} ms", f.float_ms)),
        figure("SQNR", decibels(f.validation.output_sqnr_db), "output, int8 against float".into()),
        figure("NPU cycles", cycles.to_string(), "one image".into()),
    ]
}

fn accuracy(name: &str, e: &Evaluation) -> Accuracy {
    let value = e.value.unwrap_or(0.0);
    Accuracy { name: name.into(), metric: "top 1".into(), value, is_share: true, samples: e.n }
}

fn partitions(plan: &Plan) -> Vec<PartitionRow> {
    let row = |(i, p): (usize, &ottava::Partition)| {
        let bridges = plan.placed.iter().filter(|n| n.bridge && n.partition == i).map(|n| n.node.clone());
        PartitionRow { device: p.device.clone(), nodes: p.program.nodes.len(), bridges: bridges.collect() }
    };
    plan.partitions.iter().enumerate().map(row).collect()
}

fn placement(plan: &Plan) -> Vec<PlacedNode> {
    let cost = |p: &ottava::Placed| p.opinions.iter().find(|o| o.device == p.device).map(|o| o.cost_ns);
    let row = |p: &ottava::Placed| PlacedNode {
        node: p.node.clone(),
        op: p.op.clone(),
        device: p.device.clone(),
        reason: p.reason.clone(),
        cost_ns: cost(p),
    };
    plan.placed.iter().map(row).collect()
}

/// A track per device, over all inferences, from the begin of the first one.
fn timeline(reports: &[RunReport]) -> Vec<Track> {
    let first = reports.iter().map(|r| r.begin_ns).min().unwrap_or(0);
    let mut tracks: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for r in reports {
        for step in r.steps.iter().filter(|s| s.kind != StepKind::Wait) {
            let start_ns = r.begin_ns.saturating_sub(first).saturating_add(step.start_ns);
            tracks.entry(&step.device).or_default().push(span(r.inference, step, start_ns));
        }
    }
    tracks.into_iter().map(|(device, spans)| Track { device: device.to_owned(), spans }).collect()
}

fn span(inference: u64, step: &StepTime, start_ns: u64) -> Span {
    let kind = if step.kind == StepKind::Copy { SpanKind::Transfer } else { SpanKind::Compute };
    Span { name: format!("{} (inference {inference})", step.name), start_ns, duration_ns: step.duration_ns, kind }
}

fn layers(f: &Findings) -> Vec<LayerError> {
    let device = |name: &str| {
        let plan = &f.split.compiled.plan;
        // In the plan, the quantized form of a value has its name with an ending.
        let is_it = |v: &str| v.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let makes = |p: &ottava::Partition| {
            let mut outputs = p.program.nodes.iter().flat_map(|n| &n.outputs);
            outputs.any(|id| is_it(&p.program.value(*id).name))
        };
        let found = plan.partitions.iter().find(|p| makes(p));
        found.map_or(String::new(), |p| p.device.clone())
    };
    let row = |l: &ottava::Layer| LayerError {
        name: l.name.clone(),
        device: device(&l.name),
        sqnr_db: l.sqnr_db,
        cosine: l.cosine,
        max_abs: l.max_abs,
    };
    f.validation.layers.iter().map(row).collect()
}

fn npu(f: &Findings) -> Vec<NpuLayer> {
    let macs = ottava::node_macs(&f.split.compiled.plan);
    let row = |(layer, cycles): (String, u64)| {
        let peak = cycles as f64 * f.split.array;
        let utilization = macs.get(&layer).map_or(0.0, |m| *m as f64 / peak.max(1.0));
        NpuLayer { layer, cycles, utilization }
    };
    f.split.cycles().into_iter().map(row).collect()
}

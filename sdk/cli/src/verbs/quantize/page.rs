//! The report of a quantization as an HTML page: what was decided, why, and how large the error is.

use crate::text::{bytes, decibels};
use ottava::page::{Figure, LayerError, NodePrecision, Page, Status, TensorRange, Verdict};
use ottava::{DataType, MixedPrecision, Model, QuantizedModel, Recipe, Validation};

/// What the page tells about.
pub struct Findings<'a> {
    /// The float model.
    pub model: &'a Model,
    /// What became of it.
    pub quantized: &'a QuantizedModel,
    /// The recipe that was asked for.
    pub recipe: &'a Recipe,
    /// Layer by layer on calibration data, where there were data.
    pub validation: Option<Validation>,
}

/// The page.
pub fn page(f: &Findings) -> Page {
    let name = f.model.origin.file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy());
    let n = f.validation.as_ref().map_or(0, |v| v.n);
    Page {
        title: format!("Quantization of {name}"),
        subtitle: match n {
            0 => "no data at hand: the errors were not measured".to_owned(),
            n => format!(
                "errors against the float network, measured on {n} calibration samples, from which the ranges come too; \
                 a search measures on samples that its ranges had not seen, and `eval` on the data that it is given, so \
                 their figures differ"
            ),
        },
        verdicts: verdicts(f),
        figures: figures(f),
        layers: f.validation.iter().flat_map(|v| &v.layers).map(layer).collect(),
        precision: precision(f),
        ranges: ranges(f),
        recipe: f.quantized.report.recipe.clone(),
        notes: f.quantized.diagnostics.iter().map(ToString::to_string).collect(),
        ..Page::default()
    }
}

fn verdicts(f: &Findings) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let Some(v) = &f.validation {
        let status = match v.output_sqnr_db {
            db if db >= 30.0 => Status::Good,
            db if db >= 20.0 => Status::Warning,
            _ => Status::Bad,
        };
        verdicts.push(Verdict {
            status,
            text: format!("the output has {} of signal to noise", decibels(v.output_sqnr_db)),
        });
    }
    verdicts.extend(f.quantized.mixed.as_ref().map(mixed_verdict));
    let (float, share) = (f.quantized.report.float.len(), 100.0 * f.quantized.float_macs());
    let text = match float {
        0 => "every node is an integer operator".to_owned(),
        n => format!("{n} nodes stay in float, {share:.1} % of the multiply-accumulates"),
    };
    let status = if share > 10.0 { Status::Warning } else { Status::Good };
    verdicts.push(Verdict { status, text });
    verdicts
}

/// What the search for mixed precision measured, on halves of the data that the ranges had not seen.
fn mixed_verdict(mixed: &MixedPrecision) -> Verdict {
    let status = if mixed.reached { Status::Good } else { Status::Warning };
    let text = format!(
        "on samples that the ranges had not seen: {} with all tensors in 8 bits, {} with {} outside; the goal is {}",
        decibels(mixed.before_db),
        decibels(mixed.after_db),
        mixed.exceptions.len(),
        decibels(mixed.target_db)
    );
    Verdict { status, text }
}

fn figures(f: &Findings) -> Vec<Figure> {
    let figure = |label: &str, value: String, note: String| Figure { label: label.into(), value, note };
    let (size, float) = (f.quantized.bytes.len() as u64, f.model.size_bytes);
    let share = 100.0 * size as f64 / float.max(1) as f64;
    let report = &f.quantized.report;
    let mut figures = vec![
        figure("file", bytes(size), format!("float {}, {share:.0} %", bytes(float))),
        figure("nodes quantized", report.quantized.len().to_string(), format!("{} in float", report.float.len())),
        figure("MACs in float", format!("{:.1} %", 100.0 * f.quantized.float_macs()), "of one inference".into()),
    ];
    if let Some(v) = &f.validation {
        let note = format!("cosine {:.5}", v.output_cosine);
        figures.insert(0, figure("SQNR", decibels(v.output_sqnr_db), note));
    }
    figures
}

fn layer(l: &ottava::Layer) -> LayerError {
    LayerError { name: l.name.clone(), device: String::new(), sqnr_db: l.sqnr_db, cosine: l.cosine, max_abs: l.max_abs }
}

/// Every node that computes floats in the original, in the order of the quantized graph.
fn precision(f: &Findings) -> Vec<NodePrecision> {
    let report = &f.quantized.report;
    let row = |node: &ottava::Node| {
        let float = report.float.iter().find(|n| n.name == node.name);
        if float.is_none() && !report.quantized.contains(&node.name) {
            return None;
        }
        let integers = || storage(f, node).to_string();
        Some(NodePrecision {
            node: node.name.clone(),
            op: node.op.clone(),
            precision: float.map_or_else(integers, |_| "float".to_owned()),
            macs: f.quantized.macs.get(&node.name).copied().unwrap_or(0),
            reason: float.map_or_else(String::new, |n| n.reason.clone()),
        })
    };
    f.quantized.model.graph.nodes.iter().filter_map(row).collect()
}

/// The type of what a node reads; inputs of integer operators come out of DequantizeLinear, under the value's name.
fn storage(f: &Findings, node: &ottava::Node) -> DataType {
    let graph = &f.quantized.model.graph;
    let of = |id: &Option<ottava::ValueId>| {
        let name = id.map(|id| graph.name_of(id))?;
        let name = name.strip_suffix("/dq").unwrap_or(name);
        f.quantized.report.values.get(name).map(|v| v.dtype)
    };
    node.inputs.iter().find_map(of).unwrap_or(f.recipe.activations.dtype)
}

fn ranges(f: &Findings) -> Vec<TensorRange> {
    let observer = f.recipe.activations.observer.method().name;
    let row = |(name, v): (&String, &ottava::ValueParams)| TensorRange {
        name: name.clone(),
        dtype: v.dtype.to_string(),
        scale: v.scale.into(),
        zero_point: v.zero_point.into(),
        lo: v.range.0,
        hi: v.range.1,
        observer: observer.to_owned(),
    };
    let mut rows: Vec<TensorRange> = f.quantized.report.values.iter().map(row).collect();
    rows.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// A name in pieces that sort as people count: `layer2` before `layer10`. Numbers are compared by their length first.
fn natural(name: &str) -> Vec<(bool, usize, &str)> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        let piece = if is_number { piece.trim_start_matches('0') } else { piece };
        pieces.push((!is_number, if is_number { piece.len() } else { 0 }, piece));
        rest = behind;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["layer10/relu", "x", "layer2", "layer10", "layer02b", "3", "12", "layer2/relu"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["3", "12", "layer2", "layer2/relu", "layer02b", "layer10", "layer10/relu", "x"]);
    }
}

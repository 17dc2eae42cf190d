//! `ottava inspect`: what a model is, without running it.

use super::Context;
use crate::failure::Result;
use crate::text::{bytes, count, table};
use crate::ui::Answer;
use ottava::{Model, Summary, TensorType};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Inputs, outputs, operators, parameters and multiply-accumulates of a model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ottava inspect model.onnx")]
pub struct Args {
    /// The model.
    model: PathBuf,
}

/// `{name, dtype, shape, scale?, zero_point?}`.
fn value(name: &str, ty: &TensorType) -> Value {
    let shape: Vec<Value> =
        ty.shape.0.iter().map(|d| d.known().map_or_else(|| json!(d.to_string()), |n| json!(n))).collect();
    json!({ "name": name, "dtype": ty.dtype.name(), "shape": shape })
}

fn human(args: &Args, model: &Model, s: &Summary) -> String {
    let macs = s.macs.map_or_else(|| "unknown before a run".to_owned(), count);
    let mut text = format!(
        "{}  {}\nparameters {}, multiply-accumulates {macs} (batch 1), quantized operators {}\n",
        args.model.display(),
        bytes(model.size_bytes),
        count(s.params),
        s.quantized_ops
    );
    for (label, list) in [("input", &s.inputs), ("output", &s.outputs), ("state", &s.states)] {
        list.iter().for_each(|(name, ty)| text.push_str(&format!("{label:7} {name}: {ty}\n")));
    }
    if !s.requant.is_empty() {
        text.push_str(&format!("requantization: {}\n", modes(&s.requant)));
    }
    if !s.symbols.is_empty() {
        text.push_str(&format!("symbolic dimensions: {}\n", s.symbols.join(", ")));
    }
    text.push('\n');
    text.push_str(&table(&["operator", "count"], &[1], s.ops.iter().map(|(op, n)| vec![op.clone(), n.to_string()])));
    text
}

/// `q31_double 8, q31_single 1`: nodes by their requantization mode.
pub fn modes(requant: &BTreeMap<&'static str, usize>) -> String {
    requant.iter().map(|(mode, n)| format!("{mode} {n}")).collect::<Vec<_>>().join(", ")
}

/// Describes a model.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = cx.load(&args.model)?;
    cx.ui.diagnostics(&model.diagnostics);
    let s = model.summary()?;
    let list = |values: &[(String, TensorType)]| values.iter().map(|(n, t)| value(n, t)).collect::<Vec<_>>();
    let json = json!({
        "inputs": list(&s.inputs), "outputs": list(&s.outputs), "states": list(&s.states), "ops": s.ops, "params": s.params, "macs": s.macs,
        "quantized_ops": s.quantized_ops, "requant": s.requant, "size_bytes": model.size_bytes, "symbols": s.symbols,
    });
    Ok(Answer::new(human(args, &model, &s), json))
}

//! `ottava validate`: layer-by-layer error of a quantized model, and bit equality of a device with the reference.

use super::Context;
use crate::failure::Result;
use crate::options::{NetworkArgs, preprocess, rows};
use crate::text::{decibel, decibels, number, table};
use crate::ui::Answer;
use ottava::{Layer, Model, ValidateOptions};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Compare a quantized model with its float original, layer by layer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava validate model_int8.onnx --float model.onnx --data test.npz --limit 32
  ottava validate model_int8.onnx --float model.onnx --data test.npz --device cpu")]
pub struct Args {
    /// The quantized model.
    model: PathBuf,
    /// The float model that it was made from.
    #[arg(long = "float", value_name = "MODEL")]
    original: PathBuf,
    /// Data.
    #[arg(long, value_name = "D")]
    data: PathBuf,
    /// Rows at most.
    #[arg(long, value_name = "N", value_parser = rows())]
    limit: Option<usize>,
    /// Recipe whose `preprocess` block prepares a folder of images.
    #[arg(long, value_name = "R.ron")]
    recipe: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// The table of layers.
pub fn layer_table(layers: &[Layer]) -> String {
    let bits = |l: &Layer| match l.bit_equal {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "",
    };
    let percent = |share: f64| if share == 0.0 { String::new() } else { format!("{:.2}", share * 100.0) };
    let row = |l: &Layer| {
        vec![
            l.name.clone(),
            l.op.clone(),
            l.dtype.to_string(),
            decibel(l.sqnr_db),
            format!("{:.6}", l.cosine),
            format!("{:.4}", l.max_abs),
            percent(l.saturated_low),
            percent(l.saturated_high),
            bits(l).to_owned(),
        ]
    };
    let header = ["value", "operator", "type", "SQNR dB", "cosine", "max error", "low %", "high %", "bit-equal"];
    table(&header, &[3, 4, 5, 6, 7], layers.iter().map(row))
}

/// `{name, op, sqnr_db, ..}` per layer.
pub fn layer_json(layers: &[Layer]) -> Vec<Value> {
    let one = |l: &Layer| {
        json!({
            "name": l.name, "op": l.op, "dtype": l.dtype.name(), "sqnr_db": number(l.sqnr_db), "cosine": number(l.cosine),
            "max_abs": number(l.max_abs), "saturated_low": l.saturated_low, "saturated_high": l.saturated_high,
            "bit_equal": l.bit_equal,
        })
    };
    layers.iter().map(one).collect()
}

/// Compares.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = cx.load(&args.model)?;
    let original = Model::load(&args.original)?;
    let data = crate::files::data(&args.data, preprocess(args.recipe.as_ref())?.as_ref())?;
    let session = args.network.session(&cx.registry, &model)?;
    let options = ValidateOptions { limit: args.limit, affine: args.network.affine, session };
    let bar = cx.ui.bar("validate");
    let v = ottava::validate(&model, &original, &data, &cx.registry, &options, &mut bar.callback())?;
    drop(bar);
    let text = format!(
        "{}\noutput: SQNR {}, cosine {:.6} over {} samples",
        layer_table(&v.layers),
        decibels(v.output_sqnr_db),
        v.output_cosine,
        v.n
    );
    let json = json!({
        "layers": layer_json(&v.layers),
        "output": { "sqnr_db": number(v.output_sqnr_db), "cosine": number(v.output_cosine) },
        "n": v.n, "unpaired": v.unpaired, "recommendations": [],
    });
    let unequal: Vec<&str> = v.layers.iter().filter(|l| l.bit_equal == Some(false)).map(|l| l.name.as_str()).collect();
    let failed = unequal.first().map(|first| {
        format!("{} of {} values differ from the reference, the first is `{first}`", unequal.len(), v.layers.len())
    });
    Ok(Answer { text, json, failed })
}

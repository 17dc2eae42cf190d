//! `ottava demo`: the whole road on a bundled network and real images of handwritten digits.

use super::Context;
use super::bench::quantile;
use super::run::partitions;
use super::validate::{layer_json, layer_table};
use crate::failure::Result;
use crate::options::make_folder;
use crate::text::{bytes, decibel, number};
use crate::ui::Answer;
use ottava::{
    Data, EvaluateOptions, Evaluation, Metric, Model, QuantizeOptions, QuantizedModel, Session, SessionOptions, Source,
    Tensor, ValidateOptions, Validation,
};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Load, measure, calibrate, quantize, measure again, compare layer by layer: on bundled data, in one go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ottava demo -o my-demo")]
pub struct Args {
    /// Folder for the models.
    #[arg(short, long, value_name = "DIR", default_value = "ottava-demo")]
    output: PathBuf,
}

const MODEL: &[u8] = include_bytes!("../../assets/digits.onnx");
const CALIBRATION: &[u8] = include_bytes!("../../assets/digits_calib.npz");
const TEST: &[u8] = include_bytes!("../../assets/digits_test.npz");
/// Images that the layers are compared on.
const N_COMPARED: usize = 64;
/// Runs of a latency measurement.
const N_RUNS: usize = 200;

/// Everything that the demo found out.
struct Findings {
    float: Evaluation,
    int8: Evaluation,
    float_ms: f64,
    int8_ms: f64,
    validation: Validation,
}

fn accuracy(model: &Model, data: &Data, cx: &Context, label: &str) -> Result<Evaluation> {
    let session = SessionOptions { batch: 20, ..SessionOptions::default() };
    let options = EvaluateOptions { metric: Some(Metric::Top1), session, ..EvaluateOptions::default() };
    let bar = cx.ui.bar(label);
    Ok(ottava::evaluate(model, data, &cx.registry, &options, None, &mut bar.callback())?)
}

/// The median latency of one image, milliseconds.
fn latency(session: &Session) -> Result<f64> {
    let image = Tensor::from_slice(&[1, 1, 8, 8], &[8.0f32; 64]).map_err(ottava::Error::from)?;
    let mut ms = Vec::with_capacity(N_RUNS);
    for _ in 0..N_RUNS {
        let start = Instant::now();
        session.run_ordered(std::slice::from_ref(&image), false)?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    ms.sort_by(f64::total_cmp);
    Ok(quantile(&ms, 0.5))
}

/// The whole road.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = Model::from_bytes("digits.onnx", MODEL)?;
    let (images, test) =
        (Data::from_npz_bytes("digits_calib.npz", CALIBRATION)?, Data::from_npz_bytes("digits_test.npz", TEST)?);
    let float = accuracy(&model, &test, cx, "float")?;
    let quantized = {
        let bar = cx.ui.bar("calibrate");
        let source = Source::Data { data: &images, affine: None };
        model.quantize(source, &cx.registry, &QuantizeOptions::default(), &mut bar.callback())?
    };
    make_folder(&args.output)?;
    crate::options::write_file(&args.output.join("digits.onnx"), MODEL)?;
    quantized.save(args.output.join("digits_int8.onnx"))?;
    let int8 = accuracy(&quantized.model, &test, cx, "int8")?;
    let validation = {
        let bar = cx.ui.bar("compare");
        let options = ValidateOptions { limit: Some(N_COMPARED), ..ValidateOptions::default() };
        ottava::validate(&quantized.model, &model, &test, &cx.registry, &options, &mut bar.callback())?
    };
    let session = |m: &Model| Session::new(m, &cx.registry, &SessionOptions::default());
    let (float_session, int8_session) = (session(&model)?, session(&quantized.model)?);
    let (float_ms, int8_ms) = (latency(&float_session)?, latency(&int8_session)?);
    let found = Findings { float, int8, float_ms, int8_ms, validation };
    Ok(answer(args, &model, &quantized, &int8_session, &found))
}

fn answer(args: &Args, model: &Model, q: &QuantizedModel, session: &Session, f: &Findings) -> Answer {
    let parts = &session.report().partitions;
    let ran: Vec<String> = parts.iter().map(|p| format!("{} nodes on {}", p.nodes, p.device)).collect();
    let percent = |e: &Evaluation| format!("{:.2} % ({} of {})", e.value.unwrap_or(0.0) * 100.0, e.hits, e.n);
    let line = |label: &str, float: String, int8: String| format!("{label:<22} {float:>22} {int8:>22}\n");
    let mut text = line("", "float".into(), "int8".into());
    text += &line("accuracy", percent(&f.float), percent(&f.int8));
    text += &line("file", bytes(model.size_bytes), bytes(q.bytes.len() as u64));
    text += &line("latency, 1 image", format!("{:.3} ms", f.float_ms), format!("{:.3} ms", f.int8_ms));
    text += &format!(
        "\nint8 against float: SQNR {} dB; {} nodes quantized, {} in float; ran {}\n\n",
        decibel(f.validation.output_sqnr_db),
        q.report.quantized.len(),
        q.report.float.len(),
        ran.join(", ")
    );
    text += &layer_table(&f.validation.layers);
    text += &format!("\nwritten: {}\n", args.output.join("digits_int8.onnx").display());
    let json = json!({
        "float_top1": f.float.value, "int8_top1": f.int8.value, "partitions": partitions(parts),
        "report": {
            "n": f.int8.n, "float_ms": f.float_ms, "int8_ms": f.int8_ms, "float_bytes": model.size_bytes,
            "int8_bytes": q.bytes.len(), "sqnr_db": number(f.validation.output_sqnr_db),
            "nodes_quantized": q.report.quantized.len(), "layers": layer_json(&f.validation.layers),
            "output": args.output.join("digits_int8.onnx").display().to_string(),
        },
    });
    Answer::new(text, json)
}

//! `ottava demo`: the whole road on a bundled network and real images of handwritten digits.
//!
//! Float on the CPU, int8 on the CPU, and int8 split over a simulated NPU and the CPU, with the same bits. What ran
//! where, how long and with which error ends in one HTML page.

mod answer;
mod page;
mod split;

use super::Context;
use super::bench::quantile;
use crate::failure::Result;
use crate::options::{make_folder, refuse_same, write_file};
use crate::ui::Answer;
use ottava::{
    Data, EvaluateOptions, Evaluation, Metric, Model, QuantizeOptions, QuantizedModel, Registry, Session,
    SessionOptions, Source, Tensor, ValidateOptions, Validation,
};
use split::Split;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Load, measure, calibrate, quantize, measure again, split over two devices, compare layer by layer: on bundled data, in
/// one go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ottava demo -o my-demo")]
pub struct Args {
    /// Folder for models, trace and report.
    #[arg(short, long, value_name = "DIR", default_value = "ottava-demo")]
    output: PathBuf,
}

const MODEL: &[u8] = include_bytes!("../../../assets/digits.onnx");
const CALIBRATION: &[u8] = include_bytes!("../../../assets/digits_calib.npz");
const TEST: &[u8] = include_bytes!("../../../assets/digits_test.npz");
/// Images that the layers are compared on.
const N_COMPARED: usize = 64;
/// Runs of a latency measurement.
const N_RUNS: usize = 200;

/// Everything that the demo found out.
struct Findings {
    model: Model,
    quantized: QuantizedModel,
    float: Evaluation,
    int8: Evaluation,
    float_ms: f64,
    int8_ms: f64,
    validation: Validation,
    int8_session: Session,
    split: Split,
}

fn accuracy(model: &Model, data: &Data, registry: &Registry, cx: &Context, label: &str) -> Result<Evaluation> {
    let session = SessionOptions { batch: 20, ..SessionOptions::default() };
    let options =
        EvaluateOptions { metric: Some(Metric::Top1), session, keep_outputs: true, ..EvaluateOptions::default() };
    let bar = cx.ui.bar(label);
    Ok(ottava::evaluate(model, data, registry, &options, None, &mut bar.callback())?)
}

/// An image of one grey.
fn image() -> Result<Tensor> {
    Ok(Tensor::from_slice(&[1, 1, 8, 8], &[8.0f32; 64]).map_err(ottava::Error::from)?)
}

/// The median latency of one image, milliseconds.
fn latency(session: &Session) -> Result<f64> {
    let image = image()?;
    let mut ms = Vec::with_capacity(N_RUNS);
    for _ in 0..N_RUNS {
        let start = Instant::now();
        session.run_ordered(std::slice::from_ref(&image), false)?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    ms.sort_by(f64::total_cmp);
    Ok(quantile(&ms, 0.5))
}

/// What is written into the folder.
const FILES: [&str; 5] = ["chip.ron", "digits.onnx", "digits_int8.onnx", "trace.json", "report.html"];

/// The whole road.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    for name in FILES {
        refuse_same(&args.output.join(name), &[], cx)?;
    }
    make_folder(&args.output)?;
    let found = find_out(&args.output, cx)?;
    let file = |name: &str| args.output.join(name);
    write_file(&file("digits.onnx"), MODEL)?;
    found.quantized.save(file("digits_int8.onnx"))?;
    write_file(&file("trace.json"), found.split.trace().as_bytes())?;
    write_file(&file("report.html"), ottava::page::render(&page::page(&found)).as_bytes())?;
    Ok(answer::answer(args, &found))
}

fn find_out(folder: &Path, cx: &Context) -> Result<Findings> {
    let model = Model::from_bytes("digits.onnx", MODEL)?;
    let (images, test) =
        (Data::from_npz_bytes("digits_calib.npz", CALIBRATION)?, Data::from_npz_bytes("digits_test.npz", TEST)?);
    let float = accuracy(&model, &test, &cx.registry, cx, "float")?;
    let quantized = {
        let bar = cx.ui.bar("calibrate");
        let source = Source::Data { data: &images, affine: None };
        model.quantize(source, &cx.registry, &QuantizeOptions::default(), &mut bar.callback())?
    };
    let int8 = accuracy(&quantized.model, &test, &cx.registry, cx, "int8")?;
    let validation = {
        let bar = cx.ui.bar("compare");
        let options = ValidateOptions { limit: Some(N_COMPARED), ..ValidateOptions::default() };
        ottava::validate(&quantized.model, &model, &test, &cx.registry, &options, &mut bar.callback())?
    };
    let session = |m: &Model| Session::new(m, &cx.registry, &SessionOptions::default());
    let (float_session, int8_session) = (session(&model)?, session(&quantized.model)?);
    let (float_ms, int8_ms) = (latency(&float_session)?, latency(&int8_session)?);
    let split = Split::run(&quantized.model, &test, folder, cx)?;
    Ok(Findings { model, quantized, float, int8, float_ms, int8_ms, validation, int8_session, split })
}

//! `ottava bench`: latency and throughput on random valid input.

use super::Context;
use super::tune;
use super::worker::{self, RawInput, Work};
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same};
use crate::text::{bytes, count, table};
use crate::ui::Answer;
use ottava::{Affine, DataType, Model, Session, Tensor};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measure latency and throughput.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava bench model_int8.onnx --threads 1 --runs 100
  ottava bench model_int8.onnx --tune tune.ron
  ottava bench model.onnx --worker --raw-input x:f32:1x3x224x224:in.bin")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// Runs that are not measured.
    #[arg(long, value_name = "W", default_value_t = 3)]
    warmup: usize,
    /// Runs that are measured.
    #[arg(long, value_name = "R", default_value_t = 30, value_parser = runs)]
    runs: usize,
    /// Measure what the model costs on this machine's devices and write it to a file for `tuning` of the configuration;
    /// `--runs` limits the runs of what is compared.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["worker", "concurrency", "warmup"])]
    tune: Option<PathBuf>,
    /// Inferences in flight at once.
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Answer the line protocol of the comparison with other runtimes on stdin and stdout.
    #[arg(long)]
    worker: bool,
    /// Data of an input in its file's bytes (little-endian) instead of random numbers.
    #[arg(long, value_name = "NAME:DTYPE:SHAPE:FILE")]
    raw_input: Vec<RawInput>,
    #[command(flatten)]
    network: NetworkArgs,
}

fn runs(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=10_000_000).contains(n))
        .ok_or_else(|| "needs a number from 1 to 10000000".to_owned())
}

/// Measures, or becomes a worker.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let start = Instant::now();
    let affine = args.network.affine;
    if affine.is_some() && args.raw_input.is_empty() {
        return Err(Failure::Usage("`--affine` maps the data of `--raw-input`, and there is none".to_owned()));
    }
    let model = cx.load(&args.model)?;
    let raw = args.raw_input.iter().map(|r| Ok((r.name.clone(), r.read()?))).collect::<Result<Vec<_>>>()?;
    args.network.expect_batch(&model, &raw)?;
    let mut options = args.network.session(&cx.registry, &model)?;
    for (name, n) in raw_dims(&model, &raw) {
        options.dims.entry(name).or_insert(n);
    }
    if let Some(file) = &args.tune {
        let inputs = |session: &Session| inputs(session, &raw, affine.unwrap_or_default());
        let read = files_read(args);
        let job = tune::Job { model: &model, options: &options, runs: args.runs, read: &read, inputs: &inputs };
        return tune::run(file, &job, cx);
    }
    let session = Session::new(&model, &cx.registry, &options)?;
    let ready_ms = start.elapsed().as_secs_f64() * 1e3;
    let inputs = inputs(&session, &raw, affine.unwrap_or_default())?;
    if args.worker {
        let may_write = |path: &Path| refuse_same(path, &files_read(args), cx);
        worker::serve(&Work { session: &session, inputs: &inputs, may_write: &may_write }, start, ready_ms)?;
        return Ok(Answer::default());
    }
    cx.ui.diagnostics(&session.report().diagnostics);
    let mut answer = measure(args, &session, &inputs, cx)?;
    answer.json["ready_ms"] = json!(ready_ms);
    Ok(answer)
}

/// Everything that is read and must not be written over.
fn files_read(args: &Args) -> Vec<&Path> {
    std::iter::once(args.model.as_path()).chain(args.raw_input.iter().map(RawInput::file)).collect()
}

/// Symbols that the given data decides.
fn raw_dims(model: &Model, raw: &[(String, Tensor)]) -> Vec<(String, usize)> {
    let of = |(name, ty): (String, ottava::TensorType)| {
        let tensor = raw.iter().find(|(n, _)| *n == name).map(|(_, t)| t.clone())?;
        let dims = ty.shape.0.into_iter().zip(tensor.shape().to_vec());
        Some(dims.filter(|(d, _)| d.known().is_none()).map(|(d, n)| (d.to_string(), n)).collect::<Vec<_>>())
    };
    model.inputs().into_iter().filter_map(of).flatten().collect()
}

/// The given data, and random numbers for what is not given.
fn inputs(session: &Session, raw: &[(String, Tensor)], affine: Affine) -> Result<Vec<Tensor>> {
    if let Some((name, _)) = raw.iter().find(|(n, _)| !session.inputs().iter().any(|(i, _)| i == n)) {
        let names = session.inputs().iter().map(|(n, _)| n.as_str());
        return Err(Failure::Usage(format!("the model has no input `{name}`; {}", ottava::hint(name, names))));
    }
    let one = |(i, (name, ty)): (usize, &(String, ottava::TensorType))| match raw.iter().find(|(n, _)| n == name) {
        Some((_, tensor)) => Ok(ottava::convert(tensor, ty.dtype, affine)?),
        None => {
            let shape = ty.shape.known().unwrap_or_else(|| vec![1; ty.shape.rank()]);
            Ok(random(ty.dtype, &shape, i as u64)?)
        }
    };
    session.inputs().iter().enumerate().map(one).collect()
}

/// Random valid data: floats from -1 to 1, 8-bit integers of the whole range, booleans, and 0 or 1 for wider integers,
/// which are indices or masks more often than not.
pub fn random(dtype: DataType, shape: &[usize], seed: u64) -> ottava::Result<Tensor> {
    let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(usize::MAX);
    Tensor::zeros(dtype, shape)?;
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    if dtype.is_float() {
        let values: Vec<f32> = (0..n).map(|_| (next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect();
        return Ok(Tensor::from_f32s(dtype, shape, &values)?);
    }
    let (lo, span) = match dtype.int_range() {
        Some((lo, hi)) if dtype.bits() <= 8 => (lo, (hi - lo + 1) as u64),
        _ => (0, 2),
    };
    let values: Vec<i64> = (0..n).map(|_| lo + (next() % span) as i64).collect();
    Ok(Tensor::from_ints(dtype, shape, &values)?)
}

/// Milliseconds of every run.
fn times(session: &Session, inputs: &[Tensor], runs: usize) -> Result<Vec<f64>> {
    let one = |_| {
        let start = Instant::now();
        session.run_ordered(inputs, false)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    (0..runs).map(one).collect()
}

fn concurrent(session: &Session, inputs: &[Tensor], runs: usize, threads: usize) -> Result<Vec<f64>> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| times(session, inputs, runs))).collect();
        let mut all = Vec::new();
        for worker in workers {
            let died = |_| Failure::Check("a measuring thread ended early".to_owned());
            all.extend(worker.join().map_err(died)??);
        }
        Ok(all)
    })
}

/// The value below which a share of the sorted numbers lies.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

fn measure(args: &Args, session: &Session, inputs: &[Tensor], cx: &Context) -> Result<Answer> {
    times(session, inputs, args.warmup)?;
    let start = Instant::now();
    let mut ms = concurrent(session, inputs, args.runs, usize::from(args.concurrency))?;
    let wall = start.elapsed().as_secs_f64();
    ms.sort_by(f64::total_cmp);
    let (median, p10, p90) = (quantile(&ms, 0.5), quantile(&ms, 0.1), quantile(&ms, 0.9));
    let report = session.report();
    let (macs, devices) = (report.macs(), report.devices().join("+"));
    let gmacs = if median > 0.0 { macs as f64 / (median * 1e6) } else { 0.0 };
    let per_s = ms.len() as f64 / wall;
    let threads = threads_of(cx, session, args);
    let tuning = report.tuning.as_ref();
    let rss = peak_rss_bytes();
    let memory = rss.map_or_else(|| "-".to_owned(), bytes);
    let mut text = table(
        &["device", "threads", "median ms", "p10", "p90", "runs", "inferences/s", "MACs", "GMAC/s", "peak memory"],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        [vec![
            devices.clone(),
            threads.to_string(),
            format!("{median:.3}"),
            format!("{p10:.3}"),
            format!("{p90:.3}"),
            ms.len().to_string(),
            format!("{per_s:.1}"),
            count(macs),
            format!("{gmacs:.2}"),
            memory,
        ]],
    );
    if let Some(report) = tuning {
        text += &format!("\n{}", tune::report_text(report));
    }
    let json = json!({
        "median_ms": median, "p10_ms": p10, "p90_ms": p90, "runs": ms.len(), "threads": threads, "device": devices,
        "macs": macs, "gmacs_per_s": gmacs, "peak_rss_bytes": rss, "inferences_per_s": per_s,
        "concurrency": args.concurrency, "tuning": tuning.map(tune::report_json),
    });
    Ok(Answer::new(text, json))
}

/// Threads of the first device in use.
fn threads_of(cx: &Context, session: &Session, args: &Args) -> usize {
    let mut options = args.network.device.options();
    options.tuned.extend(session.report().tuning.iter().flat_map(|t| t.chosen.clone()));
    let first = session.report().devices().first().map(|d| (*d).to_owned());
    let device = first.and_then(|id| cx.registry.open_one(&id, &options).ok());
    device.map_or(1, |d| d.device.info().threads)
}

/// The largest amount of memory that the process has had, where the system says so.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!((quantile(&sorted, 0.5), quantile(&sorted, 0.1), quantile(&sorted, 0.9)), (3.0, 1.0, 5.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn random_data_is_valid_and_repeatable() {
        let a = random(DataType::S8, &[100], 1).unwrap();
        assert_eq!(a, random(DataType::S8, &[100], 1).unwrap());
        assert_ne!(a, random(DataType::S8, &[100], 2).unwrap());
        let f = random(DataType::F32, &[100], 1).unwrap().to_f32s().unwrap();
        assert!(f.iter().all(|v| (-1.0..1.0).contains(v)));
        let wide = random(DataType::S64, &[100], 1).unwrap().to_ints().unwrap();
        assert!(wide.iter().all(|v| (0..2).contains(v)));
    }
}

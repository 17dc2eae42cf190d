//! `ottava calibrate`: mergeable statistics of a float model over data.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same, shard, write_file};
use crate::text::bytes;
use crate::ui::Answer;
use ottava::{CalibrateOptions, Calibration, Shard};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Collect mergeable statistics; any order, split or number of shards gives the same bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava calibrate model.onnx --data images.npz -o model.calib
  ottava calibrate model.onnx --data images.npz --shard 1/3 -o part1.calib
  ottava calibrate --merge part1.calib part2.calib part3.calib -o model.calib")]
pub struct Args {
    /// The float model.
    #[arg(required_unless_present = "merge")]
    model: Option<PathBuf>,
    /// Calibration data.
    #[arg(long, value_name = "D", required_unless_present = "merge")]
    data: Option<PathBuf>,
    /// Where the statistics go.
    #[arg(short, long, value_name = "S.calib")]
    output: PathBuf,
    /// Only part I of N of the samples, I from 1 to N.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Join the statistics of shards: each of them once, and all.
    #[arg(long, value_name = "S.calib", num_args = 1.., conflicts_with_all = ["model", "data", "shard"])]
    merge: Vec<PathBuf>,
    /// Recipe whose `preprocess` block prepares a folder of images, and which says what to collect: what an activation
    /// reads only where the recipe keeps either in float, and what its observer needs beyond histograms (a moving average
    /// is of one series of samples, and cannot be merged). Without it, what the default recipe needs.
    #[arg(long, value_name = "R.ron")]
    recipe: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

fn collect(args: &Args, cx: &Context) -> Result<Calibration> {
    let (Some(model), Some(data)) = (&args.model, &args.data) else {
        return Err(Failure::Usage("name a model and `--data`, or `--merge` files".to_owned()));
    };
    let model = cx.load(model)?;
    cx.ui.diagnostics(&model.diagnostics);
    let recipe = args.recipe.as_ref().map(|path| crate::files::recipe(path)).transpose()?;
    let data = crate::files::data(data, recipe.as_ref().and_then(|r| r.preprocess.as_ref()))?;
    let options = CalibrateOptions {
        affine: args.network.affine,
        shard: args.shard,
        recipe: recipe.unwrap_or_default(),
        session: args.network.session(&cx.registry, &model)?,
    };
    let bar = cx.ui.bar("calibrate");
    Ok(ottava::calibrate(&model, &data, &cx.registry, &options, &mut bar.callback())?)
}

/// Collects or merges.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let start = Instant::now();
    let given = args.model.iter().chain(&args.data).chain(&args.recipe).chain(&args.merge);
    refuse_same(&args.output, &given.map(PathBuf::as_path).collect::<Vec<_>>(), cx)?;
    let calibration = if args.merge.is_empty() { collect(args, cx)? } else { merged(&args.merge)? };
    if calibration.samples() == 0 {
        cx.ui.warn("no rows fall into this shard; its statistics are empty");
    }
    let file = calibration.to_bytes();
    write_file(&args.output, &file)?;
    let (tensors, samples) = (calibration.tensors().len(), calibration.samples());
    let seconds = start.elapsed().as_secs_f64();
    let text = format!(
        "{}: {tensors} tensors, {samples} samples, {} in {seconds:.1} s",
        args.output.display(),
        bytes(file.len() as u64)
    );
    let peak = super::bench::peak_rss_bytes();
    let json = json!({ "tensors": tensors, "samples": samples, "seconds": seconds, "peak_rss_bytes": peak });
    Ok(Answer::new(text, json))
}

/// The statistics of all shards as one.
fn merged(paths: &[PathBuf]) -> Result<Calibration> {
    paths.iter().try_for_each(|path| crate::files::check_data(path))?;
    Ok(ottava::merge_calibrations(paths)?)
}

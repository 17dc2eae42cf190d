//! `ottava run`: one inference.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, make_folder, refuse_same, write_file};
use crate::text::table;
use crate::ui::Answer;
use ottava::{Model, PartitionReport, Session, Tensor};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Run a model once on arrays; outputs become `.npy` files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava run model.onnx --input image.npy -o out
  ottava run model.onnx --input ids=ids.npy --input mask=mask.npy -o out --profile trace.json")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// Data of an input; the name may be left out if there is one input. Models without inputs need none.
    #[arg(long, value_name = "[NAME=]F.npy", num_args = 1..)]
    input: Vec<String>,
    /// Folder for the outputs.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Write the times of all nodes as a Chrome trace.
    #[arg(long, value_name = "T.json")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// The inputs in the model's order, converted to their types.
fn inputs(args: &Args, model: &Model) -> Result<Vec<Tensor>> {
    let wanted = model.inputs();
    let mut given: BTreeMap<String, Tensor> = BTreeMap::new();
    for text in &args.input {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name.to_owned(), path),
            None if wanted.len() == 1 => (wanted[0].0.clone(), text.as_str()),
            None => {
                return Err(Failure::Usage(format!(
                    "`{text}`: the model has {} inputs, write NAME=FILE",
                    wanted.len()
                )));
            }
        };
        let names = wanted.iter().map(|(n, _)| n.as_str());
        if !names.clone().any(|n| n == name) {
            return Err(Failure::Usage(format!("the model has no input `{name}`; {}", ottava::hint(&name, names))));
        }
        crate::files::check_data(Path::new(path))?;
        if given.insert(name.clone(), ottava::load_npy(Path::new(path))?).is_some() {
            return Err(Failure::Usage(format!("input `{name}` is given twice")));
        }
    }
    let affine = args.network.affine.unwrap_or_default();
    let one = |(name, ty): &(String, ottava::TensorType)| match given.get(name) {
        Some(t) => Ok(ottava::convert(t, ty.dtype, affine).map_err(|e| e.at(format!("input `{name}`")))?),
        None => Err(Failure::Usage(format!("input `{name}` is not given; write `--input {name}=FILE`"))),
    };
    wanted.iter().map(one).collect()
}

/// Everything that is read and must not be written over.
fn files_read(args: &Args) -> Vec<&Path> {
    let inputs = args.input.iter().map(|text| Path::new(text.split_once('=').map_or(text.as_str(), |(_, path)| path)));
    inputs.chain([args.model.as_path()]).collect()
}

/// A file name for an output, unique among the others.
fn file_name(name: &str, taken: &mut Vec<String>) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let base: String = name.trim_start_matches('.').chars().map(safe).take(100).collect();
    let mut file = format!("{base}.npy");
    let mut n = 1;
    while taken.contains(&file) {
        file = format!("{base}_{n}.npy");
        n += 1;
    }
    taken.push(file.clone());
    file
}

/// `{device, nodes, macs}` per partition.
pub fn partitions(list: &[PartitionReport]) -> Vec<Value> {
    list.iter().map(|p| json!({ "device": p.device, "nodes": p.nodes, "macs": p.macs })).collect()
}

/// Runs once.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = cx.load(&args.model)?;
    let inputs = inputs(args, &model)?;
    let read = files_read(args);
    if let Some(profile) = &args.profile {
        refuse_same(profile, &read, cx)?;
    }
    let named: Vec<_> = model.inputs().into_iter().map(|(name, _)| name).zip(inputs.iter().cloned()).collect();
    args.network.expect_batch(&model, &named)?;
    let mut options = args.network.session(&cx.registry, &model)?;
    for (name, n) in model.dims_of(&inputs)? {
        options.dims.entry(name).or_insert(n);
    }
    let session = Session::new(&model, &cx.registry, &options)?;
    cx.ui.diagnostics(&session.report().diagnostics);
    let (outputs, report) = session.run_ordered(&inputs, args.profile.is_some())?;
    make_folder(&args.output)?;
    if let Some(path) = &args.profile {
        write_file(path, ottava::chrome_trace(std::slice::from_ref(&report)).as_bytes())?;
    }
    let (mut json_rows, mut rows, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for ((name, _), tensor) in session.outputs().iter().zip(&outputs) {
        let path = args.output.join(file_name(name, &mut taken));
        refuse_same(&path, &read, cx)?;
        ottava::save_npy(&path, tensor)?;
        let file = path.display().to_string();
        let dtype = tensor.dtype().name();
        json_rows.push(json!({ "name": name, "dtype": dtype, "shape": tensor.shape(), "file": file }));
        rows.push(vec![name.clone(), dtype.to_owned(), format!("{:?}", tensor.shape()), file]);
    }
    let ms = report.total_ns as f64 / 1e6;
    let devices = session.report().devices().join(", ");
    let text = format!("{}\n{ms:.3} ms on {devices}", table(&["output", "type", "shape", "file"], &[], rows));
    let json = json!({ "outputs": json_rows, "ms": ms, "partitions": partitions(&session.report().partitions) });
    Ok(Answer::new(text, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_unique() {
        let mut taken = Vec::new();
        assert_eq!(file_name("../a/b:0", &mut taken), "_a_b_0.npy");
        assert_eq!(file_name("x", &mut taken), "x.npy");
        assert_eq!(file_name("x", &mut taken), "x_1.npy");
    }
}

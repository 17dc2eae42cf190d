//! Options that several verbs share.

use crate::failure::{Failure, Result};
use crate::files;
use crate::verbs::Context;
use ottava::{Affine, DeviceOptions, Model, Registry, SessionOptions, Tensor};
use std::path::{Path, PathBuf};

/// Options that choose and set up a device.
#[derive(Debug, clap::Args)]
pub struct DeviceArgs {
    /// Run on this device; `ottava devices` lists them.
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Worker threads of devices that have them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Instruction set of devices that have several.
    #[arg(long, value_name = "NAME")]
    pub isa: Option<String>,
}

/// Options of every verb that runs a network.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Rows per inference, where the model leaves that open.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: Option<u32>,
    /// Value of a symbolic dimension.
    #[arg(long, value_name = "NAME=N", value_parser = dim)]
    pub dim: Vec<(String, usize)>,
    /// Give up an inference that takes longer, for devices that may hang.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<std::time::Duration>,
    /// Reset the state of the network after every N inferences.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub reset_every: Option<u32>,
    /// Map of stored numbers to inputs: x*S + O.
    #[arg(long, value_name = "S,O", allow_hyphen_values = true)]
    pub affine: Option<Affine>,
}

impl DeviceArgs {
    /// Options for every device that knows them.
    pub fn options(&self) -> DeviceOptions {
        DeviceOptions { threads: self.threads.map(usize::from), isa: self.isa.clone(), ..DeviceOptions::default() }
    }

    /// How sessions are compiled. What no device knows is wrong usage; what the configuration says wrongly is bad input.
    pub fn session(&self, registry: &Registry) -> Result<SessionOptions> {
        let open = |options: &DeviceOptions| match &self.device {
            Some(id) => registry.open_one(id, options).map(drop),
            None => registry.open(options).map(drop),
        };
        open(&DeviceOptions::default()).map_err(|e| {
            let is_named_here = self.device.is_some() && e.detail().file.is_none();
            if is_named_here && e.detail().code == ottava::codes::NO_DEVICE { usage(&e) } else { Failure::Error(e) }
        })?;
        let devices = self.options();
        // The session says again what it finds worth a warning.
        let silent = tracing::subscriber::NoSubscriber::new();
        tracing::subscriber::with_default(silent, || open(&devices)).map_err(|e| match e {
            ottava::Error::Failed(_) => Failure::Error(e),
            _ => usage(&e),
        })?;
        Ok(SessionOptions { device: self.device.clone(), devices, ..SessionOptions::default() })
    }
}

fn usage(e: &ottava::Error) -> Failure {
    Failure::Usage(e.detail().to_string())
}

impl NetworkArgs {
    /// How sessions of a model are compiled.
    pub fn session(&self, registry: &Registry, model: &Model) -> Result<SessionOptions> {
        let options = self.device.session(registry)?;
        let mut dims = std::collections::BTreeMap::new();
        for (name, n) in &self.dim {
            if dims.insert(name.clone(), *n).is_some_and(|before| before != *n) {
                return Err(Failure::Usage(format!("`--dim {name}` is given twice")));
            }
        }
        let batch = self.asked_batch(model)?;
        let reset_every = self.reset_every.map_or(0, |n| n as usize);
        Ok(SessionOptions { batch, dims, timeout: self.timeout, reset_every, ..options })
    }

    /// The batch, which is also the value of the symbols on axis 0; 0 where nothing was said.
    fn asked_batch(&self, model: &Model) -> Result<usize> {
        let symbols = model.batch_symbols();
        let mut given = self.dim.iter().filter(|(name, _)| symbols.contains(name));
        if let Some(batch) = self.batch.map(|b| b as usize) {
            return match given.find(|(_, n)| *n != batch) {
                None => Ok(batch),
                Some((name, n)) => Err(Failure::Usage(format!(
                    "`--dim {name}={n}` contradicts `--batch {batch}`: `{name}` is the batch of this model"
                ))),
            };
        }
        let Some((_, first)) = given.next() else { return Ok(0) };
        Ok(if given.all(|(_, n)| n == first) { *first } else { 0 })
    }

    /// Refuses a `--batch` that the given arrays contradict.
    pub fn expect_batch(&self, model: &Model, given: &[(String, Tensor)]) -> Result<()> {
        let Some(batch) = self.batch.map(|b| b as usize) else { return Ok(()) };
        let is_open = !model.batch_symbols().is_empty();
        for (i, (name, ty)) in model.inputs().iter().enumerate() {
            let is_batched = match ty.shape.0.first() {
                Some(dim) if is_open => dim.known().is_none(),
                first => first.is_some() && i == 0,
            };
            let rows = given.iter().find(|(n, _)| n == name).and_then(|(_, t)| t.shape().first().copied());
            if let Some(rows) = rows.filter(|n| is_batched && *n != batch) {
                let text = format!("`--batch {batch}` contradicts input `{name}`, which has {rows} rows; leave it out");
                return Err(Failure::Usage(text));
            }
        }
        Ok(())
    }
}

/// A number of rows, from 1 up.
pub fn rows() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let valid = text.parse().ok().filter(|s: &f64| *s > 0.0 && *s <= 1e6);
    valid.map(std::time::Duration::from_secs_f64).ok_or_else(|| "needs a number of seconds above 0".to_owned())
}

/// A share from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    let valid = text.parse().ok().filter(|v: &f64| (0.0..=1.0).contains(v));
    valid.ok_or_else(|| format!("`{text}` is not a share from 0 to 1"))
}

/// A number that is one.
pub fn finite(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| format!("`{text}` is not a finite number"))
}

/// Refuses to write over what is read: the inputs of a verb, the configuration, what it names, and loaded libraries. Every
/// verb asks this before it writes a file that the user names.
pub fn refuse_same(output: &Path, inputs: &[&Path], cx: &Context) -> Result<()> {
    let others = cx.registry.files_read();
    let mut all = inputs.iter().copied().chain(others.iter().map(PathBuf::as_path));
    match all.find(|input| is_same_file(output, input)) {
        None => Ok(()),
        Some(input) => Err(Failure::Usage(format!(
            "`{}` would be written over the input `{}`; choose another name",
            output.display(),
            input.display()
        ))),
    }
}

/// Refuses two results with one name, before anything is written; each comes with the flag that names it.
pub fn refuse_shared(outputs: &[(&str, &Path)]) -> Result<()> {
    for (i, (flag, path)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..i].iter().find(|(_, p)| is_same_file(p, path) || is_same_name(p, path)) {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "{other} and {flag} both name `{path}`; one would be written over the other"
            )));
        }
    }
    Ok(())
}

/// Whether two names, of files that may not be there yet, are one.
fn is_same_name(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    a == b || whole(a).is_some_and(|a| Some(a) == whole(b))
}

#[cfg(unix)]
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(a).is_some_and(|a| Some(a) == id(b))
}

#[cfg(not(unix))]
fn is_same_file(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(a).is_some_and(|a| Some(a) == whole(b))
}

fn dim(text: &str) -> Result<(String, usize), String> {
    let parsed = text.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse::<usize>().ok()?)));
    parsed
        .filter(|(name, n)| !name.is_empty() && *n > 0)
        .ok_or_else(|| format!("`{text}` is not NAME=N, for example `batch=8`"))
}

/// `I/N`; I counts from 1 to N.
pub fn shard(text: &str) -> Result<ottava::Shard, String> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok(ottava::Shard { index: i - 1, count: n }),
        _ => Err(format!("`{text}` is not I/N with I from 1 to N, for example `2/3`")),
    }
}

/// Makes a folder for results.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| {
        let error = ottava::Error::invalid(ottava::codes::DATA_WRITE, format!("cannot make the folder: {e}"));
        Failure::Error(error.in_file(path))
    })
}

/// Says at once that a file cannot be written, before long work that ends in writing it. A new file is tried out under its
/// name and taken away again; one that is there stays as it is.
pub fn check_writable(path: &Path) -> Result<()> {
    let known = std::fs::metadata(path);
    if known.as_ref().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return Ok(()); // A pipe or a terminal: opening it could wait.
    }
    let mut options = std::fs::OpenOptions::new();
    let is_new = known.is_err();
    let tried = options.write(true).create_new(is_new).open(path).map(drop);
    let tried = tried.and_then(|()| if is_new { std::fs::remove_file(path) } else { Ok(()) });
    tried.map_err(|e| not_written(path, &e))
}

fn not_written(path: &Path, e: &std::io::Error) -> Failure {
    let error = ottava::Error::invalid(ottava::codes::DATA_WRITE, format!("cannot write the file: {e}"));
    Failure::Error(error.in_file(path).help("check the folder, who may write to it, and the free space"))
}

/// Writes a text file.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|e| not_written(path, &e))
}

/// The preprocessing block of a recipe, if one is named.
pub fn preprocess(recipe: Option<&PathBuf>) -> Result<Option<ottava::Preprocess>> {
    Ok(match recipe {
        Some(path) => files::recipe(path)?.preprocess,
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_one() {
        assert_eq!(shard("1/3"), Ok(ottava::Shard { index: 0, count: 3 }));
        assert_eq!(shard("3/3"), Ok(ottava::Shard { index: 2, count: 3 }));
        for bad in ["0/3", "4/3", "1/0", "0/0", "x"] {
            assert!(shard(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_not_percent() {
        assert_eq!((share("0"), share("0.1"), share("1")), (Ok(0.0), Ok(0.1), Ok(1.0)));
        for bad in ["1.1", "10", "-0.1", "10%", "nan"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn minima_are_numbers() {
        assert_eq!(finite("0.5"), Ok(0.5));
        assert!(finite("nan").is_err() && finite("inf").is_err() && finite("").is_err());
    }

    #[test]
    fn dimensions_are_a_name_and_a_number() {
        assert_eq!(dim("batch=8"), Ok(("batch".to_owned(), 8)));
        assert!(dim("batch").is_err() && dim("=3").is_err() && dim("n=0").is_err());
    }
}

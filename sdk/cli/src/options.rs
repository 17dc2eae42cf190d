//! Options that several verbs share.

use crate::failure::{Failure, Result};
use ottava::{Affine, DeviceOptions, SessionOptions};
use std::path::{Path, PathBuf};

/// Options of every verb that runs a network.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// Run on this device; `ottava devices` lists them.
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Worker threads of devices that have them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Instruction set of devices that have several.
    #[arg(long, value_name = "NAME")]
    pub isa: Option<String>,
    /// Rows per inference, where the model leaves that open.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: Option<u32>,
    /// Value of a symbolic dimension.
    #[arg(long, value_name = "NAME=N", value_parser = dim)]
    pub dim: Vec<(String, usize)>,
    /// Map of stored numbers to inputs: x*S + O.
    #[arg(long, value_name = "S,O", allow_hyphen_values = true)]
    pub affine: Option<Affine>,
}

impl NetworkArgs {
    /// How sessions are compiled.
    pub fn session(&self) -> SessionOptions {
        SessionOptions {
            batch: self.batch.map_or(0, |b| b as usize),
            dims: self.dim.iter().cloned().collect(),
            device: self.device.clone(),
            devices: DeviceOptions { threads: self.threads.map(usize::from), isa: self.isa.clone() },
            state: Vec::new(),
        }
    }
}

fn dim(text: &str) -> Result<(String, usize), String> {
    let parsed = text.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse::<usize>().ok()?)));
    parsed
        .filter(|(name, n)| !name.is_empty() && *n > 0)
        .ok_or_else(|| format!("`{text}` is not NAME=N, for example `batch=8`"))
}

/// `I/N`; I counts from 1 to N (0 names the last part too).
pub fn shard(text: &str) -> Result<ottava::Shard, String> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parsed {
        Some((i, n)) if n > 0 && i <= n => Ok(ottava::Shard { index: i % n, count: n }),
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

/// Writes a text file.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).map_err(|e| {
        let error = ottava::Error::invalid(ottava::codes::DATA_WRITE, format!("cannot write the file: {e}"));
        Failure::Error(error.in_file(path).help("check the folder, who may write to it, and the free space"))
    })
}

/// The preprocessing block of a recipe, if one is named.
pub fn preprocess(recipe: Option<&PathBuf>) -> Result<Option<ottava::Preprocess>> {
    Ok(match recipe {
        Some(path) => ottava::load_recipe(path)?.preprocess,
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_one() {
        assert_eq!(shard("1/3"), Ok(ottava::Shard { index: 1, count: 3 }));
        assert_eq!(shard("3/3"), shard("0/3"));
        assert!(shard("4/3").is_err() && shard("1/0").is_err() && shard("x").is_err());
    }

    #[test]
    fn dimensions_are_a_name_and_a_number() {
        assert_eq!(dim("batch=8"), Ok(("batch".to_owned(), 8)));
        assert!(dim("batch").is_err() && dim("=3").is_err() && dim("n=0").is_err());
    }
}

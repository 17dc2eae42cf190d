//! Data: stored arrays or a folder of images, matched to the inputs of a network and fed batch by batch.
//!
//! Arrays are named after the network's inputs and batched on axis 0; a network with one input also takes `x`; `labels`
//! are kept apart. Arrays stay in memory as they are stored and are converted per batch, so the memory in use is that of
//! the file plus one batch.

mod feed;
mod images;
mod npy;
mod npz;
mod rows;

pub use feed::{Affine, convert};
pub use images::read_folder;
pub use rows::{Feed, batches_of};

use crate::error::{Error, Result, codes};
use ottava_hal::Tensor;
use ottava_quantize::recipe::Preprocess;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the array of labels.
const LABELS: &str = "labels";
/// Name that the only input of a network may have in a file.
const ANY: &str = "x";

/// Arrays with their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// Where it comes from, for messages.
    pub origin: PathBuf,
    /// Arrays by name, without `labels`.
    pub arrays: BTreeMap<String, Tensor>,
    /// The labels, if there are any.
    pub labels: Option<Tensor>,
    /// Map that prepared images need; `None` for arrays.
    pub affine: Option<Affine>,
}

impl Data {
    /// Reads an `.npz`, an `.npy`, or a folder of images (which needs the recipe's `preprocess` block).
    pub fn load(path: impl AsRef<Path>, preprocess: Option<&Preprocess>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            let p = preprocess.ok_or_else(|| {
                Error::invalid(codes::DATA_IMAGE, "a folder of images needs to be told how to prepare them")
                    .in_file(path)
                    .help("give a recipe with a `preprocess` block: `--recipe R.ron`")
            })?;
            let affine = Affine { scale: p.scale as f32, offset: p.offset as f32 };
            let arrays = BTreeMap::from([(ANY.to_owned(), read_folder(path, p)?)]);
            return Ok(Self { origin: path.to_path_buf(), arrays, labels: None, affine: Some(affine) });
        }
        match path.extension().and_then(|e| e.to_str()) {
            Some("npz") => Ok(Self::from_arrays(path, npz::read_file(path)?)),
            Some("npy") => Ok(Self::from_arrays(path, BTreeMap::from([(ANY.to_owned(), load_npy(path)?)]))),
            _ => Err(Error::invalid(codes::DATA_FILE, "unknown kind of data file")
                .in_file(path)
                .expected("an `.npz`, an `.npy`, or a folder of images")),
        }
    }

    /// Reads an `.npz` archive from memory; `origin` stands for it in messages.
    pub fn from_npz_bytes(origin: impl Into<PathBuf>, bytes: &[u8]) -> Result<Self> {
        let origin = origin.into();
        let arrays = npz::read(std::io::Cursor::new(bytes)).map_err(|e| e.in_file(&origin))?;
        Ok(Self::from_arrays(origin, arrays))
    }

    /// Takes arrays from memory; the one called `labels` becomes the labels.
    pub fn from_arrays(origin: impl Into<PathBuf>, mut arrays: BTreeMap<String, Tensor>) -> Self {
        let labels = arrays.remove(LABELS);
        Self { origin: origin.into(), arrays, labels, affine: None }
    }

    /// One class index per row; an error if there are no labels, not one per row, or not integers.
    pub fn class_labels(&self, n_rows: usize) -> Result<Vec<usize>> {
        let bad = |what: &str| Error::invalid(codes::DATA_LABELS, what).in_file(&self.origin).at("array `labels`");
        let labels = self.labels.as_ref().ok_or_else(|| {
            bad("there are no labels").help("store an array `labels`, or compare with another model by `--against`")
        })?;
        if labels.elements() != n_rows {
            return Err(bad("not one label per row")
                .found(labels.elements())
                .expected(n_rows)
                .help("keep the outputs with `--outputs` for a metric of your own"));
        }
        let ints = labels.to_ints().map_err(|_| bad("labels are not integers").found(labels.dtype()))?;
        ints.into_iter().map(|v| usize::try_from(v).map_err(|_| bad("a label is negative").found(v))).collect()
    }
}

/// Reads an `.npy` file.
pub fn load_npy(path: &Path) -> Result<Tensor> {
    let bytes = std::fs::read(path).map_err(|e| Error::reading(codes::DATA_FILE, path, &e))?;
    npy::read(bytes.as_slice(), bytes.len() as u64).map_err(|e| e.in_file(path))
}

/// Writes an `.npy` file. Nibbles are widened to bytes and bf16 to f32, which NumPy has no type for.
pub fn save_npy(path: &Path, tensor: &Tensor) -> Result<()> {
    std::fs::write(path, npy::to_bytes(tensor)?).map_err(|e| Error::writing(codes::DATA_WRITE, path, &e))
}

/// Writes an `.npz` file.
pub fn save_npz(path: &Path, arrays: &BTreeMap<String, Tensor>) -> Result<()> {
    npz::write_file(path, arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_kept_apart_and_checked() {
        let labels = Tensor::from_slice(&[3], &[0i64, 2, 1]).unwrap();
        let x = Tensor::from_slice(&[3, 1], &[1u8, 2, 3]).unwrap();
        let data = Data::from_arrays("d.npz", BTreeMap::from([("x".into(), x), ("labels".into(), labels)]));
        assert_eq!(data.class_labels(3).unwrap(), [0, 2, 1]);
        assert!(data.class_labels(4).unwrap_err().to_string().contains("found 3; expected 4"));
        assert_eq!(data.arrays.len(), 1);
    }

    #[test]
    fn unknown_files_are_refused() {
        let e = Data::load("model.txt", None).unwrap_err();
        assert!(e.to_string().contains("expected an `.npz`"), "{e}");
        let e = Data::load("/nonexistent/a.npz", None).unwrap_err();
        assert!(e.to_string().contains("check the path"), "{e}");
        assert!(Data::load(".", None).unwrap_err().to_string().contains("--recipe"));
    }
}

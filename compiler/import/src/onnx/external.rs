//! Weights in files beside the model (`TensorProto.external_data`).
//!
//! The location is written by whoever made the model, so it is held inside the model's folder: relative,
//! without `..`, and, links resolved, still below that folder. Files are mapped, not read: only pages that are used
//! take memory, whatever the size of the file. All ranges of one file together may not exceed twice its size, so that a
//! small model cannot multiply a file where elements must be copied.
use super::mapped;
use super::proto::StringStringEntryProto;
use crate::ImportError;
use prost::bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The files beside one model.
#[derive(Debug, Default)]
pub struct ExternalData {
    folder: Option<PathBuf>,
    /// Bytes taken so far, by file.
    taken: BTreeMap<PathBuf, u64>,
    maps: BTreeMap<PathBuf, Bytes>,
    ranges: BTreeMap<(PathBuf, u64, usize), Bytes>,
}

/// Where a tensor's bytes are, as the model says it.
struct Location<'a> {
    path: &'a str,
    offset: u64,
    length: Option<u64>,
}

impl ExternalData {
    /// No folder: external data is an error. For models that come as bytes, and for lone tensors.
    pub fn none() -> Self {
        Self::default()
    }

    /// Files below `folder`, the folder of the model file.
    pub fn in_folder(folder: &Path) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Self { folder: Some(folder.to_owned()), ..Self::default() }
    }

    /// The `len` bytes of `tensor` from where `entries` say.
    pub(crate) fn read(
        &mut self,
        tensor: &str,
        entries: &[StringStringEntryProto],
        len: usize,
    ) -> Result<Bytes, ImportError> {
        let location = Location::parse(tensor, entries)?;
        let path = self.resolve(tensor, location.path)?;
        if location.length.is_some_and(|l| l != len as u64) {
            let found = format!("length {} in external data", location.length.unwrap_or_default());
            return Err(ImportError::tensor(tensor, found, format!("{len} bytes by its type and dimensions")));
        }
        let key = (path, location.offset, len);
        if let Some(bytes) = self.ranges.get(&key) {
            return Ok(bytes.clone());
        }
        let bytes = self.read_range(tensor, &key.0, location.offset, len)?;
        self.ranges.insert(key, bytes.clone());
        Ok(bytes)
    }

    /// The file that `location` names, proven to lie below the model's folder.
    fn resolve(&self, tensor: &str, location: &str) -> Result<PathBuf, ImportError> {
        let outside = |found: &str| {
            ImportError::tensor(
                tensor,
                format!("external data in `{location}`, {found}"),
                "a file below the model's folder",
            )
        };
        let Some(folder) = &self.folder else {
            let expected = "the weights inside the model, which was not read from a file";
            return Err(ImportError::tensor(tensor, format!("external data in `{location}`"), expected));
        };
        let relative = Path::new(location);
        let plain = |c: Component| matches!(c, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || location.contains(['\0', '\\']) || !relative.components().all(plain) {
            return Err(outside("which is empty, absolute or leads upwards"));
        }
        let root = folder.canonicalize().map_err(|e| ImportError::io(folder, e))?;
        let joined = root.join(relative);
        let real = joined.canonicalize().map_err(|e| ImportError::io(&joined, e))?;
        match real.starts_with(&root) {
            true => Ok(real),
            false => Err(outside("a link that leads out of it")),
        }
    }

    fn read_range(&mut self, tensor: &str, path: &Path, offset: u64, len: usize) -> Result<Bytes, ImportError> {
        let io = |e| ImportError::io(path, e);
        let meta = std::fs::metadata(path).map_err(io)?;
        let refuse = |found: String, expected: String| ImportError::tensor(tensor, found, expected);
        if !meta.is_file() {
            return Err(refuse(format!("external data in {}", path.display()), "a regular file".to_owned()));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > meta.len()) {
            let found = format!("{len} bytes at offset {offset} of {}", path.display());
            return Err(refuse(found, format!("a range inside its {} bytes", meta.len())));
        }
        let taken = self.taken.entry(path.to_owned()).or_default();
        *taken = taken.saturating_add(len as u64);
        if *taken > meta.len().saturating_mul(2) {
            let found = format!("overlapping ranges of {}, {taken} bytes so far", path.display());
            return Err(refuse(found, format!("at most twice its {} bytes", meta.len())));
        }
        let map = match self.maps.get(path) {
            Some(map) => map.clone(),
            None => self.maps.entry(path.to_owned()).or_insert(mapped::map(path).map_err(io)?).clone(),
        };
        let start = usize::try_from(offset).ok();
        match start.and_then(|start| Some(start..start.checked_add(len)?)).filter(|r| r.end <= map.len()) {
            Some(range) => Ok(map.slice(range)),
            None => Err(refuse(format!("{len} bytes at offset {offset}"), "a range that this machine can map".into())),
        }
    }
}

impl<'a> Location<'a> {
    fn parse(tensor: &str, entries: &'a [StringStringEntryProto]) -> Result<Self, ImportError> {
        let get = |key: &str| entries.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &'static str| match get(key).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(n)) => Ok(Some(n)),
            Some(Err(_)) => {
                let found = format!("external data with {key} `{}`", get(key).unwrap_or_default());
                Err(ImportError::tensor(tensor, found, "a number of bytes"))
            }
        };
        let path = get("location")
            .ok_or_else(|| ImportError::tensor(tensor, "external data without a location", "the name of a file"))?;
        Ok(Self { path, offset: number("offset")?.unwrap_or(0), length: number("length")? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ElemType, OnnxTensor};
    use super::*;
    use crate::onnx::proto::TensorProto;

    struct Folder(tempfile::TempDir);

    impl Folder {
        /// A folder `model/` with `w.bin` of 16 counting bytes, and a file beside the folder.
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a temporary folder");
            std::fs::create_dir(dir.path().join("model")).expect("a folder");
            std::fs::write(dir.path().join("model/w.bin"), (0..16).collect::<Vec<u8>>()).expect("a file");
            std::fs::write(dir.path().join("secret"), [9; 16]).expect("a file");
            Self(dir)
        }

        fn model(&self) -> PathBuf {
            self.0.path().join("model")
        }

        fn external(&self) -> ExternalData {
            ExternalData::in_folder(&self.model())
        }
    }

    fn tensor(len: i64, entries: &[(&str, &str)]) -> TensorProto {
        let entry = |&(k, v): &(&str, &str)| StringStringEntryProto { key: k.into(), value: v.into() };
        TensorProto {
            name: "w".into(),
            data_type: ElemType::U8.code(),
            dims: vec![len],
            data_location: 1,
            external_data: entries.iter().map(entry).collect(),
            ..Default::default()
        }
    }

    fn refuse(external: &mut ExternalData, proto: &TensorProto, part: &str) {
        let e = OnnxTensor::from_proto(proto, external).expect_err("refused").to_string();
        assert!(e.contains(part), "`{part}` is not in: {e}");
    }

    #[test]
    fn a_range_is_read_and_shared() {
        let folder = Folder::new();
        let mut external = folder.external();
        let proto = tensor(4, &[("location", "./w.bin"), ("offset", "8"), ("length", "4")]);
        let a = OnnxTensor::from_proto(&proto, &mut external).expect("in range");
        assert_eq!(&a.bytes[..], [8, 9, 10, 11]);
        let b = OnnxTensor::from_proto(&proto, &mut external).expect("in range");
        assert_eq!(a.bytes.as_ptr(), b.bytes.as_ptr());
        let whole = OnnxTensor::from_proto(&tensor(16, &[("location", "w.bin")]), &mut external).expect("in range");
        assert_eq!(whole.bytes[15], 15);
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let folder = Folder::new();
        let mut external = folder.external();
        for location in ["../secret", "/etc/hostname", "", "a/../../secret", "..\\secret"] {
            refuse(&mut external, &tensor(16, &[("location", location)]), "below the model's folder");
        }
        refuse(&mut external, &tensor(16, &[("location", ".")]), "a regular file");
        refuse(&mut external, &tensor(16, &[("location", "absent.bin")]), "absent.bin");
        refuse(&mut ExternalData::none(), &tensor(16, &[("location", "w.bin")]), "was not read from a file");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_is_refused() {
        let folder = Folder::new();
        std::os::unix::fs::symlink("../secret", folder.model().join("link")).expect("a link");
        std::os::unix::fs::symlink("w.bin", folder.model().join("inside")).expect("a link");
        let mut external = folder.external();
        refuse(&mut external, &tensor(16, &[("location", "link")]), "a link that leads out of it");
        OnnxTensor::from_proto(&tensor(16, &[("location", "inside")]), &mut external).expect("a link inside");
    }

    #[test]
    fn lengths_and_offsets_are_checked() {
        let folder = Folder::new();
        let mut external = folder.external();
        let w = ("location", "w.bin");
        refuse(&mut external, &tensor(17, &[w]), "a range inside its 16 bytes");
        refuse(&mut external, &tensor(1 << 40, &[w]), "a range inside its 16 bytes");
        refuse(&mut external, &tensor(4, &[w, ("offset", "18446744073709551615")]), "a range inside");
        refuse(&mut external, &tensor(4, &[w, ("length", "5")]), "4 bytes by its type and dimensions");
        refuse(&mut external, &tensor(4, &[w, ("offset", "-1")]), "a number of bytes");
        refuse(&mut external, &tensor(4, &[]), "without a location");
        let mut read = |offset: &str, len| {
            OnnxTensor::from_proto(&tensor(len, &[w, ("offset", offset)]), &mut external).map_err(|e| e.to_string())
        };
        assert!(read("0", 16).is_ok() && read("1", 15).is_ok());
        assert!(read("2", 14).expect_err("45 bytes of 16").contains("at most twice its 16 bytes"));
    }
}

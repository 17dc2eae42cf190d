//! The manifest `<name>.ottava.ron` that a vendor puts beside a library (abi.md section 7).
//!
//! A manifest is input from strangers: its size is bounded, unknown keys are errors with line and column, and the library
//! it names lies in the manifest's own folder.

use crate::refusal::{Refusal, Result};
use ottava_abi::status;
use ottava_hal::DeviceKind;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// End of the names of manifests.
pub const SUFFIX: &str = ".ottava.ron";
/// Larger manifests are refused.
const MAX_BYTES: u64 = 64 * 1024;
/// What `abi` may say: the tables of version 1, as a draft or frozen.
const KNOWN_ABI: [&str; 2] = ["1", "0.9"];

/// A kind of device that a driver serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[allow(missing_docs, clippy::upper_case_acronyms)] // The names as they stand in the file.
pub enum Kind {
    CPU,
    GPU,
    NPU,
    DSP,
    SIM,
}

impl Kind {
    /// The kind in the driver contract.
    pub fn device_kind(self) -> DeviceKind {
        match self {
            Self::CPU => DeviceKind::Cpu,
            Self::GPU => DeviceKind::Gpu,
            Self::NPU => DeviceKind::Npu,
            Self::DSP => DeviceKind::Dsp,
            Self::SIM => DeviceKind::Sim,
        }
    }
}

/// The contents of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename = "Driver")]
pub struct Manifest {
    /// Version of the tables.
    pub abi: String,
    /// The library, relative to the manifest.
    pub library: PathBuf,
    /// SHA-256 of the library.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Who makes it.
    #[serde(default)]
    pub vendor: String,
    /// Kinds of devices.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Operating system; empty for any.
    #[serde(default)]
    pub os: String,
    /// Architecture; empty for any.
    #[serde(default)]
    pub arch: String,
    /// Of the manifests of a directory the ones with higher numbers come first.
    #[serde(default)]
    pub priority: i32,
    /// Environment variables without which the driver does not work.
    #[serde(default)]
    pub env: Vec<String>,
}

fn invalid(path: &Path, what: impl std::fmt::Display) -> Refusal {
    Refusal::new(status::MANIFEST_INVALID, format!("manifest {}: {what}", path.display()))
}

impl Manifest {
    /// Whether a file name is a manifest's.
    pub fn is_named(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX))
    }

    /// Reads and checks a manifest.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot = |e: std::io::Error| invalid(path, format_args!("cannot be read: {e}"));
        // A pipe or device would be waited for.
        if !path.metadata().map_err(cannot)?.is_file() {
            return Err(invalid(path, "is no regular file"));
        }
        let mut text = String::new();
        File::open(path).map_err(cannot)?.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(invalid(path, format_args!("is larger than {MAX_BYTES} bytes")));
        }
        let manifest: Self = ron::from_str(&text).map_err(|e| invalid(path, e))?;
        manifest.check(path)?;
        Ok(manifest)
    }

    fn check(&self, path: &Path) -> Result<()> {
        if !KNOWN_ABI.contains(&self.abi.as_str()) {
            let what = format!("manifest {}: abi is \"{}\", this host speaks \"1\"", path.display(), self.abi);
            return Err(Refusal::new(status::ABI_RANGE, what));
        }
        for (key, found, here) in [("os", &self.os, std::env::consts::OS), ("arch", &self.arch, std::env::consts::ARCH)]
        {
            if !found.is_empty() && found != here {
                return Err(invalid(path, format_args!("{key} is \"{found}\", this machine is \"{here}\"")));
            }
        }
        if let Some(hash) = self.sha256.as_ref().filter(|h| !crate::hash::is_hash(h)) {
            return Err(invalid(path, format_args!("sha256 is \"{hash}\", expected 64 hexadecimal digits")));
        }
        let inside = |c: Component| matches!(c, Component::Normal(_) | Component::CurDir);
        if self.library.file_name().is_none() || !self.library.components().all(inside) {
            let found = self.library.display();
            return Err(invalid(path, format_args!("library \"{found}\" must be a file in the manifest's folder")));
        }
        Ok(())
    }

    /// The library's path. Links that lead out of the manifest's folder are refused.
    pub fn library_of(&self, path: &Path) -> Result<PathBuf> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let library = folder.join(&self.library);
        let real = |p: &Path| {
            p.canonicalize().map_err(|e| invalid(path, format_args!("library \"{}\": {e}", self.library.display())))
        };
        if !real(&library)?.starts_with(real(folder)?) {
            return Err(invalid(path, format_args!("library \"{}\" leaves the folder", self.library.display())));
        }
        Ok(library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Manifest> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.ottava.ron");
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("libx.so"), "").unwrap();
        let manifest = Manifest::read(&path)?;
        manifest.library_of(&path)?;
        Ok(manifest)
    }

    fn refused(text: &str, words: &str) {
        let refusal = read(text).unwrap_err();
        assert!(refusal.reason.contains(words), "{text}: {}", refusal.reason);
    }

    #[test]
    fn the_example_of_the_contract_is_valid() {
        let text = r#"(abi: "1", library: "libx.so", sha256: None, vendor: "", kinds: [NPU], os: "linux",
            arch: "ARCH", priority: 10, env: [])"#;
        let manifest = read(&text.replace("ARCH", std::env::consts::ARCH)).unwrap();
        assert_eq!((manifest.priority, manifest.kinds), (10, vec![Kind::NPU]));
        assert_eq!(read(r#"(abi: "0.9", library: "libx.so")"#).unwrap().priority, 0);
    }

    #[test]
    fn errors_say_what_and_where() {
        refused(r#"(abi: "1", library: "libx.so", prority: 1)"#, "prority");
        refused("(abi: \"1\",\n  library: 7)", "2:12");
        refused(r#"(library: "libx.so")"#, "abi");
        refused(r#"(abi: "2", library: "libx.so")"#, "abi is \"2\"");
        refused(r#"(abi: "1", library: "libx.so", os: "plan9")"#, "os is \"plan9\"");
        refused(r#"(abi: "1", library: "libx.so", sha256: Some("12"))"#, "64 hexadecimal digits");
        refused(r#"(abi: "1", library: "libx.so", kinds: [TPU])"#, "TPU");
        refused(r#"(abi: "1", library: "liby.so")"#, "liby.so");
        refused(&" ".repeat(70_000), "larger than 65536");
        refused("\u{0}", "x.ottava.ron");
    }

    #[test]
    fn the_library_stays_in_the_folder() {
        for library in ["../libx.so", "/usr/lib/libc.so.6", "a/../../libx.so", ".", ""] {
            refused(&format!(r#"(abi: "1", library: "{library}")"#), "must be a file in the manifest's folder");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.ottava.ron");
        std::os::unix::fs::symlink("/proc/self/exe", dir.path().join("libx.so")).unwrap();
        std::fs::write(&path, r#"(abi: "1", library: "libx.so")"#).unwrap();
        let refusal = Manifest::read(&path).unwrap().library_of(&path).unwrap_err();
        assert!(refusal.reason.contains("leaves the folder"));
    }
}

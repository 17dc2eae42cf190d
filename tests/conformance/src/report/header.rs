//! The submission: which driver, which library, on which machine, with what was asked for.

use crate::{Expectations, Facts};
use object::{Object, ObjectSection};
use ottava_abi::note::{AbiNote, SECTION};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Who submits what.
#[derive(Debug, Clone)]
pub struct Header {
    /// Driver and device.
    pub facts: Facts,
    /// The library; none for a driver that is linked in.
    pub library: Option<Library>,
    /// Version of the suite.
    pub suite: &'static str,
    /// The profile.
    pub profile: String,
    /// What of it was chosen; empty for all.
    pub filter: String,
    /// Decides everything that is random.
    pub seed: u64,
    /// Whether the long forms ran.
    pub stress: bool,
    /// Limit of a case, seconds.
    pub timeout_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// Operating system, processor and its features: name, value.
    pub system: Vec<(&'static str, String)>,
    /// Day of the run.
    pub date: String,
    /// Both lists.
    pub expectations: Expectations,
}

/// Version of the suite.
pub const SUITE: &str = env!("CARGO_PKG_VERSION");
/// Longer libraries are not read for their note.
const MOST_LIBRARY: u64 = 1 << 30;

/// A library, looked at from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Name of the file, without its folder.
    pub file: String,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Smallest and largest major version of the ABI that it speaks.
    pub abi_range: Option<(u32, u32)>,
    /// The doors that it has: `c`, `rust`.
    pub doors: Vec<&'static str>,
}

impl Library {
    /// Reads a library without loading it. What is no library has a hash and nothing else.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_LIBRARY).read_to_end(&mut bytes)?;
        let note = note_of(&bytes);
        let doors = [(ottava_abi::door::C, "c"), (ottava_abi::door::RUST, "rust")];
        let has = |n: &AbiNote| doors.iter().filter(|(bit, _)| n.doors & bit != 0).map(|(_, name)| *name).collect();
        Ok(Self {
            file: path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
            sha256: Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect(),
            abi_range: note.as_ref().map(|n| (n.major_min, n.major_max)),
            doors: note.as_ref().map(has).unwrap_or_default(),
        })
    }
}

fn note_of(bytes: &[u8]) -> Option<AbiNote> {
    let file = object::File::parse(bytes).ok()?;
    AbiNote::from_bytes(file.section_by_name(SECTION)?.data().ok()?)
}

/// The machine that runs the suite.
pub fn system() -> Vec<(&'static str, String)> {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default();
        line.trim_start_matches(['\t', ' ', ':', '=']).trim_matches('"').to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let all = [
        ("os", format!("{} {}", std::env::consts::OS, first("/etc/os-release", "PRETTY_NAME"))),
        ("kernel", first("/proc/sys/kernel/osrelease", "")),
        ("arch", std::env::consts::ARCH.to_owned()),
        ("cpu", first("/proc/cpuinfo", "model name")),
        ("cores", cores.to_string()),
        ("cpu_features", features()),
    ];
    all.into_iter().map(|(name, value)| (name, value.trim().to_owned())).filter(|(_, v)| !v.is_empty()).collect()
}

/// The features of the processor that kernels choose by.
#[cfg(target_arch = "x86_64")]
fn features() -> String {
    let all = [
        ("sse4.1", is_x86_feature_detected!("sse4.1")),
        ("avx", is_x86_feature_detected!("avx")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avxvnni", is_x86_feature_detected!("avxvnni")),
    ];
    all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

/// The features of the processor that kernels choose by.
#[cfg(target_arch = "aarch64")]
fn features() -> String {
    let all = [
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        ("dotprod", std::arch::is_aarch64_feature_detected!("dotprod")),
        ("i8mm", std::arch::is_aarch64_feature_detected!("i8mm")),
        ("fp16", std::arch::is_aarch64_feature_detected!("fp16")),
        ("bf16", std::arch::is_aarch64_feature_detected!("bf16")),
        ("sve", std::arch::is_aarch64_feature_detected!("sve")),
    ];
    all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_has_a_hash_alone() {
        let path = std::env::temp_dir().join(format!("ottava-conformance-{}.txt", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let library = Library::of(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(library.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((library.abi_range, library.doors.len()), (None, 0));
    }

    #[test]
    fn the_machine_has_a_name() {
        let system = system();
        assert!(system.iter().any(|(name, value)| *name == "arch" && value == std::env::consts::ARCH), "{system:?}");
    }
}

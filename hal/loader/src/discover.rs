//! Where candidates come from, in the order of abi.md section 7: the application's configuration, `OTTAVA_DRIVER_FILES`,
//! `OTTAVA_DRIVER_PATH`, the user's directory, the system's directory.
//!
//! Nothing that looks like a driver is passed over in silence: a listed directory that is missing, a manifest that does not
//! parse and a driver library without a manifest are all found, with the reason why they will not be loaded.

use crate::hash;
use crate::manifest::{Kind, Manifest};
use crate::note;
use crate::options::{DRIVER_FILES, DRIVER_PATH, LibrarySpec, LoadOptions};
use crate::policy;
use crate::refusal::{Refusal, Result};
use ottava_hal::Options;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A directory with more entries than this is not searched to its end.
const MAX_ENTRIES: usize = 4096;

/// Who named a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The application's configuration.
    Config,
    /// The variable `OTTAVA_DRIVER_FILES`.
    DriverFiles,
    /// A directory of the variable `OTTAVA_DRIVER_PATH`.
    DriverPath,
    /// The user's directory.
    UserDir,
    /// The system's directory.
    SystemDir,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "configuration",
            Self::DriverFiles => DRIVER_FILES,
            Self::DriverPath => DRIVER_PATH,
            Self::UserDir => "user directory",
            Self::SystemDir => "system directory",
        })
    }
}

/// A library that was found.
#[derive(Debug)]
pub(crate) struct Located {
    /// The library.
    pub library: PathBuf,
    /// Its manifest.
    pub manifest: Option<PathBuf>,
    /// Hashes that it must have.
    pub hashes: Vec<String>,
    /// Environment variables that must be set.
    pub env: Vec<String>,
    /// Kinds of devices that the manifest names; empty if it names none.
    pub kinds: Vec<Kind>,
    /// Options for the driver.
    pub options: Options,
}

/// Something that may be a driver.
#[derive(Debug)]
pub(crate) struct Found {
    /// What the report shows: the library, or whatever was found instead.
    pub path: PathBuf,
    /// Who named it.
    pub source: Source,
    /// The library, or why there is none.
    pub library: Result<Located>,
}

fn with_manifest(manifest: &Path, hash: Option<&String>, options: &Options) -> Result<Located> {
    policy::check_not_writable(manifest, "manifest")?;
    let content = Manifest::read(manifest)?;
    let library = content.library_of(manifest)?;
    let hashes = hash.cloned().into_iter().chain(content.sha256).collect();
    let (manifest, options) = (Some(manifest.to_path_buf()), options.clone());
    Ok(Located { library, manifest, hashes, env: content.env, kinds: content.kinds, options })
}

fn by_spec(spec: &LibrarySpec, source: Source) -> Found {
    if let Some(hash) = spec.sha256.as_ref().filter(|h| !hash::is_hash(h)) {
        let what = format!("the {source} has the sha256 \"{hash}\" for it, expected 64 hexadecimal digits");
        return found(spec.path.clone(), source, Err(Refusal::policy(what)));
    }
    let named = Manifest::is_named(&spec.path).then_some(&spec.path);
    let library = match spec.manifest.as_ref().or(named) {
        Some(manifest) => {
            with_manifest(manifest, spec.sha256.as_ref(), &spec.options).and_then(|l| same_library(l, spec))
        }
        None => {
            let (library, hashes) = (spec.path.clone(), spec.sha256.iter().cloned().collect());
            let (env, kinds, options) = (Vec::new(), Vec::new(), spec.options.clone());
            Ok(Located { library, manifest: None, hashes, env, kinds, options })
        }
    };
    found(spec.path.clone(), source, library)
}

/// A manifest that is named beside a library speaks of that library.
fn same_library(located: Located, spec: &LibrarySpec) -> Result<Located> {
    let real = |p: &Path| p.canonicalize().ok();
    if Manifest::is_named(&spec.path) || real(&located.library) == real(&spec.path) {
        return Ok(located);
    }
    let what = format!("the manifest speaks of {}, not of this library", located.library.display());
    Err(Refusal::new(ottava_abi::status::MANIFEST_INVALID, what))
}

fn found(path: PathBuf, source: Source, library: Result<Located>) -> Found {
    let path = library.as_ref().map_or(path, |l| l.library.clone());
    Found { path, source, library }
}

/// The names in a directory, sorted.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(dir)?.take(MAX_ENTRIES).map(|e| e.map(|e| e.path()));
    let mut list = list.collect::<io::Result<Vec<_>>>()?;
    list.sort();
    Ok(list)
}

/// The manifests of a directory, highest priority first, then driver libraries that no manifest names.
fn in_dir(dir: &Path, source: Source) -> Vec<Found> {
    let list = match entries(dir) {
        Ok(list) => list,
        Err(e) if e.kind() == io::ErrorKind::NotFound && source != Source::DriverPath => return Vec::new(),
        Err(e) => {
            let what = Refusal::load(format!("directory {}: {e}", dir.display()));
            return vec![found(dir.to_path_buf(), source, Err(what))];
        }
    };
    let manifests = list.iter().filter(|p| Manifest::is_named(p));
    let mut manifests: Vec<_> = manifests.map(|p| (priority(p), p)).collect();
    manifests.sort_by_key(|(priority, path)| (Reverse(*priority), *path));
    let one = |(_, path): (i32, &PathBuf)| found(path.clone(), source, with_manifest(path, None, &Options::new()));
    let mut all: Vec<Found> = manifests.into_iter().map(one).collect();
    let named: BTreeSet<PathBuf> = all.iter().filter_map(|f| f.path.canonicalize().ok()).collect();
    all.extend(list.into_iter().filter_map(|p| without_manifest(p, &named, source)));
    all
}

/// 0 for a manifest that does not parse; its error is told when it is read again.
fn priority(manifest: &Path) -> i32 {
    Manifest::read(manifest).map_or(0, |m| m.priority)
}

fn without_manifest(path: PathBuf, named: &BTreeSet<PathBuf>, source: Source) -> Option<Found> {
    let is_library = path.extension().is_some_and(|e| e == "so") && path.is_file();
    if !is_library || path.canonicalize().is_ok_and(|p| named.contains(&p)) || !note::has_note(&path) {
        return None;
    }
    let what = format!("no manifest names this driver; write one (`*.ottava.ron`) or list it in {DRIVER_FILES}");
    Some(found(path, source, Err(Refusal::new(ottava_abi::status::MANIFEST_INVALID, what))))
}

/// Says which settings of an elevated process have no effect.
fn log_ignored(options: &LoadOptions) {
    for name in [DRIVER_FILES, DRIVER_PATH].into_iter().filter(|name| options.environment.get(name).is_some()) {
        tracing::warn!("{name} is ignored: the process has more rights than its user");
    }
    if options.search.user {
        tracing::warn!("the user's driver directory is ignored: the process has more rights than its user");
    }
}

/// Everything that may be a driver, in the order of preference.
pub(crate) fn discover(options: &LoadOptions) -> Vec<Found> {
    let env = &options.environment;
    let mut all: Vec<Found> = options.libraries.iter().map(|spec| by_spec(spec, Source::Config)).collect();
    if env.elevated {
        log_ignored(options);
    } else {
        let files = env.paths(DRIVER_FILES).into_iter().map(LibrarySpec::new);
        all.extend(files.map(|spec| by_spec(&spec, Source::DriverFiles)));
        all.extend(env.paths(DRIVER_PATH).iter().flat_map(|dir| in_dir(dir, Source::DriverPath)));
        let user = env.user_dir().filter(|_| options.search.user);
        all.extend(user.iter().flat_map(|dir| in_dir(dir, Source::UserDir)));
    }
    if options.search.system {
        all.extend(in_dir(&env.system_dir, Source::SystemDir));
    }
    all
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;

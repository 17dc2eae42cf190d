//! What the caller asks for: libraries, search paths, policy, and the environment as data.
//!
//! Nothing in this crate reads the process's environment except [`Environment::from_process`], so that every rule can be
//! tested with an environment of its own.

use ottava_hal::Options;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variable with library or manifest files, separated by colons.
pub const DRIVER_FILES: &str = "OTTAVA_DRIVER_FILES";
/// Variable with directories of manifests, separated by colons.
pub const DRIVER_PATH: &str = "OTTAVA_DRIVER_PATH";
/// Where packages of the system put manifests.
pub const SYSTEM_DIR: &str = "/usr/lib/ottava/drivers";

/// Which drivers to look for, where, and under which rules.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Libraries that the application names.
    pub libraries: Vec<LibrarySpec>,
    /// What may be loaded.
    pub policy: Policy,
    /// Which of the fixed directories are searched.
    pub search: Search,
    /// Variables and rights of the process: [`Environment::from_process`], or by default no variables.
    pub environment: Environment,
}

/// A library that the application names.
#[derive(Debug, Clone, Default)]
pub struct LibrarySpec {
    /// The library, or a manifest (`*.ottava.ron`).
    pub path: PathBuf,
    /// SHA-256 that the library must have, 64 hexadecimal digits.
    pub sha256: Option<String>,
    /// Manifest of the library, if it is not given by `path`.
    pub manifest: Option<PathBuf>,
    /// Options for the driver itself, handed over as they are when it is loaded for the first time. Options of devices
    /// are given when a device is opened.
    pub options: Options,
}

impl LibrarySpec {
    /// A library or manifest without further conditions.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// Which of the fixed directories are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// The user's directory (`$XDG_DATA_HOME/ottava/drivers`).
    pub user: bool,
    /// The system's directory.
    pub system: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self { user: true, system: true }
    }
}

/// What may be loaded. A library that `deny` names is refused; if `allow` is not empty, it must name the library.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Every library must be named together with its hash: in its manifest, by the application or in `allow`.
    pub require_hash: bool,
    /// What may be loaded; empty allows everything.
    pub allow: Vec<Rule>,
    /// What may not.
    pub deny: Vec<Rule>,
}

/// Names libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Every library in a directory or below it.
    Dir(PathBuf),
    /// The library with this SHA-256, 64 hexadecimal digits.
    Sha256(String),
}

/// The process's environment, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Environment variables.
    pub variables: BTreeMap<String, OsString>,
    /// The process has more rights than its user: variables and the user's directory are ignored.
    pub elevated: bool,
    /// The system's directory of manifests.
    pub system_dir: PathBuf,
}

impl Default for Environment {
    /// No variables, no special rights.
    fn default() -> Self {
        Self { variables: BTreeMap::new(), elevated: false, system_dir: SYSTEM_DIR.into() }
    }
}

impl Environment {
    /// The environment of this process.
    pub fn from_process() -> Self {
        let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v))).collect();
        Self { variables, elevated: crate::elevated::is_elevated(), ..Self::default() }
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }

    /// The paths of a variable that holds a list.
    pub(crate) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let list = self.get(name).map(|v| std::env::split_paths(v).collect::<Vec<_>>());
        list.unwrap_or_default().into_iter().filter(|p| !p.as_os_str().is_empty()).collect()
    }

    /// The user's directory of manifests; relative ones are ignored, they would depend on the current directory.
    pub(crate) fn user_dir(&self) -> Option<PathBuf> {
        let absolute = |name| self.get(name).map(Path::new).filter(|p| p.is_absolute());
        let data = absolute("XDG_DATA_HOME").map(Path::to_path_buf);
        let home = || absolute("HOME").map(|home| home.join(".local/share"));
        data.or_else(home).map(|dir| dir.join("ottava/drivers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), OsString::from(*v))).collect();
        Environment { variables, ..Environment::default() }
    }

    #[test]
    fn the_user_directory_follows_xdg_and_is_absolute() {
        let dir = |v: &[(&str, &str)]| with(v).user_dir();
        let home = ("HOME", "/home/ada");
        assert_eq!(dir(&[home]), Some("/home/ada/.local/share/ottava/drivers".into()));
        assert_eq!(dir(&[home, ("XDG_DATA_HOME", "/data")]), Some("/data/ottava/drivers".into()));
        assert_eq!(dir(&[home, ("XDG_DATA_HOME", "data")]), dir(&[home]));
        assert_eq!(dir(&[]), None);
    }

    #[test]
    fn lists_are_split_and_empty_entries_dropped() {
        let env = with(&[(DRIVER_PATH, "/a::/b:")]);
        assert_eq!(env.paths(DRIVER_PATH), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert!(env.paths(DRIVER_FILES).is_empty());
    }
}

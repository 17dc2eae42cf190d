//! From what was found to what is loaded: every candidate is kept, with the reason if it is refused.

use crate::adapter::AbiDriver;
use crate::discover::{Found, Located, Source, discover};
use crate::note::{self, Note};
use crate::once;
use crate::options::{Environment, LoadOptions, Policy};
use crate::plugin::{self, Plugin};
use crate::policy::{self, Subject};
use crate::refusal::{Refusal, Result};
use ottava_hal::{DeviceInfo, Driver};
use std::path::PathBuf;
use std::sync::Arc;

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its driver can be used.
    Loaded,
    /// It cannot, for the reason given.
    Refused,
}

impl State {
    /// Lower-case name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Refused => "refused",
        }
    }
}

/// Something that may be a driver, and what became of it.
#[derive(Clone)]
pub struct Candidate {
    /// The library, or whatever was found in its place.
    pub path: PathBuf,
    /// Who named it.
    pub source: Source,
    /// What became of it.
    pub status: State,
    /// Status code of the ABI; 0 if it is loaded.
    pub code: i32,
    /// Why it is refused, in words.
    pub reason: Option<String>,
    /// The driver's name, as far as it is known.
    pub name: Option<String>,
    /// The driver's version, as far as it is known.
    pub version: Option<String>,
    /// Version of the driver's kit and the door that was taken: `0.9 rust`, `0.9 c`.
    pub abi: Option<String>,
    /// The driver.
    pub driver: Option<Arc<dyn Driver>>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        let why = self.reason.as_deref().unwrap_or_default();
        write!(f, "{path} ({}): {} {why}", self.source, self.status.name())
    }
}

/// Finds, checks and loads drivers; every candidate in the order of preference.
pub fn load_all(options: &LoadOptions) -> Vec<Candidate> {
    let mut loaded: Vec<(Arc<Plugin>, Source)> = Vec::new();
    let one = |found: Found| {
        let candidate = consider(found, options, &mut loaded);
        report(&candidate);
        candidate
    };
    discover(options).into_iter().map(one).collect()
}

fn report(c: &Candidate) {
    let (path, source) = (c.path.display(), c.source);
    match (&c.reason, &c.name) {
        (Some(reason), _) => tracing::warn!("driver {path} ({source}) is refused: {reason}"),
        (None, name) => {
            let (name, abi) = (name.as_deref().unwrap_or_default(), c.abi.as_deref().unwrap_or_default());
            tracing::info!("driver {path} ({source}) is loaded as `{name}`, ABI {abi}");
        }
    }
}

fn consider(found: Found, options: &LoadOptions, loaded: &mut Vec<(Arc<Plugin>, Source)>) -> Candidate {
    let mut candidate = Candidate {
        path: found.path,
        source: found.source,
        status: State::Refused,
        code: 0,
        reason: None,
        name: None,
        version: None,
        abi: None,
        driver: None,
    };
    let result = found.library.and_then(|located| attempt(&located, options, &mut candidate, loaded));
    match result {
        Ok(driver) => (candidate.status, candidate.driver) = (State::Loaded, Some(driver)),
        Err(refusal) => (candidate.code, candidate.reason) = (refusal.code, Some(refusal.reason)),
    }
    candidate
}

/// The checks, in the order of abi.md section 7.
fn attempt(
    located: &Located,
    options: &LoadOptions,
    candidate: &mut Candidate,
    loaded: &mut Vec<(Arc<Plugin>, Source)>,
) -> Result<Arc<dyn Driver>> {
    let (real, note) = check_file(located, &options.policy)?;
    (candidate.name, candidate.version) = (Some(note.name.clone()), Some(note.version.clone()));
    check_variables(located, &options.environment)?;
    let plugin = plugin::load(&real, &note, &located.options)?;
    check_new(&plugin, loaded)?;
    let driver = AbiDriver::new(plugin.clone());
    let devices = driver.devices();
    let devices = devices.map_err(|e| Refusal::load(format!("the driver's devices cannot be listed: {e}")))?;
    check_kinds(&plugin.info.name, located, &devices);
    candidate.name = Some(plugin.info.name.clone());
    candidate.version = Some(plugin.info.version.clone());
    candidate.abi = Some(plugin.abi.clone());
    loaded.push((plugin, candidate.source));
    Ok(Arc::new(driver))
}

fn check_file(located: &Located, policy: &Policy) -> Result<(PathBuf, Note)> {
    let hashes = located.hashes.iter().map(String::as_str).collect();
    let subject = Subject { library: &located.library, manifest: located.manifest.as_deref(), hashes };
    let real = policy::check(policy, &subject)?;
    let note = note::read(&real)?;
    Ok((real, note))
}

fn check_variables(located: &Located, environment: &Environment) -> Result<()> {
    match located.env.iter().find(|name| environment.get(name).is_none()) {
        Some(name) => {
            Err(Refusal::load(format!("its manifest asks for the environment variable {name}, which is not set")))
        }
        None => Ok(()),
    }
}

/// A manifest without the kind of a device misleads whoever reads it, and nothing more: a warning.
fn check_kinds(driver: &str, located: &Located, devices: &[DeviceInfo]) {
    let named = |d: &&DeviceInfo| located.kinds.iter().any(|k| k.device_kind() == d.kind);
    for d in devices.iter().filter(|d| !located.kinds.is_empty() && !named(d)) {
        let (kinds, id, kind) = (&located.kinds, &d.id, d.kind);
        once::warn(driver, &format!("the manifest of `{driver}` names the kinds {kinds:?}, device `{id}` is {kind:?}"));
    }
}

/// One library is loaded once, and a name belongs to one driver.
fn check_new(plugin: &Arc<Plugin>, loaded: &[(Arc<Plugin>, Source)]) -> Result<()> {
    for (other, source) in loaded {
        if Arc::ptr_eq(other, plugin) {
            return Err(Refusal::load(format!("the same library is already loaded ({source})")));
        }
        if other.info.name == plugin.info.name {
            let (name, path) = (&other.info.name, other.path.display());
            return Err(Refusal::load(format!("a driver named `{name}` is already loaded from {path} ({source})")));
        }
    }
    Ok(())
}

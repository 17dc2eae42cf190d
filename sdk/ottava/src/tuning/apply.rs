//! A tuning file beside what is there: does it fit, and what follows.

use super::{AGAIN, DeviceKey, Machine, ModelKey, TunedDevice, Tuning, keys};
use crate::error::{Error, Result, codes};
use crate::registry::{DeviceOptions, OpenDevice, Registry};
use ottava_compiler::{Measured, NodeSignature};
use ottava_graph::Diagnostic;
use ottava_hal::Options;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Characters of a text from a file that a message shows.
const MAX_TEXT: usize = 256;

/// What became of a tuning file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuningState {
    /// It fits and is used.
    Used,
    /// It was made for something else; the static model is used.
    Refused,
}

/// What became of a tuning file, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningReport {
    /// The file.
    pub file: PathBuf,
    /// Used or not.
    pub state: TuningState,
    /// Both keys where it is not used; what is used otherwise.
    pub text: String,
    /// Options that it sets, by the id of a device.
    pub chosen: BTreeMap<String, Options>,
}

impl TuningReport {
    /// The same as a finding.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let text = format!("tuning file {}: {}", self.file.display(), self.text);
        match self.state {
            TuningState::Used => Diagnostic::note(codes::TUNING_USE, "", text),
            TuningState::Refused => Diagnostic::warning(codes::TUNING_USE, "", text)
                .with_help(format!("devices are placed by their own estimates; {AGAIN}")),
        }
    }
}

/// A file that fits the machine and the devices.
pub(crate) struct Applied {
    /// What there is to say.
    pub report: TuningReport,
    tuning: Option<Tuning>,
}

/// Reads the file that the configuration names, if it does, and compares it with the machine and open devices.
pub(crate) fn of_devices(registry: &Registry, devices: &[OpenDevice]) -> Result<Option<Applied>> {
    let Some(file) = &registry.config.tuning else { return Ok(None) };
    let tuning = Tuning::load(file).map_err(|e| match (&registry.config.file, file.exists()) {
        (Some(config), false) => e.in_file(config).at("key `tuning`"),
        _ => e,
    })?;
    let mut wrong = other_machine(&tuning.machine, &keys::machine());
    for open in devices {
        let Some(found) = tuning.devices.iter().find(|d| d.id == open.id) else {
            wrong = wrong.or_else(|| Some(format!("it has no measurement of the device `{}`", open.id)));
            continue;
        };
        let here = keys::device(registry, open)?;
        wrong = wrong.or_else(|| other_device(&open.id, &found.key, &here));
    }
    check_options(registry, file, &tuning, devices, wrong.is_none())?;
    Ok(Some(match wrong {
        Some(text) => Applied { report: report(file, TuningState::Refused, text), tuning: None },
        None => {
            let text = format!("measured on {}", tuning.machine.model);
            let mut report = report(file, TuningState::Used, text);
            let is_here = |id: &str| devices.iter().any(|d| d.id == id);
            let chosen = tuning.devices.iter().filter(|d| is_here(&d.id) && !d.chosen.is_empty());
            report.chosen = chosen.map(|d| (d.id.clone(), d.chosen.clone())).collect();
            Applied { report, tuning: Some(tuning) }
        }
    }))
}

impl Registry {
    /// What becomes of the tuning file that the configuration names, as far as that is known without a model.
    pub fn tuning(&self) -> Result<Option<TuningReport>> {
        if self.config.tuning.is_none() {
            return Ok(None);
        }
        let mut applied = of_devices(self, &self.open(&DeviceOptions::default())?)?;
        if let Some(Applied { report, tuning: Some(tuning) }) = &mut applied {
            report.text += &format!("; for the model `{}` {} alone", brief(&tuning.model.name), tuning.model.sha256);
        }
        Ok(applied.map(|a| a.report))
    }
}

/// What the file sets must be options that tuning compares and, where the file fits, values that the devices take.
fn check_options(reg: &Registry, file: &Path, tuning: &Tuning, devices: &[OpenDevice], fits: bool) -> Result<()> {
    for (i, found) in tuning.devices.iter().enumerate() {
        let Some(open) = devices.iter().find(|d| d.id == found.id) else { continue };
        known_options(reg, open, &found.chosen).map_err(|(key, e)| in_chosen(e, file, i, &key))?;
        if fits {
            good_values(reg, found).map_err(|(key, e)| in_chosen(e, file, i, &key))?;
        }
    }
    Ok(())
}

/// Names the file and the option that is wrong in it.
fn in_chosen(e: Error, file: &Path, i: usize, key: &str) -> Error {
    e.in_file(file).at(format!("key `devices[{i}].chosen.{key}`"))
}

/// Options that a file sets must be of those that tuning compares: it must not change what a device computes.
fn known_options(registry: &Registry, open: &OpenDevice, chosen: &Options) -> Result<(), (String, Error)> {
    let schema = registry.option_schema(&open.driver.name);
    let known: Vec<&str> = schema.iter().filter(|s| !s.tune.is_empty()).map(|s| s.key.as_str()).collect();
    match chosen.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let what = format!("the option `{key}` of the device `{}` is none that tuning sets", open.id);
            Err((key.clone(), Error::invalid(codes::TUNING, what).help(crate::suggest::hint(key, known))))
        }
    }
}

/// Values that a file sets must be of those that the device takes: it is opened with each, as only its driver knows.
fn good_values(registry: &Registry, found: &TunedDevice) -> Result<(), (String, Error)> {
    for (key, value) in &found.chosen {
        let one = Options::from([(key.clone(), value.clone())]);
        let options = DeviceOptions { tuned: [(found.id.clone(), one)].into(), ..DeviceOptions::default() };
        match registry.open_one(&found.id, &options) {
            Err(Error::Invalid(d)) => {
                let what = format!("the device `{}` does not take this value: {}", found.id, d.message);
                let e = Error::invalid(codes::TUNING, what).found(format!("`{}`", brief(value)));
                return Err((key.clone(), e.help(AGAIN)));
            }
            Err(e) => return Err((key.clone(), e)),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Compares the file with a model, and gives the costs of its nodes.
pub(crate) fn of_model(applied: &mut Applied, key: &ModelKey, nodes: &[NodeSignature]) -> Result<Measured> {
    let mut measured = Measured::default();
    let Some(tuning) = &applied.tuning else { return Ok(measured) };
    if tuning.model.sha256 != key.sha256 {
        let side = |m: &ModelKey| format!("`{}` {}", brief(&m.name), m.sha256);
        let text = format!("measured for the model {}, this is {}", side(&tuning.model), side(key));
        applied.report = report(&applied.report.file, TuningState::Refused, text);
        return Ok(measured);
    }
    let mut found = 0;
    for (i, entry) in tuning.nodes.iter().enumerate() {
        let alike = nodes.iter().filter(|n| n.signature == entry.signature);
        let names: Vec<&str> = alike.map(|n| n.node.as_str()).collect();
        if let Some(stray) = entry.nodes.iter().find(|n| !names.contains(&n.as_str())) {
            let e =
                Error::invalid(codes::TUNING, format!("the model has no node `{}` of this signature", brief(stray)));
            return Err(e.in_file(&applied.report.file).at(format!("key `nodes[{i}].names`")).help(AGAIN));
        }
        if let Some(other) = nodes.iter().find(|n| n.signature == entry.signature && n.op != entry.op) {
            let e = Error::invalid(codes::TUNING, "the nodes of this signature have another operator");
            let e = e.in_file(&applied.report.file).at(format!("key `nodes[{i}].op`"));
            return Err(e.found(format!("`{}`", brief(&entry.op))).expected(&other.op).help(AGAIN));
        }
        if names.is_empty() {
            let e = Error::invalid(codes::TUNING, "the model has no node of this signature");
            let e = e.in_file(&applied.report.file).at(format!("key `nodes[{i}].signature`"));
            return Err(e.found(format!("{:?}", entry.signature)).help(AGAIN));
        }
        found += names.len();
        entry.costs.iter().for_each(|(id, t)| measured.insert(id, &entry.signature, t.best_ns));
    }
    applied.report.text += &format!("; costs of {found} of {} nodes are measured", nodes.len());
    Ok(measured)
}

fn report(file: &Path, state: TuningState, text: String) -> TuningReport {
    TuningReport { file: file.to_path_buf(), state, text, chosen: BTreeMap::new() }
}

/// The beginning of a text from a file, for messages.
pub(super) fn brief(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

fn other_machine(file: &Machine, here: &Machine) -> Option<String> {
    let side = |m: &Machine| format!("{} {} [{}]", m.vendor, m.model, brief(&m.features.join(" ")));
    (file != here).then(|| format!("measured on {}, this is {}", side(file), side(here)))
}

fn other_device(id: &str, file: &DeviceKey, here: &DeviceKey) -> Option<String> {
    let side = |k: &DeviceKey| {
        let options: Vec<String> = k.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let library = k.library.as_ref().map_or_else(String::new, |sha| format!(", library {sha}"));
        format!("{} {} ({}{library}; options: {})", k.driver, k.version, k.isa, brief(&options.join(" ")))
    };
    (file != here).then(|| format!("device `{id}` was measured as {}, this is {}", side(file), side(here)))
}

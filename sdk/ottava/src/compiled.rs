//! A network compiled for devices: the plan with its reasons, ready to be saved, explained or run.

use crate::config::{Config, Fallback, Objective, Placement};
use crate::error::{Error, Result, codes};
use crate::memory::{self, DeviceMemory};
use crate::model::Model;
use crate::registry::{OpenDevice, REFERENCE, Registry};
use crate::session::SessionOptions;
use crate::tuning::{self, TuningReport};
use ottava_compiler::{Cx, PassReport, Policy, Target};
use ottava_graph::{Diagnostic, Graph, Phase};
use ottava_hal::{CompileOptions, DriverInfo, Options};
use ottava_plan::{Blob, FileError, Partition, Plan};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A network compiled for devices.
pub struct Compiled {
    /// The file it comes from.
    pub(crate) origin: PathBuf,
    /// Partitions, steps, memory, reasons, alternatives.
    pub plan: Plan,
    /// Decisions worth knowing.
    pub diagnostics: Vec<Diagnostic>,
    /// What each pass did; empty for a saved plan.
    pub passes: Vec<PassReport>,
    /// The devices that the plan and its alternatives may use; the reference interpreter is the last one.
    pub(crate) devices: Vec<OpenDevice>,
    /// What became of the tuning file, if the configuration names one.
    pub tuning: Option<TuningReport>,
}

/// Compiles a model for the configured devices. A saved plan comes back as it was compiled.
pub fn compile(model: &Model, registry: &Registry, options: &SessionOptions) -> Result<Compiled> {
    compile_avoiding(model, registry, options, &[])
}

/// Nodes that a device must not get.
pub(crate) struct Avoid {
    /// Id of the device.
    pub device: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
}

/// As [`compile`], with some nodes kept away from some devices.
pub(crate) fn compile_avoiding(
    model: &Model,
    registry: &Registry,
    options: &SessionOptions,
    avoid: &[Avoid],
) -> Result<Compiled> {
    match &model.plan {
        Some(plan) => of_plan(model, plan, registry, options, avoid),
        None => {
            check_requant(model, &registry.config)?;
            let dims = model.dims(options.batch.max(1), &options.dims)?;
            placed(model, &model.bind(&dims)?, registry, options, avoid, true)
        }
    }
}

/// Compiles a bound graph of any phase that stems from `model`; it is another one, so a tuning file does not apply.
pub(crate) fn of_graph(
    model: &Model,
    graph: &Graph,
    registry: &Registry,
    options: &SessionOptions,
    avoid: &[Avoid],
) -> Result<Compiled> {
    placed(model, graph, registry, options, avoid, false)
}

fn placed(
    model: &Model,
    graph: &Graph,
    registry: &Registry,
    options: &SessionOptions,
    avoid: &[Avoid],
    is_tunable: bool,
) -> Result<Compiled> {
    check_objective(&registry.config)?;
    let mut devices = chosen(registry, options)?;
    let folder = registry.reference()?;
    let mut cx = Cx::new(folder.as_ref());
    let applied = if is_tunable { tuning::of_devices(registry, &devices)? } else { None };
    let mut placement = placement(&registry.config, &devices, options.device.is_some());
    for Avoid { device, nodes } in avoid {
        placement.bans.extend(nodes.iter().map(|node| (node.clone(), device.clone())));
    }
    let mut lowered = Cow::Borrowed(graph);
    let tuning = match applied {
        None => None,
        Some(mut applied) => {
            let wrong = |e| model.invalid(e);
            let canonical = ottava_compiler::canonicalize(graph, &mut cx).map_err(wrong)?;
            let quantized = ottava_compiler::integerize(&canonical, &mut cx).map_err(wrong)?;
            let (key, nodes) = (tuning::model_key(&canonical), ottava_compiler::signatures(&quantized));
            placement.measured = tuning::of_model(&mut applied, &key, &nodes)?;
            lowered = Cow::Owned(quantized);
            cx.diagnostics.push(applied.report.diagnostic());
            devices = tuned(registry, options, &applied.report, devices)?;
            Some(applied.report)
        }
    };
    if !devices.iter().any(|d| d.id == REFERENCE) {
        devices.push(reference(registry)?);
    }
    let targets: Vec<Target> = devices.iter().map(|d| Target { id: &d.id, device: d.device.as_ref() }).collect();
    let plan = ottava_compiler::compile(&lowered, &targets, &placement, &mut cx);
    let plan = plan.map_err(|e| of_rule(&registry.config, &e).unwrap_or_else(|| model.invalid(e)))?;
    Ok(Compiled { origin: model.origin.clone(), plan, diagnostics: cx.diagnostics, passes: cx.passes, devices, tuning })
}

/// The devices that the caller names, else those of the configuration.
fn chosen(registry: &Registry, options: &SessionOptions) -> Result<Vec<OpenDevice>> {
    match &options.device {
        Some(id) => Ok(vec![registry.open_one(id, &options.devices)?]),
        None => registry.open(&options.devices),
    }
}

/// The devices under the options that a tuning file sets.
fn tuned(
    registry: &Registry,
    options: &SessionOptions,
    report: &TuningReport,
    devices: Vec<OpenDevice>,
) -> Result<Vec<OpenDevice>> {
    if report.chosen.is_empty() {
        return Ok(devices);
    }
    let mut options = options.clone();
    options.devices.tuned.clone_from(&report.chosen);
    chosen(registry, &options)
}

/// Opens the devices that a saved plan names. One that is not there is skipped where an alternative does without it.
fn of_plan(
    model: &Model,
    plan: &Plan,
    registry: &Registry,
    options: &SessionOptions,
    avoid: &[Avoid],
) -> Result<Compiled> {
    let fail = |what: String| Error::invalid(codes::PLAN, what).in_file(&model.origin);
    let named: Vec<&str> = plan.devices.iter().map(|d| d.id.as_str()).collect();
    if let Some(id) = options.device.as_deref().filter(|id| named != [*id]) {
        return Err(fail(format!("the plan was compiled for {}, not for `{id}`", named.join(", ")))
            .help("compile the model again for this device, or leave `--device` out"));
    }
    if let Some(name) = options.dims.keys().next() {
        return Err(fail(format!("the dimension `{name}` was bound when the plan was compiled"))
            .help("compile the model again with another value"));
    }
    let config = &registry.config;
    if config.fallback == Fallback::Error && named.contains(&REFERENCE) {
        return Err(fail(
            "the plan runs nodes on the reference device, and the configuration says `fallback: Error`".into(),
        )
        .help("compile the model again under this configuration"));
    }
    let mut diagnostics = Vec::new();
    if !config.pins.is_empty() || !config.bans.is_empty() {
        let text = "the plan was placed when it was compiled: pins and bans of the configuration are not applied";
        diagnostics.push(Diagnostic::warning("P0604", "", text).with_help("compile the model again to apply them"));
    }
    if let Some(file) = &config.tuning {
        let text = format!(
            "the plan was placed when it was compiled: the tuning file {} of the configuration is not looked at",
            file.display()
        );
        diagnostics.push(Diagnostic::note("P0604", "", text).with_help("compile the model again to use it"));
    }
    let mut devices: Vec<OpenDevice> = Vec::new();
    let mut missing: Option<(String, Error)> = None;
    for id in named.iter().filter(|id| **id != REFERENCE) {
        let refused = avoid.iter().any(|a| a.device == **id);
        let unable = || Error::unsupported(codes::PLAN, format!("`{id}` does not run what the plan has for it"));
        let opened = if refused { Err(unable()) } else { configured(registry, id, options) };
        match opened {
            Ok(device) => devices.push(device),
            Err(e) if missing.is_none() => missing = Some(((*id).to_owned(), e)),
            Err(_) => {}
        }
    }
    devices.push(reference(registry)?);
    let plan = match missing {
        None => plan.clone(),
        Some((lost, e)) => {
            let there = |p: &Plan| p.devices.iter().all(|need| devices.iter().any(|d| d.id == need.id));
            let alternative = plan.alternatives.iter().find(|a| a.lost == lost && there(&a.plan));
            let Some(alternative) = alternative.filter(|_| registry.config.fallback == Fallback::Reference) else {
                return Err(e.help(format!("the plan needs the device `{lost}`: configure it, or compile again")));
            };
            let text = format!("the device `{lost}` is not there ({}); the plan's alternative is used", e.detail());
            diagnostics.push(Diagnostic::warning("P0603", "", text));
            alternative.plan.clone()
        }
    };
    Ok(Compiled { origin: model.origin.clone(), plan, diagnostics, passes: Vec::new(), devices, tuning: None })
}

/// A device of a plan. Where the configuration names devices, no others are used.
fn configured(registry: &Registry, id: &str, options: &SessionOptions) -> Result<OpenDevice> {
    let list = &registry.config.devices;
    if options.device.is_none() && !list.is_empty() && !list.iter().any(|d| d.id == id) {
        let what = format!("the configuration does not name the device `{id}`");
        return Err(Error::invalid(codes::NO_DEVICE, what).at("key `devices`"));
    }
    registry.open_one(id, &options.devices)
}

fn reference(registry: &Registry) -> Result<OpenDevice> {
    let version = env!("CARGO_PKG_VERSION").into();
    let driver = DriverInfo { name: REFERENCE.into(), vendor: "Ottava".into(), version };
    Ok(OpenDevice { id: REFERENCE.into(), device: registry.reference()?, driver, options: Options::new() })
}

/// The mode of a file's integers is chosen while it is read: a configuration that asks for another one is not ignored.
fn check_requant(model: &Model, config: &Config) -> Result<()> {
    let Some(mode) = config.force_requantize.filter(|_| model.requant != config.force_requantize) else {
        return Ok(());
    };
    let nodes = &model.graph.nodes;
    if !nodes.iter().any(|n| n.requant.is_some() || crate::model::is_quantized(n)) {
        return Ok(());
    }
    let e = Error::unsupported(codes::CONFIG_UNAVAILABLE, format!("the model was read without the mode {mode}"))
        .at("key `force_requantize`")
        .help("read it with `Model::load_as`, or leave `force_requantize` out");
    Err(match &config.file {
        Some(file) => e.in_file(file),
        None => e,
    })
}

/// Parts of the configuration that this version does not carry out are refused, not ignored.
fn check_objective(config: &Config) -> Result<()> {
    let parts = [(
        "placement",
        matches!(config.placement, Placement::Auto(o) if o != Objective::Latency),
        "another objective than Latency",
    )];
    let Some((key, _, what)) = parts.into_iter().find(|(_, set, _)| *set) else { return Ok(()) };
    let e = Error::unsupported(codes::CONFIG_UNAVAILABLE, format!("{what} is not part of this version"))
        .at(format!("key `{key}`"))
        .help(format!("leave `{key}` out"));
    Err(match &config.file {
        Some(file) => e.in_file(file),
        None => e,
    })
}

fn placement(config: &Config, chosen: &[OpenDevice], explicit: bool) -> ottava_compiler::Placement {
    let fallback = match config.fallback {
        Fallback::Reference => ottava_compiler::Fallback::Reference,
        Fallback::Error => ottava_compiler::Fallback::Error,
    };
    let ids = || chosen.iter().map(|d| d.id.clone()).collect();
    let (policy, priority) = match &config.placement {
        Placement::Priority(wanted) if !explicit => (Policy::Priority, wanted.clone()),
        Placement::Priority(_) => (Policy::Priority, ids()),
        Placement::Auto(_) => (Policy::default(), ids()),
    };
    // Rules about devices that are not in use here do not apply.
    let rules = |rules: &[(String, String)]| match explicit {
        true => rules.iter().filter(|(_, id)| chosen.iter().any(|d| d.id == *id)).cloned().collect(),
        false => rules.to_vec(),
    };
    ottava_compiler::Placement {
        fallback,
        policy,
        priority,
        pins: rules(&config.pins),
        bans: rules(&config.bans),
        alternatives: chosen.len() > 1 || chosen.iter().any(|d| !d.device.info().sync_only),
        ..ottava_compiler::Placement::default()
    }
}

/// An error about a rule of the configuration, which the partitioner begins with the rule's key.
fn of_rule(config: &Config, e: &ottava_hal::Error) -> Option<Error> {
    let (what, is_invalid) = match e {
        ottava_hal::Error::Invalid(what) => (what, true),
        ottava_hal::Error::Unsupported { what, .. } => (what, false),
        ottava_hal::Error::Failed { .. } => return None,
    };
    let (key, rest) = what.split_once(": ").filter(|(key, _)| ["pins", "bans", "placement"].contains(key))?;
    let error = match is_invalid {
        true => Error::invalid(codes::CONFIG, rest),
        false => Error::unsupported(codes::CONFIG, rest),
    };
    let error = error.at(format!("key `{key}`"));
    Some(match &config.file {
        Some(file) => error.in_file(file),
        None => error,
    })
}

/// A plan that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Size of the file.
    pub bytes: u64,
    /// Partitions of the plan.
    pub partitions: usize,
    /// Partitions that are compiled ahead; the others are compiled at the start.
    pub ahead: usize,
    /// Working memory of one inference, by device.
    pub memory: Vec<DeviceMemory>,
}

impl Compiled {
    /// Writes the plan, with what its devices can compile ahead, so that a start from the file compiles nothing.
    pub fn save(&self, path: &Path) -> Result<Saved> {
        let mut plan = self.plan.clone();
        let (mut ahead, mut own) = (0, Vec::with_capacity(plan.partitions.len()));
        for partition in &mut plan.partitions {
            own.push(self.compile_ahead(partition)?);
            ahead += usize::from(!partition.blobs.is_empty());
        }
        let wrong = |e: FileError| match e {
            FileError::Io { source, .. } => Error::writing(codes::PLAN, path, &source),
            other => Error::invalid(codes::PLAN, other.to_string()).in_file(path),
        };
        ottava_plan::file::write(&plan, path).map_err(wrong)?;
        let bytes = std::fs::metadata(path).map_err(|e| Error::reading(codes::PLAN, path, &e))?.len();
        let memory = memory::of_plan(&plan, &own);
        Ok(Saved { bytes, partitions: plan.partitions.len(), ahead, memory })
    }

    /// Compiles a partition and keeps what its device can save. Returns the working memory of the program.
    fn compile_ahead(&self, partition: &mut Partition) -> Result<usize> {
        partition.blobs.clear();
        let Some(open) = self.devices.iter().find(|d| d.id == partition.device) else { return Ok(0) };
        let failed = |e| Error::device(&open.id, e);
        let (options, program) = (CompileOptions::default(), &partition.program);
        let executable = open.device.compile(program, &options).map_err(failed)?;
        let own = executable.arena_bytes();
        let payload = match open.device.serialize(executable.as_ref()) {
            Err(ottava_hal::Error::Unsupported { .. }) => return Ok(own),
            other => other.map_err(failed)?,
        };
        let key = ottava_plan::blob_key(&open.driver, open.device.info(), program, &options, &open.code_options());
        partition.blobs = vec![Blob::new(key.map_err(failed)?, payload).map_err(failed)?];
        Ok(own)
    }
}

/// A graph at a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphText {
    /// The text form, which parses back.
    pub text: String,
    /// What each pass did on the way.
    pub passes: Vec<PassReport>,
}

/// The graph of a model at a phase, in the text form that parses back.
pub fn graph_text(model: &Model, registry: &Registry, options: &SessionOptions, phase: Phase) -> Result<GraphText> {
    model.expect_graph()?;
    let dims = model.dims(options.batch.max(1), &options.dims)?;
    let folder = registry.reference()?;
    let mut cx = Cx::new(folder.as_ref());
    let fail = |e| model.invalid(e);
    let mut graph = if phase == Phase::Imported { model.graph.clone() } else { model.bind(&dims)? };
    if phase >= Phase::Canonical {
        graph = ottava_compiler::canonicalize(&graph, &mut cx).map_err(fail)?;
    }
    if phase >= Phase::Quantized {
        graph = ottava_compiler::integerize(&graph, &mut cx).map_err(fail)?;
    }
    Ok(GraphText { text: ottava_graph::text::print(&graph), passes: cx.passes })
}

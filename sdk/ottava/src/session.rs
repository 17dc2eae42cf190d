//! A network compiled for devices, ready to run.
//!
//! A [`Session`] is `Send + Sync`: any number of threads may call [`Session::run`] at the same time, each inference has
//! its own buffers. A session with state (variables of the model, or [`SessionOptions::state`], which hands the values of
//! named outputs to named inputs of the next run) keeps it from run to run; its runs go one after the other.

use crate::compiled::{self, Avoid, Compiled};
use crate::config::Fallback;
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::{DeviceOptions, OpenDevice, REFERENCE, Registry};
use crate::report::{PartitionReport, Report};
use crate::session_state::State;
use crate::suggest;
use crate::tuning::TuningReport;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{Status, Tensor, TensorType};
use ottava_plan::Plan;
use ottava_runtime::{DeviceEntry, Event, LoadError, Pending, Reopen, RunOptions, RunReport, Runner, RunnerOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a model is compiled for a session.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Rows per inference, where the model leaves it open; 0 means 1.
    pub batch: usize,
    /// Values of symbolic dimensions by name.
    pub dims: BTreeMap<String, usize>,
    /// Run on this device only (with fallback as configured), whatever the configuration names.
    pub device: Option<String>,
    /// Options for every device that knows them.
    pub devices: DeviceOptions,
    /// An inference that takes longer is given up with `Timeout`.
    pub timeout: Option<Duration>,
    /// Inferences that may be in flight at once; `None`: as configured.
    pub in_flight: Option<usize>,
    /// Inputs that take the value of an output of the run before, zeros at first: input name, output name.
    pub state: Vec<(String, String)>,
    /// Inferences after which a session with state goes back to its first values by itself; 0: only [`Session::reset`].
    pub reset_every: usize,
}

/// A network compiled for devices.
pub struct Session {
    origin: PathBuf,
    runner: Runner,
    inputs: Vec<(String, TensorType)>,
    outputs: Vec<(String, TensorType)>,
    state: Option<State>,
    report: Report,
    timeout: Option<Duration>,
}

impl Session {
    /// Compiles a model, or takes a saved plan.
    pub fn new(model: &Model, registry: &Registry, options: &SessionOptions) -> Result<Self> {
        Self::placed(registry, options, |avoid| compiled::compile_avoiding(model, registry, options, avoid))
    }

    /// Compiles a bound graph of any phase that stems from `model`.
    pub(crate) fn of_graph(
        model: &Model,
        graph: &Graph,
        registry: &Registry,
        options: &SessionOptions,
    ) -> Result<Self> {
        Self::placed(registry, options, |avoid| compiled::of_graph(model, graph, registry, options, avoid))
    }

    /// Compiles and loads. Nodes that a device accepted and then does not compile are placed elsewhere, with a warning,
    /// unless the configuration forbids that.
    fn placed(
        registry: &Registry,
        options: &SessionOptions,
        compile: impl Fn(&[Avoid]) -> Result<Compiled>,
    ) -> Result<Self> {
        let (mut avoid, mut notes) = (Vec::new(), Vec::new());
        loop {
            let compiled = compile(&avoid)?;
            let nodes: Vec<Vec<String>> =
                (0..compiled.plan.partitions.len()).map(|i| node_names(&compiled.plan, i)).collect();
            let origin = compiled.origin.clone();
            let e = match Self::load(compiled, registry, options) {
                Ok(mut session) => {
                    session.report.diagnostics.extend(notes);
                    return Ok(session);
                }
                Err(e) => e,
            };
            let refused = e.partition.and_then(|i| nodes.get(i)).filter(|_| e.device != REFERENCE);
            let may_move = registry.config.fallback == Fallback::Reference && notes.len() < MAX_MOVES;
            let Some(nodes) = refused.filter(|_| may_move) else {
                return Err(Error::run(&origin, e.error));
            };
            let text = format!("{}; the partition's nodes are placed without `{}`", e.error, e.device);
            notes.push(Diagnostic::warning("P0605", nodes.first().cloned().unwrap_or_default(), text));
            avoid.push(Avoid { device: e.device, nodes: nodes.clone() });
        }
    }

    /// Makes a compiled network ready to run.
    pub fn of_compiled(compiled: Compiled, registry: &Registry, options: &SessionOptions) -> Result<Self> {
        let origin = compiled.origin.clone();
        Self::load(compiled, registry, options).map_err(|e| Error::run(&origin, e.error))
    }

    fn load(compiled: Compiled, registry: &Registry, options: &SessionOptions) -> Result<Self, LoadError> {
        let Compiled { origin, plan, diagnostics, devices, tuning, .. } = compiled;
        let devices = devices.into_iter().map(|d| (d.id.clone(), entry(d))).collect();
        let runner_options = RunnerOptions {
            in_flight: options.in_flight.unwrap_or(registry.config.in_flight),
            reopen: Some(reopen(registry, options, tuning.as_ref())),
            ..RunnerOptions::default()
        };
        let runner = Runner::load(plan, devices, runner_options)?;
        let (inputs, outputs) = (slots(&runner, &runner.plan().inputs), slots(&runner, &runner.plan().outputs));
        let wrong = |e: Error| LoadError {
            partition: None,
            device: String::new(),
            error: ottava_hal::Error::invalid(e.detail().to_string()),
        };
        let state = State::new(&runner.plan().states, &options.state, (&inputs, &outputs), options.reset_every);
        let state = state.map_err(wrong)?;
        let report = report(&runner, diagnostics, tuning);
        Ok(Self { origin, runner, inputs, outputs, state, report, timeout: options.timeout })
    }

    /// Names and types of the inputs, in the model's order.
    pub fn inputs(&self) -> &[(String, TensorType)] {
        &self.inputs
    }

    /// Names and types of the outputs, in the model's order. A quantized type says what its integers stand for.
    pub fn outputs(&self) -> &[(String, TensorType)] {
        &self.outputs
    }

    /// What runs where, and what the compiler found worth saying.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Runs once, inputs by name; outputs by name.
    pub fn run(&self, inputs: &[(&str, Tensor)]) -> Result<BTreeMap<String, Tensor>> {
        let ordered = self.order(inputs)?;
        let outputs = self.run_ordered(&ordered, false)?.0;
        Ok(self.outputs.iter().map(|(name, _)| name.clone()).zip(outputs).collect())
    }

    /// Runs once, inputs and outputs in the model's order (without the inputs that are state).
    pub fn run_ordered(&self, inputs: &[Tensor], profile: bool) -> Result<(Vec<Tensor>, RunReport)> {
        let deadline = self.timeout.and_then(|t| Instant::now().checked_add(t));
        self.run_until(inputs, RunOptions { profile }, deadline)
    }

    /// One run; with state, after those before it. A run that fails changes no state.
    fn run_until(
        &self,
        inputs: &[Tensor],
        options: RunOptions,
        deadline: Option<Instant>,
    ) -> Result<(Vec<Tensor>, RunReport)> {
        let failed = |e| Error::run(&self.origin, e);
        let run = |inputs: &[Tensor]| match deadline {
            Some(deadline) => self.runner.run_by(inputs, options, deadline).map_err(failed),
            None => self.runner.run(inputs, options).map_err(failed),
        };
        let Some(state) = &self.state else {
            return run(inputs);
        };
        let mut now = state.enter();
        let (mut outputs, report) = run(&state.merge(inputs, &now))?;
        state.keep(&mut outputs, &mut now);
        Ok((outputs, report))
    }

    /// As [`Self::run_ordered`], into tensors of the caller, one per output of the model. Those that have the type of their
    /// output are written in place, and then nothing is allocated after the first few runs; others are replaced. A session
    /// with state copies its values.
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor], profile: bool) -> Result<RunReport> {
        let failed = |e| Error::run(&self.origin, e);
        let deadline = self.timeout.and_then(|t| Instant::now().checked_add(t));
        if self.state.is_none() {
            return self.runner.run_into(inputs, outputs, RunOptions { profile }, deadline).map_err(failed);
        }
        let (made, report) = self.run_ordered(inputs, profile)?;
        if made.len() != outputs.len() {
            let what = format!("{} output tensors given, the model has {}", outputs.len(), made.len());
            return Err(failed(ottava_hal::Error::invalid(what)));
        }
        outputs.iter_mut().zip(made).for_each(|(to, from)| *to = from);
        Ok(report)
    }

    /// As [`Self::run_ordered`], but the outputs are only shown, where they lie: `see` gets each of them once.
    pub(crate) fn run_shown(&self, inputs: &[Tensor], see: &mut ottava_runtime::See<'_>) -> Result<()> {
        if self.state.is_some() {
            let made = self.run_ordered(inputs, false)?.0;
            made.iter().enumerate().for_each(|(i, value)| see(i, ottava_runtime::Shown::of(value)));
            return Ok(());
        }
        let deadline = self.timeout.and_then(|t| Instant::now().checked_add(t));
        let ran = self.runner.run_shown(inputs, RunOptions::default(), deadline, see);
        ran.map(|_| ()).map_err(|e| Error::run(&self.origin, e))
    }

    /// Whether [`Self::run_shown`] holds no memory for all outputs together.
    pub(crate) fn shows_inside(&self) -> bool {
        self.state.is_none() && self.runner.shows_inside()
    }

    /// Starts an inference and returns at once; inputs in the model's order. Inferences beyond the configured number wait
    /// their turn. At the deadline, if there is one, the inference is given up with `Timeout`.
    pub fn run_async(&self, inputs: Vec<Tensor>, options: RunOptions, deadline: Option<Instant>) -> Result<Pending> {
        if self.state.is_some() {
            let what = "inferences of a session with state run one after the other; use `run`";
            return Err(Error::invalid(codes::MODEL_NAME, what).in_file(&self.origin));
        }
        self.runner.run_async(inputs, options, deadline).map_err(|e| Error::run(&self.origin, e))
    }

    /// Runs once, and gives up with `Timeout` at the deadline. Inputs and outputs in the model's order.
    pub fn run_by(
        &self,
        inputs: &[Tensor],
        options: RunOptions,
        deadline: Instant,
    ) -> Result<(Vec<Tensor>, RunReport)> {
        self.run_until(inputs, options, Some(deadline))
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        self.runner.plan()
    }

    /// Devices that were lost, and what was done about it.
    pub fn events(&self) -> Vec<Event> {
        self.runner.events()
    }

    /// Whether runs depend on the runs before.
    pub fn is_stateful(&self) -> bool {
        self.state.is_some()
    }

    /// Gives the working memory of past runs back; the next run allocates it again.
    pub(crate) fn release(&self) {
        self.runner.release();
    }

    /// Sets all state back to its first values: those of the model's variables, zeros for [`SessionOptions::state`].
    pub fn reset(&self) -> Result<()> {
        self.state.iter().for_each(State::reset);
        Ok(())
    }

    fn is_state(&self, input: usize) -> bool {
        self.state.as_ref().is_some_and(|s| s.feeds(input))
    }

    fn order(&self, given: &[(&str, Tensor)]) -> Result<Vec<Tensor>> {
        let wanted: Vec<&str> =
            (0..self.inputs.len()).filter(|i| !self.is_state(*i)).map(|i| self.inputs[i].0.as_str()).collect();
        let fail = |what: String| Error::invalid(codes::MODEL_NAME, what).in_file(&self.origin);
        if let Some((name, _)) = given.iter().find(|(name, _)| !wanted.contains(name)) {
            return Err(fail(format!("the model has no input `{name}`")).help(suggest::hint(name, wanted)));
        }
        let one = |name: &&str| {
            let mut all = given.iter().filter(|(n, _)| n == name);
            match (all.next(), all.next()) {
                (Some((_, tensor)), None) => Ok(tensor.clone()),
                (None, _) => Err(fail(format!("input `{name}` is not given"))),
                _ => Err(fail(format!("input `{name}` is given twice"))),
            }
        };
        wanted.iter().map(one).collect()
    }
}

/// A model is placed again at most this often.
const MAX_MOVES: usize = 8;

/// The model's own nodes of a partition.
fn node_names(plan: &Plan, partition: usize) -> Vec<String> {
    plan.placed.iter().filter(|p| p.partition == partition && !p.bridge).map(|p| p.node.clone()).collect()
}

fn entry(d: OpenDevice) -> DeviceEntry {
    let options = d.code_options();
    DeviceEntry { device: d.device, driver: Some(d.driver), options }
}

/// Opens a lost device again as it was opened first.
fn reopen(registry: &Registry, options: &SessionOptions, tuning: Option<&TuningReport>) -> Reopen {
    let (registry, mut devices) = (registry.clone(), options.devices.clone());
    devices.tuned.extend(tuning.iter().flat_map(|t| t.chosen.clone()));
    Arc::new(move |id| {
        registry
            .open_one(id, &devices)
            .map(entry)
            .map_err(|e| ottava_hal::Error::failed(Status::DeviceLost, e.to_string()))
    })
}

fn slots(runner: &Runner, indices: &[usize]) -> Vec<(String, TensorType)> {
    let slot = |i: &usize| &runner.plan().slots[*i];
    indices.iter().map(slot).map(|s| (s.name.clone(), s.ty.clone())).collect()
}

fn report(runner: &Runner, diagnostics: Vec<Diagnostic>, tuning: Option<TuningReport>) -> Report {
    let partition = |p: &ottava_plan::Partition| PartitionReport {
        device: p.device.clone(),
        nodes: p.program.nodes.len(),
        macs: crate::report::program_macs(&p.program),
    };
    Report {
        partitions: runner.plan().partitions.iter().map(partition).collect(),
        kernels: runner.kernels(),
        arena_bytes: runner.arena_bytes(),
        diagnostics,
        tuning,
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

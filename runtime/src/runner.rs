//! The runner: compiled partitions, and the way of an inference through them.

use crate::admission::{Admission, Loss};
use crate::compiled::{Compiled, PlanRef, given, kept};
use crate::execute::Run;
use crate::guard;
use crate::heal::{Event, Healer};
use crate::load_error::LoadError;
use crate::options::{DeviceEntry, Limits, RunOptions, RunnerOptions};
use crate::pending::{Pending, pair};
use crate::progress::Failure;
use crate::report::{RunReport, fill};
use crate::shown::{self, See, Show};
use crate::workers::Workers;
use ottava_hal::{CompileOptions, Device, Error, Result, Status, Tensor};
use ottava_plan::{Partition, Plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An inference that meets lost devices more often than this fails.
const MAX_RERUNS: usize = 16;

/// An inference that fails for a reason that may pass is tried again this often, each time after a pause.
const PAUSES: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(25)];

/// A plan compiled for its devices. `Send + Sync`: any number of threads may run it at the same time.
///
/// Inputs are those of the plan, then the values of its states; outputs are those of the plan, then the states' new
/// values. A runner keeps no state from run to run: that is its caller's part.
pub struct Runner {
    // Before `inner`: queued jobs end first.
    workers: Workers,
    inner: Arc<Inner>,
}

/// What the threads of a runner share.
struct Inner {
    plan: Arc<Plan>,
    admission: Admission<Compiled>,
    healer: Healer,
    made: Instant,
    inferences: AtomicU64,
}

impl Runner {
    /// Checks the plan and compiles every partition on the device of its name.
    pub fn new(plan: Plan, devices: &BTreeMap<String, Arc<dyn Device>>, options: &CompileOptions) -> Result<Self> {
        let entries = devices.iter().map(|(id, device)| (id.clone(), DeviceEntry::new(device.clone()))).collect();
        Self::with(plan, entries, RunnerOptions { compile: options.clone(), ..RunnerOptions::default() })
    }

    /// As [`Self::new`], with devices that can load programs compiled ahead, and with all choices. `devices` are those
    /// of the plan and of its alternatives; of the alternatives' own devices those that are missing are only missed
    /// when they are needed.
    pub fn with(plan: Plan, devices: BTreeMap<String, DeviceEntry>, options: RunnerOptions) -> Result<Self> {
        Ok(Self::load(plan, devices, options)?)
    }

    /// As [`Self::with`]; the error says which partition and device it was.
    pub fn load(plan: Plan, devices: BTreeMap<String, DeviceEntry>, options: RunnerOptions) -> Result<Self, LoadError> {
        let plan = Arc::new(plan);
        let compiled = Compiled::new(PlanRef::Whole(plan.clone()), &devices, &options.compile, None)?;
        let inner = Inner {
            plan,
            admission: Admission::new(Arc::new(compiled), options.in_flight),
            healer: Healer::new(devices, options.compile, options.reopen),
            made: Instant::now(),
            inferences: AtomicU64::new(0),
        };
        Ok(Self { workers: Workers::new(options.in_flight), inner: Arc::new(inner) })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.inner.plan
    }

    /// For each node its name, device and kernel, as things are now.
    pub fn kernels(&self) -> Vec<(String, String, String)> {
        let compiled = self.inner.admission.current();
        let mut kernels = Vec::new();
        for (p, loaded) in compiled.plan.partitions.iter().zip(&compiled.loaded) {
            let of = |(node, kernel)| (node, p.device.clone(), kernel);
            kernels.extend(loaded.executable.kernels().into_iter().map(of));
        }
        kernels
    }

    /// Bytes of working memory of one inference: the slots on all devices, and what the executables need themselves.
    pub fn arena_bytes(&self) -> usize {
        let compiled = self.inner.admission.current();
        let slots = compiled.layouts.iter().map(|l| l.bytes());
        let own = compiled.loaded.iter().map(|l| l.executable.arena_bytes());
        slots.chain(own).fold(0, usize::saturating_add)
    }

    /// Gives back the working memory of inferences that are done. It is kept for the next ones otherwise; who runs many
    /// networks in turn can do without.
    pub fn release(&self) {
        self.inner.admission.current().release();
    }

    /// Devices that were lost so far, and what was done about it.
    pub fn events(&self) -> Vec<Event> {
        self.inner.healer.events()
    }

    /// Partitions as they run now: those of the plan, or of the alternative that took its place.
    pub fn partitions(&self) -> Vec<Partition> {
        self.inner.admission.current().plan.partitions.clone()
    }

    /// Runs once. Each input must have exactly the declared type.
    pub fn run(&self, inputs: &[Tensor], options: RunOptions) -> Result<(Vec<Tensor>, RunReport)> {
        self.inner.run(inputs, Limits { profile: options.profile, deadline: None })
    }

    /// As [`Self::run`], but gives up with `Timeout` at the deadline. What a hanging device still works on is abandoned
    /// with the memory of this inference.
    pub fn run_by(
        &self,
        inputs: &[Tensor],
        options: RunOptions,
        deadline: Instant,
    ) -> Result<(Vec<Tensor>, RunReport)> {
        self.inner.run(inputs, Limits { profile: options.profile, deadline: Some(deadline) })
    }

    /// As [`Self::run`], into tensors of the caller, one per output. Those that have the type of their output are
    /// written in place, others are replaced. After an error their contents are not defined.
    pub fn run_into(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        options: RunOptions,
        deadline: Option<Instant>,
    ) -> Result<RunReport> {
        self.inner.run_into(inputs, outputs, Limits { profile: options.profile, deadline })
    }

    /// As [`Self::run`], but the outputs are only shown, where they lie: `see` gets each of them once. After an error it may
    /// have got some.
    pub fn run_shown(
        &self,
        inputs: &[Tensor],
        options: RunOptions,
        deadline: Option<Instant>,
        see: &mut See<'_>,
    ) -> Result<RunReport> {
        self.inner.run_shown(inputs, Limits { profile: options.profile, deadline }, see)
    }

    /// Whether [`Self::run_shown`] shows outputs while they are computed, and uses their memory again.
    pub fn shows_inside(&self) -> bool {
        shown::shows_inside(&self.inner.admission.current())
    }

    /// Starts an inference and returns at once; inferences beyond the limit wait their turn.
    pub fn run_async(&self, inputs: Vec<Tensor>, options: RunOptions, deadline: Option<Instant>) -> Result<Pending> {
        self.inner.check_inputs(&inputs)?;
        let (promise, pending) = pair(deadline);
        let inner = self.inner.clone();
        let limits = Limits { profile: options.profile, deadline };
        self.workers.push(Box::new(move || promise.keep(inner.run(&inputs, limits))));
        Ok(pending)
    }
}

impl Inner {
    fn run(&self, inputs: &[Tensor], limits: Limits) -> Result<(Vec<Tensor>, RunReport)> {
        let empty = |slot: usize| {
            let ty = &self.plan.slots[slot].ty;
            // A shape that only the run decides starts as nothing.
            let shape = ty.shape.known().unwrap_or_else(|| vec![0]);
            Tensor::zeros(ty.dtype, &shape)
        };
        let mut outputs = kept(&self.plan).map(empty).collect::<Result<Vec<_>>>()?;
        let report = self.run_into(inputs, &mut outputs, limits)?;
        Ok((outputs, report))
    }

    fn run_shown(&self, inputs: &[Tensor], limits: Limits, see: &mut See<'_>) -> Result<RunReport> {
        let compiled = self.admission.current();
        if limits.deadline.is_none() && shown::shows_inside(&compiled) {
            self.check_inputs(inputs)?;
            shown::run_inside(&compiled, inputs, see)?;
            return Ok(RunReport::default());
        }
        let nothing = |slot: usize| Tensor::zeros(self.plan.slots[slot].ty.dtype, &[0]);
        let mut outputs = kept(&self.plan).map(nothing).collect::<Result<Vec<_>>>()?;
        let mut show = Show::new(see, outputs.len());
        self.run_with(inputs, &mut outputs, limits, Some(&mut show))
    }

    fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor], limits: Limits) -> Result<RunReport> {
        self.run_with(inputs, outputs, limits, None)
    }

    fn run_with(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        limits: Limits,
        mut show: Option<&mut Show<'_, '_>>,
    ) -> Result<RunReport> {
        self.check_inputs(inputs)?;
        if outputs.len() != kept(&self.plan).count() {
            let (found, expected) = (outputs.len(), kept(&self.plan).count());
            return Err(Error::invalid(format!("{found} output tensors given, the model has {expected}")));
        }
        let mut report =
            RunReport { inference: self.inferences.fetch_add(1, Ordering::Relaxed), ..RunReport::default() };
        let recover = |current: &Arc<Compiled>, losses: &[Loss]| self.healer.recover(current, losses);
        loop {
            let entry = self.admission.enter(limits.deadline, &recover)?;
            let asked = (limits, show.as_deref_mut());
            let (device, error) = match self.attempt(&entry.current, inputs, outputs, asked, &mut report) {
                Ok(()) => {
                    entry.current.count_served();
                    self.admission.leave(entry);
                    return Ok(report);
                }
                Err(failure) => failure,
            };
            let again = show.as_ref().is_none_or(|show| !show.has_begun());
            match device {
                Some(device) if is_loss(&error) && report.reruns < MAX_RERUNS && again => {
                    let loss = Loss { device: entry.current.device_id(device).to_owned(), error };
                    let device = loss.device.clone();
                    self.admission.leave_lost(entry, loss, limits.deadline, &recover)?;
                    self.healer.count_rerun(&device);
                    report.reruns += 1;
                }
                _ if !again => {
                    self.admission.leave(entry);
                    return Err(error);
                }
                _ => {
                    self.admission.leave(entry);
                    pause(error, report.retries, limits.deadline)?;
                    report.retries += 1;
                }
            }
        }
    }

    /// One try; an error says which device is to blame.
    fn attempt(
        &self,
        compiled: &Compiled,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        (limits, show): (Limits, Option<&mut Show<'_, '_>>),
        report: &mut RunReport,
    ) -> Result<(), (Option<usize>, Error)> {
        let begin = Instant::now();
        let mut cx = compiled.take_context().map_err(|(d, e)| {
            let what = format!("memory and queue of an inference on device `{}`", compiled.device_id(d));
            (Some(d), guard::context(e, &what))
        })?;
        let result = Run { compiled, cx: &mut cx, inputs, outputs, limits, show }.run();
        if let Err(failure) = result {
            return Err(named(compiled, failure));
        }
        report.begin_ns = u64::try_from((begin - self.made).as_nanos()).unwrap_or(u64::MAX);
        report.total_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if limits.profile {
            fill(report, compiled, &mut cx, begin);
        }
        compiled.give_context(cx);
        Ok(())
    }

    fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        let plan = &self.plan;
        if inputs.len() != given(plan).count() {
            let names: Vec<&str> = given(plan).map(|s| plan.slots[s].name.as_str()).collect();
            let (found, expected) = (inputs.len(), names.len());
            return Err(Error::invalid(format!(
                "{found} inputs given, the model has {expected}: {}",
                names.join(", ")
            )));
        }
        for (slot, tensor) in given(plan).zip(inputs) {
            let slot = &plan.slots[slot];
            let fits = slot.ty.shape.rank() == tensor.shape().len()
                && slot.ty.shape.0.iter().zip(tensor.shape()).all(|(d, n)| d.known().is_none_or(|k| k == *n));
            if slot.ty.dtype != tensor.dtype() || !fits {
                let (found, expected) = (tensor.ty(), &slot.ty);
                return Err(Error::invalid(format!("input `{}` is {found}, expected {expected}", slot.name)));
            }
        }
        Ok(())
    }
}

/// A device that panicked is poisoned: it is of no more use than a lost one.
fn is_loss(error: &Error) -> bool {
    matches!(error.status(), Status::DeviceLost | Status::Panic)
}

/// Waits before another try after a failure that may pass. Returns every other error, and this one after the last try
/// or when the deadline does not leave the time.
fn pause(error: Error, retries: usize, deadline: Option<Instant>) -> Result<()> {
    let transient = matches!(error, Error::Failed { transient: true, .. }) && !is_loss(&error);
    let in_time = |pause: &Duration| deadline.is_none_or(|d| d.saturating_duration_since(Instant::now()) > *pause);
    match PAUSES.get(retries).filter(|_| transient).filter(|p| in_time(p)) {
        Some(pause) => {
            tracing::debug!(%error, retries, "an inference is tried again");
            std::thread::sleep(*pause);
            Ok(())
        }
        None if transient && retries > 0 => Err(guard::context(error, &format!("tried {} times", retries + 1))),
        None => Err(error),
    }
}

/// The failure with step and device in its words.
fn named(compiled: &Compiled, failure: Failure) -> (Option<usize>, Error) {
    let device = failure.device.or_else(|| compiled.script.ops.get(failure.step).and_then(|op| op.device()));
    let step = compiled.plan.steps.get(failure.step).map_or("?", |s| s.name.as_str());
    let place = device.map_or_else(|| "on the host".to_owned(), |d| format!("on device `{}`", compiled.device_id(d)));
    (device, guard::context(failure.error, &format!("step `{step}` {place}")))
}

//! What is done about a lost device, and the record of it.
//!
//! In this order, until one works: reset the device; open it again, if the application can; go on with the plan that
//! does without it. Each time everything that ran on the lost device is compiled anew, with the constants of the plan.
//! A device that is lost again and again is reset once and opened once, then given up: one that works for a few
//! submissions each time would keep all inferences starting over. Both are forgiven when it has served [`STEADY`]
//! inferences since. [`crate::admission`] calls this when nothing runs, once per loss.

use crate::admission::Loss;
use crate::compiled::{Compiled, given, kept};
use crate::guard;
use crate::options::{DeviceEntry, Reopen};
use ottava_hal::{CompileOptions, Error, Result, Status, TensorType};
use ottava_plan::Plan;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a runner went on after the loss of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The device was reset.
    Reset,
    /// The device was opened again.
    Reopened,
    /// The plan that does without the device runs from now on.
    Alternative,
    /// Not at all: every inference that needs the device fails.
    Failed,
}

/// A loss of a device, and what was done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Id of the device.
    pub device: String,
    /// The first error that said so.
    pub error: Error,
    /// What was done.
    pub recovery: Recovery,
    /// What was tried and did not work, in words.
    pub tried: Vec<String>,
    /// Inferences that were started again because of it.
    pub reruns: usize,
}

/// Inferences that a device must serve after it was brought back, to count as well again.
pub(crate) const STEADY: u64 = 100;

/// What was tried lately to bring a device back.
#[derive(Debug, Default)]
struct Trials {
    reset: bool,
    reopened: bool,
    /// Inferences served since.
    served: u64,
}

/// Brings devices back.
pub(crate) struct Healer {
    devices: Mutex<BTreeMap<String, DeviceEntry>>,
    compile: CompileOptions,
    reopen: Option<Reopen>,
    trials: Mutex<BTreeMap<String, Trials>>,
    events: Mutex<Vec<Event>>,
}

impl Healer {
    pub fn new(devices: BTreeMap<String, DeviceEntry>, compile: CompileOptions, reopen: Option<Reopen>) -> Self {
        Self { devices: Mutex::new(devices), compile, reopen, trials: Mutex::default(), events: Mutex::default() }
    }

    /// What happened so far, in order.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    /// Counts an inference that is started again after the loss of a device.
    pub fn count_rerun(&self, device: &str) {
        if let Some(event) = self.events.lock().iter_mut().rev().find(|e| e.device == device) {
            event.reruns += 1;
        }
    }

    /// A compilation that works without what was lost.
    pub fn recover(&self, current: &Arc<Compiled>, losses: &[Loss]) -> Result<Arc<Compiled>> {
        self.forgive(current.served());
        losses.iter().try_fold(current.clone(), |compiled, loss| {
            // An alternative for another loss may do without this device as well.
            let needed = compiled.plan.device(&loss.device).is_some();
            if needed { self.replace(&compiled, loss) } else { Ok(compiled) }
        })
    }

    fn replace(&self, current: &Compiled, loss: &Loss) -> Result<Arc<Compiled>> {
        let mut tried = Vec::new();
        let attempts = [
            (Recovery::Reset, Self::reset as fn(&Self, &Compiled, &str) -> Result<Compiled>),
            (Recovery::Reopened, Self::reopen),
            (Recovery::Alternative, Self::alternative),
        ];
        for (recovery, attempt) in attempts {
            match attempt(self, current, &loss.device) {
                Ok(compiled) => {
                    self.note(loss, recovery, tried);
                    return Ok(Arc::new(compiled));
                }
                Err(error) => tried.push(error.to_string()),
            }
        }
        let what = format!("{}; it could not be replaced: {}", text(&loss.error), tried.join("; "));
        self.note(loss, Recovery::Failed, tried);
        Err(Error::failed(loss.error.status(), what))
    }

    fn note(&self, loss: &Loss, recovery: Recovery, tried: Vec<String>) {
        let (device, error) = (&loss.device, &loss.error);
        tracing::warn!(%device, %error, ?recovery, "a device was lost");
        let event = Event { device: device.clone(), error: error.clone(), recovery, tried, reruns: 0 };
        self.events.lock().push(event);
    }

    /// Forgets what was tried for devices that have served long enough since.
    fn forgive(&self, served: u64) {
        self.trials.lock().retain(|_, t| {
            t.served = t.served.saturating_add(served);
            t.served < STEADY
        });
    }

    /// Refuses what was tried before, until that is forgiven.
    fn once(&self, id: &str, tried: fn(&mut Trials) -> &mut bool, what: &str) -> Result<()> {
        let mut trials = self.trials.lock();
        let trials = trials.entry(id.to_owned()).or_default();
        if std::mem::replace(tried(trials), true) {
            let served = trials.served;
            let what = format!("device `{id}` was lost again after {served} inferences; it is not {what} once more");
            return Err(Error::failed(Status::DeviceLost, what));
        }
        trials.served = 0;
        Ok(())
    }

    fn reset(&self, current: &Compiled, id: &str) -> Result<Compiled> {
        self.once(id, |t| &mut t.reset, "reset")?;
        let entry = self.devices.lock().get(id).cloned();
        let entry = entry.ok_or_else(|| Error::invalid(format!("device `{id}` is not open")))?;
        guard::call(id, || entry.device.reset()).map_err(|e| guard::context(e, &format!("reset of `{id}`")))?;
        self.compile_again(current, id)
    }

    fn reopen(&self, current: &Compiled, id: &str) -> Result<Compiled> {
        let nobody = || Error::invalid(format!("device `{id}` cannot be opened again: the application offers no way"));
        let reopen = self.reopen.as_ref().ok_or_else(nobody)?;
        self.once(id, |t| &mut t.reopened, "opened")?;
        let entry = guard::call(id, || reopen(id)).map_err(|e| guard::context(e, &format!("opening `{id}` again")))?;
        self.devices.lock().insert(id.to_owned(), entry);
        self.compile_again(current, id)
    }

    fn alternative(&self, current: &Compiled, id: &str) -> Result<Compiled> {
        let none =
            || Error::invalid(format!("the plan has no alternative for `{id}`; allow a fallback or add a device"));
        let plan = current.plan.alternative(id).ok_or_else(none)?;
        if io_types(&plan) != io_types(&current.plan) {
            return Err(Error::invalid(format!("the alternative for `{id}` has other inputs or outputs")));
        }
        let devices = self.devices.lock().clone();
        Ok(Compiled::new(plan, &devices, &self.compile, None)?)
    }

    /// Compiles what ran on the device; keeps the rest.
    fn compile_again(&self, current: &Compiled, id: &str) -> Result<Compiled> {
        let devices = self.devices.lock().clone();
        Ok(Compiled::new(current.plan.clone(), &devices, &self.compile, Some((current, id)))?)
    }
}

/// Types of everything that the caller fills, and receives.
fn io_types(plan: &Plan) -> [Vec<&TensorType>; 2] {
    let ty = |slot: usize| &plan.slots[slot].ty;
    [given(plan).map(ty).collect(), kept(plan).map(ty).collect()]
}

/// The words of an error, without its status.
fn text(error: &Error) -> String {
    match error {
        Error::Failed { what, .. } => what.clone(),
        other => other.to_string(),
    }
}

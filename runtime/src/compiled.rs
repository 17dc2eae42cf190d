//! A plan compiled for its devices: what inferences run on until a device is lost.
//!
//! Immutable but for the pool of idle contexts. After a loss a new compilation takes its place; executables of devices
//! that are well are taken over.

use crate::blobs;
use crate::context::{Context, Source, sources};
use crate::guard;
use crate::heal::STEADY;
use crate::lanes::Lanes;
use crate::load_error::LoadError;
use crate::memory::Layout;
use crate::options::DeviceEntry;
use crate::script::{Op, PartitionKind, Script};
use ottava_hal::{CompileOptions, Error, Executable, Result};
use ottava_plan::{Partition, Plan};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The plan itself, or one of its alternatives.
#[derive(Clone)]
pub(crate) enum PlanRef {
    Whole(Arc<Plan>),
    Alternative(Arc<Plan>, usize),
}

impl Deref for PlanRef {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        match self {
            Self::Whole(plan) => plan,
            // The index is only made by `alternative`.
            Self::Alternative(plan, i) => plan.alternatives.get(*i).map_or(plan.as_ref(), |a| &a.plan),
        }
    }
}

impl PlanRef {
    /// The plan to go on with without a device.
    pub fn alternative(&self, lost: &str) -> Option<Self> {
        let Self::Whole(plan) = self else { return None };
        let i = plan.alternatives.iter().position(|a| a.lost == lost)?;
        Some(Self::Alternative(plan.clone(), i))
    }
}

/// A partition compiled for its device.
pub(crate) struct Loaded {
    pub executable: Arc<dyn Executable>,
    pub is_static: bool,
}

/// A plan compiled for its devices.
pub(crate) struct Compiled {
    pub plan: PlanRef,
    /// By index into [`Plan::devices`].
    pub devices: Vec<DeviceEntry>,
    pub loaded: Vec<Arc<Loaded>>,
    pub script: Script,
    pub layouts: Vec<Layout>,
    /// Per slot: where its data is in host memory.
    pub sources: Vec<Source>,
    pub lanes: Lanes,
    served: AtomicU64,
    idle: Mutex<Vec<Context>>,
}

impl Compiled {
    /// Compiles every partition on the device of its name. Executables of `old` are taken over where plan and device
    /// are the same.
    pub fn new(
        plan: PlanRef,
        devices: &BTreeMap<String, DeviceEntry>,
        options: &CompileOptions,
        old: Option<(&Compiled, &str)>,
    ) -> Result<Self, LoadError> {
        plan.check().map_err(LoadError::of_plan)?;
        let entries = entries(&plan, devices)?;
        let load = |(i, p): (usize, &Partition)| {
            let kept =
                old.filter(|(old, lost)| p.device != *lost && old.same_plan(&plan)).map(|(old, _)| &old.loaded[i]);
            match kept {
                Some(kept) => Ok(kept.clone()),
                None => {
                    let entry = find(&plan, devices, &p.device)?;
                    let refused = |e| LoadError::of_partition(i, p, entry.device.as_ref(), e);
                    load(p, &entry, options).map(Arc::new).map_err(refused)
                }
            }
        };
        let loaded = plan.partitions.iter().enumerate().map(load).collect::<Result<Vec<_>, _>>()?;
        let kind = |(p, l): (&Partition, &Arc<Loaded>)| {
            let sync_only = find(&plan, devices, &p.device)?.device.info().sync_only;
            Ok(PartitionKind { is_static: l.is_static, sync_only })
        };
        let kinds = plan.partitions.iter().zip(&loaded).map(kind).collect::<Result<Vec<_>, LoadError>>()?;
        let script = Script::new(&plan, &kinds).map_err(LoadError::of_plan)?;
        let layouts = layouts(&plan, &entries, &script);
        let sources = sources(&plan);
        let lanes = Lanes::new(entries.iter().map(|e| e.device.info()), script.is_concurrent);
        Ok(Self {
            plan,
            devices: entries,
            loaded,
            script,
            layouts,
            sources,
            lanes,
            served: AtomicU64::new(0),
            idle: Mutex::new(Vec::new()),
        })
    }

    fn same_plan(&self, plan: &PlanRef) -> bool {
        std::ptr::eq::<Plan>(&*self.plan, &**plan)
    }

    /// A context from the pool, or a new one.
    pub fn take_context(&self) -> Result<Context, (usize, Error)> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Context::new(self), Ok)
    }

    /// Puts a context back after a run that went well.
    pub fn give_context(&self, context: Context) {
        self.idle.lock().push(context);
    }

    /// Drops the idle contexts.
    pub fn release(&self) {
        self.idle.lock().clear();
    }

    /// How many inferences went well on this compilation; not counted much beyond [`STEADY`].
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Counts an inference that went well. In the steady state nothing is written.
    pub fn count_served(&self) {
        if self.served() < STEADY {
            self.served.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Id of a device of the plan.
    pub fn device_id(&self, device: usize) -> &str {
        self.plan.devices.get(device).map_or("host", |d| d.id.as_str())
    }
}

/// Slots that the caller fills: the plan's inputs, then the values of its states.
pub(crate) fn given(plan: &Plan) -> impl Iterator<Item = usize> {
    plan.inputs.iter().copied().chain(plan.states.iter().map(|s| s.input))
}

/// Slots that the caller receives: the plan's outputs, then the new values of its states.
pub(crate) fn kept(plan: &Plan) -> impl Iterator<Item = usize> {
    plan.outputs.iter().copied().chain(plan.states.iter().map(|s| s.output))
}

/// The devices of a plan, in its order.
fn entries(plan: &Plan, devices: &BTreeMap<String, DeviceEntry>) -> Result<Vec<DeviceEntry>, LoadError> {
    plan.devices.iter().map(|d| find(plan, devices, &d.id)).collect()
}

/// The open device of a name.
fn find(plan: &Plan, devices: &BTreeMap<String, DeviceEntry>, id: &str) -> Result<DeviceEntry, LoadError> {
    devices.get(id).cloned().ok_or_else(|| {
        let names: Vec<&str> = devices.keys().map(String::as_str).collect();
        let what = format!("the plan needs device `{id}`; open devices: {}", names.join(", "));
        let partition = plan.partitions.iter().position(|p| p.device == id);
        LoadError { partition, device: id.to_owned(), error: Error::invalid(what) }
    })
}

fn load(p: &Partition, entry: &DeviceEntry, options: &CompileOptions) -> Result<Loaded> {
    let executable = match blobs::load(p, entry, options) {
        Some(executable) => executable,
        None => guard::call(&p.device, || entry.device.compile(&p.program, options))?,
    };
    let io_types = executable.inputs().iter().chain(executable.outputs());
    let is_static = io_types.into_iter().all(|t| t.byte_len().is_some()) && p.program.is_static();
    Ok(Loaded { executable, is_static })
}

/// Memory for every slot of fixed size that a static partition binds; all others stay in host tensors.
fn layouts(plan: &Plan, devices: &[DeviceEntry], script: &Script) -> Vec<Layout> {
    let mut wanted = vec![BTreeSet::new(); devices.len()];
    for op in &script.ops {
        if let Op::Submit { device, partition, .. } | Op::Call { device, partition } = *op {
            let p = &plan.partitions[partition];
            wanted[device].extend(p.inputs.iter().chain(&p.outputs).copied());
        }
    }
    wanted.iter_mut().for_each(|w| w.retain(|slot| plan.slots[*slot].ty.byte_len().is_some()));
    let layout = |(i, w): (usize, &BTreeSet<usize>)| Layout::new(plan, i, devices[i].device.as_ref(), w);
    wanted.iter().enumerate().map(layout).collect()
}

//! Compiled partitions and the loop that runs them.

use crate::context::Context;
use ottava_hal::device::NodeTime;
use ottava_hal::{CompileOptions, Device, Error, Executable, Result, Tensor};
use ottava_plan::{Partition, Plan};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Choices of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions {
    /// Record the time of every node.
    pub profile: bool,
}

/// Time of one partition in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionTime {
    /// Device that ran it.
    pub device: String,
    /// Start since the begin of the run, nanoseconds.
    pub start_ns: u64,
    /// Duration with copies to the device, nanoseconds.
    pub duration_ns: u64,
    /// Times of the nodes, if they were asked for; starts count from the begin of the partition.
    pub nodes: Vec<NodeTime>,
}

/// What ran where, and how long.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunReport {
    /// Partitions in the order in which they ran.
    pub partitions: Vec<PartitionTime>,
    /// The whole run, nanoseconds.
    pub total_ns: u64,
}

/// A plan compiled for its devices. `Send + Sync`: any number of threads may run it at the same time.
pub struct Runner {
    plan: Plan,
    loaded: Vec<Loaded>,
    idle: Mutex<Vec<Context>>,
}

/// A partition compiled for its device.
pub(crate) struct Loaded {
    pub device: Arc<dyn Device>,
    pub executable: Arc<dyn Executable>,
    /// All shapes are fixed, so buffers can be bound.
    pub is_static: bool,
}

impl Runner {
    /// Checks the plan and compiles every partition on the device of its name.
    pub fn new(plan: Plan, devices: &BTreeMap<String, Arc<dyn Device>>, options: &CompileOptions) -> Result<Self> {
        plan.check()?;
        let load = |p: &Partition| {
            let device = devices.get(&p.device).ok_or_else(|| {
                let names: Vec<&str> = devices.keys().map(String::as_str).collect();
                Error::invalid(format!("the plan needs device `{}`; open devices: {}", p.device, names.join(", ")))
            })?;
            let executable = device.compile(&p.program, options)?;
            let io_types = executable.inputs().iter().chain(executable.outputs());
            let is_static = io_types.into_iter().all(|t| t.byte_len().is_some()) && p.program.is_static();
            Ok(Loaded { device: device.clone(), executable, is_static })
        };
        let loaded = plan.partitions.iter().map(load).collect::<Result<Vec<_>>>()?;
        Ok(Self { plan, loaded, idle: Mutex::new(Vec::new()) })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// For each node its name, device and kernel.
    pub fn kernels(&self) -> Vec<(String, String, String)> {
        let of = |(p, l): (&Partition, &Loaded)| {
            let device = p.device.clone();
            l.executable.kernels().into_iter().map(move |(node, kernel)| (node, device.clone(), kernel))
        };
        self.plan.partitions.iter().zip(&self.loaded).flat_map(of).collect()
    }

    /// Bytes of working memory of one inference, over all partitions.
    pub fn arena_bytes(&self) -> usize {
        self.loaded.iter().map(|l| l.executable.arena_bytes()).sum()
    }

    /// Runs once. Inputs in the plan's order; each must have exactly the declared type.
    pub fn run(&self, inputs: &[Tensor], options: RunOptions) -> Result<(Vec<Tensor>, RunReport)> {
        self.check_inputs(inputs)?;
        let mut context = match self.idle.lock().pop() {
            Some(context) => context,
            None => Context::new(&self.plan, &self.loaded)?,
        };
        let result = self.run_in(&mut context, inputs, options);
        if result.is_ok() {
            context.clear();
            self.idle.lock().push(context);
        }
        result
    }

    fn run_in(&self, cx: &mut Context, inputs: &[Tensor], options: RunOptions) -> Result<(Vec<Tensor>, RunReport)> {
        let start = Instant::now();
        let since = |t: Instant| t.duration_since(start).as_nanos() as u64;
        for (slot, data) in self.plan.constants.iter().map(|(s, t)| (s, t)).chain(self.plan.inputs.iter().zip(inputs)) {
            cx.set_host(*slot, data.clone());
        }
        let mut report = RunReport::default();
        for (i, loaded) in self.loaded.iter().enumerate() {
            let begin = Instant::now();
            let nodes = cx.run_partition(&self.plan, i, loaded, options.profile)?;
            let (start_ns, duration_ns) = (since(begin), begin.elapsed().as_nanos() as u64);
            let device = self.plan.partitions[i].device.clone();
            report.partitions.push(PartitionTime { device, start_ns, duration_ns, nodes });
        }
        let outputs = self.plan.outputs.iter().map(|slot| cx.host(&self.plan, *slot)).collect::<Result<Vec<_>>>()?;
        report.total_ns = start.elapsed().as_nanos() as u64;
        Ok((outputs, report))
    }

    fn check_inputs(&self, inputs: &[Tensor]) -> Result<()> {
        if inputs.len() != self.plan.inputs.len() {
            let names: Vec<&str> = self.plan.inputs.iter().map(|s| self.plan.slots[*s].name.as_str()).collect();
            let (found, expected) = (inputs.len(), names.len());
            return Err(Error::invalid(format!(
                "{found} inputs given, the model has {expected}: {}",
                names.join(", ")
            )));
        }
        for (slot, tensor) in self.plan.inputs.iter().zip(inputs) {
            let slot = &self.plan.slots[*slot];
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

//! `ottava-plan`: the compiled artefact that compiler and runtime share.
//!
//! A [`Plan`] says which [`Program`] runs on which device, in which order data moves, and where it lies meanwhile. It
//! holds no pointers into a compiler and no device, so a runtime needs nothing else.
//!
//! | part | what it is |
//! |---|---|
//! | [`Slot`] | a value that the caller or more than one partition sees |
//! | [`Partition`] | what one device runs in one go: a program, the slots it reads and writes |
//! | [`Step`] | a run of a partition or a copy of a slot, with the steps that come before; made by [`schedule`](mod@schedule) |
//! | [`Arena`] | memory of one inference on one device, with the place of each slot; made by [`memory`] |
//! | [`Placed`] | why a node runs where it runs |
//! | [`Alternative`] | the plan to go on with when a device is lost |
//! | [`Blob`] | a program compiled ahead, with the key of what it fits ([`blob_key`]) |
//! | [`PlanFile`] | all of it in a checksummed, memory-mapped [`file`](mod@file) |
//!
//! Invariant: [`Plan::check`] holds for every plan that leaves the compiler or a file.

mod blob;
mod check;
pub mod file;
pub mod memory;
mod order;
pub mod schedule;
#[cfg(test)]
mod testing;
mod wire;

pub use blob::blob_key;
pub use check::MAX_DEPTH;
pub use file::{FileError, PlanFile};
pub use order::MAX_STEPS;

use ottava_hal::{BlobKey, Program, Tensor, TensorType};

/// A value that the plan's caller or more than one partition sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Name of the value in the model.
    pub name: String,
    /// Its type; symbolic where only a run decides the shape.
    pub ty: TensorType,
}

/// What one device runs in one go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partition {
    /// Id of the device.
    pub device: String,
    /// What it runs.
    pub program: Program,
    /// Slot of each program input.
    pub inputs: Vec<usize>,
    /// Slot of each program output.
    pub outputs: Vec<usize>,
    /// Nodes of the program that are bridges: conversions that the partitioner has put in.
    pub bridges: usize,
    /// Estimated time of one run, nanoseconds.
    pub est_ns: u64,
    /// The program compiled ahead, by device key.
    pub blobs: Vec<Blob>,
}

/// A program compiled ahead for one kind of device.
#[derive(Debug, Clone, PartialEq)]
pub struct Blob {
    /// What it was compiled for; a device with another key compiles the program anew.
    pub key: BlobKey,
    /// The driver's bytes (u8), possibly in a mapped file.
    pub payload: Tensor,
}

/// Where the data of a slot is: in host memory, or on a device (index into [`Plan::devices`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Host memory: the caller's tensors.
    Host,
    /// The arena of a device.
    Device(usize),
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Runs a partition.
    Run {
        /// Index of the partition.
        partition: usize,
    },
    /// Copies a slot from one place to another.
    Copy {
        /// The slot.
        slot: usize,
        /// Where the data is.
        from: Place,
        /// Where it goes.
        to: Place,
    },
    /// Runs one of two plans, by a boolean slot.
    If {
        /// The boolean.
        condition: usize,
        /// Plan for true.
        then: Box<Plan>,
        /// Plan for false.
        otherwise: Box<Plan>,
        /// Slots that both plans take, in the order of their inputs.
        inputs: Vec<usize>,
        /// Slots that both plans fill, in the order of their outputs.
        outputs: Vec<usize>,
    },
    /// Runs a plan again and again (ONNX Loop).
    Loop {
        /// Slot of the largest number of iterations, if there is one.
        max_trips: Option<usize>,
        /// Slot of the first condition, if there is one.
        condition: Option<usize>,
        /// Inputs: iteration, condition, carried values; outputs: condition, carried values, scanned values.
        body: Box<Plan>,
        /// Slots of the carried values before the first iteration.
        inputs: Vec<usize>,
        /// Slots of the carried and stacked values after the last.
        outputs: Vec<usize>,
    },
    /// Runs a plan along an axis (ONNX Scan).
    Scan {
        /// Number of scanned inputs: the last ones of `inputs`.
        scanned: usize,
        /// Inputs: carried values, then one slice of each scanned input.
        body: Box<Plan>,
        /// Slots of the carried values, then of the scanned ones.
        inputs: Vec<usize>,
        /// Slots of the carried and stacked values after the last.
        outputs: Vec<usize>,
    },
}

/// One step of an inference.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name in the profile.
    pub name: String,
    /// What it does.
    pub work: Work,
    /// Steps that must be done before, by index; all are smaller than the step's own.
    pub waits: Vec<usize>,
}

/// A device that the plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceNeed {
    /// Id in the application's configuration.
    pub id: String,
    /// [`ottava_hal::DeviceInfo::uuid`].
    pub uuid: [u8; 16],
    /// [`ottava_hal::DeviceInfo::hw_rev`].
    pub hw_rev: u32,
    /// Instruction set or hardware, for people.
    pub isa: String,
}

/// Memory of one inference on one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arena {
    /// Size in bytes.
    pub bytes: usize,
    /// All slots of the device one after the other: what memory without reuse would be.
    pub sum_bytes: usize,
    /// No plan can do with less: the most bytes that are alive at one step.
    pub lower_bound: usize,
    /// Slot and its first byte; slots whose lives never meet may share bytes.
    pub slots: Vec<(usize, usize)>,
}

/// What one device said about a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opinion {
    /// Id of the device.
    pub device: String,
    /// It could run the node bit-exactly.
    pub ok: bool,
    /// Reason code of a refusal (`DTYPE`, `ACC_OVERFLOW`, ...), `OK`, `INEXACT`, `BANNED`, `COST`.
    pub code: String,
    /// The same in words.
    pub text: String,
    /// Time there, nanoseconds; 0 if refused.
    pub cost_ns: u64,
    /// The time was measured, not estimated.
    pub measured: bool,
}

/// Why a node runs where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// The device that runs it.
    pub device: String,
    /// Index of its partition.
    pub partition: usize,
    /// The partitioner has put it in.
    pub bridge: bool,
    /// Why this device, in words.
    pub reason: String,
    /// What each device said.
    pub opinions: Vec<Opinion>,
}

/// The plan to go on with when a device is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// Id of the lost device.
    pub lost: String,
    /// A plan that does without it; it has no alternatives of its own.
    pub plan: Plan,
}

/// A hidden input and output that a session keeps from run to run and can reset.
#[derive(Debug, Clone, PartialEq)]
pub struct StateVar {
    /// Name for the application.
    pub name: String,
    /// Slot that takes the value before a run.
    pub input: usize,
    /// Slot that holds it after a run.
    pub output: usize,
    /// Value after a reset.
    pub initial: Tensor,
}

/// Partitions and the steps that run them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Name of the model.
    pub name: String,
    /// Slots.
    pub slots: Vec<Slot>,
    /// Partitions in topological order.
    pub partitions: Vec<Partition>,
    /// Slots that the caller fills.
    pub inputs: Vec<usize>,
    /// Slots that the caller receives; a slot may be listed twice, and may be an input.
    pub outputs: Vec<usize>,
    /// Slots whose data is known: outputs that constant folding has computed.
    pub constants: Vec<(usize, Tensor)>,
    /// Devices of the partitions, each once.
    pub devices: Vec<DeviceNeed>,
    /// Steps in an order in which they may run one after the other.
    pub steps: Vec<Step>,
    /// Memory of one inference, by device.
    pub arenas: Vec<Arena>,
    /// Values that live from run to run.
    pub states: Vec<StateVar>,
    /// Why each node runs where it runs.
    pub placed: Vec<Placed>,
    /// Plans for lost devices.
    pub alternatives: Vec<Alternative>,
}

impl Plan {
    /// Index of a device in [`Plan::devices`].
    pub fn device(&self, id: &str) -> Option<usize> {
        self.devices.iter().position(|d| d.id == id)
    }

    /// Slots that are in host memory before the first step: inputs, constants, states.
    pub(crate) fn given(&self) -> impl Iterator<Item = usize> {
        let constants = self.constants.iter().map(|(slot, _)| *slot);
        self.inputs.iter().copied().chain(constants).chain(self.states.iter().map(|s| s.input))
    }

    /// Slots that must be in host memory after the last step: outputs and states.
    pub(crate) fn kept(&self) -> impl Iterator<Item = usize> {
        self.outputs.iter().copied().chain(self.states.iter().map(|s| s.output))
    }

    /// Fills in steps and memory from slots, partitions and devices, for this plan and its alternatives.
    pub fn finish(mut self) -> ottava_hal::Result<Self> {
        self.steps = schedule::steps(&self)?;
        self.arenas = memory::arenas(&self)?;
        self.alternatives = std::mem::take(&mut self.alternatives)
            .into_iter()
            .map(|a| Ok(Alternative { plan: a.plan.finish()?, ..a }))
            .collect::<ottava_hal::Result<_>>()?;
        self.check()?;
        Ok(self)
    }
}

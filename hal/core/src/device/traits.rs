//! The traits that a driver implements.

use super::{
    BlobKey, BlobVerdict, BufferDesc, CompileOptions, DeviceInfo, DriverInfo, OptionSpec, Options, Profile, Submission,
};
use crate::fault::Fault;
use crate::host::HostMemory;
use crate::{Capability, Cost, Error, Fence, Program, Reason, Result, SharedBytes, Tensor, TensorType, Verdict};
use std::any::Any;
use std::sync::Arc;

/// A plugin's root object.
pub trait Driver: Send + Sync {
    /// Who it is.
    fn info(&self) -> DriverInfo;

    /// Devices that are present. None is a valid answer.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// Options that [`Driver::open`] understands.
    fn option_schema(&self) -> Vec<OptionSpec>;

    /// Opens a device by the id of [`Driver::devices`]. Unknown keys and values are errors that name the valid ones.
    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>>;

    /// Whether a blob can be used, judged by its key alone; no device is opened. Blobs of other versions of the driver
    /// are refused unless the driver knows better.
    fn check_blob(&self, key: &BlobKey) -> Result<BlobVerdict> {
        let info = self.info();
        let same = (info.name.as_str(), info.version.as_str()) == (key.driver.as_str(), key.driver_version.as_str());
        let text = || format!("made by {} {}, this is {} {}", key.driver, key.driver_version, info.name, info.version);
        Ok(if same { BlobVerdict::Optimal } else { BlobVerdict::Incompatible(text()) })
    }
}

/// One accelerator.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// What it can run.
    fn capability(&self) -> &Capability;

    /// One verdict per node of the program.
    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        Ok(self.capability().assess(program))
    }

    /// What the program would cost here.
    fn estimate(&self, program: &Program) -> Result<Cost>;

    /// Compiles a program. Weights are packed here, never at run time.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>>;

    /// The bytes from which [`Self::deserialize`] makes the same executable again, on this kind of device.
    fn serialize(&self, _executable: &dyn Executable) -> Result<Vec<u8>> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot save executables", self.info().id)))
    }

    /// An executable from the bytes of [`Self::serialize`]. The caller has compared `key` and the payload's hash; a
    /// driver still treats the bytes as hostile.
    fn deserialize(&self, _key: &BlobKey, _payload: &[u8]) -> Result<Arc<dyn Executable>> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot load executables", self.info().id)))
    }

    /// As [`Self::deserialize`], of memory that the executable may keep and use where it is: a mapped file for example.
    /// Its first byte should be aligned to 64. A device that does not need this copies what it keeps.
    fn deserialize_shared(&self, key: &BlobKey, payload: SharedBytes) -> Result<Arc<dyn Executable>> {
        self.deserialize(key, (*payload).as_ref())
    }

    /// Allocates a buffer.
    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>>;

    /// Makes a buffer of memory that the caller lends, without a copy. The caller keeps the memory alive and does not
    /// touch it while a submission uses it.
    fn import_host(&self, _memory: Box<dyn HostMemory>, _desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        Err(Error::unsupported(Reason::Memory, format!("device `{}` cannot use host memory", self.info().id)))
    }

    /// Tries to bring a lost device back. Its buffers and executables stay invalid.
    fn reset(&self) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot be reset; open it again", self.info().id)))
    }

    /// Arms a fault, for tests (`ottava.test_hooks/1`).
    fn inject(&self, _fault: Fault) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` has no test hooks", self.info().id)))
    }

    /// Takes an armed fault away.
    fn clear_faults(&self) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` has no test hooks", self.info().id)))
    }

    /// Creates a queue. Submissions of one queue run in order.
    fn create_queue(&self) -> Result<Arc<dyn Queue>>;

    /// Creates a timeline that stands at `initial`.
    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>>;
}

/// A compiled program.
pub trait Executable: Send + Sync {
    /// Types of the inputs, in program order.
    fn inputs(&self) -> &[TensorType];

    /// Types of the outputs, in program order.
    fn outputs(&self) -> &[TensorType];

    /// For each node that runs, its name and the kernel that was chosen.
    fn kernels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Bytes of working memory of one inference.
    fn arena_bytes(&self) -> usize {
        0
    }

    /// Runs on host tensors and returns outputs whose shapes only the run decides. Only devices that declare
    /// `dynamic_shapes` can.
    fn run_dynamic(&self, _inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::unsupported(Reason::DynamicShape, "this device runs fixed shapes only"))
    }

    /// Whether [`Self::run_shown`] works.
    fn can_show(&self) -> bool {
        false
    }

    /// Runs once in the caller's thread and shows the bytes of each output to `see` as soon as they are there, each once.
    /// Afterwards they are gone: their memory serves what is computed next.
    fn run_shown(&self, _inputs: &[&[u8]], _see: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        Err(Error::unsupported(Reason::Other, "this device does not show values during a run"))
    }

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of a device.
pub trait Buffer: Send + Sync {
    /// Size in bytes.
    fn len(&self) -> usize;

    /// Whether the size is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from the buffer; an error if the range is outside.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()>;

    /// Copies into the buffer; an error if the range is outside.
    fn write(&self, offset: usize, from: &[u8]) -> Result<()>;

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Runs submissions in order.
pub trait Queue: Send + Sync {
    /// Submits work; returns the submission's number, which grows with each call. Failures of the work itself go to the
    /// signalled fences; an error here means that nothing was submitted and no fence will change.
    fn submit(&self, submission: &Submission) -> Result<u64>;

    /// Takes the times of a submission that was profiled and is done. Old ones may be gone.
    fn take_profile(&self, _submission: u64) -> Option<Profile> {
        None
    }
}

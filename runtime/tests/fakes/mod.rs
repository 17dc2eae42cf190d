//! Devices that are written for the tests of the runtime: strict about who owns what, and obedient to a script of
//! faults.
//!
//! A partition adds its inputs byte by byte and then one more (wrapping). A device refuses buffers, executables and
//! fences of other devices, and those that are older than its last loss.

#![allow(dead_code)] // Each test file uses a part.

mod net;
mod queue;

#[allow(unused_imports)] // Each test file uses a part.
pub use net::{Net, bytes, expected, inputs};

use ottava_hal::fault::lost;
use ottava_hal::host::{HostBuffer, HostFence};
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, DataType, Device, DeviceInfo, DeviceKind, Error,
    Executable, Fence, Notify, Program, Queue, Reason, Result, Status, Tensor, TensorType,
};
use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::Duration;

/// How a test counts the allocations of a thread, if it does.
pub static COUNTER: OnceLock<fn() -> u64> = OnceLock::new();

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// Allocations that the fakes themselves have made in this thread.
pub fn own_allocations() -> u64 {
    OWN.with(Cell::get)
}

/// Calls something whose allocations are the fakes' own.
fn apart<T>(f: impl FnOnce() -> T) -> T {
    let count = || COUNTER.get().map_or(0, |count| count());
    let before = count();
    let result = f();
    OWN.with(|own| own.set(own.get() + count() - before));
    result
}

/// What happens to a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Go,
    Fail,
    /// Fails for a reason that may pass.
    Busy,
    Lose,
    Hang,
    Panic,
}

/// Decides about each dispatch by its number on the device and the partition's name; may block.
pub type Plot = Box<dyn Fn(u64, &str) -> Fate + Send + Sync>;

/// What all objects of a device share.
pub struct Core {
    pub id: String,
    pub calls: AtomicU64,
    pub compiled: AtomicU64,
    pub loaded: AtomicU64,
    pub resets: AtomicU64,
    /// Bindings must begin at a multiple of it.
    pub alignment: AtomicU64,
    /// Whether `reset` works.
    pub resettable: AtomicBool,
    /// Whether `compile` refuses everything.
    pub refuses: AtomicBool,
    lost: AtomicBool,
    /// Grows with each loss.
    era: AtomicU64,
    plot: Plot,
    fences: Mutex<Vec<Weak<HostFence>>>,
    /// The one engine of the device: queues share it.
    engine: Mutex<()>,
    pub hung: (Mutex<bool>, Condvar),
}

pub struct Fake {
    pub core: Arc<Core>,
    info: DeviceInfo,
    capability: Capability,
}

impl Fake {
    fn new(id: &str, sync_only: bool, plot: Plot) -> Arc<Self> {
        let core = Core {
            id: id.into(),
            calls: AtomicU64::new(0),
            compiled: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            alignment: AtomicU64::new(64),
            resets: AtomicU64::new(0),
            resettable: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            era: AtomicU64::new(0),
            plot,
            fences: Mutex::default(),
            engine: Mutex::default(),
            hung: (Mutex::new(true), Condvar::new()),
        };
        let info = DeviceInfo { sync_only, ..DeviceInfo::new("fake", id, DeviceKind::Sim) };
        let capability = Capability { rows: vec![], dynamic_shapes: true };
        Arc::new(Self { core: Arc::new(core), info, capability })
    }

    /// A device that runs in the caller's thread.
    pub fn sync(id: &str) -> Arc<Self> {
        Self::new(id, true, Box::new(|_, _| Fate::Go))
    }

    /// A device with an engine of its own.
    pub fn queued(id: &str) -> Arc<Self> {
        Self::new(id, false, Box::new(|_, _| Fate::Go))
    }

    /// The same with another alignment of bindings.
    pub fn aligned(id: &str, alignment: usize) -> Arc<Self> {
        let Self { core, info, capability } = Arc::into_inner(Self::queued(id)).expect("nobody else has it");
        core.alignment.store(alignment as u64, SeqCst);
        Arc::new(Self { core, info: DeviceInfo { alignment, ..info }, capability })
    }

    pub fn plotted(id: &str, sync_only: bool, plot: impl Fn(u64, &str) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Self::new(id, sync_only, Box::new(plot))
    }
}

impl Core {
    fn check(&self) -> Result<()> {
        if self.lost.load(SeqCst) { Err(lost(&self.id)) } else { Ok(()) }
    }

    fn owns(self: &Arc<Self>, other: &Arc<Self>, era: u64, what: &str) -> Result<()> {
        if !Arc::ptr_eq(self, other) {
            return Err(Error::invalid(format!("a {what} of `{}` was handed to `{}`", other.id, self.id)));
        }
        if era != self.era.load(SeqCst) {
            // A loss is marked before the era changes: a call that it overtakes says so too.
            self.check()?;
            return Err(Error::invalid(format!("a {what} of `{}` is older than its last loss", self.id)));
        }
        Ok(())
    }

    /// Loses the device: everything of it becomes invalid, all its fences fail.
    pub fn lose(&self) {
        self.lost.store(true, SeqCst);
        self.era.fetch_add(1, SeqCst);
        let fences: Vec<_> = self.fences.lock().unwrap().drain(..).filter_map(|f| f.upgrade()).collect();
        fences.iter().for_each(|f| f.fail(lost(&self.id)));
    }
}

pub struct FakeExe {
    core: Arc<Core>,
    era: u64,
    name: String,
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
}

impl Executable for FakeExe {
    fn inputs(&self) -> &[TensorType] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        vec![(self.name.clone(), format!("add@{}", self.core.id))]
    }

    fn run_dynamic(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let n = inputs[0].bytes().len();
        let sum = |i: usize| inputs.iter().fold(1u8, |s, t| s.wrapping_add(t.bytes()[i]));
        let bytes: Vec<u8> = (0..n).map(sum).collect();
        Ok(vec![Tensor::from_slice(&[n], &bytes)?])
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub struct FakeBuffer {
    core: Arc<Core>,
    era: u64,
    inner: HostBuffer,
}

impl Buffer for FakeBuffer {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.core.check()?;
        self.inner.read(offset, to)
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.core.check()?;
        self.inner.write(offset, from)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub struct FakeFence {
    core: Arc<Core>,
    era: u64,
    inner: Arc<HostFence>,
}

impl Fence for FakeFence {
    fn query(&self) -> Result<u64> {
        self.inner.query()
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.inner.wait(value, timeout)
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.inner.signal(value)
    }

    fn fail(&self, error: Error) {
        self.inner.fail(error);
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        self.inner.notify(value, to, token);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Device for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn estimate(&self, _: &Program) -> Result<Cost> {
        Err(Error::invalid("a fake has no cost"))
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        self.core.check()?;
        if self.core.refuses.load(SeqCst) {
            return Err(Error::unsupported(Reason::Memory, "the program does not fit"));
        }
        self.core.compiled.fetch_add(1, SeqCst);
        let types = |ids: &[ottava_hal::ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
        let (inputs, outputs) = (types(&program.inputs), types(&program.outputs));
        let era = self.core.era.load(SeqCst);
        Ok(Arc::new(FakeExe { core: self.core.clone(), era, name: program.name.clone(), inputs, outputs }))
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let exe = executable.as_any().downcast_ref::<FakeExe>().ok_or_else(|| Error::invalid("not mine"))?;
        Ok(exe.name.clone().into_bytes())
    }

    /// Every program has one input and one output of 96 bytes, unless its bytes say nothing.
    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        let name = String::from_utf8_lossy(payload).into_owned();
        if name.is_empty() {
            return Err(Error::failed(Status::CorruptBlob, "an empty program"));
        }
        self.core.loaded.fetch_add(1, SeqCst);
        let (ty, era) = (vec![TensorType::fixed(DataType::U8, &[96])], self.core.era.load(SeqCst));
        Ok(Arc::new(FakeExe { core: self.core.clone(), era, name, inputs: ty.clone(), outputs: ty }))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.core.check()?;
        let era = self.core.era.load(SeqCst);
        Ok(Arc::new(FakeBuffer { core: self.core.clone(), era, inner: HostBuffer::new(desc)? }))
    }

    fn reset(&self) -> Result<()> {
        self.core.resets.fetch_add(1, SeqCst);
        if !self.core.resettable.load(SeqCst) {
            return Err(Error::failed(Status::DeviceLost, "it stays lost"));
        }
        self.core.lost.store(false, SeqCst);
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.core.check()?;
        Ok(match self.info.sync_only {
            true => Arc::new(queue::SyncQueue::new(self.core.clone())),
            false => Arc::new(queue::ThreadQueue::new(self.core.clone())),
        })
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        self.core.check()?;
        let inner = Arc::new(HostFence::new(initial));
        self.core.fences.lock().unwrap().push(Arc::downgrade(&inner));
        Ok(Arc::new(FakeFence { core: self.core.clone(), era: self.core.era.load(SeqCst), inner }))
    }
}

/// Devices by their names.
pub fn devices(list: &[&Arc<Fake>]) -> BTreeMap<String, Arc<dyn Device>> {
    list.iter().map(|d| (d.core.id.clone(), (*d).clone() as Arc<dyn Device>)).collect()
}

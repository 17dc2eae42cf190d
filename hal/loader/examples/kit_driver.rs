//! A driver made with the vendor kit, for the tests of this crate: `sync0` finishes inside `submit`, `async0` runs
//! submissions in a thread of its own, `jump0` does too, with timelines that go too far. A node with the name `panics` makes it panic.

use ottava_plugin::hal::capability::Predicate;
use ottava_plugin::hal::device::Profile;
use ottava_plugin::hal::fault::{Fault, FaultSwitch, lost};
use ottava_plugin::hal::fence::Notify;
use ottava_plugin::hal::host::{HostFence, HostMemory};
use ottava_plugin::hal::wire::{Inline, Reader, Writer, decode, encode};
use ottava_plugin::hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Driver, DriverInfo,
    Error, Executable, Fence, Node, OpRow, OptionSpec, Options, Program, Queue, Reason, Result, Submission, Verdict,
};
use ottava_plugin::kernels::{Kernel, KernelCx, KernelDriver};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

ottava_plugin::export_driver!("kit-driver", driver);

fn add_one(cx: &mut KernelCx) -> Result<()> {
    let x = cx.input::<u8>(0)?;
    cx.output::<u8>(0)?.iter_mut().zip(x).for_each(|(y, x)| *y = x.wrapping_add(1));
    Ok(())
}

fn calm(_: &Program, node: &Node) -> bool {
    assert!(node.name != "panics", "asked to panic");
    true
}

/// The driver; public for the measurement that links it in.
pub fn driver() -> KitDriver {
    let info = DriverInfo { name: "kit-driver".into(), vendor: "Ottava".into(), version: "1.0".into() };
    let predicates = vec![Predicate { text: "no panic", reason: Reason::Other, holds: calm }];
    let row = OpRow { predicates, ..OpRow::any("Identity") };
    let device = DeviceInfo::new("kit-driver", "sync0", DeviceKind::Sim);
    KitDriver(KernelDriver::new(info, device, vec![Kernel { row, name: "add_one", run: add_one }]))
}

/// The kit's kernel driver, with a second device, saved programs and faults.
pub struct KitDriver(KernelDriver);

impl Driver for KitDriver {
    fn info(&self) -> DriverInfo {
        self.0.info()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let mut all = self.0.devices()?;
        all.extend([async_info("async0"), async_info("jump0")]);
        Ok(all)
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        vec![OptionSpec::new("greeting", "hello", "logged when a device is opened")]
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        tracing::info!("opening {id}: {}", options.get("greeting").map_or("hello", String::as_str));
        let inner = self.0.open("sync0", &Options::new())?;
        let info = if id == "sync0" { inner.info().clone() } else { async_info(id) };
        Ok(Arc::new(KitDevice { inner, info, faults: Arc::default(), sources: Mutex::default() }))
    }
}

fn async_info(id: &str) -> DeviceInfo {
    DeviceInfo { sync_only: false, ..DeviceInfo::new("kit-driver", id, DeviceKind::Sim) }
}

/// An executable and the bytes of the program that it was compiled from.
type Source = (Arc<dyn Executable>, Vec<u8>);

/// Either device.
struct KitDevice {
    inner: Arc<dyn Device>,
    info: DeviceInfo,
    faults: Arc<FaultSwitch>,
    /// Every executable that was compiled here.
    sources: Mutex<Vec<Source>>,
}

impl Device for KitDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        self.inner.capability()
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        self.inner.assess(program)
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        self.inner.estimate(program)
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        let (executable, mut w) = (self.inner.compile(program, options)?, Writer::default());
        encode(program, &mut Inline, &mut w)?;
        self.sources.lock().push((executable.clone(), w.into_bytes()));
        Ok(executable)
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let sources = self.sources.lock();
        let own = sources.iter().find(|(e, _)| std::ptr::addr_eq(Arc::as_ptr(e), executable));
        own.map(|(_, bytes)| bytes.clone()).ok_or_else(|| Error::invalid("not an executable of this device"))
    }

    fn deserialize(&self, _key: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        let program = decode(&mut Reader::new(payload), &mut Inline)?;
        self.compile(&program, &CompileOptions::default())
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.import_host(memory, desc)
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        self.faults.arm(fault);
        Ok(())
    }

    fn clear_faults(&self) -> Result<()> {
        self.faults.clear();
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        let (inner, faults) = (self.inner.create_queue()?, self.faults.clone());
        let queue = FaultyQueue { inner, faults };
        if self.info.sync_only {
            return Ok(Arc::new(queue));
        }
        let (work, todo) = channel::<Submission>();
        std::thread::spawn(move || {
            for submission in todo {
                if let Err(e) = queue.submit(&submission) {
                    submission.signals.iter().for_each(|(fence, _)| fence.fail(e.clone()));
                }
            }
        });
        Ok(Arc::new(AsyncQueue { work: Mutex::new(work), count: AtomicU64::new(0) }))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        let fence = HostFence::new(initial);
        Ok(if self.info.id == "jump0" { Arc::new(Jumping(fence)) } else { Arc::new(fence) })
    }
}

/// A timeline that goes to its end at once.
struct Jumping(HostFence);

impl Fence for Jumping {
    fn query(&self) -> Result<u64> {
        self.0.query()
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.0.wait(value, timeout)
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.signal(if value == 1 { u64::MAX } else { value })
    }

    fn fail(&self, error: Error) {
        self.0.fail(error);
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        self.0.notify(value, to, token);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Loses the device when a fault strikes, whatever its kind.
struct FaultyQueue {
    inner: Arc<dyn Queue>,
    faults: Arc<FaultSwitch>,
}

impl Queue for FaultyQueue {
    fn submit(&self, submission: &Submission) -> Result<u64> {
        if self.faults.strike().is_some() {
            return Err(lost("kit"));
        }
        self.inner.submit(submission)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        self.inner.take_profile(submission)
    }
}

/// Hands submissions to its thread, which ends with it.
struct AsyncQueue {
    work: Mutex<Sender<Submission>>,
    count: AtomicU64,
}

impl Queue for AsyncQueue {
    fn submit(&self, submission: &Submission) -> Result<u64> {
        let gone = |_| Error::invalid("the queue's thread is gone");
        self.work.lock().send(submission.clone()).map_err(gone)?;
        Ok(self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

//! Drivers for tests: a device that knows floats only, and a device that cannot be brought back once it is lost.

use ottava_hal::capability::QuantKind;
use ottava_hal::fault::Fault;
use ottava_hal::host::HostMemory;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, DataType, Device, DeviceInfo, DeviceKind, Driver,
    DriverInfo, Error, Executable, Fence, OptionSpec, Options, Program, Queue, Reason, Result, Status, Verdict,
};
use ottava_reference::ReferenceDevice;
use std::sync::{Arc, Mutex};

/// A device in front of another one, with some of its answers changed.
struct Front {
    inner: Arc<dyn Device>,
    info: DeviceInfo,
    capability: Capability,
    /// Whether a lost device comes back.
    resets: bool,
    /// Whether programs that it has accepted are refused when they are compiled.
    refuses: bool,
}

impl Device for Front {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        let own = self.capability.assess(program);
        let inner = self.inner.assess(program)?;
        Ok(own.into_iter().zip(inner).map(|(own, inner)| if own.is_supported() { inner } else { own }).collect())
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        self.inner.estimate(program)
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        if self.refuses {
            return Err(Error::unsupported(Reason::Other, "it has changed its mind"));
        }
        self.inner.compile(program, options)
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        self.inner.serialize(executable)
    }

    fn deserialize(&self, key: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.inner.deserialize(key, payload)
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.import_host(memory, desc)
    }

    fn reset(&self) -> Result<()> {
        if self.resets { self.inner.reset() } else { Err(Error::failed(Status::DeviceLost, "it stays lost")) }
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        self.inner.inject(fault)
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.inner.create_queue()
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        self.inner.create_fence(initial)
    }
}

fn info_of(name: &str) -> DriverInfo {
    DriverInfo { name: name.into(), vendor: "tests".into(), version: "1".into() }
}

/// The driver `floats`: one device that runs every operator on plain f32 tensors, and no other.
pub struct FloatsOnly;

impl Driver for FloatsOnly {
    fn info(&self) -> DriverInfo {
        info_of("floats")
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo::new("floats", "floats", DeviceKind::Dsp)])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, _: &Options) -> Result<Arc<dyn Device>> {
        let inner = ReferenceDevice::new();
        let mut capability = inner.capability().clone();
        capability.rows.retain(|row| row.domain.is_empty());
        for operand in capability.rows.iter_mut().flat_map(|r| r.inputs.iter_mut().chain(&mut r.outputs)) {
            operand.dtypes = vec![DataType::F32];
        }
        let info = DeviceInfo::new("floats", id, DeviceKind::Dsp);
        Ok(Arc::new(Front { inner: Arc::new(inner), info, capability, resets: false, refuses: false }))
    }
}

/// The driver `coarse`: one device that runs everything, but has one scale for all weights of an operator.
pub struct OneScale;

impl Driver for OneScale {
    fn info(&self) -> DriverInfo {
        info_of("coarse")
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo::new("coarse", "coarse", DeviceKind::Dsp)])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, _: &Options) -> Result<Arc<dyn Device>> {
        let inner = ReferenceDevice::new();
        let mut capability = inner.capability().clone();
        for operand in capability.rows.iter_mut().flat_map(|r| &mut r.inputs) {
            operand.quant = vec![QuantKind::Plain, QuantKind::PerTensor];
        }
        let info = DeviceInfo::new("coarse", id, DeviceKind::Dsp);
        Ok(Arc::new(Front { inner: Arc::new(inner), info, capability, resets: false, refuses: false }))
    }
}

/// The driver `moody`: one device that accepts everything and compiles nothing.
pub struct Moody;

impl Driver for Moody {
    fn info(&self) -> DriverInfo {
        info_of("moody")
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo::new("moody", "moody", DeviceKind::Dsp)])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, _: &Options) -> Result<Arc<dyn Device>> {
        let inner = ReferenceDevice::new();
        let capability = inner.capability().clone();
        let info = DeviceInfo::new("moody", id, DeviceKind::Dsp);
        Ok(Arc::new(Front { inner: Arc::new(inner), info, capability, resets: false, refuses: true }))
    }
}

/// The driver `fragile`: a simulated NPU that stays lost once it is lost, and cannot be opened a second time. Tests reach
/// its device to inject faults.
#[derive(Default)]
pub struct Fragile {
    opened: Mutex<Option<Arc<dyn Device>>>,
}

impl Fragile {
    /// Arms a fault in the device that was opened.
    pub fn inject(&self, fault: Fault) {
        let opened = self.opened.lock().expect("no panic while it was held");
        opened.as_ref().expect("a device is open").inject(fault).expect("the NPU has test hooks");
    }
}

impl Driver for Fragile {
    fn info(&self) -> DriverInfo {
        info_of("fragile")
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo { simulated: true, ..DeviceInfo::new("fragile", "fragile", DeviceKind::Npu) }])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, _: &str, _: &Options) -> Result<Arc<dyn Device>> {
        let mut opened = self.opened.lock().expect("no panic while it was held");
        if opened.is_some() {
            return Err(Error::failed(Status::DeviceLost, "it cannot be opened again"));
        }
        let inner = ottava_driver_npu::NpuDriver::new().open("npu", &Options::new())?;
        let (info, capability) = (inner.info().clone(), inner.capability().clone());
        let device: Arc<dyn Device> = Arc::new(Front { inner, info, capability, resets: false, refuses: false });
        *opened = Some(device.clone());
        Ok(device)
    }
}

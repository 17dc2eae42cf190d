//! The driver and its one device.

use crate::blob::{self, Packs, Payload};
use crate::builder::Builder;
use crate::cost::estimate;
use crate::executable::CpuProgram;
use crate::kernels;
use ottava_hal::host::{self, HostExecutable, HostFence, HostQueue};
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Driver, DriverInfo,
    Error, Executable, Fence, OptionSpec, Options, Program, Queue, Result, SharedBytes, Status, ValueId, Verdict,
};
use ottava_kernels::{GRAIN, Isa, ThreadPool};
use std::sync::Arc;

/// Id of the device.
const CPU: &str = "cpu";
/// More worker threads than this are refused.
const MAX_THREADS: usize = 1024;
/// The largest number that the option `grain` takes: larger than any layer.
const MAX_GRAIN: usize = 1 << 40;

/// The driver of the machine's own processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuDriver;

impl Driver for CpuDriver {
    fn info(&self) -> DriverInfo {
        let version = env!("CARGO_PKG_VERSION").into();
        DriverInfo { name: CPU.into(), vendor: "Ottava".into(), version }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![info(Isa::detect(), all_threads())])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        let names = Isa::available().into_iter().map(|isa| isa.name().to_owned());
        vec![
            OptionSpec {
                tune: powers(all_threads()).map(|n| n.to_string()).collect(),
                ..OptionSpec::new("threads", all_threads(), "worker threads, the caller's included")
            },
            OptionSpec {
                tune: [GRAIN >> 3, GRAIN << 3].map(|n| n.to_string()).to_vec(),
                ..OptionSpec::new("grain", GRAIN, "multiply-adds of the smallest task that a thread is woken for")
            },
            OptionSpec {
                allowed: std::iter::once("auto".to_owned()).chain(names).collect(),
                ..OptionSpec::new("isa", "auto", "instruction set of the kernels; results do not depend on it")
            },
        ]
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        if id != CPU {
            return Err(Error::invalid(format!("the cpu driver has no device `{id}`; it has `{CPU}`")));
        }
        let (mut isa, mut threads, mut grain) = (Isa::detect(), all_threads(), GRAIN);
        for (key, value) in options {
            match key.as_str() {
                "isa" => isa = parse_isa(value)?,
                "threads" => threads = parse_number(key, value, MAX_THREADS)?,
                "grain" => grain = parse_number(key, value, MAX_GRAIN)?,
                _ => {
                    let what = format!("the cpu driver has no option `{key}`; it has threads, grain, isa");
                    return Err(Error::invalid(what));
                }
            }
        }
        Ok(Arc::new(CpuDevice::with_grain(isa, threads, grain)?))
    }
}

fn parse_isa(value: &str) -> Result<Isa> {
    if value == "auto" { Ok(Isa::detect()) } else { Isa::parse(value).map_err(|e| Error::invalid(e.to_string())) }
}

fn parse_number(key: &str, value: &str, most: usize) -> Result<usize> {
    let n = value.parse().ok().filter(|n| (1..=most).contains(n));
    n.ok_or_else(|| Error::invalid(format!("option {key} is `{value}`, expected a number from 1 to {most}")))
}

/// 1, 2, 4 and so on below a number.
fn powers(below: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |n| n.checked_mul(2)).take_while(move |n| *n < below)
}

fn all_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

fn info(isa: Isa, threads: usize) -> DeviceInfo {
    DeviceInfo {
        name: format!("CPU ({}, {threads} threads)", isa.name()),
        isa: isa.name().into(),
        memory_bytes: total_memory(),
        threads,
        hw_rev: revision(isa),
        ..DeviceInfo::new(CPU, CPU, DeviceKind::Cpu)
    }
}

/// Packed weights differ between instruction sets, so the set is part of their key.
fn revision(isa: Isa) -> u32 {
    isa.name().bytes().fold(0x811c_9dc5, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// The processor as a device: one instruction set, one pool of threads.
pub struct CpuDevice {
    info: DeviceInfo,
    capability: Capability,
    isa: Isa,
    pool: Arc<ThreadPool>,
}

impl CpuDevice {
    /// A device that runs on `threads` threads, the caller's included.
    pub fn new(isa: Isa, threads: usize) -> Result<Self> {
        Self::with_grain(isa, threads, GRAIN)
    }

    fn with_grain(isa: Isa, threads: usize, grain: usize) -> Result<Self> {
        let pool =
            ThreadPool::with_grain(threads, grain).map_err(|e| Error::failed(Status::Internal, e.to_string()))?;
        let capability = kernels::capability();
        Ok(Self { info: info(isa, pool.threads()), capability, isa, pool: Arc::new(pool) })
    }

    /// Compiles a program without wrapping it.
    pub(crate) fn program(&self, program: &Program) -> Result<CpuProgram> {
        program.check()?;
        self.build(program, Packs::default())
    }

    /// A program from the bytes of [`CpuProgram::save`].
    pub(crate) fn restored(&self, payload: Payload<'_>) -> Result<(Program, CpuProgram)> {
        let blob::Loaded { program, packs } = blob::load(payload)?;
        let compiled = self.build(&program, packs)?;
        tracing::debug!(program = %program.name, nodes = program.nodes.len(), "loaded for the cpu");
        Ok((program, compiled))
    }

    /// Builds a program; weights are packed unless `packs` has them.
    fn build(&self, program: &Program, packs: Packs<'_>) -> Result<CpuProgram> {
        let mut builder = Builder::new(program, self.isa, packs);
        for node in &program.nodes {
            if let Verdict::Rejected { reason, detail } = self.capability.assess_node(program, node) {
                let what = format!("node `{}` ({}) on device `{CPU}`: {detail}", node.name, node.full_op());
                return Err(Error::unsupported(reason, what));
            }
            builder.begin(&node.name);
            kernels::build(&mut builder, node)?;
        }
        builder.pack()?;
        builder.finish()?;
        CpuProgram::new(builder, Arc::clone(&self.pool))
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        Ok(estimate(program, self.isa, self.pool.threads()))
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        let compiled = self.program(program)?;
        tracing::debug!(program = %program.name, nodes = program.nodes.len(), isa = self.isa.name(), "compiled for the cpu");
        Ok(wrap(program, compiled))
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        blob::save(executable)
    }

    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.restored(Payload::Lent(payload)).map(|(program, compiled)| wrap(&program, compiled))
    }

    fn deserialize_shared(&self, _: &BlobKey, payload: SharedBytes) -> Result<Arc<dyn Executable>> {
        self.restored(Payload::Shared(&payload)).map(|(program, compiled)| wrap(&program, compiled))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn host::HostMemory>, _: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::import(memory)
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(HostQueue::default()))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(HostFence::new(initial)))
    }
}

/// An executable with the types of its inputs and outputs.
fn wrap(program: &Program, compiled: CpuProgram) -> Arc<dyn Executable> {
    let types = |ids: &[ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
    Arc::new(HostExecutable::new(types(&program.inputs), types(&program.outputs), Box::new(compiled)))
}

/// Memory of the machine in bytes, where the kernel says it; 0 elsewhere.
fn total_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

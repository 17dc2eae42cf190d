//! A device whose verdicts and costs the test decides.

use ottava_hal::device::{DeviceKind, Link, LinkMode};
use ottava_hal::host::HostMemory;
use ottava_hal::{
    Buffer, BufferDesc, Capability, CompileOptions, Cost, DataType, Device, DeviceInfo, Error, Executable, Fence, Node,
    Program, Queue, Reason, Result, Verdict,
};
use ottava_reference::ReferenceDevice;
use std::sync::Arc;

type Rule = Box<dyn Fn(&Program, &Node) -> Verdict + Send + Sync>;
type Price = Box<dyn Fn(&Program, &Node) -> u64 + Send + Sync>;

/// A device made for a test.
pub struct Fake {
    info: DeviceInfo,
    capability: Capability,
    inner: ReferenceDevice,
    rule: Rule,
    price: Price,
    /// Time of each program besides its nodes.
    fixed_ns: u64,
}

/// Exact support.
pub const YES: Verdict = Verdict::Supported { exact: true };

/// A refusal for another reason than types.
pub fn no(why: &str) -> Verdict {
    Verdict::rejected(Reason::OpUnknown, why)
}

impl Fake {
    /// A device that takes everything at a price per node, in host memory.
    pub fn new(id: &str, ns: u64) -> Self {
        let info = DeviceInfo::new("fake", id, DeviceKind::Npu);
        let (rule, price): (Rule, Price) = (Box::new(|_, _| YES), Box::new(move |_, _| ns));
        Self { info, capability: Capability::default(), inner: ReferenceDevice::new(), rule, price, fixed_ns: 0 }
            .link(LinkMode::Native, 100)
    }

    /// Decides by a rule.
    pub fn rule(mut self, rule: impl Fn(&Program, &Node) -> Verdict + Send + Sync + 'static) -> Self {
        self.rule = Box::new(rule);
        self
    }

    /// Takes only some operators.
    pub fn only(self, ops: &'static [&'static str]) -> Self {
        self.rule(move |_, n| if ops.contains(&n.op.as_str()) { YES } else { no("not in the table") })
    }

    /// Takes nodes none of whose activations is u8.
    pub fn signed(self) -> Self {
        self.rule(|program, node| {
            let unsigned = |id: &ottava_hal::ValueId| {
                let value = program.value(*id);
                value.constant.is_none() && value.ty.dtype == DataType::U8
            };
            let clash = node.inputs.iter().flatten().chain(&node.outputs).any(unsigned);
            if clash { Verdict::rejected(Reason::Dtype, "is u8, supported: s8") } else { YES }
        })
    }

    /// Asks a price per node.
    pub fn price(mut self, price: impl Fn(&Program, &Node) -> u64 + Send + Sync + 'static) -> Self {
        self.price = Box::new(price);
        self
    }

    /// Asks for this much more per program.
    pub fn fixed(mut self, ns: u64) -> Self {
        self.fixed_ns = ns;
        self
    }

    /// How data gets there: a byte takes one nanosecond where it is copied.
    pub fn link(mut self, mode: LinkMode, latency_ns: u64) -> Self {
        self.info.link = Link { mode, bytes_per_s: 1e9, latency_ns };
        self
    }

    /// A device behind an `Arc`, as a runtime wants it.
    pub fn open(self) -> Arc<dyn Device> {
        Arc::new(self)
    }
}

impl Device for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        Ok(program.nodes.iter().map(|n| (self.rule)(program, n)).collect())
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        let nodes: u64 = program.nodes.iter().map(|n| (self.price)(program, n)).sum();
        Ok(Cost { time_ns: nodes + self.fixed_ns, ..Cost::default() })
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        match program.nodes.iter().find(|n| (self.rule)(program, n) != YES) {
            Some(node) => Err(Error::unsupported(Reason::Other, format!("{} was handed {}", self.info.id, node.name))),
            None => self.inner.compile(program, options),
        }
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.inner.import_host(memory, desc)
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.inner.create_queue()
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        self.inner.create_fence(initial)
    }
}

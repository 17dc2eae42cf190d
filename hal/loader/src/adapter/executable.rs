//! A compiled program of a device.

use super::call::two_call;
use super::device::Shared;
use super::envelope::Head;
use super::info::pairs;
use crate::foreign;
use ottava_abi::types::Exec as RawExec;
use ottava_abi::{ExecKernelV1, IoReqV1, index, io_direction, kind, layout};
use ottava_hal::{Error, Executable, Layout, Program, Reason, Result, TensorType};
use std::any::Any;
use std::sync::Arc;

/// More inputs and outputs than this are not read.
const MAX_IO: u64 = 1 << 16;
/// More kernels than this are not read.
const MAX_KERNELS: u64 = 1 << 20;

/// What a binding must be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoRule {
    /// Size of the binding.
    pub bytes: usize,
    /// Divides the offset of the binding.
    pub alignment: usize,
}

/// A compiled program; the handle is given back when it is dropped.
pub(crate) struct AbiExecutable {
    handle: Handle,
    head: Head,
    rules: Vec<IoRule>,
    kernels: Vec<(String, String)>,
    arena_bytes: usize,
}

/// The handle, which is given back whatever happens after the driver has returned it.
struct Handle {
    shared: Arc<Shared>,
    raw: *mut RawExec,
    generation: u32,
}

// SAFETY: executables are immutable and shareable by contract.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the driver returned the handle, and this is the only place that gives it back; releasing is legal on a
        // lost device too.
        unsafe { (self.shared.table().exec_release)(self.shared.raw, self.raw) };
    }
}

impl AbiExecutable {
    /// Takes over a handle and reads what it asks of its bindings. A saved executable does not know its program.
    pub fn new(shared: Arc<Shared>, raw: *mut RawExec, head: Head, program: Option<&Program>) -> Result<Self> {
        let generation = shared.health.generation();
        let handle = Handle { shared, raw, generation };
        let types = || head.inputs.iter().chain(&head.outputs);
        let io = handle.io()?;
        if io.len() != types().count() {
            let what = format!("{} requirements for {} inputs and outputs", io.len(), types().count());
            return Err(handle.shared.broken("exec_io", what));
        }
        handle.check_values(&io, program)?;
        let n_inputs = head.inputs.len();
        let rule = |(i, (ty, req)): (usize, (&TensorType, &IoReqV1))| handle.rule(i, i < n_inputs, ty, req);
        let rules = types().zip(&io).enumerate().map(rule).collect::<Result<_>>()?;
        let (kernels, arena_bytes) = (handle.kernels(), handle.arena_bytes());
        Ok(Self { handle, head, rules, kernels, arena_bytes })
    }

    /// Whether it was made with this device.
    pub fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.handle.shared, shared)
    }

    /// The handle, while it is valid.
    pub fn handle(&self) -> Result<*mut RawExec> {
        self.handle.shared.health.check_object(self.handle.generation, "executable")?;
        Ok(self.handle.raw)
    }

    /// Types and names of nodes.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// What the bindings must be like: inputs, then outputs.
    pub fn rules(&self) -> &[IoRule] {
        &self.rules
    }
}

impl Handle {
    fn io(&self) -> Result<Vec<IoReqV1>> {
        two_call(&self.shared.info.id, "exec_io", MAX_IO, IoReqV1::blank(), |cap, out, count| {
            let mut n = 0;
            let result = self.shared.call("exec_io", |device, err| {
                // SAFETY: the executable is alive, `out` holds `cap` prepared elements.
                unsafe { (self.shared.table().exec_io)(device, self.raw, cap as u32, out, &mut n, err) }
            });
            *count = u64::from(n);
            result
        })
    }

    /// Each requirement is one, and speaks of the value that is bound there. Without the program the driver may know no
    /// values.
    fn check_values(&self, io: &[IoReqV1], program: Option<&Program>) -> Result<()> {
        let prefix = (size_of::<IoReqV1>() as u32, kind::IO_REQ);
        if let Some((i, req)) = io.iter().enumerate().find(|(_, r)| (r.size, r.kind) != prefix) {
            let found = (req.size, req.kind);
            let what = format!("size and kind of requirement {i} are {found:?}, expected {prefix:?}");
            return Err(self.shared.broken("exec_io", what));
        }
        let Some(program) = program else { return Ok(()) };
        let values = program.inputs.iter().chain(&program.outputs);
        match io.iter().zip(values).enumerate().find(|(_, (req, value))| req.value as usize != value.0) {
            None => Ok(()),
            Some((i, (req, value))) => {
                let found =
                    if req.value == index::NONE { "no value".to_owned() } else { format!("value {}", req.value) };
                let what = format!("requirement {i} speaks of {found}, value {} is bound there", value.0);
                Err(self.shared.broken("exec_io", what))
            }
        }
    }

    /// Compares one requirement with what the adapter can provide.
    fn rule(&self, i: usize, is_input: bool, ty: &TensorType, req: &IoReqV1) -> Result<IoRule> {
        let direction = if is_input { io_direction::INPUT } else { io_direction::OUTPUT };
        if req.direction != direction {
            return Err(self.shared.broken("exec_io", format_args!("requirement {i} has direction {}", req.direction)));
        }
        let fits = match ty.layout {
            Layout::RowMajor => req.layout == layout::ROW_MAJOR || req.layout == layout::NCHW,
            Layout::Nhwc => req.layout == layout::NHWC,
        };
        if !fits || req.row_padding != 0 {
            let name = layout::name(req.layout).unwrap_or("an unknown layout");
            let what = format!("input or output {i} must be {name} with {} bytes between rows", req.row_padding);
            return Err(Error::unsupported(Reason::Layout, format!("device `{}`: {what}", self.shared.info.id)));
        }
        let memory = self.shared.memory.index;
        if req.memory_types != 0 && req.memory_types & (1 << memory) == 0 {
            let what = format!("input or output {i} cannot be in memory type {memory}");
            return Err(Error::unsupported(Reason::Memory, format!("device `{}`: {what}", self.shared.info.id)));
        }
        let bytes = ty.byte_len().filter(|&n| n as u64 == req.bytes).ok_or_else(|| {
            self.shared
                .broken("exec_io", format_args!("requirement {i} is {} bytes, {ty} has {:?}", req.bytes, ty.byte_len()))
        })?;
        let alignment = usize::try_from(req.alignment.max(1)).ok().filter(|n| n.is_power_of_two());
        let bad = || self.shared.broken("exec_io", format_args!("alignment {} is no power of two", req.alignment));
        Ok(IoRule { bytes, alignment: alignment.ok_or_else(bad)? })
    }

    /// The kernel of each node, if the driver says so.
    fn kernels(&self) -> Vec<(String, String)> {
        let Some(describe) = &self.shared.describe else { return Vec::new() };
        let blank = ExecKernelV1::blank();
        let raw = two_call(&self.shared.info.id, "exec_kernels", MAX_KERNELS, blank, |cap, out, count| {
            let mut n = 0;
            let result = self.shared.call("exec_kernels", |device, err| {
                // SAFETY: the executable is alive, `out` holds `cap` prepared elements.
                unsafe { (describe.exec_kernels)(device, self.raw, cap as u32, out, &mut n, err) }
            });
            *count = u64::from(n);
            result
        });
        let raw = raw.inspect_err(|e| tracing::debug!("{e}")).unwrap_or_default();
        raw.iter().map(|k| (foreign::lossy(k.node), foreign::printable(&foreign::lossy(k.kernel)))).collect()
    }

    fn arena_bytes(&self) -> usize {
        let Some(describe) = &self.shared.describe else { return 0 };
        let words = self.shared.words("exec_text", |device, buf, cap, len, err| {
            // SAFETY: the executable is alive, `buf` holds `cap` bytes.
            unsafe { (describe.exec_text)(device, self.raw, buf, cap, len, err) }
        });
        pairs(&words).get("arena_bytes").and_then(|n| n.parse().ok()).unwrap_or(0)
    }
}

impl Executable for AbiExecutable {
    fn inputs(&self) -> &[TensorType] {
        &self.head.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.head.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.kernels.clone()
    }

    fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

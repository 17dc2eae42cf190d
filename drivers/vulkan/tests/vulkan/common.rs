//! What the tests share: a device, submissions, and a comparison with the reference.

#![allow(unsafe_code)] // the loader takes the driver's file from the environment alone

use ottava_driver_vulkan::{Messages, VulkanDevice, VulkanDriver};
use ottava_gpu::testing::skip;
use ottava_hal::{
    Binding, Buffer, BufferDesc, CompileOptions, DataType, Device, Driver, Executable, Node, Options, Program,
    QuantParams, Queue, Result, Submission, Tensor, TensorType, Value, ValueId,
};
use std::sync::{Arc, Once};
use std::time::Duration;

/// Longer than any run of these tests; a wait that lasts so long is a failure.
pub const LONG: Duration = Duration::from_secs(60);

/// A device whose calls the validation layers check, where they are installed. Anything that they say until the device
/// is gone fails the test.
pub struct Checked {
    device: Option<Arc<VulkanDevice>>,
    messages: Option<Arc<Messages>>,
}

impl std::ops::Deref for Checked {
    type Target = VulkanDevice;

    fn deref(&self) -> &VulkanDevice {
        self.device.as_ref().expect("it is taken only at the end")
    }
}

impl Checked {
    pub fn as_ref(&self) -> &dyn Device {
        &**self
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        drop(self.device.take());
        let said = self.messages.as_ref().map(|m| m.all()).unwrap_or_default();
        if !std::thread::panicking() {
            assert!(said.is_empty(), "the validation layers say {said:#?}");
        }
    }
}

/// The first device with these options; `None`, and a line in the list of skipped tests, if the machine has none.
pub fn device(what: &str, options: &[(&str, &str)]) -> Option<Checked> {
    let checked = [&[("validation", "on")], options].concat();
    match open(what, &checked) {
        Some(Err(e)) if e.to_string().contains("is not installed") => {
            skip("validation layers", "VK_LAYER_KHRONOS_validation is not installed");
            unchecked(what, options)
        }
        Some(Err(e)) if e.to_string().contains("no integer dot product") => {
            skip(what, &e.to_string());
            None
        }
        opened => opened.map(|d| d.unwrap()),
    }
}

/// As [`device`], without validation: what is counted or timed.
pub fn unchecked(what: &str, options: &[(&str, &str)]) -> Option<Checked> {
    open(what, options).map(|d| d.unwrap())
}

fn open(what: &str, options: &[(&str, &str)]) -> Option<Result<Checked>> {
    choose_driver();
    let options: Options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let driver = VulkanDriver::new();
    let Some(info) = driver.devices().unwrap().into_iter().next() else {
        skip(what, &driver.absence().unwrap_or_default());
        return None;
    };
    let opened = driver.open_vulkan(&info.id, &options);
    Some(opened.map(|device| Checked { messages: device.messages(), device: Some(device) }))
}

/// Tests run on the software driver, unless the environment names another or asks for what the machine has
/// (`OTTAVA_GPU`).
fn choose_driver() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let chosen =
            ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "OTTAVA_GPU"].into_iter().any(|v| std::env::var_os(v).is_some());
        let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
        let files = folders.iter().filter_map(|f| std::fs::read_dir(f).ok()).flatten().flatten().map(|f| f.path());
        let is_software = |p: &std::path::PathBuf| {
            let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with("lvp_icd") && name.ends_with(".json")
        };
        if let (false, Some(file)) = (chosen, files.into_iter().find(is_software)) {
            for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
                // SAFETY: tests reach Vulkan, which reads the environment, through this function only; it runs once.
                unsafe {
                    std::env::set_var(variable, &file);
                }
            }
        }
    });
}

/// A buffer with these bytes.
pub fn buffer(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = device.alloc(&BufferDesc { bytes: bytes.len(), alignment: 64 }).unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// A run of an executable, and the buffers of its results.
pub fn submission(
    device: &dyn Device,
    exe: &Arc<dyn Executable>,
    inputs: &[Tensor],
) -> (Submission, Vec<Arc<dyn Buffer>>) {
    let ins = inputs.iter().map(|t| Binding::whole(buffer(device, t.bytes()))).collect();
    let outs: Vec<_> = exe.outputs().iter().map(|ty| buffer(device, &vec![0; ty.byte_len().unwrap()])).collect();
    let bound = outs.iter().cloned().map(Binding::whole).collect();
    (Submission::dispatch(Arc::clone(exe), ins, bound), outs)
}

/// Submits and waits.
pub fn finish(device: &dyn Device, queue: &dyn Queue, mut s: Submission) -> Result<u64> {
    let fence = device.create_fence(0)?;
    s.signals.push((Arc::clone(&fence), 1));
    let id = queue.submit(&s)?;
    fence.wait(1, LONG)?;
    Ok(id)
}

/// The bytes of buffers.
pub fn contents(buffers: &[Arc<dyn Buffer>]) -> Vec<Vec<u8>> {
    let read = |b: &Arc<dyn Buffer>| {
        let mut bytes = vec![0; b.len()];
        b.read(0, &mut bytes).unwrap();
        bytes
    };
    buffers.iter().map(read).collect()
}

/// The device's answer.
pub fn run(device: &dyn Device, exe: &Arc<dyn Executable>, inputs: &[Tensor]) -> Result<Vec<Vec<u8>>> {
    let (s, outs) = submission(device, exe, inputs);
    finish(device, device.create_queue()?.as_ref(), s)?;
    Ok(contents(&outs))
}

/// Compiles with default options.
pub fn compile(device: &dyn Device, program: &Program) -> Arc<dyn Executable> {
    device.compile(program, &CompileOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", describe(program)))
}

pub fn describe(program: &Program) -> String {
    let node = |n: &Node| {
        let ty = |id: &ValueId| program.ty(*id).to_string();
        let ins: Vec<String> = n.inputs.iter().flatten().map(ty).collect();
        format!("{}({}) -> {} {:?} {:?}", n.op, ins.join(", "), ty(&n.outputs[0]), n.attrs, n.fused)
    };
    program.nodes.iter().map(node).collect::<Vec<_>>().join("; ")
}

/// Whether results are the expected ones: bit-equal, floats within the tolerance of numerics.md section 7.
pub fn is_close(found: &[u8], expect: &Tensor) -> bool {
    if found == expect.bytes() {
        return true;
    }
    let Some(found) = floats(expect.dtype(), found) else { return false };
    let Some(expect) = floats(expect.dtype(), expect.bytes()) else { return false };
    found.iter().zip(&expect).all(|(f, e)| {
        f.to_bits() == e.to_bits() || f.is_nan() && e.is_nan() || f == e || (f - e).abs() <= 1e-6 + 1e-5 * e.abs()
    })
}

fn floats(dtype: DataType, bytes: &[u8]) -> Option<Vec<f32>> {
    match dtype {
        DataType::F32 => Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()),
        _ => None,
    }
}

/// A program that dequantizes, which every device can: one value per byte.
pub fn dequantize(n: usize) -> (Program, Tensor) {
    let ty = TensorType::fixed(DataType::S8, &[n]).quantized(QuantParams::per_tensor(0.25, 3));
    let value = |name: &str, ty| Value { name: name.into(), ty, constant: None };
    let values = vec![value("x", ty), value("y", TensorType::fixed(DataType::F32, &[n]))];
    let mut node = ottava_ops_node("Dequantize");
    (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
    let program = Program {
        name: "dequantize".into(),
        values,
        nodes: vec![node],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(1)],
    };
    let data: Vec<i64> = (0..n as i64).map(|i| i * 7 % 251 - 125).collect();
    (program, Tensor::from_ints(DataType::S8, &[n], &data).unwrap())
}

fn ottava_ops_node(op: &str) -> Node {
    let cases = ottava_ops::all().flat_map(|op| op.cases());
    let mut found = cases.map(|c| c.node).find(|n| n.op == op).expect("the operator has a case");
    found.name = "only".into();
    found
}

/// The reference's answer.
pub fn reference(program: &Program, inputs: &[Tensor]) -> Vec<Vec<u8>> {
    let outputs = ottava_reference::Interpreter::new(program).unwrap().run(inputs).unwrap();
    outputs.iter().map(|t| t.bytes().to_vec()).collect()
}

//! What the tests share: a device, submissions, and a comparison with the reference.

use ottava_driver_opencl::{OpenCLDevice, OpenCLDriver};
use ottava_gpu::testing::skip;
use ottava_hal::{
    Binding, Buffer, BufferDesc, CompileOptions, DataType, Device, Driver, Executable, Node, Options, Program,
    QuantParams, Queue, Result, Submission, Tensor, TensorType, Value, ValueId,
};
use std::sync::{Arc, Once};
use std::time::Duration;

/// Longer than any run of these tests; a wait that lasts so long is a failure.
pub const LONG: Duration = Duration::from_secs(60);

/// The first device with these options; `None`, and a line in the list of skipped tests, if the machine has none.
pub fn device(what: &str, options: &[(&str, &str)]) -> Option<Arc<OpenCLDevice>> {
    own_kernel_cache();
    let mut options: Options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    if let Ok(worker) = std::env::var("OTTAVA_OPENCL_WORKER") {
        options.insert("worker".into(), worker);
    }
    let driver = OpenCLDriver::new();
    let Some(info) = driver.devices().unwrap().into_iter().next() else {
        skip(what, "no OpenCL device");
        return None;
    };
    Some(driver.open_opencl(&info.id, &options).unwrap())
}

/// The software device keeps what it has compiled in the user's home; tests compile anew.
fn own_kernel_cache() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("POCL_CACHE_DIR").is_none() {
            let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pocl");
            std::fs::create_dir_all(&folder).unwrap();
            #[allow(unsafe_code)] // the library takes the folder from the environment alone
            // SAFETY: tests reach OpenCL, which reads the environment, through this function only, and it runs once.
            unsafe {
                std::env::set_var("POCL_CACHE_DIR", folder);
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
    found.iter().zip(&expect).all(|(f, e)| f == e || f.is_nan() && e.is_nan() || (f - e).abs() <= 1e-6 + 1e-5 * e.abs())
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

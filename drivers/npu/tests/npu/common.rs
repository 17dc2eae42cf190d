//! What the tests share: chips, random programs, and a comparison with the reference byte for byte.

use ottava_driver_npu::{NpuDevice, NpuDriver};
use ottava_hal::{
    Binding, Buffer, BufferDesc, CompileOptions, DataType, Device, Executable, Node, Options, Program, QuantParams,
    Queue, Result, Submission, Tensor, TensorType, Value, ValueId,
};
use ottava_ops::{InferCx, InferInput, infer};
use ottava_reference::Interpreter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than any run of these tests; a wait that lasts so long is a failure.
pub const LONG: Duration = Duration::from_secs(60);

/// Arrays of several shapes and dataflows, with large and small memories.
pub const CHIPS: &[&str] = &[
    "Npu(array: (rows: 8, cols: 8), sram: (a: (bytes: 2048, banks: 1), w: (bytes: 2048, banks: 1), acc: (bytes: 512, banks: 1)))",
    "Npu()",
    "Npu(array: (rows: 32, cols: 16, dataflow: Os, depthwise: Vector), vector: (lanes: 4))",
    "Npu(array: (rows: 16, cols: 16, dataflow: Is), sram: (a: (bytes: 1024, banks: 1), w: (bytes: 512, banks: 1), acc: (bytes: 64, banks: 1)))",
];

/// The device of a description, which is written to a file of its own.
pub fn chip(text: &str) -> Arc<dyn Device> {
    try_chip(text, &[]).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// As [`chip`], as the driver's own type.
pub fn npu(text: &str) -> Arc<NpuDevice> {
    try_npu(text, &[]).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// As [`chip`], with more options.
pub fn try_chip(text: &str, more: &[(&str, &str)]) -> Result<Arc<dyn Device>> {
    Ok(try_npu(text, more)?)
}

fn try_npu(text: &str, more: &[(&str, &str)]) -> Result<Arc<NpuDevice>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("chip-{}-{}.ron", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    let mut options = Options::from([("config".to_owned(), path.to_str().unwrap().to_owned())]);
    options.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let device = NpuDriver::new().open_npu("npu", &options);
    std::fs::remove_file(&path).unwrap();
    device
}

/// A small generator with a fixed seed.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number in `lo..=hi`.
    pub fn range(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.next() % (hi - lo + 1) as u64) as i64
    }

    pub fn size(&mut self, lo: usize, hi: usize) -> usize {
        self.range(lo as i64, hi as i64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.size(0, from.len() - 1)]
    }

    /// A scale between about 0.001 and 0.1.
    pub fn scale(&mut self) -> f32 {
        0.001 + 0.099 * (self.range(0, 1 << 20) as f32 / (1 << 20) as f32)
    }

    /// Small sizes of `lo` to `hi` dimensions.
    pub fn dims(&mut self, lo: usize, hi: usize) -> Vec<usize> {
        let rank = self.size(lo, hi);
        (0..rank).map(|_| self.size(1, 11)).collect()
    }

    /// u8 or s8 with one scale.
    pub fn byte_type(&mut self, dims: &[usize]) -> TensorType {
        let dtype = self.pick(&[DataType::U8, DataType::S8]);
        self.typed(dtype, dims)
    }

    /// A type as it comes in networks: bytes with any zero point, 16 bits with a small scale and none, bare floats.
    pub fn typed(&mut self, dtype: DataType, dims: &[usize]) -> TensorType {
        let bare = TensorType::fixed(dtype, dims);
        match dtype {
            DataType::F32 => bare,
            DataType::S16 => bare.quantized(QuantParams::per_tensor(self.scale() / 100.0, 0)),
            _ => {
                let (lo, hi) = dtype.int_range().unwrap();
                bare.quantized(QuantParams::per_tensor(self.scale(), self.range(lo, hi) as i32))
            }
        }
    }

    /// Data of a type.
    pub fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let dims = ty.shape.known().unwrap();
        let (lo, hi) = ty.dtype.int_range().unwrap_or((i64::MIN, i64::MAX));
        let (lo, hi) = (lo.max(-5000), hi.min(5000));
        let values: Vec<i64> = (0..dims.iter().product()).map(|_| self.range(lo, hi)).collect();
        Tensor::from_ints(ty.dtype, &dims, &values).unwrap()
    }
}

/// A program under construction.
#[derive(Default)]
pub struct Net {
    pub program: Program,
}

impl Net {
    fn value(&mut self, ty: TensorType, constant: Option<Tensor>) -> ValueId {
        let id = ValueId(self.program.values.len());
        self.program.values.push(Value { name: format!("v{}", id.0), ty, constant });
        id
    }

    pub fn input(&mut self, ty: TensorType) -> ValueId {
        let id = self.value(ty, None);
        self.program.inputs.push(id);
        id
    }

    pub fn constant(&mut self, ty: TensorType, data: Tensor) -> ValueId {
        self.value(ty, Some(data))
    }

    pub fn ints(&mut self, values: &[i64]) -> ValueId {
        let data = Tensor::from_slice(&[values.len()], values).unwrap();
        self.constant(data.ty(), data)
    }

    pub fn random(&mut self, ty: TensorType, rng: &mut Rng) -> ValueId {
        let data = rng.tensor(&ty);
        self.constant(ty, data)
    }

    pub fn ty(&self, id: ValueId) -> TensorType {
        self.program.ty(id).clone()
    }

    pub fn dims(&self, id: ValueId) -> Vec<usize> {
        self.program.ty(id).shape.known().unwrap()
    }

    /// Adds a node; the output has the inferred shape and this element type and quantization.
    pub fn node(&mut self, mut node: Node, inputs: &[ValueId], like: &TensorType) -> ValueId {
        node.name = format!("n{}", self.program.nodes.len());
        node.inputs = inputs.iter().map(|id| Some(*id)).collect();
        node.outputs = vec![ValueId(self.program.values.len())];
        let value = |id: &ValueId| self.program.value(*id);
        let input = |id| Some(InferInput { ty: &value(id).ty, constant: value(id).constant.as_ref() });
        let seen: Vec<Option<InferInput>> = inputs.iter().map(input).collect();
        let types = infer(&InferCx { node: &node, inputs: &seen }).unwrap();
        self.program.nodes.push(node);
        self.value(TensorType { shape: types[0].shape.clone(), ..like.clone() }, None)
    }

    /// The shape that a node would give.
    pub fn shape_of(&mut self, node: &Node, inputs: &[ValueId], like: &TensorType) -> Vec<usize> {
        let id = self.node(node.clone(), inputs, like);
        let dims = self.dims(id);
        self.program.nodes.pop();
        self.program.values.pop();
        dims
    }

    pub fn output(mut self, id: ValueId) -> Program {
        self.program.outputs.push(id);
        self.program
    }
}

/// A node of the newest operator set.
pub fn op(name: &str) -> Node {
    Node::new("", name, 22)
}

/// A node of Ottava's own domain.
pub fn own_op(name: &str) -> Node {
    Node { domain: "ottava".into(), ..Node::new("", name, 1) }
}

/// A buffer that holds bytes.
pub fn buffer(device: &dyn Device, bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = device.alloc(&BufferDesc { bytes: bytes.len(), alignment: 64 }).unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// A submission of one run, and its output buffers.
pub fn submission(
    device: &dyn Device,
    exe: &Arc<dyn Executable>,
    inputs: &[Tensor],
) -> (Submission, Vec<Arc<dyn Buffer>>) {
    let ins = inputs.iter().map(|t| Binding::whole(buffer(device, t.bytes()))).collect();
    let outs: Vec<_> = exe.outputs().iter().map(|ty| buffer(device, &vec![0; ty.byte_len().unwrap()])).collect();
    let bound = outs.iter().map(|b| Binding::whole(Arc::clone(b))).collect();
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

/// Random data for the inputs of a program.
pub fn data(program: &Program, rng: &mut Rng) -> Vec<Tensor> {
    program.inputs.iter().map(|id| rng.tensor(program.ty(*id))).collect()
}

/// The reference's answer.
pub fn reference(program: &Program, inputs: &[Tensor]) -> Vec<Vec<u8>> {
    let outputs = Interpreter::new(program).unwrap().run(inputs);
    let outputs = outputs.unwrap_or_else(|e| panic!("reference of {}: {e}", describe(program)));
    outputs.iter().map(|t| t.bytes().to_vec()).collect()
}

/// Every chip accepts the program and has the reference's bytes.
pub fn check(program: &Program, rng: &mut Rng) {
    let inputs = data(program, rng);
    let expect = reference(program, &inputs);
    for text in CHIPS {
        let device = chip(text);
        for verdict in device.assess(program).unwrap() {
            assert!(verdict.is_supported(), "{} on {text}: {verdict:?}", describe(program));
        }
        let exe = compile(device.as_ref(), program);
        let found = run(device.as_ref(), &exe, &inputs).unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
        assert_eq!(found, expect, "{} on {text}: {:?}", describe(program), exe.kernels());
    }
}

pub fn describe(program: &Program) -> String {
    let node = |n: &Node| {
        let ty = |id: &ValueId| program.ty(*id).to_string();
        let ins: Vec<String> = n.inputs.iter().flatten().map(ty).collect();
        format!("{}({}) -> {} {:?} {:?}", n.op, ins.join(", "), ty(&n.outputs[0]), n.attrs, n.fused)
    };
    program.nodes.iter().map(node).collect::<Vec<_>>().join("; ")
}

//! What the tests share: random programs, the reference's answer, and a comparison bit for bit on every instruction set.

use crate::blob::Payload;
use crate::device::CpuDevice;
use crate::executable::CpuProgram;
use ottava_hal::host::HostProgram;
use ottava_hal::{DataType, Node, Program, QuantParams, Shape, SharedBytes, Tensor, TensorType, Value, ValueId};
use ottava_kernels::Isa;
use ottava_ops::{EvalCx, InferCx, InferInput, evaluate, infer};
use std::sync::Arc;

/// A small generator with a fixed seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number in `lo..=hi`.
    pub(crate) fn range(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.next() % (hi - lo + 1) as u64) as i64
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() as i64 - 1) as usize]
    }

    /// A number of the range; zeros of both signs are frequent where they belong to it.
    pub(crate) fn real(&mut self, lo: f32, hi: f32) -> f32 {
        if lo < 0.0 && hi > 0.0 && self.range(0, 7) == 0 {
            return self.pick(&[0.0, -0.0]);
        }
        lo + (hi - lo) * (self.range(0, 1 << 20) as f32 / (1 << 20) as f32)
    }

    /// A scale between about 0.001 and 0.1.
    pub(crate) fn scale(&mut self) -> f32 {
        self.real(0.001, 0.1)
    }

    /// u8 or s8 with one scale.
    pub(crate) fn byte_type(&mut self, dims: &[usize]) -> TensorType {
        let dtype = self.pick(&[DataType::U8, DataType::S8]);
        let (lo, hi) = dtype.int_range().unwrap();
        let quant = QuantParams::per_tensor(self.scale(), self.range(lo, hi) as i32);
        TensorType::fixed(dtype, dims).quantized(quant)
    }

    /// Data of a type; floats between -4 and 4.
    pub(crate) fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let dims = ty.shape.known().unwrap();
        let n: usize = dims.iter().product();
        let flags = (ty.dtype == DataType::Bool).then_some((0, 1));
        match flags.or(ty.dtype.int_range()) {
            Some((lo, hi)) => {
                let (lo, hi) = (lo.max(-5000), hi.min(5000));
                let values: Vec<i64> = (0..n).map(|_| self.range(lo, hi)).collect();
                Tensor::from_ints(ty.dtype, &dims, &values).unwrap()
            }
            None => {
                let values: Vec<f32> = (0..n).map(|_| self.real(-4.0, 4.0)).collect();
                Tensor::from_f32s(ty.dtype, &dims, &values).unwrap()
            }
        }
    }
}

/// A program under construction.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) program: Program,
}

impl Net {
    fn value(&mut self, ty: TensorType, constant: Option<Tensor>) -> ValueId {
        let id = ValueId(self.program.values.len());
        self.program.values.push(Value { name: format!("v{}", id.0), ty, constant });
        id
    }

    pub(crate) fn input(&mut self, ty: TensorType) -> ValueId {
        let id = self.value(ty, None);
        self.program.inputs.push(id);
        id
    }

    pub(crate) fn constant(&mut self, ty: TensorType, data: Tensor) -> ValueId {
        self.value(ty, Some(data))
    }

    pub(crate) fn ints(&mut self, values: &[i64]) -> ValueId {
        let data = Tensor::from_slice(&[values.len()], values).unwrap();
        self.constant(data.ty(), data)
    }

    pub(crate) fn random(&mut self, ty: TensorType, rng: &mut Rng) -> ValueId {
        let data = rng.tensor(&ty);
        self.constant(ty, data)
    }

    pub(crate) fn ty(&self, id: ValueId) -> TensorType {
        self.program.ty(id).clone()
    }

    /// Adds a node; the output has the inferred shape and this element type and quantization.
    pub(crate) fn node(&mut self, node: Node, inputs: &[ValueId], like: &TensorType) -> ValueId {
        self.nodes(node, inputs, like, 1)[0]
    }

    /// As [`Self::node`], with `n` outputs.
    pub(crate) fn nodes(&mut self, mut node: Node, inputs: &[ValueId], like: &TensorType, n: usize) -> Vec<ValueId> {
        node.name = format!("n{}", self.program.nodes.len());
        node.inputs = inputs.iter().map(|id| Some(*id)).collect();
        node.outputs = (0..n).map(|i| ValueId(self.program.values.len() + i)).collect();
        let value = |id: &ValueId| self.program.value(*id);
        let seen: Vec<Option<InferInput>> = inputs
            .iter()
            .map(|id| Some(InferInput { ty: &value(id).ty, constant: value(id).constant.as_ref() }))
            .collect();
        let types = infer(&InferCx { node: &node, inputs: &seen }).unwrap();
        self.program.nodes.push(node);
        types.into_iter().take(n).map(|t| self.value(TensorType { shape: t.shape, ..like.clone() }, None)).collect()
    }

    pub(crate) fn output(mut self, id: ValueId) -> Program {
        self.program.outputs.push(id);
        self.program
    }
}

/// A node of the newest operator set.
pub(crate) fn op(name: &str) -> Node {
    Node::new("", name, 22)
}

/// A node of Ottava's own domain.
pub(crate) fn own_op(name: &str) -> Node {
    Node { domain: "ottava".into(), ..Node::new("", name, 1) }
}

/// The reference's answer.
pub(crate) fn reference(program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut data: Vec<Option<Tensor>> = program.values.iter().map(|v| v.constant.clone()).collect();
    for (id, x) in program.inputs.iter().zip(inputs) {
        data[id.0] = Some(x.clone());
    }
    for node in &program.nodes {
        let ins: Vec<Option<&Tensor>> = node.inputs.iter().map(|i| i.and_then(|id| data[id.0].as_ref())).collect();
        let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|i| i.map(|id| program.ty(id))).collect();
        let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| program.ty(*id)).collect();
        let cx = EvalCx { node, inputs: &ins, in_types: &in_types, out_types: &out_types };
        let results = evaluate(&cx).unwrap_or_else(|e| panic!("reference of {}: {e}", node.full_op()));
        for (id, y) in node.outputs.iter().zip(results) {
            assert_eq!(Shape::fixed(y.shape()), program.ty(*id).shape, "{}", node.full_op());
            data[id.0] = Some(y);
        }
    }
    program.outputs.iter().map(|id| data[id.0].clone().unwrap()).collect()
}

/// The device's answer, from one run of the program as compiled.
pub(crate) fn run_once(device: &CpuDevice, program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    let compiled = device.program(program).unwrap();
    let ins: Vec<&[u8]> = inputs.iter().map(Tensor::bytes).collect();
    let types = program.outputs.iter().map(|id| program.ty(*id));
    let mut outs: Vec<Tensor> = types.map(|t| Tensor::zeros(t.dtype, &t.shape.known().unwrap()).unwrap()).collect();
    let mut views: Vec<&mut [u8]> = outs.iter_mut().map(Tensor::bytes_mut).collect();
    compiled.run(&ins, &mut views, None).unwrap();
    outs
}

/// The device's answer, from a used arena and after saving.
pub(crate) fn run(device: &CpuDevice, program: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    let compiled = device.program(program).unwrap();
    let ins: Vec<&[u8]> = inputs.iter().map(Tensor::bytes).collect();
    let types = program.outputs.iter().map(|id| program.ty(*id));
    let mut outs: Vec<Tensor> = types.map(|t| Tensor::zeros(t.dtype, &t.shape.known().unwrap()).unwrap()).collect();
    let mut run = |program: &CpuProgram| {
        let mut views: Vec<&mut [u8]> = outs.iter_mut().map(Tensor::bytes_mut).collect();
        program.run(&ins, &mut views, None).unwrap();
        outs.clone()
    };
    // Twice: the second run finds a used arena.
    run(&compiled);
    let found = run(&compiled);
    let saved = compiled.save().unwrap();
    let mapped = [placed(&saved, 0), placed(&saved, 8), placed(&saved, 1)];
    for payload in std::iter::once(Payload::Lent(&saved)).chain(mapped.iter().map(Payload::Shared)) {
        let (_, restored) = device.restored(payload).unwrap();
        assert!(run(&restored).iter().zip(&found).all(|(a, b)| a.bytes() == b.bytes()), "another answer after saving");
        assert!(restored.save().unwrap() == saved, "other bytes after saving again");
    }
    found
}

/// The bytes in shared memory, `off` bytes behind a multiple of 64.
pub(crate) fn placed(bytes: &[u8], off: usize) -> SharedBytes {
    struct Placed(Vec<u8>, usize);
    impl AsRef<[u8]> for Placed {
        fn as_ref(&self) -> &[u8] {
            &self.0[self.1..]
        }
    }
    let mut memory = vec![0; bytes.len() + 64 + off];
    let at = memory.as_ptr().align_offset(64) + off;
    memory.truncate(at + bytes.len());
    memory[at..].copy_from_slice(bytes);
    Arc::new(Placed(memory, at))
}

/// Random data for the inputs of a program.
pub(crate) fn data(program: &Program, rng: &mut Rng) -> Vec<Tensor> {
    program.inputs.iter().map(|id| rng.tensor(program.ty(*id))).collect()
}

/// Compares a program with the reference on random data, for every instruction set and one and two threads.
pub(crate) fn check(program: &Program, rng: &mut Rng) {
    check_with(program, &data(program, rng));
}

/// As [`check`], on given data.
pub(crate) fn check_with(program: &Program, inputs: &[Tensor]) {
    let expect = reference(program, inputs);
    for isa in Isa::available() {
        for threads in [1, 2] {
            let device = CpuDevice::new(isa, threads).unwrap();
            let found = run(&device, program, inputs);
            for (i, (found, expect)) in found.iter().zip(&expect).enumerate() {
                let what = format!("output {i} of {} on {}, {threads} threads", describe(program), isa.name());
                assert_same(found, expect, &what);
            }
        }
    }
}

/// The program in words.
pub(crate) fn describe(program: &Program) -> String {
    let node = |n: &Node| {
        let ty = |id: &ValueId| program.ty(*id).to_string();
        let ins: Vec<String> = n.inputs.iter().flatten().map(ty).collect();
        format!("{}({}) -> {} {:?} {:?}", n.op, ins.join(", "), ty(&n.outputs[0]), n.attrs, n.fused)
    };
    program.nodes.iter().map(node).collect::<Vec<_>>().join("; ")
}

/// Equal bits; any NaN equals any NaN.
pub(crate) fn assert_same(found: &Tensor, expect: &Tensor, what: &str) {
    if found.dtype() != DataType::F32 {
        assert!(found == expect, "{what}: {found:?}, expected {expect:?}");
        return;
    }
    let bits = |t: &Tensor| -> Vec<u32> {
        let one = |v: &f32| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() };
        t.as_slice::<f32>().unwrap().iter().map(one).collect()
    };
    assert!(bits(found) == bits(expect), "{what}: {found:?}, expected {expect:?}");
}

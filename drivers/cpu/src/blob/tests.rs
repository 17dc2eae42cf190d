//! Saved executables: the same answers without packing, small and stable bytes, and harmless ones from strangers.

use crate::testing::{Net, Rng, data, op, placed, reference};
use crate::{CpuDriver, Isa};
use ottava_hal::host::HostExecutable;
use ottava_hal::{
    BlobKey, CompileOptions, DataType, Device, Driver, Executable, Options, Program, QuantParams, Status, Tensor,
    TensorType, wire,
};
use std::sync::Arc;

fn device(isa: Isa) -> Arc<dyn Device> {
    let options: Options = [("threads", "1"), ("isa", isa.name())].map(|(k, v)| (k.into(), v.into())).into();
    CpuDriver.open("cpu", &options).unwrap()
}

/// A key that nothing looks at: the host has compared it.
fn key() -> BlobKey {
    BlobKey {
        driver: "cpu".into(),
        driver_version: String::new(),
        uuid: [0; 16],
        hw_rev: 0,
        ir_version: 0,
        core_hash: 0,
        ops_hash: 0,
        program_hash: 0,
        quant_hash: 0,
        options_hash: 0,
        payload_len: 0,
        payload_sha256: [0; 32],
    }
}

fn run(exe: &Arc<dyn Executable>, inputs: &[&[u8]]) -> ottava_hal::Result<Vec<Vec<u8>>> {
    let program = exe.as_any().downcast_ref::<HostExecutable>().unwrap().program();
    let mut outs: Vec<Vec<u8>> = exe.outputs().iter().map(|ty| vec![0; ty.byte_len().unwrap()]).collect();
    let mut views: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(inputs, &mut views, None).map(|()| outs)
}

/// Quantize, an s8 convolution, a float product of its mean, and a weight that is read as data too.
fn network(rng: &mut Rng) -> Program {
    let mut net = Net::default();
    let float = TensorType::fixed(DataType::F32, &[]);
    let x = net.input(rng.byte_type(&[1, 8, 6, 6]));
    let w =
        TensorType::fixed(DataType::S8, &[32, 8, 3, 3]).quantized(QuantParams::per_axis_symmetric(0, vec![0.01; 32]));
    let w = net.random(w, rng);
    let y = net.node(op("Conv"), &[x, w], &rng.byte_type(&[]));
    let mean = net.node(op("GlobalAveragePool"), &[y], &rng.byte_type(&[]));
    let like = net.ty(mean);
    let flat = net.node(op("Flatten"), &[mean], &like);
    let real = net.node(crate::testing::own_op("Dequantize"), &[flat], &float);
    let w = net.random(TensorType::fixed(DataType::F32, &[32, 20]), rng);
    let z = net.node(op("MatMul"), &[real, w], &float);
    let shared = net.random(TensorType::fixed(DataType::F32, &[20, 20]), rng);
    let z = net.node(op("MatMul"), &[z, shared], &float);
    let sum = net.node(op("Add"), &[z, shared], &float);
    net.output(sum)
}

#[test]
fn an_executable_comes_back_on_every_instruction_set() {
    let mut rng = Rng::new(71);
    let program = network(&mut rng);
    let inputs = data(&program, &mut rng);
    let expect = reference(&program, &inputs);
    let ins: Vec<&[u8]> = inputs.iter().map(Tensor::bytes).collect();
    let saver = device(Isa::detect());
    let exe = saver.compile(&program, &CompileOptions::default()).unwrap();
    let bytes = saver.serialize(exe.as_ref()).unwrap();
    for isa in Isa::available() {
        let device = device(isa);
        let back = device.deserialize(&key(), &bytes).unwrap();
        assert_eq!(run(&back, &ins).unwrap()[0], expect[0].bytes());
        assert_eq!((back.inputs(), back.outputs()), (exe.inputs(), exe.outputs()));
        assert_eq!(device.serialize(back.as_ref()).unwrap(), bytes);
        let names = |e: &Arc<dyn Executable>| e.kernels().into_iter().map(|k| k.0).collect::<Vec<_>>();
        assert_eq!(names(&back), names(&exe));
    }
}

#[test]
fn weights_are_saved_once_packed() {
    let mut rng = Rng::new(72);
    let mut net = Net::default();
    let x = net.input(rng.byte_type(&[4, 512]));
    let w = TensorType::fixed(DataType::S8, &[512, 256]).quantized(QuantParams::per_tensor(0.01, 0));
    let w = net.random(w, &mut rng);
    let y = net.node(op("MatMul"), &[x, w], &rng.byte_type(&[]));
    let device = device(Isa::detect());
    let exe = device.compile(&net.output(y), &CompileOptions::default()).unwrap();
    let bytes = device.serialize(exe.as_ref()).unwrap();
    // Two bytes for each and some more where lanes are left empty; places and the program itself need little.
    let n = 512 * 256;
    assert!((n..2 * n + n / 2).contains(&bytes.len()), "{} bytes", bytes.len());
}

#[test]
fn an_executable_of_another_driver_is_refused() {
    struct Foreign;
    impl Executable for Foreign {
        fn inputs(&self) -> &[TensorType] {
            &[]
        }
        fn outputs(&self) -> &[TensorType] {
            &[]
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    assert!(device(Isa::detect()).serialize(&Foreign).unwrap_err().to_string().contains("not one of the cpu driver"));
}

#[test]
fn bytes_that_are_no_executable_are_refused_in_words() {
    let mut rng = Rng::new(73);
    let device = device(Isa::detect());
    let exe = device.compile(&network(&mut rng), &CompileOptions::default()).unwrap();
    let good = device.serialize(exe.as_ref()).unwrap();
    let refused = |bytes: &[u8]| device.deserialize(&key(), bytes).err().expect("refused");
    for n in [0, 3, 8, 12, 40, good.len() / 2, good.len() - 1] {
        assert_eq!(refused(&good[..n]).status(), Status::CorruptBlob, "{n} bytes");
    }
    assert!(refused(b"ONNX").to_string().contains("no compiled program"));
    assert!(refused(&[good.as_slice(), &[0]].concat()).to_string().contains("too many"));
    let mut newer = good.clone();
    newer[4] = 9;
    assert!(refused(&newer).to_string().contains("version 9"));
    let mut more = good.clone();
    more[8] = 200;
    assert!(refused(&more).to_string().contains("more weights than inputs"));
    // The image is no weight.
    let mut image = good;
    image[8] += 1;
    assert!(refused(&image).to_string().contains("cannot be a packed weight"));
}

#[test]
fn a_payload_without_its_weights_is_refused() {
    let mut rng = Rng::new(74);
    let program = network(&mut rng);
    let (bare, n) = super::bare(&program);
    let bytes = super::write(&bare, n, &[]).unwrap();
    let e = device(Isa::detect()).deserialize(&key(), &bytes).err().expect("refused").to_string();
    assert!(e.contains("larger than the data") || e.contains("weights are missing"), "{e}");
    assert_eq!(n, 2, "the weight that Add reads stays in the program");
    wire::encode(&bare, &mut wire::Inline, &mut wire::Writer::default()).unwrap();
}

/// Runs an executable that strangers may have made, unless it asks for much memory. An error is as good as an answer.
fn run_if_small(exe: &Arc<dyn Executable>) -> Option<ottava_hal::Result<Vec<Vec<u8>>>> {
    let len = |types: &[TensorType]| types.iter().filter_map(TensorType::byte_len).sum::<usize>();
    let small = len(exe.inputs()).max(len(exe.outputs())).max(exe.arena_bytes()) < 1 << 20;
    small.then(|| {
        let ins: Vec<Vec<u8>> = exe.inputs().iter().map(|ty| vec![7; ty.byte_len().unwrap()]).collect();
        let ins: Vec<&[u8]> = ins.iter().map(Vec::as_slice).collect();
        run(exe, &ins)
    })
}

/// What is loaded from changed bytes runs or fails; it never panics and never reads outside.
#[test]
fn changed_bytes_are_refused_or_harmless() {
    let mut rng = Rng::new(75);
    let device = device(Isa::detect());
    for program in [network(&mut rng), crate::tests::network::network(&mut rng)] {
        let exe = device.compile(&program, &CompileOptions::default()).unwrap();
        let good = device.serialize(exe.as_ref()).unwrap();
        let (bare, n) = super::bare(&program);
        let head = super::write(&bare, n, &[]).unwrap().len();
        let (mut loaded, mut refused) = (0, 0);
        for round in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..rng.range(1, 3) {
                let end = if round % 4 == 0 { bytes.len() } else { head };
                let at = rng.range(0, end as i64 - 1) as usize;
                bytes[at] = [0, 1, 2, 0x7f, 0xff, rng.range(0, 255) as u8][rng.range(0, 5) as usize];
            }
            let in_place = device.deserialize_shared(&key(), placed(&bytes, 0));
            match device.deserialize(&key(), &bytes) {
                Err(e) => {
                    refused += 1;
                    assert_eq!(in_place.err(), Some(e), "mapped and copied bytes differ");
                }
                Ok(exe) => {
                    loaded += 1;
                    assert!(run_if_small(&exe) == run_if_small(&in_place.unwrap()), "mapped and copied bytes differ");
                }
            }
        }
        assert!(loaded > 100 && refused > 100, "{loaded} loaded, {refused} refused");
    }
}

#[test]
fn mapped_weights_are_used_where_they_lie() {
    let mut rng = Rng::new(76);
    let program = network(&mut rng);
    let inputs = data(&program, &mut rng);
    let ins: Vec<&[u8]> = inputs.iter().map(Tensor::bytes).collect();
    let device = device(Isa::detect());
    let exe = device.compile(&program, &CompileOptions::default()).unwrap();
    let bytes = device.serialize(exe.as_ref()).unwrap();
    for (off, is_kept) in [(0, true), (64, true), (1, false)] {
        let memory = placed(&bytes, off);
        let back = device.deserialize_shared(&key(), Arc::clone(&memory)).unwrap();
        assert_eq!(Arc::strong_count(&memory) > 1, is_kept, "{off} bytes behind a multiple of 64");
        drop(memory);
        assert_eq!(run(&back, &ins).unwrap(), run(&exe, &ins).unwrap());
    }
}

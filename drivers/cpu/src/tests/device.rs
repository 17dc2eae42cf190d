//! The driver's contract: options, refusals, reports, the way through queue and fences.

use crate::testing::{Net, Rng, data, op, reference};
use crate::{CpuDriver, Isa};
use ottava_hal::{
    Attr, Binding, BufferDesc, CompileOptions, DataType, Device, Driver, Error, Options, Program, Reason, Submission,
    TensorType,
};
use std::sync::Arc;
use std::time::Duration;

fn open(options: &[(&str, &str)]) -> Result<Arc<dyn Device>, Error> {
    let options: Options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    CpuDriver.open("cpu", &options)
}

fn message(options: &[(&str, &str)]) -> String {
    open(options).err().expect("refused").to_string()
}

#[test]
fn options_are_checked() {
    let device = open(&[("threads", "2"), ("isa", "portable")]).unwrap();
    assert_eq!((device.info().threads, device.info().isa.as_str()), (2, "portable"));
    assert_eq!(open(&[]).unwrap().info().isa, Isa::detect().name());
    assert!(message(&[("isa", "mmx")]).contains("portable"));
    assert!(message(&[("threads", "0")]).contains("from 1 to"));
    assert!(message(&[("thread", "1")]).contains("threads, grain, isa"));
    assert!(CpuDriver.open("gpu", &Options::new()).is_err());
}

/// A convolution of a small image with this stride and padding.
fn padded(float: bool, groups: i64, far: i64) -> Program {
    let mut rng = Rng::new(53);
    let mut net = Net::default();
    let (dims, filters) = ([1, 16, 9, 9], [16, if groups == 1 { 16 } else { 1 }, 3, 3]);
    let ty = |rng: &mut Rng, d: &[usize]| if float { TensorType::fixed(DataType::F32, d) } else { rng.byte_type(d) };
    let (x, w, y) = (ty(&mut rng, &dims), ty(&mut rng, &filters), ty(&mut rng, &[]));
    let (x, w) = (net.input(x), net.random(w, &mut rng));
    let mut node = op("Conv");
    node.attrs.set("group", Attr::Int(groups));
    node.attrs.set("pads", Attr::Ints(vec![far; 4]));
    node.attrs.set("strides", Attr::Ints(vec![far; 2]));
    let y = net.node(node, &[x, w], &y);
    net.output(y)
}

#[test]
fn a_few_pixels_in_gigabytes_of_padding_are_refused() {
    let device = open(&[("threads", "1")]).unwrap();
    for (float, groups) in [(false, 1), (false, 16), (true, 1), (true, 16)] {
        assert!(device.compile(&padded(float, groups, 3), &CompileOptions::default()).is_ok());
        let e = device.compile(&padded(float, groups, 10_000), &CompileOptions::default()).err().expect("refused");
        assert!(matches!(e, Error::Unsupported { reason: Reason::ShapeLimit, .. }), "{e}");
        assert!(e.to_string().contains("64 MiB"), "{e}");
    }
}

/// A product whose weights are an input.
fn dynamic_weights() -> Program {
    let mut rng = Rng::new(51);
    let mut net = Net::default();
    let (x, w) = (net.input(rng.byte_type(&[2, 3])), net.input(rng.byte_type(&[3, 4])));
    let y = net.node(op("Gemm"), &[x, w], &rng.byte_type(&[]));
    net.output(y)
}

#[test]
fn refusals_name_node_and_reason() {
    let device = open(&[("threads", "1")]).unwrap();
    let refused = |p: &Program| device.compile(p, &CompileOptions::default()).err().expect("refused");
    let e = refused(&dynamic_weights());
    assert!(matches!(e, Error::Unsupported { reason: Reason::ConstRequired, .. }), "{e}");
    assert!(e.to_string().contains("`n0`"), "{e}");
    let mut unknown = dynamic_weights();
    unknown.nodes[0].op = "Nonsense".into();
    assert!(matches!(refused(&unknown), Error::Unsupported { reason: Reason::OpUnknown, .. }));
    let mut invalid = dynamic_weights();
    invalid.outputs[0].0 = 99;
    assert!(matches!(refused(&invalid), Error::Invalid(_)));
}

#[test]
fn a_submission_runs_profiles_and_reports() {
    let mut rng = Rng::new(52);
    let mut net = Net::default();
    let f32_type = TensorType::fixed(DataType::F32, &[1, 2, 4, 4]);
    let x = net.input(f32_type.clone());
    let mut node = op("Conv");
    node.attrs.set("group", ottava_hal::Attr::Int(1));
    let w = net.random(TensorType::fixed(DataType::F32, &[3, 2, 1, 1]), &mut rng);
    let y = net.node(node, &[x, w], &f32_type);
    let z = net.node(op("Flatten"), &[y], &f32_type);
    let program = net.output(z);
    let inputs = data(&program, &mut rng);

    let device = open(&[("threads", "1")]).unwrap();
    let exe = device.compile(&program, &CompileOptions::default()).unwrap();
    let names: Vec<String> = exe.kernels().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names[..2], ["n0", "n1"]);
    assert!(exe.kernels()[0].1.contains(&format!("conv_f32_{}", device.info().isa)), "{:?}", exe.kernels());
    let alloc = |bytes| device.alloc(&BufferDesc { bytes, alignment: 64 }).unwrap();
    let (a, b) = (alloc(inputs[0].bytes().len()), alloc(3 * 16 * 4));
    a.write(0, inputs[0].bytes()).unwrap();
    let (queue, fence) = (device.create_queue().unwrap(), device.create_fence(0).unwrap());
    let mut submission = Submission::dispatch(exe, vec![Binding::whole(a)], vec![Binding::whole(b.clone())]);
    (submission.signals, submission.profile) = (vec![(fence.clone(), 1)], true);
    let id = queue.submit(&submission).unwrap();
    fence.wait(1, Duration::ZERO).unwrap();
    let mut bytes = vec![0; b.len()];
    b.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, reference(&program, &inputs)[0].bytes());
    assert_eq!(queue.take_profile(id).unwrap().nodes[0].node, "n0");
}

#[test]
fn the_estimate_grows_with_the_work() {
    let device = open(&[("threads", "1")]).unwrap();
    let product = |n: usize| {
        let mut rng = Rng::new(53);
        let mut net = Net::default();
        let x = net.input(rng.byte_type(&[64, n]));
        let w = rng.byte_type(&[n, n]);
        let w = net.random(w, &mut rng);
        let y = net.node(op("MatMul"), &[x, w], &rng.byte_type(&[]));
        device.estimate(&net.output(y)).unwrap()
    };
    let (small, large) = (product(64), product(512));
    assert!(large.time_ns > small.time_ns && large.workspace_bytes > small.workspace_bytes);
}

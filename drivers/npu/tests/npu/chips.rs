//! What a chip refuses follows from its description, with the reason.

use crate::common::{Net, Rng, chip, compile, data, describe, npu, op, reference, run, try_chip};
use ottava_driver_npu::NpuDriver;
use ottava_hal::{
    Attr, CompileOptions, DataType, Driver, Options, Program, QuantParams, Reason, RequantMode, Shape, Tensor,
    TensorType, Verdict,
};

struct Case {
    x: DataType,
    w: TensorType,
    mode: RequantMode,
    channels: usize,
}

impl Case {
    fn new() -> Self {
        let w = TensorType::fixed(DataType::S8, &[4, 3, 1, 1]).quantized(QuantParams::per_tensor(0.02, 0));
        Self { x: DataType::S8, w, mode: RequantMode::Fp32Rne, channels: 3 }
    }

    fn program(&self) -> Program {
        let mut net = Net::default();
        let quant = || QuantParams::per_tensor(0.05, 3);
        let x = net.input(TensorType::fixed(self.x, &[1, self.channels, 4, 4]).quantized(quant()));
        let w = net.random(self.w.clone(), &mut Rng::new(1));
        let mut node = op("Conv");
        node.requant = Some(self.mode);
        let y = net.node(node, &[x, w], &TensorType::fixed(self.x, &[]).quantized(quant()));
        net.output(y)
    }
}

fn reason(text: &str, program: &Program) -> Option<(Reason, String)> {
    let device = chip(text);
    let verdict = device.assess(program).unwrap().remove(0);
    let compiled = device.compile(program, &CompileOptions::default());
    match verdict {
        Verdict::Supported { exact } => {
            assert!(exact && compiled.is_ok(), "accepted and not compiled: {:?}", compiled.err());
            None
        }
        Verdict::Rejected { reason, detail } => {
            let error = compiled.err().expect("refused and compiled");
            let known = reason == Reason::Other || error.to_string().contains(reason.code());
            assert!(known, "{error} is not {reason}");
            Some((reason, detail))
        }
    }
}

#[test]
fn types_and_modes_follow_the_chip() {
    let base = Case::new().program();
    assert_eq!(reason("Npu()", &base), None);
    assert_eq!(reason("Npu(dtypes: [S8], requant: [Fp32Rne])", &base), None);
    let unsigned = Case { x: DataType::U8, ..Case::new() }.program();
    let (found, detail) = reason("Npu(dtypes: [S8])", &unsigned).unwrap();
    assert_eq!((found, detail.contains("u8, supported: s8")), (Reason::Dtype, true), "{detail}");
    let (found, detail) = reason("Npu(requant: [Q31Double, Q31Single])", &base).unwrap();
    assert_eq!((found, detail.contains("fp32_rne")), (Reason::RequantMode, true), "{detail}");
    let q31 = Case { mode: RequantMode::Q31Double, ..Case::new() }.program();
    assert_eq!(reason("Npu(requant: [Q31Double, Q31Single])", &q31), None);
}

#[test]
fn a_chip_of_one_type_runs_what_it_accepts() {
    for (dtype, text) in [(DataType::S8, "Npu(dtypes: [S8])"), (DataType::U8, "Npu(dtypes: [U8])")] {
        let w = TensorType::fixed(dtype, &[4, 3, 1, 1]).quantized(QuantParams::per_tensor(0.02, 1));
        let program = Case { x: dtype, w, ..Case::new() }.program();
        let device = chip(text);
        let inputs = data(&program, &mut Rng::new(4));
        let exe = compile(device.as_ref(), &program);
        assert_eq!(run(device.as_ref(), &exe, &inputs).unwrap(), reference(&program, &inputs));
    }
}

#[test]
fn weights_the_array_cannot_hold_are_refused() {
    let params = |quant| TensorType::fixed(DataType::S8, &[4, 3, 1, 1]).quantized(quant);
    let zero_points = QuantParams { zero_points: vec![0, 1, 0, 0], ..QuantParams::per_axis_symmetric(0, vec![0.1; 4]) };
    for (quant, expect) in
        [(zero_points, Reason::QuantScheme), (QuantParams::per_axis_symmetric(1, vec![0.1; 3]), Reason::QuantAxis)]
    {
        let program = Case { w: params(quant), ..Case::new() }.program();
        assert_eq!(reason("Npu()", &program).map(|r| r.0), Some(expect));
    }
}

#[test]
fn a_sum_that_may_overflow_is_refused_with_its_bound() {
    let w = TensorType::fixed(DataType::S8, &[1, 140_000, 1, 1]).quantized(QuantParams::per_tensor(0.02, 0));
    let program = Case { w, channels: 140_000, ..Case::new() }.program();
    let (found, detail) = reason("Npu()", &program).unwrap();
    // 131 is the greatest |q - 3| of s8, 128 the greatest weight.
    assert_eq!(found, Reason::AccOverflow);
    assert!(detail.contains(&(140_000 * 131 * 128u64).to_string()), "{detail}");
}

#[test]
fn a_tile_that_does_not_fit_is_refused_with_its_size() {
    let tiny = "Npu(sram: (w: (bytes: 40, banks: 1)))";
    let (found, detail) = reason(tiny, &Case::new().program()).unwrap();
    assert_eq!((found, detail.contains("has 40")), (Reason::Memory, true), "{detail}");
    let error = try_chip("Npu(sram: (a: (bytes: 2, banks: 1)))", &[]).err().expect("too small for any value");
    assert!(error.to_string().contains("MEMORY"), "{error}");
}

#[test]
fn what_has_no_form_is_refused_by_name() {
    let mut net = Net::default();
    let ty = TensorType::fixed(DataType::S8, &[1, 4, 4]).quantized(QuantParams::per_tensor(0.05, 3));
    let x = net.input(ty.clone());
    let table = Tensor::from_slice(&[256], &[0i8; 256]).unwrap();
    net.constant(table.ty(), table);
    let y = net.node(op("Sigmoid"), &[x], &ty);
    assert_eq!(reason("Npu()", &net.output(y)).map(|r| r.0), Some(Reason::OpUnknown));
    let mut residual = Case::new().program();
    residual.nodes[0].fused.residual = true;
    let (x, y) = (residual.inputs[0], residual.outputs[0]);
    residual.nodes[0].inputs.push(None);
    residual.nodes[0].inputs.push(Some(x));
    residual.values[x.0].ty = TensorType { shape: residual.ty(y).shape.clone(), ..residual.ty(x).clone() };
    // A residual is added in f32, which this chip's requantizer lacks.
    residual.nodes[0].requant = Some(RequantMode::Q31Single);
    assert_eq!(reason("Npu(requant: [Q31Single])", &residual).map(|r| r.0), Some(Reason::FusionRequired));
}

#[test]
fn the_device_says_what_it_is() {
    let driver = NpuDriver::new();
    assert_eq!(driver.info().name, "npu");
    let infos = driver.devices().unwrap();
    assert_eq!((infos.len(), infos[0].id.as_str()), (1, "npu"));
    let open = |config: &str| {
        let options = Options::from([("config".to_owned(), config.to_owned())]);
        driver.open("npu", &options).unwrap().info().clone()
    };
    let (edge16, edge32) = (open("edge16"), open("edge32"));
    assert!(edge16.simulated && !edge16.sync_only);
    assert_eq!(edge16, infos[0]);
    // 16 x 16 elements, two operations each, at 500 MHz; 16 bytes and 100 cycles of it.
    assert_eq!((edge16.peak.s8, edge16.link.bytes_per_s, edge16.link.latency_ns), (256e9, 8e9, 200));
    assert_ne!((edge16.uuid, edge16.hw_rev), (edge32.uuid, edge32.hw_rev));
    assert!(driver.open("npu1", &Options::new()).err().expect("no such device").to_string().contains("`npu`"));
    for preset in driver.option_schema()[0].help.split(['(', ')']).nth(1).unwrap().split(", ") {
        assert!(open(preset).peak.s8 > 0.0, "{preset}");
    }
}

#[test]
fn dilated_windows_of_pools_are_run() {
    let mut rng = Rng::new(9);
    let mut net = Net::default();
    let ty = rng.byte_type(&[1, 3, 9, 9]);
    let x = net.input(ty.clone());
    let mut node = op("MaxPool");
    node.attrs.set("kernel_shape", Attr::Ints(vec![2, 3]));
    node.attrs.set("dilations", Attr::Ints(vec![3, 2]));
    let y = net.node(node, &[x], &ty);
    crate::common::check(&net.output(y), &mut rng);
}

#[test]
fn contradictory_programs_are_refused_and_never_panic() {
    let base = Case::new().program();
    let kernel = |mut p: Program| {
        p.nodes[0].attrs.set("kernel_shape", Attr::Ints(vec![5, 5]));
        p
    };
    let extent = |mut p: Program, dims: &[usize]| {
        let y = p.outputs[0];
        p.values[y.0].ty = TensorType { shape: Shape::fixed(dims), ..p.ty(y).clone() };
        p
    };
    for program in [kernel(base.clone()), extent(base.clone(), &[1, 4, 9, 9]), extent(base, &[1, 5, 4, 4])] {
        assert!(reason("Npu()", &program).is_some());
    }
}

/// A chip with more memory is not slower (law S7).
#[test]
fn more_memory_is_not_slower() {
    let convs =
        [(64, 64, 28, 3), (64, 256, 28, 1), (256, 64, 28, 1), (128, 128, 14, 3), (256, 256, 7, 3), (3, 32, 56, 3)];
    for (c, n, size, kernel) in convs {
        faster_with_memory(&square(c, n, size, kernel), 0);
    }
    for (name, dims) in
        [("GlobalAveragePool", [1, 256, 14, 14]), ("Softmax", [1, 1, 64, 1000]), ("Relu", [1, 64, 28, 28])]
    {
        let mut net = Net::default();
        let ty = TensorType::fixed(DataType::S8, &dims).quantized(QuantParams::per_tensor(0.02, 0));
        let x = net.input(ty.clone());
        let mut node = op(name);
        node.requant = Some(RequantMode::Fp32Rne);
        let y = net.node(node, &[x], &ty);
        // The choice does not see the decoder, which takes up to 0.5 % of short steps.
        faster_with_memory(&net.output(y), 5);
    }
}

/// Cycles do not grow with the memories by more than so many thousandths. The law is about tiles: which values stay on
/// the chip is a greedy choice, which is only known not to be slower than keeping none.
fn faster_with_memory(program: &Program, slack: u64) {
    let mut least = u64::from(u32::MAX);
    for kib in [16, 32, 64, 128, 256, 512, 1024] {
        let ram = format!("a: (bytes: {0}), w: (bytes: {0}), acc: (bytes: {1})", kib << 10, kib << 8);
        let cycles = |fusion: bool| {
            let nodes = npu(&format!("Npu(sram: ({ram}), fusion: {fusion})")).cycles(program).unwrap();
            nodes.iter().map(|n| n.total).sum::<u64>()
        };
        let total = cycles(false);
        assert!(cycles(true) <= total, "{} with {kib} KiB", describe(program));
        assert!(
            total <= least + least * slack / 1000,
            "{} with {kib} KiB: {total} cycles, {least} with less",
            describe(program)
        );
        least = least.min(total);
    }
}

/// A convolution with a square kernel that keeps the size of its image.
fn square(c: usize, n: usize, size: usize, kernel: usize) -> Program {
    let mut net = Net::default();
    let ty = |dims: &[usize]| TensorType::fixed(DataType::S8, dims).quantized(QuantParams::per_tensor(0.02, 0));
    let x = net.input(ty(&[1, c, size, size]));
    let w = ty(&[n, c, kernel, kernel]);
    let w = net.random(w, &mut Rng::new(1));
    let mut node = op("Conv");
    node.requant = Some(RequantMode::Fp32Rne);
    node.attrs.set("pads", Attr::Ints(vec![kernel as i64 / 2; 4]));
    let y = net.node(node, &[x, w], &ty(&[]));
    net.output(y)
}

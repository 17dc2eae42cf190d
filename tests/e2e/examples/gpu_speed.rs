//! What integer products take on the GPU devices of this machine, beside the CPU driver's portable kernels: products of
//! matrices, convolutions and depthwise convolutions, in multiply-adds per second of CPU time (of software devices) and
//! per second of wall time (what counts on hardware).
//!
//! `cargo run --release -p ottava-e2e --example gpu_speed`. The outputs are compared byte for byte before anything is
//! timed. Every figure is the median of several slices, the devices taking turns.

use ottava_driver_cpu::CpuDriver;
use ottava_e2e::gpus::gpus;
use ottava_e2e::rng::Rng;
use ottava_hal::{
    Attr, Binding, BufferDesc, CompileOptions, DataType, Device, Driver, Executable, Fence, Node, Options, Program,
    QuantParams, Queue, RequantMode, Submission, Tensor, TensorType, Value, ValueId,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Slices per device and case.
const SLICES: usize = 7;
/// Runs within a slice.
const RUNS: u64 = 2;
/// Longest wait for a run.
const PATIENCE: Duration = Duration::from_secs(120);

/// One product with its name and its multiply-adds.
struct Case {
    name: &'static str,
    program: Program,
    macs: f64,
}

/// A layer of a convolutional network.
struct Layer {
    channels: usize,
    size: usize,
    filters: usize,
    kernel: usize,
    group: usize,
}

fn byte(dtype: DataType, dims: &[usize], scale: f32, zp: i32) -> TensorType {
    TensorType::fixed(dtype, dims).quantized(QuantParams::per_tensor(scale, zp))
}

fn weights(dims: &[usize], axis: usize, rng: &mut Rng) -> (TensorType, Tensor) {
    let n: usize = dims.iter().product();
    let data: Vec<i8> = (0..n).map(|_| rng.int(-127, 127) as i8).collect();
    let scales = (0..dims[axis]).map(|c| 0.002 + 0.00001 * c as f32).collect();
    let ty = TensorType::fixed(DataType::S8, dims).quantized(QuantParams::per_axis_symmetric(axis, scales));
    (ty, Tensor::from_slice(dims, &data).expect("weights"))
}

fn program(node: Node, x: TensorType, (w_ty, w): (TensorType, Tensor), y: TensorType) -> Program {
    let value = |name: &str, ty: TensorType, constant| Value { name: name.into(), ty, constant };
    let values = vec![value("x", x, None), value("w", w_ty, Some(w)), value("y", y, None)];
    let (inputs, outputs) = (vec![Some(ValueId(0)), Some(ValueId(1))], vec![ValueId(2)]);
    let node = Node { inputs, outputs, requant: Some(RequantMode::Fp32Rne), ..node };
    Program { name: "speed".into(), values, nodes: vec![node], inputs: vec![ValueId(0)], outputs: vec![ValueId(2)] }
}

fn matmul(name: &'static str, m: usize, k: usize, n: usize, rng: &mut Rng) -> Case {
    let (x, y) = (byte(DataType::U8, &[m, k], 0.02, 128), byte(DataType::U8, &[m, n], 0.05, 120));
    let program = program(Node::new("product", "MatMul", 13), x, weights(&[k, n], 1, rng), y);
    Case { name, program, macs: (m * k * n) as f64 }
}

fn conv(name: &'static str, layer: &Layer, rng: &mut Rng) -> Case {
    let Layer { channels, size, filters, kernel, group } = *layer;
    let (x, y) = ([1, channels, size, size], [1, filters, size, size]);
    let mut node = Node::new("product", "Conv", 11);
    let pad = (kernel / 2) as i64;
    node.attrs.set("pads", Attr::Ints(vec![pad; 4]));
    node.attrs.set("group", Attr::Int(group as i64));
    let w = weights(&[filters, channels / group, kernel, kernel], 0, rng);
    let (x, y) = (byte(DataType::U8, &x, 0.02, 128), byte(DataType::U8, &y, 0.05, 120));
    let macs = (filters * size * size * channels / group * kernel * kernel) as f64;
    Case { name, program: program(node, x, w, y), macs }
}

/// A program on a device, with its input in place.
struct Running {
    name: String,
    device: Arc<dyn Device>,
    queue: Arc<dyn Queue>,
    fence: Arc<dyn Fence>,
    executable: Arc<dyn Executable>,
    input: Binding,
    output: Binding,
    done: u64,
}

impl Running {
    fn new(name: &str, device: Arc<dyn Device>, program: &Program, input: &[u8]) -> ottava_hal::Result<Self> {
        let executable = device.compile(program, &CompileOptions::default())?;
        let bytes = |ty: &TensorType| ty.byte_len().expect("fixed shapes");
        let buffer =
            |n| Ok::<_, ottava_hal::Error>(Binding::whole(device.alloc(&BufferDesc { bytes: n, alignment: 64 })?));
        let (x, y) = (buffer(bytes(&executable.inputs()[0]))?, buffer(bytes(&executable.outputs()[0]))?);
        x.buffer.write(0, input)?;
        let (queue, fence) = (device.create_queue()?, device.create_fence(0)?);
        Ok(Self { name: name.into(), queue, fence, executable, input: x, output: y, done: 0, device })
    }

    /// Runs and waits.
    fn run(&mut self, times: u64) -> ottava_hal::Result<()> {
        for _ in 0..times {
            self.done += 1;
            let run =
                Submission::dispatch(self.executable.clone(), vec![self.input.clone()], vec![self.output.clone()]);
            self.queue.submit(&Submission { signals: vec![(self.fence.clone(), self.done)], ..run })?;
            self.fence.wait(self.done, PATIENCE)?;
        }
        Ok(())
    }

    fn result(&self) -> ottava_hal::Result<Vec<u8>> {
        let mut bytes = vec![0; self.output.len];
        self.output.buffer.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Seconds of CPU time of this process, all threads.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU and wall seconds of one run, medians.
fn measure(running: &mut [Running]) -> Vec<(f64, f64)> {
    let mut taken = vec![(Vec::new(), Vec::new()); running.len()];
    for _ in 0..SLICES {
        for (run, (cpu, wall)) in running.iter_mut().zip(&mut taken) {
            let mut runs = RUNS;
            loop {
                let (before, start) = (cpu_seconds(), Instant::now());
                run.run(runs).expect("runs");
                let (used, passed) = (cpu_seconds() - before, start.elapsed().as_secs_f64());
                // The clock of CPU time ticks every 10 ms.
                if passed > 0.3 || used > 0.3 {
                    cpu.push(used / runs as f64);
                    wall.push(passed / runs as f64);
                    break;
                }
                runs *= 2;
            }
        }
    }
    taken.into_iter().map(|(cpu, wall)| (median(cpu), median(wall))).collect()
}

fn on_every_device(case: &Case, rng: &mut Rng) -> Vec<Running> {
    let x = case.program.ty(ValueId(0)).byte_len().expect("a fixed shape");
    let input: Vec<u8> = (0..x).map(|_| rng.int(0, 255) as u8).collect();
    let options: Options = [("isa", "portable"), ("threads", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let portable = CpuDriver.open("cpu", &options).expect("the CPU");
    let mut devices = vec![("cpu portable".to_owned(), portable)];
    for gpu in gpus("gpu_speed") {
        let variants: &[&str] = if gpu.driver == "vulkan" { &["off", "packed"] } else { &["auto"] };
        for dot in variants {
            devices.push((format!("{} {dot}", gpu.driver), gpu.open(&[("dot_product", dot)])));
        }
    }
    let start = |(name, device): (String, Arc<dyn Device>)| {
        let mut run = Running::new(&name, device, &case.program, &input).unwrap_or_else(|e| panic!("{name}: {e}"));
        run.run(1).expect("runs");
        run
    };
    devices.into_iter().map(start).collect()
}

fn main() {
    let mut rng = Rng::new(1);
    let layer = |channels, size, filters, kernel, group| Layer { channels, size, filters, kernel, group };
    let cases = [
        matmul("gemm 256x256x256", 256, 256, 256, &mut rng),
        matmul("gemm 128x768x256", 128, 768, 256, &mut rng),
        matmul("gemv 1x1024x1024", 1, 1024, 1024, &mut rng),
        conv("conv 3x3 64->64 24x24", &layer(64, 24, 64, 3, 1), &mut rng),
        conv("conv 1x1 128->128 24x24", &layer(128, 24, 128, 1, 1), &mut rng),
        conv("depthwise 3x3 128 24x24", &layer(128, 24, 128, 3, 128), &mut rng),
    ];
    println!("{:<26}{:<18}{:>16}{:>16}{:>14}", "product", "device", "GMAC/CPU-s", "GMAC/s", "of portable");
    for case in &cases {
        let mut running = on_every_device(case, &mut rng);
        let expected = running[0].result().expect("a result");
        for run in &running {
            assert!(run.result().expect("a result") == expected, "{}: {} differs", case.name, run.name);
        }
        let times = measure(&mut running);
        for (run, (cpu, wall)) in running.iter().zip(&times) {
            let (rate, speed, share) = (case.macs / cpu / 1e9, case.macs / wall / 1e9, times[0].0 / cpu);
            println!("{:<26}{:<18}{rate:>16.2}{speed:>16.2}{share:>14.2}", case.name, run.name);
        }
        running.iter().for_each(|run| drop(run.device.clone()));
    }
}

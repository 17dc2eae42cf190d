//! What the plugin ABI costs: one network on the cpu driver linked in and from its library, interleaved in one process.
//!
//! ```text
//! cargo build --release -p ottava-plugin-cpu
//! cargo run --release -p ottava-e2e --example overhead -- MODEL target/release/libottava_cpu.so [ROUNDS]
//! ```
//! Outputs are compared first. A round times the same number of inferences on both, in changing order. Times are those that
//! the thread was on a processor, where the system tells them (`/proc/thread-self/schedstat`), so that other work on the
//! machine counts as little as possible; printed are the medians over the rounds and the median of the rounds' ratios,
//! which the machine's drift moves least.

use ottava::{Config, DeviceEntry, DriverEntry, Model, Registry, Session, SessionOptions, Tensor};
use ottava_e2e::rng::Rng;
use ottava_e2e::split::device;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How long one side of a round takes, about.
const ROUND_S: f64 = 0.02;
/// Inferences before the first round.
const WARM_UP: usize = 500;

fn session(model: &Model, drivers: Registry, library: Option<&Path>) -> Session {
    let library = library.map(|path| vec![DriverEntry::Library { path: path.to_owned(), sha256: None }]);
    let devices: Vec<DeviceEntry> = vec![device("cpu", "cpu", &[("threads", "1")])];
    let config = Config { drivers: library, devices, ..Config::default() };
    let registry = drivers.configured(config).load_libraries();
    assert!(registry.refused().is_empty(), "{:?}", registry.refused());
    Session::new(model, &registry, &SessionOptions::default()).expect("compiles")
}

fn inputs(session: &Session) -> Vec<Tensor> {
    let mut rng = Rng::new(1);
    let mut one = |(_, ty): &(String, ottava::TensorType)| {
        let shape = ty.shape.known().expect("a fixed shape");
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.real(0.0, 16.0)).collect();
        Tensor::from_f32s(ty.dtype, &shape, &values).expect("a tensor")
    };
    session.inputs().iter().map(&mut one).collect()
}

/// Nanoseconds that this thread has been on a processor; `None` if the system does not say.
fn on_cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

/// Nanoseconds per inference.
fn time(session: &Session, inputs: &[Tensor], n: usize) -> f64 {
    let (start, on_cpu) = (Instant::now(), on_cpu_ns());
    for _ in 0..n {
        session.run_ordered(inputs, false).expect("runs");
    }
    let wall = start.elapsed().as_nanos() as f64;
    let spent = on_cpu_ns().zip(on_cpu).map_or(wall, |(end, begin)| wall.min((end - begin) as f64));
    spent / n as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, library, rest @ ..] = args.as_slice() else {
        eprintln!("overhead MODEL LIBRARY [ROUNDS]");
        std::process::exit(2);
    };
    let rounds = rest.first().map_or(41, |n| n.parse().expect("a number of rounds"));
    let model = Model::load(model).expect("a model");
    let linked = session(&model, Registry::new().with(Arc::new(ottava_driver_cpu::CpuDriver)), None);
    let loaded = session(&model, Registry::new(), Some(Path::new(library)));
    let inputs = inputs(&linked);
    let run = |s: &Session| s.run_ordered(&inputs, false).expect("runs").0;
    assert_eq!(run(&linked), run(&loaded), "the outputs differ");
    time(&linked, &inputs, WARM_UP);
    let n = ((ROUND_S * 1e9 / time(&linked, &inputs, WARM_UP)) as usize).clamp(1, 100_000);
    time(&loaded, &inputs, n);
    let (mut built_in, mut library) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let sides = [(&linked, &mut built_in), (&loaded, &mut library)];
        let mut one = |(session, times): (&Session, &mut Vec<f64>)| times.push(time(session, &inputs, n));
        if round % 2 == 0 { sides.into_iter().for_each(&mut one) } else { sides.into_iter().rev().for_each(&mut one) }
    }
    let ratios = library.iter().zip(&built_in).map(|(l, b)| l / b).collect();
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{rounds} rounds of {n} inferences, outputs equal; nanoseconds per inference, median (least):");
    println!("built in  {:9.0} ({:.0})", median(built_in.clone()), least(&built_in));
    println!("library   {:9.0} ({:.0})", median(library.clone()), least(&library));
    println!("ratio     {:9.4} ({:.4})", median(ratios), least(&library) / least(&built_in));
}

//! Overlap: several inferences in flight over the cpu and an npu that waits in modelled real time.
//!
//! ```text
//! cargo run --release -p ottava-e2e --example overlap -- MODEL SHARE FACTOR [TRACE.json]
//! ```
//! The first SHARE (0 to 1) of the network's nodes are banned from the npu. FACTOR is the npu's option
//! `realtime`: a run takes that many times its modelled time; it should be large enough for the simulation to finish in
//! that time, which the ratio of both printed times of the npu shows. Results are compared with those of one inference
//! after the other, and the trace shows who was busy when.

use ottava::{
    Config, Model, Pending, RunOptions, RunReport, Session, SessionOptions, Tensor, busy_ns, chrome_trace, compile,
    overlap_ratio,
};
use ottava_e2e::rng::Rng;
use ottava_e2e::split::{configured, device, priority};

const IN_FLIGHT: usize = 8;
const INFERENCES: usize = 64;

/// The first nodes on the cpu, the others on the npu.
fn split(model: &Model, share: f64, realtime: &str) -> Config {
    let npu = device("npu", "npu", &[("realtime", realtime)]);
    let mut config = priority(vec![npu, device("cpu", "cpu", &[("threads", "1")])]);
    let plan = compile(model, &configured(&config), &SessionOptions::default()).expect("compiles").plan;
    let nodes: Vec<&str> = plan.placed.iter().filter(|p| !p.bridge).map(|p| p.node.as_str()).collect();
    let n_first = (nodes.len() as f64 * share).round() as usize;
    config.bans = nodes.iter().take(n_first).map(|n| ((*n).to_owned(), "npu".to_owned())).collect();
    config
}

fn rows(session: &Session) -> Vec<Vec<Tensor>> {
    let mut rng = Rng::new(7);
    let mut row = || {
        let mut one = |(_, ty): &(String, ottava::TensorType)| {
            let shape = ty.shape.known().expect("a fixed shape");
            let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.real(0.0, 1.0)).collect();
            Tensor::from_f32s(ty.dtype, &shape, &values).expect("a tensor")
        };
        session.inputs().iter().map(&mut one).collect()
    };
    (0..INFERENCES).map(|_| row()).collect()
}

fn print(what: &str, reports: &[RunReport]) {
    println!("{what}: overlap {:.2}", overlap_ratio(reports));
    for (device, ns) in busy_ns(reports) {
        println!("  {device:>5} busy {:8.3} ms per inference", ns as f64 / 1e6 / reports.len() as f64);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, share, factor, rest @ ..] = args.as_slice() else {
        eprintln!("overlap MODEL SHARE FACTOR [TRACE.json]");
        std::process::exit(2);
    };
    let model = Model::load(model).expect("a model");
    let share: f64 = share.parse().expect("a share from 0 to 1");
    let options = SessionOptions { in_flight: Some(IN_FLIGHT), ..SessionOptions::default() };
    let open = |realtime: &str| {
        Session::new(&model, &configured(&split(&model, share, realtime)), &options).expect("compiles")
    };
    let profile = RunOptions { profile: true };
    let plain = open("off");
    let rows = rows(&plain);
    let serial =
        |s: &Session| -> (Vec<_>, Vec<_>) { rows.iter().map(|r| s.run_ordered(r, true).expect("runs")).unzip() };
    let (expected, reports) = serial(&plain);
    print("one after the other, the npu as fast as its simulation", &reports);
    let paced = open(factor);
    print("one after the other, the npu in modelled time", &serial(&paced).1);
    let pending: Vec<Pending> =
        rows.iter().map(|r| paced.run_async(r.clone(), profile, None).expect("starts")).collect();
    let (outputs, reports): (Vec<_>, Vec<_>) = pending.into_iter().map(|p| p.wait().expect("runs")).unzip();
    assert_eq!(outputs, expected, "results depend on what else is in flight");
    print(&format!("{IN_FLIGHT} in flight, {INFERENCES} inferences, results unchanged"), &reports);
    if let Some(file) = rest.first() {
        std::fs::write(file, chrome_trace(&reports)).expect("the trace can be written");
        println!("trace: {file}");
    }
}

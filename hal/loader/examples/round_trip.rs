//! Measures what the plugin boundary costs: a trivial submission to a driver behind the loader, and to the same driver
//! linked in. Run with `cargo build --release --examples -p ottava-loader`, then `round_trip`.

#[allow(dead_code)] // The driver's own exports are not used here.
#[path = "kit_driver.rs"]
mod linked;

use ottava_hal::device::BufferDesc;
use ottava_hal::{
    Binding, CompileOptions, DataType, Device, Driver, Node, Options, Program, Submission, TensorType, Value, ValueId,
};
use ottava_loader::{LibrarySpec, LoadOptions, Search, load_all};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 50;
const PER_ROUND: usize = 2_000;

fn program() -> Program {
    let value = |name: &str| Value { name: name.into(), ty: TensorType::fixed(DataType::U8, &[4]), constant: None };
    let mut node = Node::new("n", "Identity", 14);
    (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
    let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(1)]);
    Program { name: "p".into(), values: vec![value("x"), value("y")], nodes: vec![node], inputs, outputs }
}

/// Nanoseconds of one submission, the best of many rounds.
fn measure(device: &dyn Device) -> Result<f64, Box<dyn Error>> {
    let executable = device.compile(&program(), &CompileOptions::default())?;
    let desc = BufferDesc { bytes: 4, alignment: 64 };
    let (x, y) = (device.alloc(&desc)?, device.alloc(&desc)?);
    let s = Submission::dispatch(executable, vec![Binding::whole(x)], vec![Binding::whole(y)]);
    let queue = device.create_queue()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PER_ROUND {
            queue.submit(&s)?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / PER_ROUND as f64);
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn Error>> {
    let library = std::env::current_exe()?.with_file_name("libkit_driver.so");
    let (libraries, search) = (vec![LibrarySpec::new(library)], Search { user: false, system: false });
    let candidate = load_all(&LoadOptions { libraries, search, ..LoadOptions::default() }).remove(0);
    let loaded: Arc<dyn Driver> = candidate.driver.clone().ok_or_else(|| format!("{candidate:?}"))?;
    let linked = linked::driver();
    let open = |driver: &dyn Driver| driver.open("sync0", &Options::new());
    let (direct, through) = (measure(open(&linked)?.as_ref())?, measure(open(loaded.as_ref())?.as_ref())?);
    println!("linked in {direct:.0} ns, behind the loader {through:.0} ns, difference {:.0} ns", through - direct);
    Ok(())
}

//! How fast the simulator simulates without data: multiply-accumulates of a list of layers per second of one core.
//!
//!     cargo run --release -p ottava-npu --example speed -- layer_list.csv [NETWORK] [PRESET]
//!
//! A layer costs the same time however often its network repeats it, so repetitions are simulated anew each: the list is
//! unfolded and every copy gets a width of its own, which keeps the simulator's memory of shapes out of the figure.

use ottava_npu::NpuConfig;
use ottava_npu::layers::{Layer, parse, simulate};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("name a list of layers")?;
    let network = arguments.get(1).map_or("resnet50", String::as_str);
    let config = NpuConfig::preset(arguments.get(2).map_or("edge16", String::as_str))?;
    let layers: Vec<Layer> = parse(&std::fs::read_to_string(path)?, path)?;
    let unfolded: Vec<Layer> = layers.iter().filter(|l| l.network == network).flat_map(copies).collect();
    if unfolded.is_empty() {
        return Err(format!("{path} has no network `{network}`").into());
    }
    let macs: u128 = unfolded
        .iter()
        .map(|l| u128::from(l.gemm.m) * u128::from(l.gemm.n) * u128::from(l.gemm.k) * u128::from(l.channels))
        .sum();
    let mut best = f64::INFINITY;
    let mut cycles = 0;
    for _ in 0..20 {
        let start = Instant::now();
        cycles = simulate(&unfolded, &config, None)?.totals.total_cycles;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let rate = macs as f64 / best / 1e9;
    println!(
        "{network} on {}: {cycles} cycles, {:.3} GMAC in {:.2} ms, {rate:.0} GMAC/s",
        config.name,
        macs as f64 / 1e9,
        best * 1e3
    );
    Ok(())
}

/// The copies of a layer, a row more in each.
fn copies(layer: &Layer) -> impl Iterator<Item = Layer> + '_ {
    (0..layer.count).map(|i| {
        let mut copy = Layer { count: 1, ..layer.clone() };
        copy.gemm.m += i;
        copy
    })
}

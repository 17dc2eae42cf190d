//! A quantized model on a simulated chip: what runs there, and the cycles of each node.

use super::elsewhere::{self, Elsewhere};
use super::shape::{Shape, shapes};
use super::{Args, Simulated};
use crate::failure::{Failure, Result};
use crate::text::{count, table};
use crate::ui::Answer;
use crate::verbs::Context;
use ottava::{Config, DeviceEntry, Model, Placement, SessionOptions};
use ottava_driver_npu::{NodeCycles, NpuDevice, NpuDriver};
use ottava_npu::config::NpuConfig;
use ottava_npu::energy::{self, NO_TABLE};
use ottava_npu::isa::Queue;
use ottava_npu::timing::{N_REASONS, Reason, Timed};
use ottava_npu::{Counters, layers, sweep};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// A model that was loaded once, for any number of chips.
pub struct Workload {
    model: Model,
    options: SessionOptions,
}

/// What a chip makes of a model.
pub struct OnChip {
    /// Name of the model's file.
    pub name: String,
    /// Its nodes in execution order.
    pub rows: Vec<NodeCycles>,
    /// Each of them as a product.
    shapes: Vec<Shape>,
    /// The instructions of each partition with the index of its first node in `rows`.
    pub parts: Vec<(Timed, usize)>,
    /// Nodes that other devices run.
    pub elsewhere: Vec<Elsewhere>,
}

impl Workload {
    /// Loads a model.
    pub fn load(args: &Args, path: &Path, cx: &Context) -> Result<Self> {
        let model = cx.load(path)?;
        model.expect_graph()?;
        let options = args.network.session(&cx.registry, &model)?;
        Ok(Self { model, options })
    }

    /// Times the model on a chip; the chip takes the operators that it has, the CPU the rest.
    pub fn on(&self, config: &NpuConfig, cx: &Context, say: bool) -> Result<OnChip> {
        let file = tempfile(config)?;
        let options = [("config".to_owned(), file.path().display().to_string())];
        let device = |id: &str, options: &[(String, String)]| DeviceEntry {
            id: id.to_owned(),
            driver: id.to_owned(),
            options: options.iter().cloned().collect(),
        };
        let both = Config {
            devices: vec![device("npu", &options), device("cpu", &[])],
            placement: Placement::Priority(vec!["npu".to_owned(), "cpu".to_owned()]),
            ..Config::default()
        };
        let registry = cx.registry.clone().configured(both);
        let compiled = ottava::compile(&self.model, &registry, &self.options)?;
        if say {
            cx.ui.diagnostics(&compiled.diagnostics);
        }
        let chip = NpuDriver::new().open_npu("npu", &options.into()).map_err(failed)?;
        let name = self.model.origin.file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy().into_owned());
        on_chip(name, &compiled.plan, &chip)
    }
}

fn failed(e: ottava::HalError) -> Failure {
    Failure::Error(ottava::Error::from(e))
}

fn on_chip(name: String, plan: &ottava::Plan, chip: &NpuDevice) -> Result<OnChip> {
    let mut found =
        OnChip { name, rows: vec![], shapes: vec![], parts: vec![], elsewhere: elsewhere::elsewhere(plan, "npu") };
    for (i, partition) in plan.partitions.iter().enumerate() {
        if partition.device != "npu" {
            continue;
        }
        let timed = chip.timed(&partition.program).map_err(failed)?;
        let first = found.rows.len();
        let rows = chip.cycles_of(&partition.program, &timed);
        let macs: Vec<u64> = rows.iter().map(|r| r.macs).collect();
        found.shapes.extend(shapes(plan, i, &timed, &macs));
        found.rows.extend(rows);
        found.parts.push((timed, first));
    }
    Ok(found)
}

/// The chip as a file, which is how a device is told about it.
fn tempfile(config: &NpuConfig) -> Result<tempfile::NamedTempFile> {
    let fail = |e: std::io::Error| {
        Failure::Error(ottava::Error::invalid(ottava::codes::DATA_WRITE, format!("cannot write a temporary file: {e}")))
    };
    let mut file = tempfile::Builder::new().suffix(".ron").tempfile().map_err(fail)?;
    file.write_all(config.to_ron().as_bytes()).map_err(fail)?;
    Ok(file)
}

impl OnChip {
    fn sum(&self, of: impl Fn(&NodeCycles) -> u64) -> u64 {
        self.rows.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Everything that was counted.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.parts.iter().for_each(|(timed, _)| sum.add(&timed.counters()));
        sum
    }

    /// The stalls of all nodes, by reason.
    pub fn stalls(&self) -> BTreeMap<&'static str, u64> {
        let mut sum = BTreeMap::new();
        for (reason, n) in self.rows.iter().flat_map(|r| &r.stalls) {
            *sum.entry(*reason).or_insert(0) += n;
        }
        sum
    }

    /// The figures of a sweep's row.
    pub fn figures(&self, config: &NpuConfig) -> sweep::Figures {
        let total = self.sum(|r| r.total);
        let by_name = self.stalls();
        let mut stalls = [0; N_REASONS];
        Reason::ALL.iter().for_each(|r| stalls[*r as usize] = by_name.get(r.name()).copied().unwrap_or(0));
        let energy = config.energy.as_ref().map(|table| energy::bill(table, &self.counters(), total).total_fj());
        sweep::Figures {
            total_cycles: total,
            compute_cycles: self.sum(|r| r.compute),
            stalls,
            macs: self.sum(|r| r.macs),
            sram_bytes: config.sram_bytes(),
            dram_bytes: self.sum(|r| r.dram_bytes),
            energy_fj: energy,
            elsewhere: self.elsewhere.len() as u64,
        }
    }

    /// One row per node, in the columns that tables of layers have, then the reasons and the other counters.
    pub fn csv(&self, config: &NpuConfig) -> String {
        let mut text = String::from(
            "set,layer,kind,M,N,K,channels,macs_total,array_rows,array_cols,dataflow,Total Cycles,Stall Cycles,\
             Overall Util %,mapping,compute",
        );
        Reason::ALL.iter().for_each(|r| text += &format!(",{}", r.name()));
        text += ",dram_bytes";
        Counters::default().entries().iter().for_each(|(name, _)| text += &format!(",{name}"));
        text += "\n";
        let dataflow = format!("{:?}", config.array.dataflow).to_lowercase();
        for (r, shape) in self.rows.iter().zip(&self.shapes) {
            let util = utilization(r.macs, r.total, config) * 100.0;
            let stalled: u64 = r.stalls.values().sum();
            let [m, n, k] = shape.mnk;
            text += &format!("{},{},{}", cell(&self.name), cell(&r.node), cell(&shape.kind));
            text += &format!(",{m},{n},{k},{}", shape.channels);
            text += &format!(",{},{},{},{dataflow}", r.macs, config.array.rows, config.array.cols);
            text += &format!(",{},{stalled},{util:.3},{},{}", r.total, shape.mapping, r.compute);
            for reason in Reason::ALL {
                text += &format!(",{}", r.stalls.get(reason.name()).copied().unwrap_or(0));
            }
            text += &format!(",{}", r.dram_bytes);
            r.counters.entries().iter().for_each(|(_, n)| text += &format!(",{n}"));
            text += "\n";
        }
        text
    }

    /// What is said about it.
    pub fn answer(&self, config: &NpuConfig, output: &Path) -> Answer {
        let figures = self.figures(config);
        let share = utilization(figures.macs, figures.total_cycles, config);
        let header = ["node", "MACs", "cycles", "computing", "longest stall", "utilization"];
        let mut text = table(&header, &[1, 2, 3, 5], self.rows.iter().map(|r| cells(r, config)));
        let list: Vec<String> = self.stalls().iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        text += &format!(
            "\n{}: {} cycles, {} of them computing, {:.1} % of its peak\nstalls: {}\n\
             cold start {}, drain {}, both in the total\n\
             memory: {} bytes moved; of {} nodes {} bytes stay on the chip for the next ones\nenergy: {}\n",
            config.name,
            figures.total_cycles,
            figures.compute_cycles,
            share * 100.0,
            list.join(", "),
            self.edges().0,
            self.edges().1,
            figures.dram_bytes,
            self.kept().0,
            self.kept().1,
            energy_text(config, figures.energy_fj)
        );
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        self.elsewhere.iter().for_each(|e| *kinds.entry(&e.op).or_default() += 1);
        let kinds: Vec<String> = kinds.iter().map(|(op, n)| format!("{n} {op}")).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        let mostly = elsewhere::mostly(&self.elsewhere, figures.macs);
        text += &mostly.map_or_else(String::new, |line| line + "\n");
        text += &format!("{} nodes run on other devices{kinds}\nwritten: {}\n", self.elsewhere.len(), output.display());
        Answer::new(text, self.json(config, &figures, share))
    }

    fn json(&self, config: &NpuConfig, figures: &sweep::Figures, share: f64) -> serde_json::Value {
        let counters = |c: &Counters| c.entries().into_iter().collect::<BTreeMap<_, _>>();
        let layer = |r: &NodeCycles| {
            json!({
                "name": r.node, "macs": r.macs, "total_cycles": r.total, "compute_cycles": r.compute,
                "stall_cycles": r.stalls, "dram_bytes": r.dram_bytes, "kept_on_chip": r.kept_on_chip,
                "counters": counters(&r.counters),
                "utilization": utilization(r.macs, r.total, config),
            })
        };
        json!({
            "total_cycles": figures.total_cycles, "compute_cycles": figures.compute_cycles,
            "stall_cycles": self.stalls(), "dram_bytes": figures.dram_bytes, "macs": figures.macs, "utilization": share,
            "energy": energy_json(config, figures.energy_fj), "queues": self.queues(),
            "cold_start_cycles": self.edges().0, "drain_cycles": self.edges().1,
            "counters": counters(&self.counters()),
            "kept_on_chip": { "layers": self.kept().0, "bytes": self.kept().1 },
            "layers": self.rows.iter().map(layer).collect::<Vec<_>>(),
            "nodes_elsewhere": self.elsewhere.len(),
            "elsewhere": self.elsewhere.iter().map(Elsewhere::json).collect::<Vec<_>>(),
            "macs_elsewhere": elsewhere::macs(&self.elsewhere),
        })
    }

    /// Number of nodes whose results stay on the chip, and their bytes.
    fn kept(&self) -> (usize, u64) {
        (self.rows.iter().filter(|r| r.kept_on_chip > 0).count(), self.sum(|r| r.kept_on_chip))
    }

    /// Cycles before the first arithmetic of each partition and behind the last one, in sums.
    fn edges(&self) -> (u64, u64) {
        let timings = || self.parts.iter().map(|(timed, _)| &timed.timing);
        (timings().map(|t| t.cold_start).sum(), timings().map(|t| t.drain).sum())
    }

    /// Busy and waiting cycles of each queue.
    fn queues(&self) -> serde_json::Value {
        let one = |queue: Queue| {
            let times = || self.parts.iter().map(|(timed, _)| timed.timing.queue(queue));
            let stalls = |r: &Reason| (r.name(), times().map(|t| t.stalls[*r as usize]).sum::<u64>());
            let stalls: BTreeMap<&str, u64> = Reason::ALL.iter().map(stalls).collect();
            (queue.name(), json!({ "busy": times().map(|t| t.busy).sum::<u64>(), "stall_cycles": stalls }))
        };
        Queue::ALL
            .into_iter()
            .map(one)
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect()
    }

    /// What a reader should doubt.
    pub fn doubt(&self, config: &NpuConfig) -> Option<String> {
        let f = self.figures(config);
        layers::doubtful(f.macs, utilization(f.macs, f.total_cycles, config))
            .map(|text| format!("{}: {text}", self.name))
    }

    /// For drawings.
    pub fn simulated(&self) -> Vec<Simulated> {
        let one = |r: &NodeCycles| Simulated {
            name: r.node.clone(),
            macs: r.macs,
            total: r.total,
            compute: r.compute,
            stalls: r.stalls.clone(),
            dram_bytes: r.dram_bytes,
        };
        self.rows.iter().map(one).collect()
    }
}

fn cells(r: &NodeCycles, config: &NpuConfig) -> Vec<String> {
    let worst = r.stalls.iter().max_by_key(|(_, n)| **n).filter(|(_, n)| **n > 0);
    let worst = worst.map_or("-".to_owned(), |(reason, n)| format!("{reason} {n}"));
    let share = format!("{:.1} %", utilization(r.macs, r.total, config) * 100.0);
    vec![r.node.clone(), count(r.macs), r.total.to_string(), r.compute.to_string(), worst, share]
}

/// Share of the array's cycles that multiplied.
pub fn utilization(macs: u64, cycles: u64, config: &NpuConfig) -> f64 {
    if cycles == 0 { 0.0 } else { macs as f64 / (cycles as f64 * config.n_elements() as f64) }
}

/// Energy with the source of its table, for people.
pub fn energy_text(config: &NpuConfig, femtojoules: Option<u128>) -> String {
    match (&config.energy, femtojoules) {
        (Some(table), Some(fj)) => format!("{} ({})", energy::readable(fj), table.source),
        _ => NO_TABLE.to_owned(),
    }
}

/// Energy for programs; `null` without a table.
pub fn energy_json(config: &NpuConfig, femtojoules: Option<u128>) -> serde_json::Value {
    match (&config.energy, femtojoules) {
        (Some(table), Some(fj)) => json!({ "picojoules": fj as f64 / 1e3, "source": table.source }),
        _ => serde_json::Value::Null,
    }
}

fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

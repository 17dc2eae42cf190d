//! A quantized model on a simulated chip: what runs there, and the cycles of each node.

use super::elsewhere::{Elsewhere, elsewhere};
use super::shape::{Shape, shapes};
use super::{Args, Simulated};
use crate::failure::{Failure, Result};
use crate::verbs::Context;
use ottava::{Config, DeviceEntry, Model, Partition, Placement, Plan, Registry, Session, SessionOptions};
use ottava_driver_npu::{NodeCycles, NpuDevice, NpuDriver};
use ottava_npu::config::NpuConfig;
use ottava_npu::energy::{self, NO_TABLE};
use ottava_npu::timing::{N_REASONS, Reason, Timed};
use ottava_npu::{Counters, Stream, layers, sweep};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

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
    pub(super) shapes: Vec<Shape>,
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

    /// Times the model on a chip.
    pub fn on(&self, config: &NpuConfig, cx: &Context, say: bool) -> Result<OnChip> {
        self.place(config, cx, say)?.times()
    }

    /// Gives the chip the operators that it has, and the CPU the rest.
    pub fn place(&self, config: &NpuConfig, cx: &Context, say: bool) -> Result<Placed<'_>> {
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
        Ok(Placed { workload: self, registry, plan: compiled.plan, chip, _file: file })
    }

    /// The model on the reference interpreter.
    pub fn reference(&self, cx: &Context) -> Result<Session> {
        let options = SessionOptions { device: Some("reference".to_owned()), ..self.options.clone() };
        Ok(Session::new(&self.model, &cx.registry, &options)?)
    }
}

/// A model whose nodes have their devices.
pub struct Placed<'w> {
    workload: &'w Workload,
    registry: Registry,
    plan: Plan,
    chip: Arc<NpuDevice>,
    /// The chip's description, which devices read when they are opened.
    _file: tempfile::NamedTempFile,
}

impl Placed<'_> {
    /// Tiles, times and verifies what the chip has.
    pub fn times(&self) -> Result<OnChip> {
        let name = self.workload.model.origin.file_name();
        let name = name.map_or_else(|| "model".into(), |n| n.to_string_lossy().into_owned());
        on_chip(name, &self.plan, &self.chip, |part| self.chip.timed(&part.program))
    }

    /// The instructions of each partition of the chip.
    pub fn streams(&self) -> Result<Vec<Stream>> {
        let own = self.plan.partitions.iter().filter(|p| p.device == "npu");
        own.map(|p| self.chip.stream_of(&p.program).map_err(failed)).collect()
    }

    /// The same devices with bytes in them.
    pub fn session(&self) -> Result<Session> {
        Ok(Session::new(&self.workload.model, &self.registry, &self.workload.options)?)
    }
}

/// What the chip says; a stream that it refuses is a fault of its driver, not of what was given.
fn failed(e: ottava::HalError) -> Failure {
    let text = format!("device `npu`: {e}");
    Failure::Error(match e {
        ottava::HalError::Failed { .. } => ottava::Error::failed(ottava::codes::DEVICE_FAILED, text),
        other => ottava::Error::from(other),
    })
}

fn on_chip(
    name: String,
    plan: &Plan,
    chip: &NpuDevice,
    timed: impl Fn(&Partition) -> std::result::Result<Timed, ottava::HalError>,
) -> Result<OnChip> {
    let mut found = OnChip { name, rows: vec![], shapes: vec![], parts: vec![], elsewhere: elsewhere(plan, "npu") };
    for (i, partition) in plan.partitions.iter().enumerate().filter(|(_, p)| p.device == "npu") {
        let timed = timed(partition).map_err(failed)?;
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
        let mut sum: BTreeMap<&str, u64> = Reason::ALL.iter().map(|r| (r.name(), 0)).collect();
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

    /// Number of nodes whose results stay on the chip, and their bytes.
    pub fn kept(&self) -> (usize, u64) {
        (self.rows.iter().filter(|r| r.kept_on_chip > 0).count(), self.sum(|r| r.kept_on_chip))
    }

    /// Cycles before the first arithmetic of each partition and behind the last one, in sums.
    pub fn edges(&self) -> (u64, u64) {
        let timings = || self.parts.iter().map(|(timed, _)| &timed.timing);
        (timings().map(|t| t.cold_start).sum(), timings().map(|t| t.drain).sum())
    }

    /// What a reader should doubt.
    pub fn doubt(&self, config: &NpuConfig) -> Option<String> {
        let f = self.figures(config);
        layers::doubtful(f.macs, utilization(f.macs, f.total_cycles, config))
            .map(|text| format!("{}: {text}", self.name))
    }

    /// For drawings.
    pub fn simulated(&self) -> Vec<Simulated> {
        let one = |(r, shape): (&NodeCycles, &Shape)| Simulated {
            name: r.node.clone(),
            macs: r.macs,
            total: r.total,
            compute: r.compute,
            stalls: r.stalls.clone(),
            dram_bytes: r.dram_bytes,
            on_vector_unit: shape.mapping == "vector",
        };
        self.rows.iter().zip(&self.shapes).map(one).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_npu::isa::{DramAddr, Inst, Local, NodeMark, Opcode, Reg, Region};

    /// A load and, not ordered behind it, a store of what it loads.
    fn racing(config: &NpuConfig) -> Stream {
        let dram = |region| DramAddr { region, offset: 0 }.bits();
        let commands = vec![
            Inst::set(Reg::Rowb, 16),
            Inst::new(Opcode::Ld2d, dram(Region::Input), Local::a(0).bits(), 0),
            Inst::new(Opcode::St2d, Local::a(0).bits(), dram(Region::Output), 0),
            Inst::new(Opcode::End, 0, 0, 0),
        ];
        let nodes = vec![NodeMark { first: 0, node: 0 }];
        Stream { commands, nodes, regions: [64; 4], config_hash: config.hash64(), ..Stream::default() }
    }

    #[test]
    fn a_stream_that_the_verifier_refuses_has_no_times() {
        let registry = Registry::new().with(Arc::new(ottava_driver_cpu::CpuDriver));
        let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/digits.onnx");
        let model = Model::load(digits).unwrap();
        let mut plan = ottava::compile(&model, &registry, &SessionOptions::default()).unwrap().plan;
        plan.partitions.iter_mut().for_each(|p| p.device = "npu".to_owned());
        let chip = NpuDriver::new().open_npu("npu", &[].into()).unwrap();
        let refused = on_chip("digits".into(), &plan, &chip, |_| chip.timed_stream(racing(chip.config())));
        let failure = refused.err().unwrap();
        let text = failure.text();
        for part in ["the command stream is refused", "instruction 2 (node 0)", "race with instruction 1"] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert_eq!(format!("{:?}", failure.exit_code()), format!("{:?}", std::process::ExitCode::from(4)));
    }
}

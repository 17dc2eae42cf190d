//! The quantized network on two devices: a simulated NPU takes what it can run, the CPU the rest.

use super::{Context, accuracy, image};
use crate::failure::Result;
use crate::options::write_file;
use ottava::{
    Compiled, Config, Data, DeviceEntry, Evaluation, Model, Placement, RunOptions, RunReport, Session, SessionOptions,
};
use ottava_npu::config::NpuConfig;
use std::path::Path;

/// Inferences in flight for the timeline.
const IN_FLIGHT: usize = 8;
/// The chip: the preset `edge16`, except that it knows s8 and not u8, so bridges are needed.
const CHIP: &str = "// Omitted keys are those of the preset `edge16`.\nNpu(name: \"demo\", dtypes: [S8])\n";
/// The chip waits this many times its modelled time, so that the timeline shows the chip and not its simulation.
const REALTIME: &str = "50";

/// What the split run found out.
pub struct Split {
    /// Accuracy on both devices together.
    pub accuracy: Evaluation,
    /// Where everything is, and why.
    pub compiled: Compiled,
    /// Profiles of inferences that were in flight at the same time.
    pub reports: Vec<RunReport>,
    /// Multiply-accumulates of the chip's array in one cycle.
    pub array: f64,
}

/// The NPU in its own time, and the CPU; the NPU first.
fn config(chip: &Path, in_flight: usize) -> Config {
    let chip = chip.display().to_string();
    let device = |id: &str, options: &[(&str, &str)]| DeviceEntry {
        id: id.to_owned(),
        driver: id.to_owned(),
        options: options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    Config {
        devices: vec![device("npu", &[("config", &chip), ("realtime", REALTIME)]), device("cpu", &[])],
        placement: Placement::Priority(vec!["npu".to_owned(), "cpu".to_owned()]),
        // A node in the middle that stays on the CPU: the data crosses twice, in other integers.
        bans: vec![("pool".to_owned(), "npu".to_owned())],
        in_flight,
        ..Config::default()
    }
}

impl Split {
    /// Compiles for both devices, measures, and runs some inferences at the same time.
    pub fn run(model: &Model, test: &Data, folder: &Path, cx: &Context) -> Result<Self> {
        let chip = folder.join("chip.ron");
        write_file(&chip, CHIP.as_bytes())?;
        let own = &cx.registry.config;
        // A configuration that names devices is a wish about the split.
        let config = if own.devices.is_empty() { config(&chip, IN_FLIGHT) } else { own.clone() };
        let registry = cx.registry.clone().configured(config);
        let accuracy = accuracy(model, test, &registry, cx, "int8 split")?;
        let options = SessionOptions::default();
        let compiled = ottava::compile(model, &registry, &options)?;
        let session = Session::new(model, &registry, &options)?;
        // The first runs make queues and buffers; the ones after them are typical.
        session.run_ordered(&[image()?], false)?;
        let start = |_| Ok(session.run_async(vec![image()?], RunOptions { profile: true }, None)?);
        let pending = (0..IN_FLIGHT).map(start).collect::<Result<Vec<_>>>()?;
        let finish = |p: ottava::Pending| Ok(p.wait().map_err(ottava::Error::from)?.1);
        let reports = pending.into_iter().map(finish).collect::<Result<Vec<_>>>()?;
        let array = NpuConfig::parse(CHIP).map_or(1.0, |c| c.n_elements() as f64);
        Ok(Self { accuracy, compiled, reports, array })
    }

    /// The profile as a Chrome trace.
    pub fn trace(&self) -> String {
        ottava::chrome_trace(&self.reports)
    }

    /// Cycles of each node on the NPU: name, cycles.
    pub fn cycles(&self) -> Vec<(String, u64)> {
        let steps = self.reports.first().map_or(&[][..], |r| &r.steps);
        let nodes = steps.iter().flat_map(|s| &s.nodes).filter(|n| n.cycles > 0);
        nodes.map(|n| (n.node.clone(), n.cycles)).collect()
    }
}

//! The closed forms, applied to a list of layers.

use super::report::{LayerReport, NetworkReport, Report, Stalls, Totals};
use super::{Kind, Layer, LayersError};
use crate::NpuConfig;
use crate::analytic::{
    self, ArrayShape, Buffers, Depthwise, DepthwiseMapping, Dram, Gemm, Run, SramAccesses, cold_start_run,
    compute_cycles, depthwise_run, gemm_run, serial_run, sram_accesses, utilization,
};
use crate::config::{Dataflow, Overlap, Timing};
use crate::suggest::excerpt;
use std::collections::HashMap;

/// Largest network, in multiply-accumulates, that real devices of this kind run at 15 to 55 of them per cycle.
const SMALL_NETWORK: u64 = 100_000_000;
/// Utilisation that no such device reaches.
const DOUBTFUL: f64 = 0.9;

/// Simulates each layer on the device that `config` describes; `mode` overrides its timing mode.
pub fn simulate(layers: &[Layer], config: &NpuConfig, mode: Option<Timing>) -> Result<Report, LayersError> {
    let device = Device::new(config, mode);
    let shape = device.array;
    let mut known = Known::new();
    let reports = layers.iter().map(|layer| device.layer(layer, &mut known)).collect::<Result<Vec<_>, _>>()?;
    let networks = networks(&reports, (shape.rows, shape.cols))?;
    Ok(Report {
        totals: Totals::over("all layers", reports.iter(), (shape.rows, shape.cols))?,
        array_rows: shape.rows,
        array_cols: shape.cols,
        dataflow: dataflow_name(shape.dataflow),
        mode: mode_name(shape.timing),
        warnings: networks.iter().filter_map(doubt).collect(),
        networks,
        layers: reports,
    })
}

/// Sums per network, networks in the order of their first layers.
fn networks(layers: &[LayerReport], array: (u64, u64)) -> Result<Vec<NetworkReport>, LayersError> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<(&str, Vec<&LayerReport>)> = Vec::new();
    for layer in layers {
        let place = *places.entry(&layer.network).or_insert_with(|| {
            groups.push((&layer.network, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(layer);
    }
    let sum = |(name, layers): (&str, Vec<&LayerReport>)| {
        let totals = Totals::over(name, layers.into_iter(), array)?;
        Ok(NetworkReport { name: name.to_owned(), totals })
    };
    groups.into_iter().map(sum).collect()
}

/// A warning, where a small network looks better than any real device runs it.
fn doubt(network: &NetworkReport) -> Option<String> {
    let Totals { macs, utilization, .. } = network.totals;
    doubtful(macs, utilization).map(|text| format!("`{}`: {text}", excerpt(&network.name)))
}

/// What is doubtful about the utilisation of a network of `macs` multiply-accumulates, if anything.
pub fn doubtful(macs: u64, utilization: f64) -> Option<String> {
    (macs < SMALL_NETWORK && utilization > DOUBTFUL).then(|| {
        let percent = utilization * 100.0;
        format!("{percent:.1} % of the array are busy; real devices reach far less on small networks")
    })
}

/// The name of a dataflow in reports.
fn dataflow_name(dataflow: Dataflow) -> &'static str {
    match dataflow {
        Dataflow::Os => "os",
        Dataflow::Ws => "ws",
        Dataflow::Is => "is",
    }
}

/// The name of a timing mode in reports and on the command line.
fn mode_name(timing: Timing) -> &'static str {
    match timing {
        Timing::FoldSerial => "fold_serial",
        Timing::EdgeTrim => "edge_trim",
        Timing::Pipelined => "pipelined",
    }
}

/// Reports by shape: networks repeat their layers, and the walk over the folds of one may be long.
type Known = HashMap<(Kind, Gemm, u64), LayerReport>;

/// What the closed forms need of a configuration.
struct Device<'a> {
    config: &'a NpuConfig,
    array: ArrayShape,
    buffers: Buffers,
    dram: Dram,
}

/// How a layer runs, and what that costs before memory is considered.
struct Work {
    mapping: String,
    accesses: SramAccesses,
    run: Run,
}

impl<'a> Device<'a> {
    fn new(config: &'a NpuConfig, mode: Option<Timing>) -> Self {
        let array = ArrayShape::from(&config.array);
        Self {
            config,
            array: ArrayShape { timing: mode.unwrap_or(array.timing), ..array },
            buffers: Buffers::from(&config.sram),
            dram: Dram::from(&config.dram),
        }
    }

    fn layer(&self, layer: &Layer, known: &mut Known) -> Result<LayerReport, LayersError> {
        let named = |shape: &LayerReport| LayerReport {
            network: layer.network.clone(),
            name: layer.name.clone(),
            count: layer.count,
            ..shape.clone()
        };
        let key = (layer.kind, layer.gemm, layer.channels);
        if let Some(shape) = known.get(&key) {
            return Ok(named(shape));
        }
        let fail = |source| LayersError::Layer { layer: excerpt(&layer.name), line: layer.line, source };
        let shape = self.report(layer).map_err(fail)?;
        let report = named(&shape);
        known.insert(key, shape);
        Ok(report)
    }

    /// The figures of a layer's shape, without its names.
    fn report(&self, layer: &Layer) -> analytic::Result<LayerReport> {
        let Work { mapping, accesses, run } = self.work(layer)?;
        let gemm = layer.gemm;
        Ok(LayerReport {
            network: String::new(),
            name: String::new(),
            kind: layer.kind.name(),
            mapping,
            m: gemm.m,
            n: gemm.n,
            k: gemm.k,
            channels: layer.channels,
            count: 1,
            totals: self.totals(layer, &run)?,
            channel_cycles: compute_cycles(&self.array, &gemm)?,
            mapping_efficiency: self.array.folds(&gemm)?.efficiency(),
            sram_a_reads: accesses.a,
            sram_w_reads: accesses.w,
            sram_o_writes: accesses.o,
            dram: run.traffic.into(),
        })
    }

    fn work(&self, layer: &Layer) -> analytic::Result<Work> {
        let (array, gemm) = (&self.array, &layer.gemm);
        if layer.kind == Kind::Depthwise {
            return self.depthwise(Depthwise { gemm: *gemm, channels: layer.channels });
        }
        Ok(Work {
            mapping: "array".to_owned(),
            accesses: sram_accesses(array, gemm)?.repeat(layer.channels)?,
            run: self.product(gemm)?.repeat(layer.channels)?,
        })
    }

    /// One product over the memory.
    fn product(&self, gemm: &Gemm) -> analytic::Result<Run> {
        match self.config.dma.overlap {
            Overlap::DoubleBuffer => gemm_run(&self.array, gemm, &self.buffers, self.dram),
            Overlap::None => cold_start_run(&self.array, gemm, &self.buffers, self.dram),
        }
    }

    fn depthwise(&self, layer: Depthwise) -> analytic::Result<Work> {
        let cost = layer.cost(&self.array, self.config.array.depthwise, self.config.vector.lanes.into())?;
        Ok(Work {
            mapping: match cost.mapping {
                DepthwiseMapping::PerChannel => "per_channel".to_owned(),
                DepthwiseMapping::Packed { per_fold } => format!("packed({per_fold})"),
                DepthwiseMapping::Vector { lanes } => format!("vector({lanes})"),
            },
            accesses: cost.accesses,
            run: self.depthwise_product(&layer, cost.mapping)?,
        })
    }

    fn depthwise_product(&self, layer: &Depthwise, mapping: DepthwiseMapping) -> analytic::Result<Run> {
        if mapping == DepthwiseMapping::PerChannel {
            return self.product(&layer.gemm)?.repeat(layer.channels);
        }
        let run = depthwise_run(&self.array, layer, mapping, &self.buffers, self.dram)?;
        match self.config.dma.overlap {
            Overlap::DoubleBuffer => Ok(run),
            Overlap::None => serial_run(&run, self.dram),
        }
    }

    fn totals(&self, layer: &Layer, run: &Run) -> analytic::Result<Totals> {
        let macs = layer.gemm.macs()?.checked_mul(layer.channels);
        let macs = macs.ok_or(analytic::Error::Overflow { what: "number of multiply-accumulates" })?;
        let (total_cycles, stall_cycles) = whole_cycles(run);
        let bytes = run.traffic.loads()?.checked_add(run.traffic.stores()?);
        Ok(Totals {
            total_cycles,
            compute_cycles: run.compute,
            stall_cycles,
            dram_bytes: bytes.ok_or(analytic::Error::Overflow { what: "number of bytes" })?,
            macs,
            utilization: utilization(macs, total_cycles, self.array.rows, self.array.cols),
        })
    }
}

/// Total and waiting of a run, in whole cycles whose parts make the total.
fn whole_cycles(run: &Run) -> (u64, Stalls) {
    let total = run.total.ceil();
    let stalls = total.saturating_sub(run.compute);
    let (dma_out, drain) = (run.wait_out.floor(), run.drain.floor());
    (total, Stalls { dma_in: stalls.saturating_sub(dma_out).saturating_sub(drain), dma_out, drain })
}

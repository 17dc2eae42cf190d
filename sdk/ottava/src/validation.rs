//! Layer by layer: a quantized network against its float original, and a device against the reference.

use crate::batches::{Progress, asked_batch, batch_size, first_rows, with_data_dims};
use crate::data::{Affine, Data, Feed};
use crate::error::{Error, Result, codes};
use crate::metrics::Sums;
use crate::model::Model;
use crate::probe;
use crate::registry::{REFERENCE, Registry};
use crate::session::{Session, SessionOptions};
use ottava_graph::{Graph, ValueId};
use ottava_hal::{Tensor, TensorType};
use ottava_validate::{Layer, LayerAccumulator, Pair, aliases, pairs, real_values};
use std::collections::BTreeMap;

/// How to compare.
#[derive(Debug, Clone, Default)]
pub struct ValidateOptions {
    /// Rows at most.
    pub limit: Option<usize>,
    /// How rows are fed to the float network, and to the quantized one if its inputs are floats too.
    pub affine: Option<Affine>,
    /// Compile for this device and compare its bits with those of the reference.
    pub session: SessionOptions,
}

/// The figures of every layer and of the first output.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Layers in execution order.
    pub layers: Vec<Layer>,
    /// Signal-to-noise ratio of the first output, decibel.
    pub output_sqnr_db: f64,
    /// Cosine of the first output.
    pub output_cosine: f64,
    /// Rows.
    pub n: usize,
    /// Values that the quantized network computes and the float one does not have under that name.
    pub unpaired: usize,
}

/// One network whose inner values are handed out.
struct Probe {
    session: Session,
    n_own: usize,
}

impl Probe {
    fn new(model: &Model, graph: &Graph, values: &[ValueId], registry: &Registry, o: &SessionOptions) -> Result<Self> {
        let session = Session::of_graph(model, &probe::expose(graph, values), registry, o)?;
        Ok(Self { session, n_own: graph.caller_outputs().count() })
    }

    /// Own outputs, and the inner values.
    fn run(&self, inputs: &[Tensor], batch: usize, count: usize) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let all = self.session.run_ordered(inputs, false)?.0;
        let mut all = all.iter().map(|t| first_rows(t, batch, count)).collect::<Result<Vec<_>>>()?;
        let inner = all.split_off(self.n_own);
        Ok((all, inner))
    }
}

/// What runs side by side.
struct Sides {
    feeds: [Feed; 2],
    batch: usize,
    tested: Probe,
    float: Probe,
    device: Option<Probe>,
    accumulators: Vec<LayerAccumulator>,
    output: Sums,
}

/// Compares a quantized model with its float original on data.
pub fn validate(
    quantized: &Model,
    float: &Model,
    data: &Data,
    registry: &Registry,
    options: &ValidateOptions,
    progress: &mut Progress,
) -> Result<Validation> {
    quantized.expect_graph()?;
    float.expect_graph()?;
    let (mut sides, unpaired) = prepare(quantized, float, data, registry, options)?;
    let n = sides.feeds[0].n_rows.min(options.limit.unwrap_or(usize::MAX));
    let batches: Vec<_> = sides.feeds[0].batches(sides.batch, options.limit).collect();
    for (start, count) in batches {
        sides.step(start, count).map_err(|e| e.in_file(&quantized.origin))?;
        progress((start + count) as u64, n as u64);
    }
    Ok(Validation {
        layers: sides.accumulators.into_iter().map(LayerAccumulator::finish).collect(),
        output_sqnr_db: sides.output.sqnr_db(),
        output_cosine: sides.output.cosine(),
        n,
        unpaired,
    })
}

fn prepare(
    quantized: &Model,
    float: &Model,
    data: &Data,
    registry: &Registry,
    options: &ValidateOptions,
) -> Result<(Sides, usize)> {
    let affine = if takes_floats(quantized) { options.affine } else { None };
    let feeds = [Feed::new(data, &quantized.inputs(), affine)?, Feed::new(data, &float.inputs(), options.affine)?];
    let batch = batch_size(quantized, &feeds[0], asked_batch(quantized, &options.session)?)?;
    if batch != batch_size(float, &feeds[1], batch)? {
        return Err(
            Error::invalid(codes::MODEL_DIM, "the two models do not take the same batch").in_file(&float.origin)
        );
    }
    let bound = |m: &Model, f: &Feed| -> Result<BTreeMap<String, usize>> {
        let o = with_data_dims(&options.session, f);
        m.dims(batch, &o.dims)
    };
    let tested = probe::lowered(quantized, &bound(quantized, &feeds[0])?, registry)?;
    let original = probe::canonical(float, &bound(float, &feeds[1])?, registry)?.0;
    let found = pairs(&tested, &original, &aliases(&quantized.graph));
    if found.is_empty() {
        return Err(Error::invalid(codes::MODEL_NAME, "the two models have no inner value of the same name")
            .in_file(&quantized.origin)
            .help("give the float model that this one was made from"));
    }
    let on = |device: Option<String>| SessionOptions { device, batch, ..options.session.clone() };
    let ids: Vec<ValueId> = found.iter().map(|p| p.tested).collect();
    let twins: Vec<ValueId> = found.iter().map(|p| p.reference).collect();
    let device = match options.session.device.as_deref() {
        None | Some(REFERENCE) => None,
        Some(id) => Some(Probe::new(quantized, &tested, &ids, registry, &on(Some(id.to_owned())))?),
    };
    // Devices are bit-equal by contract. Where that is to be shown, the reference itself is the base; else the faster
    // default device is.
    let base = options.session.device.as_ref().map(|_| REFERENCE.to_owned());
    let sides = Sides {
        tested: Probe::new(quantized, &tested, &ids, registry, &on(base))?,
        float: Probe::new(float, &original, &twins, registry, &on(None))?,
        device,
        accumulators: accumulators(&tested, &found),
        output: Sums::default(),
        feeds,
        batch,
    };
    Ok((sides, tested.nodes.len().saturating_sub(found.len())))
}

fn takes_floats(model: &Model) -> bool {
    model.inputs().iter().all(|(_, ty)| ty.dtype.is_float())
}

fn accumulators(tested: &Graph, found: &[Pair]) -> Vec<LayerAccumulator> {
    let one = |p: &Pair| LayerAccumulator::new(&p.name, &p.op, tested.ty(p.tested).clone());
    found.iter().map(one).collect()
}

impl Sides {
    fn step(&mut self, start: usize, count: usize) -> Result<()> {
        let inputs = self.feeds[0].batch(start, count, self.batch)?;
        let (own, inner) = self.tested.run(&inputs, self.batch, count)?;
        let float_inputs = self.feeds[1].batch(start, count, self.batch)?;
        let (float_own, float_inner) = self.float.run(&float_inputs, self.batch, count)?;
        let device = self.device.as_ref().map(|d| d.run(&inputs, self.batch, count)).transpose()?;
        for (i, layer) in self.accumulators.iter_mut().enumerate() {
            layer.add(&inner[i], &float_inner[i]).map_err(|e| Error::invalid(codes::MODEL_NAME, e.to_string()))?;
            if let Some((_, values)) = &device {
                layer.add_device(&values[i], &inner[i]);
            }
        }
        self.add_output(&own, &float_own)
    }

    fn add_output(&mut self, own: &[Tensor], float: &[Tensor]) -> Result<()> {
        let fail = |e: ottava_hal::Error| Error::invalid(codes::DATA_SHAPE, e.to_string());
        let real = |values: &[Tensor], ty: Option<&(String, TensorType)>| match (values.first(), ty) {
            (Some(t), Some((_, ty))) => real_values(t, ty.quant.as_deref()).map_err(fail),
            _ => Ok(Vec::new()),
        };
        let tested = real(own, self.tested.session.outputs().first())?;
        let reference = real(float, self.float.session.outputs().first())?;
        self.output.add(&reference, &tested);
        Ok(())
    }
}

//! Moving a scale along a chain of layers: channel `c` of a value is multiplied by a factor where it is computed and
//! divided by it where it is read. What the network computes stays the same up to the rounding of its constants.
//!
//! Between source and readers may stand what commutes with a positive factor: Relu, LeakyRelu, pools, the addition of a
//! bias, and Clip at 0 and a bound that the calibration data does not reach even when scaled.

use std::collections::{BTreeMap, BTreeSet};

use ottava_graph::{Diagnostic, Graph, Uses};
use ottava_hal::{Node, Tensor, ValueId};

use super::Prepared;
use crate::apply::{WeightShape, fingerprint};
use crate::calibration::{Calibration, TensorStats};
use crate::channels::ChannelLayout;

/// The largest factor on a channel, and the inverse of the smallest.
const MAX_FACTOR: f64 = 1024.0;
/// What is scaled towards the bound of a Clip stays below it by more than floats round.
const BELOW: f64 = 1.0 - 1e-5;

/// A product that reads the rescaled value.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) node: usize,
    pub(crate) weights: ValueId,
    pub(crate) shape: WeightShape,
}

/// A constant that is multiplied where the value is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) constant: ValueId,
    pub(crate) layout: ChannelLayout,
}

/// A place where a scale can move.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The node that computes the value, and its constants; weights come first.
    pub(crate) node: usize,
    pub(crate) sources: Vec<Source>,
    /// The values that are rescaled; the last one is what the readers quantize.
    pub(crate) chain: Vec<ValueId>,
    pub(crate) readers: Vec<Reader>,
    /// Upper bound of a Clip on the way.
    pub(crate) clip: Option<f64>,
    /// Smallest and largest observed value of each channel.
    pub(crate) extremes: Vec<(f64, f64)>,
}

impl Site {
    /// The value that the readers quantize.
    pub(crate) fn value(&self) -> ValueId {
        self.chain[self.chain.len() - 1]
    }

    /// The largest magnitude of each channel.
    pub(crate) fn reaches(&self) -> Vec<f64> {
        self.extremes.iter().map(|&(lo, hi)| (-lo).max(hi)).collect()
    }

    /// Factors that the chain allows, as f32: bounded, 1 for channels that are zero, and where there is a Clip only as far
    /// as the data stays below its bound.
    pub(crate) fn allowed(&self, factors: &[f64]) -> Vec<f64> {
        let allow = |(&f, &(lo, hi)): (&f64, &(f64, f64))| {
            let f = f64::from(f.clamp(1.0 / MAX_FACTOR, MAX_FACTOR) as f32);
            match self.clip {
                _ if (lo == 0.0 && hi == 0.0) || !f.is_finite() => 1.0,
                Some(bound) if hi >= bound => 1.0,
                Some(bound) if hi > 0.0 => f.min(f64::from((bound / hi * BELOW) as f32)),
                _ => f,
            }
        };
        factors.iter().zip(&self.extremes).map(allow).collect()
    }
}

/// The network under change.
pub(crate) struct Rewrite {
    pub(crate) graph: Graph,
    pub(crate) uses: Uses,
    /// Statistics of the network as it is now: the original ones but for values that were rescaled.
    original: Calibration,
    changed: BTreeMap<String, TensorStats>,
    rescaled: BTreeSet<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Rewrite {
    pub(crate) fn new(graph: &Graph, calibration: &Calibration) -> Self {
        Self {
            graph: graph.clone(),
            uses: Uses::of(graph),
            original: calibration.clone(),
            changed: BTreeMap::new(),
            rescaled: BTreeSet::new(),
            diagnostics: Vec::new(),
        }
    }

    pub(crate) fn finish(self, graph: &Graph, calibration: &Calibration) -> Prepared {
        let rewritten = self.graph != *graph;
        let calibration = match rewritten {
            true => calibration.rewritten(fingerprint(&self.graph), self.changed),
            false => calibration.clone(),
        };
        let (diagnostics, rescaled) = (self.diagnostics, self.rescaled);
        Prepared { graph: self.graph, calibration, diagnostics, rewritten, rescaled }
    }

    /// The statistics of a value.
    pub(crate) fn stats(&self, id: ValueId) -> Option<&TensorStats> {
        let name = self.graph.name_of(id);
        self.changed.get(name).or_else(|| self.original.get(name))
    }

    /// How many samples the statistics are of.
    pub(crate) fn samples(&self) -> u64 {
        self.original.samples()
    }

    /// The values of a float constant.
    pub(crate) fn floats(&self, id: ValueId) -> Option<Vec<f32>> {
        self.graph.constant(id)?.to_f32s().ok()
    }

    /// The site behind a source with these constants, which computes `out` with its channels along `axis`.
    pub(crate) fn site(&self, node: usize, sources: Vec<Source>, axis: usize) -> Option<Site> {
        let out = *self.graph.nodes[node].outputs.first()?;
        let mut site = Site { node, sources, chain: vec![out], readers: vec![], clip: None, extremes: vec![] };
        while !self.ends_in_products(&mut site) {
            let next = self.uses.only_reader(site.value())?;
            self.pass(&mut site, next, axis)?;
        }
        let stats = self.stats(site.value())?;
        let channels = site.sources.first()?.layout.channels;
        site.extremes = stats.channels.extremes().iter().map(|&(lo, hi)| (lo.into(), hi.into())).collect();
        let fits = site.extremes.len() == channels && site.readers.iter().all(|r| r.shape.in_channels() == channels);
        let own = site.sources.iter().all(|s| self.uses.readers(s.constant).len() == 1);
        (fits && own && self.is_distinct(&site)).then_some(site)
    }

    /// No constant is both multiplied and divided, or read elsewhere.
    fn is_distinct(&self, site: &Site) -> bool {
        let alone = |r: &Reader| self.uses.readers(r.weights).len() == 1;
        site.readers.iter().all(|r| alone(r) && r.node != site.node)
    }

    /// Whether every reader of the chain's end is a product with constant weights; fills them in.
    fn ends_in_products(&self, site: &mut Site) -> bool {
        let readers = self.uses.readers(site.value());
        let product = |&(node, slot): &(usize, usize)| {
            let reader = &self.graph.nodes[node];
            let weights = reader.input(1).filter(|w| slot == 0 && self.floats(*w).is_some())?;
            let known = matches!(reader.op.as_str(), "Conv" | "Gemm" | "MatMul") && reader.domain.is_empty();
            let shape = WeightShape::of(&self.graph, reader).filter(|_| known)?;
            Some(Reader { node, weights, shape })
        };
        let found: Option<Vec<Reader>> = readers.iter().map(product).collect();
        let ends = found.filter(|list| !list.is_empty() && !self.uses.is_output(site.value()));
        let is_end = ends.is_some();
        site.readers = ends.unwrap_or_default();
        is_end
    }

    /// Extends the chain by a node that commutes with positive factors.
    fn pass(&self, site: &mut Site, next: usize, axis: usize) -> Option<()> {
        let node = &self.graph.nodes[next];
        match node.op.as_str() {
            _ if !node.domain.is_empty() || node.outputs.len() != 1 => return None,
            "Relu" | "LeakyRelu" => {}
            "MaxPool" | "AveragePool" | "GlobalAveragePool" if axis == 1 => {}
            "Clip" => {
                let bound = |slot: usize| Some(f64::from(*self.floats(node.input(slot)?)?.first()?));
                if bound(1) != Some(0.0) {
                    return None;
                }
                if let Some(upper) = bound(2) {
                    site.clip = Some(site.clip.map_or(upper, |c| c.min(upper)));
                } else if node.input(2).is_some() {
                    return None;
                }
            }
            "Add" => {
                let constant = self.added_bias(node, site, axis)?;
                site.sources.push(constant);
            }
            _ => return None,
        }
        site.chain.push(node.outputs[0]);
        Some(())
    }

    /// The constant that an Add puts on each channel along the last axis.
    fn added_bias(&self, node: &Node, site: &Site, axis: usize) -> Option<Source> {
        let other = node.inputs.iter().flatten().copied().find(|id| *id != site.value())?;
        let shape = self.graph.constant(other)?.shape().to_vec();
        let channels = site.sources.first()?.layout.channels;
        let rank = self.graph.ty(site.value()).shape.rank();
        let along_last =
            axis + 1 == rank && shape.last() == Some(&channels) && shape.iter().product::<usize>() == channels;
        (along_last && shape.len() <= rank && self.floats(other).is_some())
            .then_some(Source { constant: other, layout: ChannelLayout { channels, inner: 1 } })
    }

    /// Moves the scale: the source's constants are multiplied, the readers' weights divided.
    pub(crate) fn apply(&mut self, site: &Site, factors: &[f64]) {
        for source in &site.sources {
            self.multiply(source.constant, |idx| factors[(idx / source.layout.inner) % source.layout.channels]);
        }
        for reader in &site.readers {
            self.multiply(reader.weights, |idx| 1.0 / factors[reader.shape.in_channel(idx, reader.shape.out_of(idx))]);
        }
        self.rescaled.extend(site.chain.iter().map(|id| self.graph.name_of(*id).to_owned()));
        let Some(stats) = self.stats(site.value()).map(|stats| stats.rescaled(factors)) else { return };
        let stretch = stats.stretch;
        for id in &site.chain[..site.chain.len() - 1] {
            // Their channels were not observed; they reach as far as what they become.
            if let Some(own) = self.stats(*id).cloned() {
                let own = TensorStats { stretch, ..own };
                self.changed.insert(self.graph.name_of(*id).to_owned(), own);
            }
        }
        self.changed.insert(self.graph.name_of(site.value()).to_owned(), stats);
    }

    fn multiply(&mut self, id: ValueId, factor: impl Fn(usize) -> f64) {
        let Some(mut values) = self.floats(id) else { return };
        for (idx, v) in values.iter_mut().enumerate() {
            *v = (f64::from(*v) * factor(idx)) as f32;
        }
        let shape = self.graph.constant(id).map(|t| t.shape().to_vec()).unwrap_or_default();
        if let Ok(tensor) = Tensor::from_slice(&shape, &values) {
            self.graph.values[id.0].constant = Some(tensor);
        }
    }
}

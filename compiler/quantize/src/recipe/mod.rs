//! The recipe: every choice that turns a float network into an integer one, in one editable value.
//!
//! [`Recipe`] is what the quantizer works with; its text form (RON, version 1) lives in its own wire types, so that the
//! file format changes only on purpose. [`Recipe::parse`] and [`Recipe::to_ron`] go between the two.

mod parse;
mod wire;
mod write;

use globset::GlobMatcher;
use ottava_hal::DataType;

use crate::observers::Observer;
use crate::params::{Grid, Target};
use crate::weights::{Grids, WeightMethod, WeightZero};

/// The version of the text form.
pub const VERSION: u32 = 1;

/// How a network is quantized.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Activations of every node that no override names.
    pub activations: Activations,
    /// Weights of every node that no override names.
    pub weights: Weights,
    /// Corrections, in the order in which they are applied.
    pub corrections: Vec<Correction>,
    /// How image files become input tensors.
    pub preprocess: Option<Preprocess>,
    /// Any remaining float node is an error.
    pub integer_only: bool,
    /// Keep the most sensitive nodes in float until the output reaches this signal-to-noise ratio.
    pub target_sqnr_db: Option<f64>,
    /// The largest share of multiply-accumulates that may stay in float.
    pub max_float_macs: Option<f64>,
    /// Overrides by node name; the first match wins.
    pub nodes: Vec<NodeRule>,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            activations: Activations::default(),
            weights: Weights::default(),
            corrections: vec![Correction::CrossLayerEqualization, Correction::BiasCorrection],
            preprocess: None,
            integer_only: false,
            target_sqnr_db: None,
            max_float_macs: None,
            nodes: Vec::new(),
        }
    }
}

/// How activations are quantized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activations {
    /// u8, s8, u16 or s16; f16 and bf16 are floats of 16 bits.
    pub dtype: DataType,
    /// Zero point in the middle of the range.
    pub symmetric: bool,
    /// How ranges are chosen.
    pub observer: Observer,
}

impl Default for Activations {
    fn default() -> Self {
        Self { dtype: DataType::U8, symmetric: false, observer: Observer::default() }
    }
}

impl Activations {
    /// How a range becomes parameters; `None` for float storage.
    pub fn target(&self) -> Option<Target> {
        let (qmin, qmax) = self.dtype.storage_range()?;
        Some(Target { grid: Grid { qmin, qmax }, symmetric: self.symmetric, power_of_two: false })
    }
}

/// How weights are quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    /// s8, u8, s4 or u4.
    pub dtype: DataType,
    /// How many weights share a scale.
    pub granularity: Granularity,
    /// How ranges are chosen.
    pub observer: WeightMethod,
    /// Where the zero point lies.
    pub zero_point: WeightZero,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            dtype: DataType::S8,
            granularity: Granularity::PerChannel,
            observer: WeightMethod::default(),
            zero_point: WeightZero::default(),
        }
    }
}

impl Weights {
    /// The integers that the weights may take; symmetric about the middle, so the smallest one stays unused.
    pub fn grid(&self) -> Grid {
        match self.dtype {
            DataType::U8 => Grid::U8_WEIGHTS,
            DataType::S4 => Grid::S4_WEIGHTS,
            DataType::U4 => Grid::U4_WEIGHTS,
            _ => Grid::S8_WEIGHTS,
        }
    }

    /// The same, and all integers of the storage, which a free zero point may use.
    pub fn grids(&self) -> Grids {
        let symmetric = self.grid();
        let whole = self.dtype.storage_range().map_or(symmetric, |(qmin, qmax)| Grid { qmin, qmax });
        Grids { symmetric, whole }
    }
}

/// How many weights share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// All of a tensor.
    PerTensor,
    /// Those of one output channel.
    PerChannel,
    /// So many consecutive ones along the reduction: stored as integers, computed with as floats.
    Blocked(usize),
}

/// A correction of what quantization changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Correction {
    /// Moves the mean error of each output channel into its bias.
    BiasCorrection,
    /// Evens out the ranges of consecutive layers.
    CrossLayerEqualization,
    /// Moves activation outliers into the weights.
    Smooth {
        /// How much of the range moves, 0 to 1.
        alpha: f64,
    },
    /// Rounds the weights of a layer together, so that what it computes on the data changes least.
    LearnedRounding {
        /// At most so many sweeps of coordinate descent after the first rounding.
        steps: u32,
    },
}

impl Correction {
    /// Its name in the recipe.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BiasCorrection => "BiasCorrection",
            Self::CrossLayerEqualization => "CrossLayerEqualization",
            Self::Smooth { .. } => "Smooth",
            Self::LearnedRounding { .. } => "LearnedRounding",
        }
    }
}

/// An override for nodes whose name matches.
#[derive(Debug, Clone)]
pub struct NodeRule {
    /// A glob over node names; `*` crosses slashes.
    pub name: String,
    /// The glob, compiled.
    pub glob: GlobMatcher,
    /// What changes for the activations.
    pub activations: Option<ActivationRule>,
    /// What changes for the weights.
    pub weights: Option<WeightRule>,
}

/// What an override says about activations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActivationRule {
    /// The node stays in float.
    Float,
    /// Only what is given changes.
    Change {
        /// Another storage.
        dtype: Option<DataType>,
        /// Another symmetry.
        symmetric: Option<bool>,
        /// Another observer.
        observer: Option<Observer>,
    },
}

/// What an override says about weights; only what is given changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightRule {
    /// Another storage.
    pub dtype: Option<DataType>,
    /// Another granularity.
    pub granularity: Option<Granularity>,
    /// Another observer.
    pub observer: Option<WeightMethod>,
    /// Another place of the zero point.
    pub zero_point: Option<WeightZero>,
}

/// How image files become input tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preprocess {
    /// Height and width.
    pub resize: (u32, u32),
    /// Share of the shorter side that a central square crop keeps, before resizing.
    pub crop: Option<f64>,
    /// Channel order.
    pub color: Color,
    /// Order of the dimensions.
    pub layout: ImageLayout,
    /// Factor on pixel values of 0..255.
    pub scale: f64,
    /// Added after the factor.
    pub offset: f64,
}

/// Channel order of an image tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Color {
    Rgb,
    Bgr,
    Gray,
}

/// Order of the dimensions of an image tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum ImageLayout {
    Nhwc,
    Nchw,
}

/// What the recipe says about one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeChoice {
    /// `None`: the node stays in float.
    pub activations: Option<Activations>,
    /// Its weights.
    pub weights: Weights,
}

impl Recipe {
    /// Reads the text form. Unknown names, wrong types and impossible numbers are errors with line, column and, where
    /// there is one, the nearest valid name.
    pub fn parse(text: &str) -> crate::error::Result<Self> {
        parse::parse(text)
    }

    /// The text form, complete, with every default written out.
    pub fn to_ron(&self) -> String {
        write::write(self)
    }

    /// The choice for a node: the defaults with the first matching override.
    pub fn for_node(&self, name: &str) -> NodeChoice {
        let mut choice = NodeChoice { activations: Some(self.activations), weights: self.weights };
        let Some(rule) = self.nodes.iter().find(|rule| rule.glob.is_match(name)) else { return choice };
        match rule.activations {
            Some(ActivationRule::Float) => choice.activations = None,
            Some(ActivationRule::Change { dtype, symmetric, observer }) => {
                choice.activations = Some(Activations {
                    dtype: dtype.unwrap_or(self.activations.dtype),
                    symmetric: symmetric.unwrap_or(self.activations.symmetric),
                    observer: observer.unwrap_or(self.activations.observer),
                });
            }
            None => {}
        }
        if let Some(rule) = rule.weights {
            choice.weights.dtype = rule.dtype.unwrap_or(choice.weights.dtype);
            choice.weights.granularity = rule.granularity.unwrap_or(choice.weights.granularity);
            choice.weights.observer = rule.observer.unwrap_or(choice.weights.observer);
            choice.weights.zero_point = rule.zero_point.unwrap_or(choice.weights.zero_point);
        }
        choice
    }

    /// The integer activations of a node; `None` where it computes in floats of any kind.
    pub fn integers(&self, name: &str) -> Option<Activations> {
        self.for_node(name).activations.filter(|a| a.target().is_some())
    }

    /// The recipe for a network to which [`crate::prepare`] has been applied.
    pub fn without_network_corrections(&self) -> Self {
        let constants = self.corrections.iter().copied().filter(|c| !crate::corrections::rewrites_network(*c));
        Self { corrections: constants.collect(), ..self.clone() }
    }

    /// Adds an override before those that are there, so that it wins.
    pub fn keep_float(&mut self, node: &str) {
        let escaped = globset::escape(node);
        if let Ok(glob) = parse::compile_glob(&escaped) {
            let activations = Some(ActivationRule::Float);
            self.nodes.insert(0, NodeRule { name: escaped, glob, activations, weights: None });
        }
    }

    /// Gives a node other weights; what was said about its activations stays.
    pub fn change_weights(&mut self, node: &str, change: WeightRule) {
        let before = self.nodes.iter().find(|rule| rule.glob.is_match(node));
        let activations = before.and_then(|rule| rule.activations);
        let old = before.and_then(|rule| rule.weights);
        let weights = WeightRule {
            dtype: change.dtype.or(old.and_then(|w| w.dtype)),
            granularity: change.granularity.or(old.and_then(|w| w.granularity)),
            observer: change.observer.or(old.and_then(|w| w.observer)),
            zero_point: change.zero_point.or(old.and_then(|w| w.zero_point)),
        };
        let escaped = globset::escape(node);
        if let Ok(glob) = parse::compile_glob(&escaped) {
            self.nodes.insert(0, NodeRule { name: escaped, glob, activations, weights: Some(weights) });
        }
    }

    /// Has a node write symmetric 16-bit integers over their whole range; what was said about its weights stays.
    pub fn keep_s16(&mut self, node: &str) {
        let weights = self.nodes.iter().find(|rule| rule.glob.is_match(node)).and_then(|rule| rule.weights);
        let escaped = globset::escape(node);
        if let Ok(glob) = parse::compile_glob(&escaped) {
            let (dtype, symmetric, observer) = (Some(DataType::S16), Some(true), Some(Observer::MinMax));
            let activations = Some(ActivationRule::Change { dtype, symmetric, observer });
            self.nodes.insert(0, NodeRule { name: escaped, glob, activations, weights });
        }
    }
}

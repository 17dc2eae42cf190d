//! The recipe's text form, field by field. Only this file knows it; inner types convert to and from it.

use ron::value::RawValue;
use serde::{Deserialize, Serialize};

/// The whole file. Every field but the overrides' names may be left out.
#[derive(Deserialize)]
#[serde(rename = "Recipe", deny_unknown_fields)]
pub(super) struct RecipeIn<'a> {
    pub(super) version: Option<u32>,
    pub(super) activations: Option<ActivationFields>,
    pub(super) weights: Option<WeightFields>,
    pub(super) corrections: Option<Vec<Correction>>,
    #[serde(default)]
    pub(super) preprocess: Option<Preprocess>,
    pub(super) integer_only: Option<bool>,
    #[serde(default)]
    pub(super) target_sqnr_db: Option<f64>,
    #[serde(default)]
    pub(super) max_float_macs: Option<f64>,
    #[serde(borrow, default)]
    pub(super) nodes: Vec<NodeIn<'a>>,
}

/// An override. `activations` is `Float` or fields, which RON cannot tell apart by type: it is read in a second step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeIn<'a> {
    #[serde(borrow)]
    pub(super) name: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) activations: Option<&'a RawValue>,
    pub(super) weights: Option<WeightFields>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ActivationFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<ActivationType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) symmetric: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observer: Option<Observer>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WeightFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<WeightType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) granularity: Option<Granularity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observer: Option<WeightObserver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zero_point: Option<WeightZero>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum ActivationType {
    U8,
    S8,
    U16,
    S16,
    F16,
    Bf16,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum WeightType {
    S8,
    U8,
    S4,
    U4,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum WeightObserver {
    MinMax,
    Mse,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum WeightZero {
    Auto,
    Middle,
    Free,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Granularity {
    PerTensor,
    PerChannel,
    Blocked(usize),
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Observer {
    MinMax,
    MovingAverage(f64),
    Percentile(f64),
    Entropy,
    Mse,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::enum_variant_names)] // `BiasCorrection` is what the method is called.
pub(super) enum Correction {
    BiasCorrection,
    CrossLayerEqualization,
    Smooth { alpha: f64 },
    LearnedRounding { steps: u32 },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Preprocess {
    pub(super) resize: (u32, u32),
    #[serde(default)]
    pub(super) crop: Option<f64>,
    pub(super) color: Color,
    pub(super) layout: ImageLayout,
    pub(super) scale: f64,
    pub(super) offset: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Color {
    Rgb,
    Bgr,
    Gray,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum ImageLayout {
    Nhwc,
    Nchw,
}

/// The written form: complete, defaults included.
#[derive(Serialize)]
#[serde(rename = "Recipe")]
pub(super) struct RecipeOut {
    pub(super) version: u32,
    pub(super) activations: ActivationFields,
    pub(super) weights: WeightFields,
    pub(super) corrections: Vec<Correction>,
    pub(super) preprocess: Option<Preprocess>,
    pub(super) integer_only: bool,
    pub(super) target_sqnr_db: Option<f64>,
    pub(super) max_float_macs: Option<f64>,
    pub(super) nodes: Vec<NodeOut>,
}

#[derive(Serialize)]
pub(super) struct NodeOut {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) activations: Option<ActivationsOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weights: Option<WeightFields>,
}

/// `Float`, or the fields that change.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ActivationsOut {
    Float(FloatWord),
    Change(ActivationFields),
}

#[derive(Serialize)]
pub(super) enum FloatWord {
    Float,
}

//! Writing a recipe: inner types to wire types to RON.

use ottava_hal::DataType;
use ron::extensions::Extensions;
use ron::ser::PrettyConfig;

use super::wire::{self, ActivationFields, ActivationsOut, FloatWord, NodeOut, RecipeOut, WeightFields};
use super::{ActivationRule, Color, Correction, Granularity, ImageLayout, NodeRule, Preprocess, Recipe, VERSION};
use crate::observers::Observer;
use crate::weights::{WeightMethod, WeightZero};

pub(super) fn write(recipe: &Recipe) -> String {
    let out = RecipeOut {
        version: VERSION,
        activations: ActivationFields {
            dtype: activation_type(recipe.activations.dtype),
            symmetric: Some(recipe.activations.symmetric),
            observer: Some(observer(recipe.activations.observer)),
        },
        weights: WeightFields {
            dtype: weight_type(recipe.weights.dtype),
            granularity: Some(granularity(recipe.weights.granularity)),
            observer: Some(weight_observer(recipe.weights.observer)),
            zero_point: Some(weight_zero(recipe.weights.zero_point)),
        },
        corrections: recipe.corrections.iter().map(|c| correction(*c)).collect(),
        preprocess: recipe.preprocess.map(preprocess),
        integer_only: recipe.integer_only,
        target_sqnr_db: recipe.target_sqnr_db,
        max_float_macs: recipe.max_float_macs,
        nodes: recipe.nodes.iter().map(node).collect(),
    };
    let config = PrettyConfig::new().struct_names(false).depth_limit(2).extensions(Extensions::IMPLICIT_SOME);
    let text = ron::ser::to_string_pretty(&out, config).expect("wire types hold nothing that RON cannot write");
    // The extension line is implied by the reader, and the name tells a person what the file is.
    text.replacen("#![enable(implicit_some)]\n", "", 1).replacen('(', "Recipe(", 1) + "\n"
}

fn activation_type(dtype: DataType) -> Option<wire::ActivationType> {
    Some(match dtype {
        DataType::U8 => wire::ActivationType::U8,
        DataType::S8 => wire::ActivationType::S8,
        DataType::U16 => wire::ActivationType::U16,
        DataType::S16 => wire::ActivationType::S16,
        DataType::F16 => wire::ActivationType::F16,
        DataType::BF16 => wire::ActivationType::Bf16,
        _ => return None,
    })
}

fn weight_type(dtype: DataType) -> Option<wire::WeightType> {
    Some(match dtype {
        DataType::S8 => wire::WeightType::S8,
        DataType::U8 => wire::WeightType::U8,
        DataType::S4 => wire::WeightType::S4,
        DataType::U4 => wire::WeightType::U4,
        _ => return None,
    })
}

fn observer(observer: Observer) -> wire::Observer {
    match observer {
        Observer::MinMax => wire::Observer::MinMax,
        Observer::MovingAverage(constant) => wire::Observer::MovingAverage(constant),
        Observer::Percentile(percent) => wire::Observer::Percentile(percent),
        Observer::Entropy => wire::Observer::Entropy,
        Observer::Mse => wire::Observer::Mse,
    }
}

fn granularity(granularity: Granularity) -> wire::Granularity {
    match granularity {
        Granularity::PerTensor => wire::Granularity::PerTensor,
        Granularity::PerChannel => wire::Granularity::PerChannel,
        Granularity::Blocked(block) => wire::Granularity::Blocked(block),
    }
}

fn weight_observer(method: WeightMethod) -> wire::WeightObserver {
    match method {
        WeightMethod::MinMax => wire::WeightObserver::MinMax,
        WeightMethod::Mse => wire::WeightObserver::Mse,
    }
}

fn weight_zero(zero: WeightZero) -> wire::WeightZero {
    match zero {
        WeightZero::Auto => wire::WeightZero::Auto,
        WeightZero::Middle => wire::WeightZero::Middle,
        WeightZero::Free => wire::WeightZero::Free,
    }
}

fn correction(correction: Correction) -> wire::Correction {
    match correction {
        Correction::BiasCorrection => wire::Correction::BiasCorrection,
        Correction::CrossLayerEqualization => wire::Correction::CrossLayerEqualization,
        Correction::Smooth { alpha } => wire::Correction::Smooth { alpha },
        Correction::LearnedRounding { steps } => wire::Correction::LearnedRounding { steps },
    }
}

fn preprocess(p: Preprocess) -> wire::Preprocess {
    wire::Preprocess {
        resize: p.resize,
        crop: p.crop,
        color: match p.color {
            Color::Rgb => wire::Color::Rgb,
            Color::Bgr => wire::Color::Bgr,
            Color::Gray => wire::Color::Gray,
        },
        layout: match p.layout {
            ImageLayout::Nhwc => wire::ImageLayout::Nhwc,
            ImageLayout::Nchw => wire::ImageLayout::Nchw,
        },
        scale: p.scale,
        offset: p.offset,
    }
}

fn node(rule: &NodeRule) -> NodeOut {
    let activations = rule.activations.map(|a| match a {
        ActivationRule::Float => ActivationsOut::Float(FloatWord::Float),
        ActivationRule::Change { dtype, symmetric, observer: other } => ActivationsOut::Change(ActivationFields {
            dtype: dtype.and_then(activation_type),
            symmetric,
            observer: other.map(observer),
        }),
    });
    let weights = rule.weights.map(|w| WeightFields {
        dtype: w.dtype.and_then(weight_type),
        granularity: w.granularity.map(granularity),
        observer: w.observer.map(weight_observer),
        zero_point: w.zero_point.map(weight_zero),
    });
    NodeOut { name: rule.name.clone(), activations, weights }
}

//! Reading a recipe: RON to wire types to inner types, with the place of every problem.

use globset::{GlobBuilder, GlobMatcher};
use ottava_hal::DataType;
use ron::extensions::Extensions;
use ron::{Options, error::SpannedError};
use serde::Deserialize;

use super::wire::{self, ActivationFields, NodeIn, RecipeIn, WeightFields};
use super::{
    ActivationRule, Activations, Color, Correction, Granularity, ImageLayout, NodeRule, Preprocess, Recipe, VERSION,
    WeightRule, Weights,
};
use crate::error::{Error, Result};
use crate::observers::Observer;
use crate::weights::{WeightMethod, WeightZero};

/// `Some(..)` may be left out, which RON calls implicit.
fn options() -> Options {
    Options::default().with_default_extension(Extensions::IMPLICIT_SOME)
}

pub(super) fn parse(text: &str) -> Result<Recipe> {
    let file: RecipeIn<'_> = from_piece(text, text)?;
    let version = file.version.unwrap_or(VERSION);
    if version != VERSION {
        return Err(wrong(format!("version {version}, this program reads version {VERSION}")));
    }
    let defaults = Recipe::default();
    let recipe = Recipe {
        activations: activations(file.activations.unwrap_or_default())?,
        weights: weights(file.weights.unwrap_or_default())?,
        corrections: match file.corrections {
            Some(list) => list.into_iter().map(correction).collect::<Result<_>>()?,
            None => defaults.corrections,
        },
        preprocess: file.preprocess.map(preprocess).transpose()?,
        integer_only: file.integer_only.unwrap_or(defaults.integer_only),
        target_sqnr_db: file.target_sqnr_db,
        max_float_macs: file.max_float_macs,
        nodes: file.nodes.into_iter().map(|node| rule(text, node)).collect::<Result<_>>()?,
    };
    check("target_sqnr_db", recipe.target_sqnr_db, |db| db > 0.0, "a number of decibels above 0")?;
    check("max_float_macs", recipe.max_float_macs, |share| (0.0..=1.0).contains(&share), "a share from 0 to 1")?;
    Ok(recipe)
}

/// Reads a piece of the file; places are told in terms of the whole.
fn from_piece<'a, T: Deserialize<'a>>(whole: &str, piece: &'a str) -> Result<T> {
    options().from_str(piece).map_err(|e| located(whole, piece, &e))
}

fn located(whole: &str, piece: &str, error: &SpannedError) -> Error {
    let (line, column) = (error.span.start.line, error.span.start.col);
    // The piece is a part of the whole, so the distance of their addresses is its offset.
    let offset = (piece.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    let before = whole.get(..offset).unwrap_or_default();
    let lines_before = before.matches('\n').count();
    let last_line = before.rsplit('\n').next().unwrap_or_default();
    let column = if line == 1 { column + last_line.chars().count() } else { column };
    Error::Recipe { line: line + lines_before, column, message: error.code.to_string(), help: nearest(&error.code) }
}

/// The nearest valid name, for errors that are about a name.
fn nearest(error: &ron::Error) -> Option<String> {
    let (found, expected) = match error {
        ron::Error::NoSuchStructField { found, expected, .. } => (found, *expected),
        ron::Error::NoSuchEnumVariant { found, expected, .. } => (found, *expected),
        _ => return None,
    };
    let distance = |name: &&&str| strsim::damerau_levenshtein(&found.to_lowercase(), &name.to_lowercase());
    let best = expected.iter().min_by_key(distance)?;
    Some(if distance(&best) <= found.len().max(best.len()) / 2 {
        format!("did you mean `{best}`?")
    } else {
        format!("valid names: {}", expected.join(", "))
    })
}

fn wrong(message: String) -> Error {
    Error::Recipe { line: 0, column: 0, message, help: None }
}

fn check(key: &str, value: Option<f64>, good: impl Fn(f64) -> bool, expected: &str) -> Result<()> {
    match value {
        Some(v) if !good(v) => Err(wrong(format!("`{key}` is {v}, expected {expected}"))),
        _ => Ok(()),
    }
}

fn activations(fields: ActivationFields) -> Result<Activations> {
    let defaults = Activations::default();
    Ok(Activations {
        dtype: fields.dtype.map_or(defaults.dtype, activation_type),
        symmetric: fields.symmetric.unwrap_or(defaults.symmetric),
        observer: fields.observer.map_or(Ok(defaults.observer), observer)?,
    })
}

fn activation_type(wire: wire::ActivationType) -> DataType {
    match wire {
        wire::ActivationType::U8 => DataType::U8,
        wire::ActivationType::S8 => DataType::S8,
        wire::ActivationType::U16 => DataType::U16,
        wire::ActivationType::S16 => DataType::S16,
        wire::ActivationType::F16 => DataType::F16,
        wire::ActivationType::Bf16 => DataType::BF16,
    }
}

fn weight_type(wire: wire::WeightType) -> DataType {
    match wire {
        wire::WeightType::S8 => DataType::S8,
        wire::WeightType::U8 => DataType::U8,
        wire::WeightType::S4 => DataType::S4,
        wire::WeightType::U4 => DataType::U4,
    }
}

fn observer(wire: wire::Observer) -> Result<Observer> {
    let observer = match wire {
        wire::Observer::MinMax => Observer::MinMax,
        wire::Observer::MovingAverage(constant) => Observer::MovingAverage(constant),
        wire::Observer::Percentile(percent) => Observer::Percentile(percent),
        wire::Observer::Entropy => Observer::Entropy,
        wire::Observer::Mse => Observer::Mse,
    };
    match observer {
        Observer::MovingAverage(c) => {
            check("MovingAverage", Some(c), |c| c > 0.0 && c <= 1.0, "a constant above 0 and at most 1")?;
        }
        Observer::Percentile(p) => {
            check("Percentile", Some(p), |p| p > 50.0 && p <= 100.0, "a percentage above 50 and at most 100")?;
        }
        _ => {}
    }
    Ok(observer)
}

fn weights(fields: WeightFields) -> Result<Weights> {
    let rule = weight_rule(fields)?;
    let defaults = Weights::default();
    Ok(Weights {
        dtype: rule.dtype.unwrap_or(defaults.dtype),
        granularity: rule.granularity.unwrap_or(defaults.granularity),
        observer: rule.observer.unwrap_or(defaults.observer),
        zero_point: rule.zero_point.unwrap_or(defaults.zero_point),
    })
}

fn weight_rule(fields: WeightFields) -> Result<WeightRule> {
    let granularity = match fields.granularity {
        Some(wire::Granularity::Blocked(0)) => {
            return Err(wrong("`Blocked` is 0, expected a number of weights, e.g. 32".to_owned()));
        }
        Some(wire::Granularity::Blocked(block)) => Some(Granularity::Blocked(block)),
        Some(wire::Granularity::PerTensor) => Some(Granularity::PerTensor),
        Some(wire::Granularity::PerChannel) => Some(Granularity::PerChannel),
        None => None,
    };
    let observer = fields.observer.map(|observer| match observer {
        wire::WeightObserver::MinMax => WeightMethod::MinMax,
        wire::WeightObserver::Mse => WeightMethod::Mse,
    });
    let zero_point = fields.zero_point.map(|zero| match zero {
        wire::WeightZero::Auto => WeightZero::Auto,
        wire::WeightZero::Middle => WeightZero::Middle,
        wire::WeightZero::Free => WeightZero::Free,
    });
    Ok(WeightRule { dtype: fields.dtype.map(weight_type), granularity, observer, zero_point })
}

fn correction(wire: wire::Correction) -> Result<Correction> {
    Ok(match wire {
        wire::Correction::BiasCorrection => Correction::BiasCorrection,
        wire::Correction::CrossLayerEqualization => Correction::CrossLayerEqualization,
        wire::Correction::Smooth { alpha } => {
            check("alpha", Some(alpha), |a| (0.0..=1.0).contains(&a), "a share from 0 to 1")?;
            Correction::Smooth { alpha }
        }
        wire::Correction::LearnedRounding { steps } => Correction::LearnedRounding { steps },
    })
}

fn preprocess(wire: wire::Preprocess) -> Result<Preprocess> {
    check("crop", wire.crop, |c| c > 0.0 && c <= 1.0, "a share above 0 and at most 1")?;
    check("scale", Some(wire.scale), |s| s.is_finite() && s != 0.0, "a finite number other than 0")?;
    check("offset", Some(wire.offset), f64::is_finite, "a finite number")?;
    if wire.resize.0 == 0 || wire.resize.1 == 0 {
        return Err(wrong(format!("`resize` is {:?}, expected a height and a width above 0", wire.resize)));
    }
    Ok(Preprocess {
        resize: wire.resize,
        crop: wire.crop,
        color: match wire.color {
            wire::Color::Rgb => Color::Rgb,
            wire::Color::Bgr => Color::Bgr,
            wire::Color::Gray => Color::Gray,
        },
        layout: match wire.layout {
            wire::ImageLayout::Nhwc => ImageLayout::Nhwc,
            wire::ImageLayout::Nchw => ImageLayout::Nchw,
        },
        scale: wire.scale,
        offset: wire.offset,
    })
}

fn rule(text: &str, node: NodeIn<'_>) -> Result<NodeRule> {
    let name: String = from_piece(text, node.name.get_ron())?;
    let glob = compile_glob(&name).map_err(|e| wrong(format!("`{name}` is no glob: {e}")))?;
    let activations = node.activations.map(|raw| activation_rule(text, raw.get_ron())).transpose()?;
    Ok(NodeRule { name, glob, activations, weights: node.weights.map(weight_rule).transpose()? })
}

fn activation_rule(text: &str, piece: &str) -> Result<ActivationRule> {
    #[derive(Deserialize)]
    enum Word {
        Float,
    }
    if piece.trim_start().starts_with(|c: char| c.is_alphabetic()) {
        let Word::Float = from_piece(text, piece)?;
        return Ok(ActivationRule::Float);
    }
    let fields: ActivationFields = from_piece(text, piece)?;
    Ok(ActivationRule::Change {
        dtype: fields.dtype.map(activation_type),
        symmetric: fields.symmetric,
        observer: fields.observer.map(observer).transpose()?,
    })
}

/// Compiles a glob over node names, in which `*` crosses slashes.
pub(super) fn compile_glob(name: &str) -> std::result::Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(name).literal_separator(false).build()?.compile_matcher())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! From a float model to an ordinary quantized ONNX model.

use crate::batches::Progress;
use crate::capabilities::wants_halves;
use crate::config::Fallback;
use crate::data::{Affine, Data};
use crate::error::{Error, Result, codes};
use crate::mixed::{MixedPrecision, Task};
use crate::model::Model;
use crate::probe;
use crate::registry::Registry;
use crate::session::SessionOptions;
use crate::storage::Devices;
use ottava_graph::{Diagnostic, Graph, Phase};
use ottava_hal::RequantMode;
use ottava_import::ExportOptions;
use ottava_quantize::recipe::NodeRule;
use ottava_quantize::{Calibration, Quantized, Recipe};
use std::collections::BTreeMap;
use std::path::Path;

/// Where the ranges of the activations come from.
pub enum Source<'a> {
    /// The model runs over this data.
    Data {
        /// The samples.
        data: &'a Data,
        /// How they are fed.
        affine: Option<Affine>,
    },
    /// Statistics collected before.
    Calibration(&'a Calibration),
    /// None: activations are quantized at run time.
    Dynamic,
}

/// How to quantize.
#[derive(Debug, Clone, Default)]
pub struct QuantizeOptions {
    /// Every choice; the default is u8 activations by percentile 99.999, s8 weights per channel, bias correction.
    pub recipe: Recipe,
    /// How the model is compiled for calibration.
    pub session: SessionOptions,
    /// Quantize by the recipe alone, however large the error: no tensor is kept in float that it does not name, and what
    /// no chosen device has is an error.
    pub strict: bool,
}

/// A quantized model and the account of how it came about.
#[derive(Debug, Clone)]
pub struct QuantizedModel {
    /// The model, read back from the bytes.
    pub model: Model,
    /// The bytes of its ONNX file.
    pub bytes: Vec<u8>,
    /// What was quantized, what stays in float and why, and the complete recipe.
    pub report: ottava_quantize::Report,
    /// Multiply-accumulates of the float network's nodes by name, at batch 1.
    pub macs: BTreeMap<String, u64>,
    /// The search for mixed precision, if there was one.
    pub mixed: Option<MixedPrecision>,
    /// Findings worth a look.
    pub diagnostics: Vec<Diagnostic>,
}

impl Model {
    /// Quantizes a float model.
    pub fn quantize(
        &self,
        source: Source,
        registry: &Registry,
        options: &QuantizeOptions,
        progress: &mut Progress,
    ) -> Result<QuantizedModel> {
        check_offered(registry, &options.recipe)?;
        self.expect_graph()?;
        self.check_float()?;
        let canonical = probe::canonical_unbound(self, registry)?;
        let devices = Devices::chosen(registry, &options.session)?;
        let has_fallback = registry.config.fallback == Fallback::Reference;
        let (adapted, said) = devices.adapt(&canonical, &options.recipe, options.strict || !has_fallback)?;
        let options = &QuantizeOptions { recipe: adapted, ..options.clone() };
        let recipe = &options.recipe;
        let fail = |e| quantize_error(e, self);
        let (mut result, mixed) = match source {
            Source::Data { data, affine } => {
                Task { model: self, canonical: &canonical, registry, options, data, affine }.run(progress)?
            }
            _ if recipe.target_sqnr_db.is_some() => return Err(needs_data(&self.origin)),
            Source::Dynamic => (ottava_quantize::quantize_dynamic(&canonical, recipe).map_err(fail)?, None),
            Source::Calibration(calibration) => {
                let mut result = ottava_quantize::quantize(&canonical, calibration, recipe).map_err(fail)?;
                result.diagnostics.extend(unmeasured(options));
                (result, None)
            }
        };
        result.diagnostics.extend(unused_rules(recipe, [&canonical, &self.graph]));
        let dims = self.dims(1, &options.session.dims).unwrap_or_default();
        let mut quantized = self.finish(result, mixed, ottava_quantize::search::node_macs(&canonical, &dims))?;
        quantized.diagnostics.extend(said);
        let found = devices.check(&quantized.model, registry, &options.session)?;
        if let Some(found) = found.as_ref().filter(|_| options.strict) {
            let e = Error::unsupported(codes::QUANTIZE, found.message.clone()).in_file(&self.origin);
            return Err(e.help("quantize without `strict`, or name a device that runs it"));
        }
        quantized.diagnostics.extend(found);
        if wants_halves(recipe) {
            devices.expect_halves(&quantized.model, registry, &options.session)?;
        }
        Ok(quantized)
    }

    /// A model that holds integer operators already has scales of its own, which a second quantization would not keep.
    fn check_float(&self) -> Result<()> {
        let mut quantized = self.graph.nodes.iter().filter(|n| crate::model::is_quantized(n));
        let Some(first) = quantized.next() else { return self.check_types() };
        Err(Error::invalid(codes::QUANTIZE, "the model is already quantized")
            .in_file(&self.origin)
            .at(format!("`{}`", first.name))
            .found(format!(
                "{} operators that quantize or are integer, the first is {}",
                quantized.count() + 1,
                first.op
            ))
            .expected("a float model")
            .help("quantize the float model that it was made from"))
    }

    /// A file whose tensors carry scales (TFLite) is quantized without an operator that says so.
    fn check_types(&self) -> Result<()> {
        let Some(value) = self.graph.values.iter().find(|v| v.ty.quant.is_some()) else { return Ok(()) };
        Err(Error::invalid(codes::QUANTIZE, "the model is already quantized")
            .in_file(&self.origin)
            .at(format!("`{}`", value.name))
            .found(format!("a tensor of {} with a scale", value.ty.dtype))
            .expected("a float model")
            .help("quantize the float model that it was made from"))
    }

    fn finish(
        &self,
        quantized: Quantized,
        mixed: Option<MixedPrecision>,
        macs: BTreeMap<String, u64>,
    ) -> Result<QuantizedModel> {
        let Quantized { mut graph, mut report, mut diagnostics, rescaled } = quantized;
        if let Some(mixed) = &mixed {
            for node in &mut report.float {
                node.reason = mixed.reason(&node.name).unwrap_or_else(|| std::mem::take(&mut node.reason));
            }
            diagnostics.extend(mixed.diagnostic());
        }
        // Types of inner values follow from the rest of the file; declared, they would be a good part of a small one.
        graph.phase = Phase::Imported;
        let values = self.graph.values.iter().map(|v| v.name.clone());
        let names = values.chain(self.graph.nodes.iter().map(|n| n.name.clone()));
        // A rescaled value under its old name would be compared with numbers that it no longer has.
        let kept = names.filter(|name| !rescaled.contains(name)).collect();
        let unnamed = crate::compact::compact(&mut graph, &kept);
        let options = ExportOptions { metadata: recipe_entry(&report.recipe), unnamed };
        let bytes = Model { graph, ..self.clone() }.to_file(&options)?;
        let model = Model::from_bytes(&self.origin, &bytes)?;
        Ok(QuantizedModel { model, bytes, report, macs, mixed, diagnostics })
    }
}

impl QuantizedModel {
    /// The share of the multiply-accumulates that stays in float.
    pub fn float_macs(&self) -> f64 {
        let of = |name: &str| self.macs.get(name).copied().unwrap_or(0) as f64;
        let total: f64 = self.macs.values().map(|m| *m as f64).sum();
        // The sum of nothing is -0.
        self.report.float.iter().map(|n| of(&n.name)).sum::<f64>() / total.max(1.0) + 0.0
    }

    /// The model with QOperator nodes (`QLinearConv`, ..) in the place of nodes between DequantizeLinear and
    /// QuantizeLinear, for runtimes that know only this form. Notes name what has no such form and what rounds otherwise.
    pub fn into_qoperator(self) -> Result<Self> {
        let (graph, notes) = ottava_compiler::to_qoperator(&self.model.graph).map_err(|e| self.model.invalid(e))?;
        let bytes = Model { graph, ..self.model.clone() }.to_bytes(recipe_entry(&self.report.recipe))?;
        let model = Model::from_bytes(&self.model.origin, &bytes)?;
        let diagnostics = self.diagnostics.into_iter().chain(notes).collect();
        Ok(Self { model, bytes, diagnostics, ..self })
    }

    /// Writes the ONNX file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, &self.bytes).map_err(|e| Error::writing(codes::MODEL_WRITE, path, &e))
    }
}

/// The recipe as an entry of the file's metadata: on one line, without what it does not ask for.
fn recipe_entry(recipe: &str) -> BTreeMap<String, String> {
    const ABSENT: [&str; 5] =
        ["preprocess: None,", "integer_only: false,", "target_sqnr_db: None,", "max_float_macs: None,", "nodes: [],"];
    let lines = recipe.lines().map(str::trim).filter(|line| !ABSENT.contains(line));
    let line = lines.map(|line| match line.split_once(": ") {
        Some((key, value)) if !key.contains('"') => format!("{key}:{value}"),
        _ => line.to_owned(),
    });
    BTreeMap::from([("ottava.recipe".to_owned(), line.collect())])
}

/// Choices that exist but are not carried out by this version are refused, never skipped.
fn check_offered(registry: &Registry, recipe: &Recipe) -> Result<()> {
    let config = &registry.config;
    let refuse = |code: &str, key: &str, what: &str, help: &str| {
        let e = Error::unsupported(code, format!("{what} is not part of this version"));
        Err(e.at(format!("key `{key}`")).help(help))
    };
    if config.requantize != RequantMode::Fp32Rne {
        let what = "quantizing for another requantization than Fp32Rne";
        return refuse(codes::CONFIG_UNAVAILABLE, "requantize", what, "write `requantize: Fp32Rne`");
    }
    if recipe.target_sqnr_db.is_some() && recipe.integer_only {
        let what = "keeping nodes in float in an integer-only network";
        return refuse(codes::RECIPE, "target_sqnr_db", what, "write `target_sqnr_db: None` or `integer_only: false`");
    }
    Ok(())
}

/// What statistics alone leave out: nothing is run, so no error is measured and no search keeps tensors in more bits.
fn unmeasured(options: &QuantizeOptions) -> Option<Diagnostic> {
    let what = "quantized by statistics alone: the output's error was not measured, and no tensor was kept in more bits \
                for it";
    let help = "give calibration data to have it measured, or say `--strict` if the recipe is to decide alone";
    (!options.strict).then(|| Diagnostic::note("Q0108", "", what).with_help(help))
}

fn needs_data(origin: &Path) -> Error {
    Error::invalid(codes::RECIPE, "a target for the output's signal-to-noise ratio is measured by running the network")
        .in_file(origin)
        .at("key `target_sqnr_db`")
        .help("give calibration data, not statistics of it")
}

/// A warning for each pattern that matches no node: a misspelt name would go unnoticed.
fn unused_rules(recipe: &Recipe, graphs: [&Graph; 2]) -> Vec<Diagnostic> {
    let names = || graphs.into_iter().flat_map(|g| &g.nodes).map(|n| n.name.as_str());
    let warn = |rule: &NodeRule| {
        let what = format!("the recipe's pattern `{}` under `nodes` matches no node", rule.name);
        let help = match crate::suggest::nearest(&rule.name, names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "compare it with the names of the nodes in the model".to_owned(),
        };
        Diagnostic::warning(codes::RECIPE_UNUSED, "", what).with_help(help)
    };
    recipe.nodes.iter().filter(|rule| !names().any(|name| rule.glob.is_match(name))).map(warn).collect()
}

pub(crate) fn quantize_error(e: ottava_quantize::Error, model: &Model) -> Error {
    use ottava_quantize::Error as Q;
    let text = e.to_string();
    let error = match e {
        Q::Unsupported { .. } => Error::unsupported(codes::QUANTIZE, text),
        Q::BadCalibration { .. } | Q::Merge { .. } | Q::OtherModel { .. } | Q::NoData { .. } => {
            Error::invalid(codes::CALIBRATION, text)
        }
        _ => Error::invalid(codes::QUANTIZE, text),
    };
    error.in_file(&model.origin)
}

/// Reads a recipe file.
pub fn load_recipe(path: &Path) -> Result<Recipe> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::reading(codes::RECIPE, path, &e))?;
    Recipe::parse(&text).map_err(|e| recipe_error(e, &text).in_file(path))
}

fn recipe_error(e: ottava_quantize::Error, text: &str) -> Error {
    let ottava_quantize::Error::Recipe { line, column, message, help } = e else {
        return Error::invalid(codes::RECIPE, e.to_string());
    };
    let error = Error::invalid(codes::RECIPE, message);
    let error = if line > 0 { error.at_text(text, line, column) } else { error };
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_of_a_file_reads_back() {
        let mut recipe = Recipe::default();
        let plain = &recipe_entry(&recipe.to_ron())["ottava.recipe"];
        assert_eq!(Recipe::parse(plain).expect("a recipe").to_ron(), recipe.to_ron());
        assert!(plain.len() < 240 && !plain.contains('\n'), "{plain}");
        recipe.keep_float("a: b \" nodes: [], c");
        recipe.integer_only = true;
        let entry = &recipe_entry(&recipe.to_ron())["ottava.recipe"];
        assert_eq!(Recipe::parse(entry).expect("a recipe").to_ron(), recipe.to_ron());
    }
}

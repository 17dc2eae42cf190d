//! TFLite model to graph.
//!
//! Steps: read the tables (`schema` over `flatbuffer`), make inputs, build every operator of the first subgraph in the
//! order of the file (`ops`), make outputs, verify. Problems are collected over all operators.

use super::cx::{Built, Cx, Layout};
use super::flatbuffer::{Budget, Damage, Source};
use super::ops::{names, state, table};
use super::schema::{Model, Operator, SubGraph};
use crate::ImportError;
use crate::onnx::raw::Refusal;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::RequantMode;
use std::path::Path;

/// How to import a TFLite model.
#[derive(Clone, Copy, Debug)]
pub struct TfliteOptions {
    /// How accumulators are rescaled. TFLite's reference kernels are `q31_double`.
    pub requant: RequantMode,
}

impl Default for TfliteOptions {
    fn default() -> Self {
        Self { requant: RequantMode::Q31Double }
    }
}

/// Whether the bytes of a file are a TFLite model: by the identifier behind the first offset.
pub fn is_tflite(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(b"TFL3")
}

/// Imports the model file at `path`. The diagnostics are notes and warnings; errors refuse the model.
pub fn import_tflite(path: &Path, options: &TfliteOptions) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    let meta = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    if !meta.is_file() {
        let why = "not a regular file; name the model file itself";
        return Err(ImportError::io(path, std::io::Error::new(std::io::ErrorKind::InvalidInput, why)));
    }
    let bytes = std::fs::read(path).map_err(|e| ImportError::io(path, e))?;
    import_tflite_bytes(&bytes, &path.display().to_string(), options)
}

/// Imports a model from memory; `origin` names it in errors.
pub fn import_tflite_bytes(
    bytes: &[u8],
    origin: &str,
    options: &TfliteOptions,
) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    let damaged = |e: Damage| ImportError::FlatBuffer {
        origin: origin.to_owned(),
        offset: e.offset,
        place: e.place.to_owned(),
        what: e.what,
    };
    if !is_tflite(bytes) {
        let what = "the identifier TFL3 is missing".to_owned();
        return Err(damaged(Damage { offset: 4, place: "the root", what }));
    }
    let budget = Budget::of_file(bytes.len());
    let model = Model::read(Source::new(bytes, &budget)).map_err(damaged)?;
    let refused = |diagnostics| ImportError::Refused { origin: origin.to_owned(), diagnostics };
    let Some(main) = model.subgraphs.first() else {
        let none = Refusal::Invalid("the model has no subgraph".into());
        return Err(refused(vec![diagnostic("", none)]));
    };
    build(&model, main, options, &budget).map_err(refused)
}

/// Builds a subgraph of a model.
fn build(
    model: &Model<'_>,
    sub: &SubGraph<'_>,
    options: &TfliteOptions,
    budget: &Budget,
) -> Result<(Graph, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut cx =
        Cx::new(model, sub, options.requant, budget, has_open_batch(model, sub) && !state::is_stateful(model, sub));
    let mut problems = Vec::new();
    for index in &sub.inputs {
        if let Err(e) = cx.tensor(*index).and_then(|t| cx.add_input(t)) {
            problems.push(diagnostic("", e));
        }
    }
    for op in &sub.operators {
        if let Err(e) = operator(&mut cx, op) {
            problems.push(e);
            // What reads a refused result is not to blame.
            let results: Vec<usize> = op.outputs.iter().filter_map(|t| cx.tensor(*t).ok()).collect();
            results.into_iter().for_each(|t| cx.hole(t));
        }
    }
    if problems.is_empty()
        && let Err(e) = outputs(&mut cx)
    {
        problems.push(diagnostic("", e));
    }
    if options.requant != TfliteOptions::default().requant && cx.graph.nodes.iter().any(|n| n.requant.is_some()) {
        let what = format!("integers are rescaled as {}, not as LiteRT's reference kernels do", options.requant);
        cx.notes.push(Diagnostic::note("Q0407", "", what));
    }
    if problems.is_empty() { Ok((cx.graph, cx.notes)) } else { Err(problems) }
}

fn operator(cx: &mut Cx<'_>, op: &Operator<'_>) -> Result<(), Diagnostic> {
    let place = |cx: &Cx<'_>| op.outputs.first().and_then(|t| cx.tensor(*t).ok()).map(|t| cx.def(t).name.clone());
    let code = usize::try_from(op.code).ok().and_then(|i| cx.model.codes.get(i));
    let Some(code) = code else {
        let what = format!("operator code {} does not exist; the model has {}", op.code, cx.model.codes.len());
        return Err(diagnostic(&place(cx).unwrap_or_default(), Refusal::Invalid(what)));
    };
    let (name, built) = if code.builtin == CUSTOM {
        (format!("custom operator `{}`", code.custom), Refusal::unsupported(custom(&code.custom)))
    } else {
        let name = names::name(code.builtin).map_or_else(|| format!("operator {}", code.builtin), str::to_owned);
        let built = match table::find(code.builtin) {
            Some(build) => build(cx, op),
            None => Refusal::unsupported(table::why_not(code.builtin)),
        };
        (name, built)
    };
    let at = || format!("{name} (version {})", code.version);
    built.map_err(|e| diagnostic(&place(cx).unwrap_or_default(), e.at(&at())))
}

/// Why a custom operator is refused, and what to do.
fn custom(name: &str) -> &'static str {
    match name {
        "TFLite_Detection_PostProcess" => {
            "custom operators are not supported; export the detector without its post-processing (the raw boxes and \
             scores as outputs) and choose boxes in the program, or use NON_MAX_SUPPRESSION_V4"
        }
        _ => "custom operators are not supported; convert the model with built-in operators only",
    }
}

/// The built-in code that stands for a name.
const CUSTOM: i32 = 32;

/// Results of the model in the file's layout, then the checks of the whole graph.
fn outputs(cx: &mut Cx<'_>) -> Built {
    for index in cx.sub.outputs.clone() {
        let t = cx.tensor(index)?;
        let id = cx.value(t, Layout::File)?;
        cx.graph.outputs.push(id);
    }
    state::finish(cx)?;
    cx.graph.remove_dead();
    cx.graph.compact();
    ottava_graph::infer_types(&mut cx.graph)?;
    Ok(ottava_graph::verify(&cx.graph)?)
}

/// Whether open extents can stay open: a RESHAPE to a constant shape without -1 only knows the shape of the file.
fn has_open_batch(model: &Model<'_>, sub: &SubGraph<'_>) -> bool {
    const RESHAPE: i32 = 22;
    let code = |op: &Operator<'_>| usize::try_from(op.code).ok().and_then(|i| model.codes.get(i)).map(|c| c.builtin);
    let follows = |op: &Operator<'_>| {
        let shape = op.inputs.get(1).and_then(|t| sub.tensors.get(usize::try_from(*t).ok()?));
        shape.is_some_and(|s| s.data.is_empty() || s.data.chunks_exact(4).any(|d| d == (-1i32).to_le_bytes()))
    };
    sub.operators.iter().filter(|op| code(op) == Some(RESHAPE)).all(follows)
}

fn diagnostic(place: &str, refusal: Refusal) -> Diagnostic {
    match refusal {
        Refusal::Invalid(what) => {
            Diagnostic::error("M0101", place, what).with_help("the model breaks the format's rules")
        }
        Refusal::Unsupported(what) => Diagnostic::error("M0102", place, what),
    }
}

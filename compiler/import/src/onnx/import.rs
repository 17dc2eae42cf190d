//! ONNX model to graph.
//!
//! Steps, each in its file: decode (`decode`), write functions out (`functions`), read attributes (`attribute`),
//! sort (`order`), bring operators to their newest form (`forms`), make the graph (`build`), and here the frame around
//! them: operator sets, inputs, constants, declared types. Problems are collected over all steps; a model with any is
//! refused with the whole list.
use super::build::{Parts, build};
use super::decode::{decode_model, read_file};
use super::external::ExternalData;
use super::forms::{self, Cx};
use super::functions::{self, FlatNode, Opsets};
use super::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use super::raw::{Problem, RawNode, Refusal, full_op};
use super::{attribute, order, states, types};
use crate::ImportError;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{DataType, Tensor, TensorType};
use prost::bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Operator sets of the standard domain that are understood.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;

/// How to import a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Where weights outside the model lie. By default the folder of the model file; a model that comes as bytes
    /// has none.
    pub folder: Option<PathBuf>,
}

/// Imports the model file at `path`. The diagnostics are notes and warnings; errors refuse the model.
pub fn import_onnx(path: &Path, options: &ImportOptions) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    let folder = options.folder.clone().or_else(|| path.parent().map(Path::to_owned));
    let options = ImportOptions { folder };
    import_onnx_bytes(read_file(path)?, &path.display().to_string(), &options)
}

/// Imports a model from memory; `origin` names it in errors.
pub fn import_onnx_bytes(
    bytes: Bytes,
    origin: &str,
    options: &ImportOptions,
) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    let model = decode_model(bytes, origin)?;
    let external = options.folder.as_deref().map_or_else(ExternalData::none, ExternalData::in_folder);
    let mut importer = Importer { external, ..Importer::default() };
    let graph = importer.run(model);
    match graph {
        Some(graph) if importer.problems.is_empty() => Ok((graph, importer.notes)),
        _ => Err(ImportError::Refused { origin: origin.to_owned(), diagnostics: diagnostics(importer) }),
    }
}

fn diagnostics(importer: Importer) -> Vec<Diagnostic> {
    let error = |problem: Problem| {
        let node = problem.node.unwrap_or_default();
        match problem.refusal {
            Refusal::Invalid(what) => {
                Diagnostic::error("M0101", node, what).with_help("the model breaks the format's rules")
            }
            Refusal::Unsupported(what) => Diagnostic::error("M0102", node, what),
        }
    };
    importer.problems.into_iter().map(error).collect()
}

#[derive(Default)]
struct Importer {
    external: ExternalData,
    cx: Cx,
    problems: Vec<Problem>,
    notes: Vec<Diagnostic>,
    /// Declared types of computed values.
    declared: HashMap<String, TensorType>,
    inputs: Vec<(String, TensorType)>,
}

impl Importer {
    fn run(&mut self, model: ModelProto) -> Option<Graph> {
        let opsets = self.opsets(&model);
        if !model.training_info.is_empty() {
            self.model_problem(Refusal::Unsupported(
                "training information is not supported; export for inference".into(),
            ));
        }
        let states = states::read(&model.metadata_props);
        let Some(mut graph) = model.graph else {
            self.model_problem(Refusal::Invalid("the model has no graph".into()));
            return None;
        };
        self.constants(&mut graph);
        self.inputs(&graph, model.ir_version);
        self.outputs(&graph);
        let constant = |name: &str| self.cx.constants.iter().find(|(n, _)| n == name).map(|(_, data)| data.clone());
        let states: Vec<_> = states.into_iter().map(|s| (constant(s.initial()), s)).collect();
        let nodes = self.nodes(std::mem::take(&mut graph.node), &model.functions, &opsets);
        let known = self.cx.constants.iter().map(|(name, _)| name.as_str());
        let known: Vec<_> = known.chain(self.inputs.iter().map(|(name, _)| name.as_str())).map(str::to_owned).collect();
        let nodes = order::sort(nodes, known.iter().map(String::as_str), &mut self.problems);
        forms::modernise(nodes, &mut self.cx, &mut self.problems);
        if !self.problems.is_empty() {
            return None;
        }
        let inputs = std::mem::take(&mut self.inputs);
        let parts = Parts { opsets: &opsets, inputs, declared: &self.declared, cx: std::mem::take(&mut self.cx) };
        match build(&graph, parts) {
            Ok(mut graph) => {
                states.into_iter().for_each(|(initial, s)| s.apply(&mut graph, initial, &mut self.notes));
                Some(graph)
            }
            Err(refusals) => {
                refusals.into_iter().for_each(|refusal| self.model_problem(refusal));
                None
            }
        }
    }

    fn model_problem(&mut self, refusal: Refusal) {
        self.problems.push(Problem::model(refusal));
    }

    /// The declared operator sets; that of the standard domain must be one that is understood.
    fn opsets(&mut self, model: &ModelProto) -> Opsets {
        let mut opsets = Opsets::new();
        for import in model.opset_import.iter().chain(model.functions.iter().flat_map(|f| &f.opset_import)) {
            if functions::domain(&import.domain).is_empty() && !OPSETS.contains(&import.version) {
                let (found, low, high) = (import.version, OPSETS.start(), OPSETS.end());
                self.model_problem(Refusal::Unsupported(format!(
                    "operator set {found}; supported are {low} to {high}"
                )));
            }
        }
        for import in &model.opset_import {
            let domain = functions::domain(&import.domain);
            if opsets.insert(domain, import.version).is_some_and(|earlier| earlier != import.version) {
                self.model_problem(Refusal::Invalid(format!(
                    "domain `{}` is declared with two versions",
                    import.domain
                )));
            }
        }
        opsets
    }

    fn constants(&mut self, graph: &mut GraphProto) {
        if let Some(sparse) = graph.sparse_initializer.first() {
            let name = sparse.values.as_ref().map_or("", |v| v.name.as_str());
            self.model_problem(Refusal::Unsupported(format!("constant `{name}` is sparse; store it dense")));
        }
        for proto in std::mem::take(&mut graph.initializer) {
            if proto.name.is_empty() || !self.cx.values.take(&proto.name) {
                let name = &proto.name;
                self.model_problem(Refusal::Invalid(format!("constant `{name}` is unnamed or defined twice")));
                continue;
            }
            match attribute::tensor(&proto, &mut self.external) {
                Ok(data) => {
                    self.notes.extend(nan_warning(&proto.name, &data));
                    self.cx.add_constant(proto.name, data);
                }
                Err(refusal) => {
                    self.model_problem(refusal);
                    self.hole(vec![proto.name]);
                }
            }
        }
    }

    /// Inputs that are constants too are constants: the oldest files list all of them, newer ones mean a default.
    fn inputs(&mut self, graph: &GraphProto, ir_version: i64) {
        let constants: HashSet<String> = self.cx.constants.iter().map(|(name, _)| name.clone()).collect();
        for info in &graph.input {
            let name = &info.name;
            if constants.contains(name) {
                if ir_version >= 4 {
                    let what = "input has a default value, which is taken as a constant";
                    self.notes.push(Diagnostic::note("M0103", name, what));
                }
                continue;
            }
            if name.is_empty() || !self.cx.values.take(name) {
                self.model_problem(Refusal::Invalid(format!("input `{name}` is unnamed or defined twice")));
                continue;
            }
            match types::read(info, |axis| format!("{name}_dim{axis}")) {
                Ok(Some(ty)) => {
                    self.cx.dtypes.insert(name.clone(), ty.dtype);
                    self.inputs.push((name.clone(), ty));
                }
                Ok(None) => {
                    let what = format!("input `{name}` declares no shape; write one, with names for open dimensions");
                    self.model_problem(Refusal::Unsupported(what));
                    self.hole(vec![name.clone()]);
                }
                Err(refusal) => {
                    self.model_problem(refusal);
                    self.hole(vec![name.clone()]);
                }
            }
        }
    }

    /// Declared types of outputs and inner values. Inner values of other types matter only if a node is kept that
    /// makes them, and are refused there.
    fn outputs(&mut self, graph: &GraphProto) {
        for info in &graph.output {
            if let Err(refusal) = self.declare(info) {
                self.model_problem(refusal);
            }
            self.cx.used.insert(info.name.clone());
        }
        for info in &graph.value_info {
            // A wrong hint does no harm: types are inferred.
            let _ = self.declare(info);
        }
    }

    fn declare(&mut self, info: &ValueInfoProto) -> Result<(), Refusal> {
        if let Some(dtype) = types::element_type(info) {
            self.cx.dtypes.entry(info.name.clone()).or_insert(dtype);
        }
        if let Some(ty) = types::read(info, |axis| format!("{}:{axis}", info.name))? {
            self.declared.entry(info.name.clone()).or_insert(ty);
        }
        Ok(())
    }

    /// All nodes with functions written out and attributes read.
    fn nodes(&mut self, nodes: Vec<NodeProto>, functions: &[FunctionProto], opsets: &Opsets) -> Vec<RawNode> {
        // Taken names keep values that functions bring apart; that a name is defined once is checked by `order`.
        for name in nodes.iter().flat_map(|n| &n.output).filter(|name| !name.is_empty()) {
            self.cx.values.take(name);
        }
        let (values, node_names) = (&mut self.cx.values, &mut self.cx.node_names);
        let flat = functions::flatten(nodes, functions, opsets.clone(), values, node_names, &mut self.problems);
        let raw: Vec<_> = flat.into_iter().filter_map(|flat| self.raw_node(flat)).collect();
        self.cx.used.extend(raw.iter().flat_map(|n| n.inputs.iter().flatten().cloned()));
        raw
    }

    fn raw_node(&mut self, flat: FlatNode) -> Option<RawNode> {
        let FlatNode { node, opsets } = flat;
        let domain = functions::domain(&node.domain);
        let version = opsets.get(&domain).and_then(|&v| u32::try_from(v).ok());
        // ONNX Runtime's own operators have one version, and some writers forget to declare it.
        let version = version.or((domain == ottava_ops::MICROSOFT).then_some(1));
        let op = full_op(&domain, &node.op_type);
        let attrs = match version {
            Some(_) => attribute::read_all(&node.attribute, &mut self.external),
            None => Refusal::invalid(format!("no operator set is declared for domain `{domain}`")),
        };
        let attrs = match attrs {
            Ok(attrs) => attrs,
            Err(refusal) => {
                let refusal = match forms::table::find(&domain, &node.op_type) {
                    // The operator itself is the better reason.
                    None => Refusal::Unsupported(forms::table::why_not(&domain, &node.op_type)),
                    Some(_) => refusal,
                };
                let refusal = refusal.at(&format!("{op} (operator set {})", version.unwrap_or(0)));
                self.problems.push(Problem { node: Some(node.name), refusal });
                self.hole(node.output);
                return None;
            }
        };
        let named = |list: Vec<String>| list.into_iter().map(|v| Some(v).filter(|v| !v.is_empty())).collect();
        let (inputs, outputs) = (named(node.input), named(node.output));
        Some(RawNode { name: node.name, op: node.op_type, domain, version: version?, inputs, outputs, attrs })
    }

    /// Makes refused values known, so that the nodes that read them are not reported too.
    fn hole(&mut self, values: Vec<String>) {
        let ty = TensorType::fixed(DataType::F32, &[]);
        self.inputs.extend(values.into_iter().filter(|name| !name.is_empty()).map(|name| (name, ty.clone())));
    }
}

/// A warning where a constant holds NaN, which no training means.
fn nan_warning(name: &str, data: &Tensor) -> Option<Diagnostic> {
    let idx = match data.dtype() {
        DataType::F32 => data.as_slice::<f32>().ok()?.iter().position(|v| v.is_nan()),
        DataType::F64 => data.as_slice::<f64>().ok()?.iter().position(|v| v.is_nan()),
        DataType::F16 => data.as_slice::<half::f16>().ok()?.iter().position(|v| v.is_nan()),
        DataType::BF16 => data.as_slice::<half::bf16>().ok()?.iter().position(|v| v.is_nan()),
        _ => None,
    }?;
    let what = format!("element {idx} of the constant is NaN; everything computed from it may be");
    Some(Diagnostic::warning("M0104", name, what).with_help("train or export the network again"))
}

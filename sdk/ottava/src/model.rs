//! A network as read from a file, and what can be said about it without running it.

use crate::error::{Error, Result, codes};
use ottava_graph::{Diagnostic, Graph, State};
use ottava_hal::{Dim, RequantMode, Tensor, TensorType};
use ottava_import::{
    ExportOptions, ImportError, ImportOptions, TfliteOptions, export_onnx, import_onnx_bytes, import_tflite_bytes,
    is_tflite,
};
use ottava_plan::{FileError, Plan, PlanFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network.
#[derive(Debug, Clone)]
pub struct Model {
    /// The file, or what stands for it in messages.
    pub origin: PathBuf,
    /// The graph as imported.
    pub graph: Graph,
    /// Notes and warnings of the import.
    pub diagnostics: Vec<Diagnostic>,
    /// Size of the file, bytes (without weights that lie beside it).
    pub size_bytes: u64,
    /// The compiled form, if the file is a plan; the graph then has inputs and outputs and no nodes.
    pub plan: Option<Arc<Plan>>,
    /// The requantization mode that was asked for instead of the file's own.
    pub requant: Option<RequantMode>,
}

/// What `inspect` says about a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Inputs with their types.
    pub inputs: Vec<(String, TensorType)>,
    /// Outputs with their types.
    pub outputs: Vec<(String, TensorType)>,
    /// Values that live from run to run.
    pub states: Vec<(String, TensorType)>,
    /// Operators with counts.
    pub ops: BTreeMap<String, usize>,
    /// Elements of all constants that nodes read.
    pub params: u64,
    /// Multiply-accumulates of one inference at batch 1; `None` where shapes are not known before a run.
    pub macs: Option<u64>,
    /// Nodes that quantize, dequantize, or work on integers by their name.
    pub quantized_ops: usize,
    /// Symbolic dimensions of the inputs.
    pub symbols: Vec<String>,
    /// Nodes by their requantization mode, those that have one.
    pub requant: BTreeMap<&'static str, usize>,
}

impl Model {
    /// Reads an ONNX or TFLite file; the format follows from the content.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_as(path, None)
    }

    /// Reads a file whose integers are to be rescaled in this mode instead of the file's own. A TFLite file leaves that
    /// choice to its runtime, other files do not; for them a mode is an error.
    pub fn load_as(path: impl AsRef<Path>, requant: Option<RequantMode>) -> Result<Self> {
        let path = path.as_ref();
        // Reading a pipe or a device might never end.
        if let Some(meta) = std::fs::metadata(path).ok().filter(|meta| !meta.is_file()) {
            let what = if meta.is_dir() { "this is a folder" } else { "this is no regular file" };
            return Err(Error::invalid(codes::MODEL_FILE, what).in_file(path).expected("an `.onnx` or `.tflite` file"));
        }
        if is_plan(path) {
            fixed_mode(path, requant, "a plan keeps the modes that it was compiled with")?;
            return Self::of_plan(path);
        }
        let bytes = std::fs::read(path).map_err(|e| Error::reading(codes::MODEL_FILE, path, &e))?;
        Self::import(path.to_path_buf(), bytes, path.parent().map(Path::to_path_buf), requant)
    }

    /// Reads a plan: inputs, outputs and the compiled form.
    fn of_plan(path: &Path) -> Result<Self> {
        let wrong = |e: FileError| match e {
            FileError::Io { source, .. } => Error::reading(codes::PLAN, path, &source),
            other => Error::invalid(codes::PLAN, other.to_string()).in_file(path),
        };
        let plan = PlanFile::open(path).map_err(wrong)?;
        let mut graph = Graph::new(plan.name.clone());
        for slot in plan.inputs.iter().map(|i| &plan.slots[*i]) {
            graph.add_input(&slot.name, slot.ty.clone());
        }
        for slot in plan.outputs.iter().map(|i| &plan.slots[*i]) {
            let id = graph.find_value(&slot.name).unwrap_or_else(|| graph.add_value(&slot.name, slot.ty.clone()));
            graph.outputs.push(id);
        }
        let size_bytes = std::fs::metadata(path).map_err(|e| Error::reading(codes::PLAN, path, &e))?.len();
        let (origin, diagnostics) = (path.to_path_buf(), Vec::new());
        Ok(Self { origin, graph, diagnostics, size_bytes, plan: Some(Arc::new(plan)), requant: None })
    }

    /// Reads an ONNX or TFLite model from memory; `origin` stands for it in messages. Weights outside the model are refused.
    pub fn from_bytes(origin: impl Into<PathBuf>, bytes: &[u8]) -> Result<Self> {
        Self::import(origin.into(), bytes.to_vec(), None, None)
    }

    fn import(origin: PathBuf, bytes: Vec<u8>, folder: Option<PathBuf>, requant: Option<RequantMode>) -> Result<Self> {
        let name = origin.display().to_string();
        let size_bytes = bytes.len() as u64;
        let imported = if is_tflite(&bytes) {
            let options = requant.map_or_else(TfliteOptions::default, |requant| TfliteOptions { requant });
            import_tflite_bytes(&bytes, &name, &options)
        } else {
            fixed_mode(&origin, requant, "an ONNX model has the arithmetic of ONNX, fp32_rne")?;
            import_onnx_bytes(bytes.into(), &name, &ImportOptions { folder })
        };
        let (graph, diagnostics) = imported.map_err(|e| import_error(&origin, e))?;
        Ok(Self { origin, graph, diagnostics, size_bytes, plan: None, requant })
    }

    /// The bytes of an ONNX file; equal graphs give equal bytes.
    pub fn to_bytes(&self, metadata: BTreeMap<String, String>) -> Result<Vec<u8>> {
        self.to_file(&ExportOptions { metadata, ..ExportOptions::default() })
    }

    /// As [`Self::to_bytes`], with a choice of what to write.
    pub(crate) fn to_file(&self, options: &ExportOptions) -> Result<Vec<u8>> {
        export_onnx(&self.graph, options).map_err(|e| Error::unsupported(codes::MODEL_WRITE, e.to_string()))
    }

    /// Values that live from run to run, with their types. They are neither among the inputs nor the outputs.
    pub fn states(&self) -> Vec<(String, TensorType)> {
        let of_graph = |s: &State| (s.name.clone(), self.graph.ty(self.graph.inputs[s.input]).clone());
        let of_plan = |p: &Plan| p.states.iter().map(|s| (s.name.clone(), p.slots[s.input].ty.clone())).collect();
        self.plan.as_deref().map_or_else(|| self.graph.states.iter().map(of_graph).collect(), of_plan)
    }

    /// Inputs with their declared types.
    pub fn inputs(&self) -> Vec<(String, TensorType)> {
        named(&self.graph, self.graph.caller_inputs())
    }

    /// Outputs with their declared types.
    pub fn outputs(&self) -> Vec<(String, TensorType)> {
        named(&self.graph, self.graph.caller_outputs())
    }

    /// Symbols that stand on axis 0 of an input: the batch.
    pub fn batch_symbols(&self) -> BTreeSet<String> {
        let first = |id: ottava_hal::ValueId| match self.graph.ty(id).shape.0.first() {
            Some(Dim::Sym(s)) => Some(s.to_string()),
            _ => None,
        };
        self.graph.caller_inputs().filter_map(first).collect()
    }

    /// Rows per inference: the fixed extent of axis 0 of the first input, if its file fixes it.
    pub fn fixed_batch(&self) -> Option<usize> {
        let first = self.graph.caller_inputs().next()?;
        self.graph.ty(first).shape.0.first()?.known()
    }

    /// Values for every symbolic dimension: those given, the batch for those on axis 0. A symbol that has no value, or a
    /// name that is none, is an error.
    pub fn dims(&self, batch: usize, given: &BTreeMap<String, usize>) -> Result<BTreeMap<String, usize>> {
        let known = ottava_graph::symbols(&self.graph);
        let fail = |what: String| Error::invalid(codes::MODEL_DIM, what).in_file(&self.origin);
        if let Some(name) = given.keys().find(|k| !known.contains(k)) {
            let hint = crate::suggest::hint(name, known.iter().map(String::as_str));
            return Err(fail(format!("the model has no symbolic dimension `{name}`")).help(hint));
        }
        if let Some((name, _)) = given.iter().find(|(_, n)| **n == 0) {
            return Err(fail(format!("the dimension `{name}` cannot be 0")));
        }
        let on_axis_0 = self.batch_symbols();
        let value = |s: String| match given.get(&s).copied().or(on_axis_0.contains(&s).then_some(batch)) {
            Some(n) => Ok((s, n)),
            None => {
                Err(fail(format!("the symbolic dimension `{s}` has no value")).help(format!("give one: `--dim {s}=N`")))
            }
        };
        known.into_iter().map(value).collect()
    }

    /// Values of the symbols, from the shapes of inputs in the model's order.
    pub fn dims_of(&self, inputs: &[Tensor]) -> Result<BTreeMap<String, usize>> {
        let mut dims = BTreeMap::new();
        for ((name, ty), tensor) in self.inputs().iter().zip(inputs) {
            for (dim, &n) in ty.shape.0.iter().zip(tensor.shape()) {
                if let Dim::Sym(s) = dim
                    && *dims.entry(s.to_string()).or_insert(n) != n
                {
                    return Err(Error::invalid(codes::MODEL_DIM, format!("the dimension `{s}` has two values"))
                        .in_file(&self.origin)
                        .at(format!("input `{name}`"))
                        .found(format!("{n} and {}", dims[&**s])));
                }
            }
        }
        Ok(dims)
    }

    /// The graph with every symbolic dimension bound.
    pub fn bind(&self, dims: &BTreeMap<String, usize>) -> Result<Graph> {
        ottava_graph::bind(&self.graph, dims, 1).map_err(|e| self.invalid(e))
    }

    /// An error if the file is a plan: what needs operators needs the model that the plan was compiled from.
    pub fn expect_graph(&self) -> Result<()> {
        match &self.plan {
            None => Ok(()),
            Some(_) => Err(Error::invalid(codes::PLAN, "a plan has no graph any more")
                .in_file(&self.origin)
                .expected("the model that it was compiled from")),
        }
    }

    /// What can be said without running it.
    pub fn summary(&self) -> Result<Summary> {
        self.expect_graph()?;
        let used: BTreeSet<_> = self.graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten()).collect();
        let constants = used.iter().filter_map(|id| self.graph.constant(**id));
        Ok(Summary {
            inputs: self.inputs(),
            outputs: self.outputs(),
            states: self.states(),
            ops: self.graph.op_counts(),
            params: constants.map(|t| t.elements() as u64).sum(),
            macs: self.macs(),
            quantized_ops: self.graph.nodes.iter().filter(|n| is_quantized(n) || self.is_typed(n)).count(),
            symbols: ottava_graph::symbols(&self.graph),
            requant: self.requant_modes(),
        })
    }

    /// Nodes by their requantization mode, those that have one.
    pub fn requant_modes(&self) -> BTreeMap<&'static str, usize> {
        let mut modes = BTreeMap::new();
        for mode in self.graph.nodes.iter().filter_map(|n| n.requant) {
            *modes.entry(mode.name()).or_insert(0) += 1;
        }
        modes
    }

    /// Whether a node reads integers that stand for reals, as those of a TFLite file do.
    fn is_typed(&self, node: &ottava_hal::Node) -> bool {
        node.inputs.iter().flatten().any(|id| self.graph.ty(*id).quant.is_some())
    }

    /// Multiply-accumulates with every symbol bound to 1; `None` where the model does not allow that (a window larger
    /// than an image of one pixel, say) or shapes stay unknown.
    fn macs(&self) -> Option<u64> {
        self.bind(&BTreeMap::new()).ok().as_ref().and_then(graph_macs)
    }

    /// An error of the graph, compiler or a device about this model.
    pub(crate) fn invalid(&self, e: ottava_hal::Error) -> Error {
        let error = match e {
            ottava_hal::Error::Invalid(what) => Error::invalid(codes::MODEL_INVALID, what),
            ottava_hal::Error::Unsupported { .. } => Error::unsupported(codes::MODEL_UNSUPPORTED, e.to_string()),
            ottava_hal::Error::Failed { .. } => Error::failed(codes::DEVICE_FAILED, e.to_string()),
        };
        error.in_file(&self.origin)
    }
}

/// An error if a mode is asked for where the file decides.
fn fixed_mode(path: &Path, requant: Option<RequantMode>, why: &str) -> Result<()> {
    let Some(mode) = requant.filter(|m| *m != RequantMode::Fp32Rne || is_plan(path)) else { return Ok(()) };
    Err(Error::unsupported(codes::CONFIG_UNAVAILABLE, format!("the requantization mode {mode}: {why}"))
        .in_file(path)
        .expected("a TFLite model")
        .help("leave `--requant` and the key `force_requantize` out"))
}

/// Whether a file is a plan: by its first bytes, or by its name if it is too short to tell.
fn is_plan(path: &Path) -> bool {
    let mut head = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut head));
    read.is_ok() && head == ottava_plan::file::MAGIC || path.extension().is_some_and(|e| e == "plan")
}

/// Multiply-accumulates of a graph; `None` where a shape is not known.
pub(crate) fn graph_macs(graph: &Graph) -> Option<u64> {
    let mut total = 0u64;
    for node in &graph.nodes {
        let Ok(op) = ottava_ops::lookup(&node.domain, &node.op) else { continue };
        let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|v| graph.ty(v))).collect();
        let outputs: Vec<_> = node.outputs.iter().map(|id| graph.ty(*id)).collect();
        if inputs.iter().flatten().chain(&outputs).any(|ty| ty.shape.elements().is_none()) {
            return None;
        }
        total = total.saturating_add(op.macs(node, &inputs, &outputs));
    }
    Some(total)
}

fn named(graph: &Graph, ids: impl Iterator<Item = ottava_hal::ValueId>) -> Vec<(String, TensorType)> {
    ids.map(|id| (graph.name_of(id).to_owned(), graph.ty(id).clone())).collect()
}

pub(crate) fn is_quantized(node: &ottava_hal::Node) -> bool {
    node.op.starts_with("QLinear")
        || node.op == "DynamicMatMul"
        || node.op.contains("Integer")
        || node.op.contains("QuantizeLinear")
        || node.op.contains("DequantizeLinear")
        || (node.domain == "com.microsoft" && node.op.starts_with('Q'))
}

fn import_error(origin: &Path, e: ImportError) -> Error {
    let error = match e {
        ImportError::Malformed { message, offset, place, what, .. } => {
            Error::invalid(codes::MODEL_FILE, format!("byte {offset}, in {place}: {what}"))
                .help(format!("the file is damaged or is not an ONNX {message}"))
        }
        ImportError::Refused { diagnostics, .. } => refused(&diagnostics),
        ImportError::FlatBuffer { offset, place, what, .. } => {
            Error::invalid(codes::MODEL_FILE, format!("byte {offset}, in {place}: {what}"))
                .help("the file is damaged or is not a TFLite model")
        }
        ImportError::UnsupportedTensor { .. } | ImportError::Export { .. } => {
            Error::unsupported(codes::MODEL_UNSUPPORTED, e.to_string())
        }
        ImportError::Io { path, source } => return Error::reading(codes::MODEL_FILE, &path, &source),
        other => Error::invalid(codes::MODEL_INVALID, other.to_string()),
    };
    error.in_file(origin)
}

/// The first finding becomes the error, the others are counted.
fn refused(diagnostics: &[Diagnostic]) -> Error {
    let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.severity == ottava_graph::Severity::Error).collect();
    let Some(first) = errors.first() else {
        return Error::invalid(codes::MODEL_INVALID, "the model cannot be imported");
    };
    let message: String = match errors.len() {
        1 => first.message.clone(),
        n => format!("{} (and {} more problems)", first.message, n - 1),
    };
    // The importer's code for what no version of the format allows.
    const AGAINST_THE_RULES: &str = "M0101";
    let invalid = first.code == AGAINST_THE_RULES;
    let mut error = if invalid { Error::invalid(first.code, message) } else { Error::unsupported(first.code, message) };
    if !first.node.is_empty() {
        error = error.at(format!("`{}`", first.node));
    }
    if first.help.is_empty() { error } else { error.help(first.help.clone()) }
}

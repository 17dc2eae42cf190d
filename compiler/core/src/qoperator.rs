//! From Q/DQ to QOperator: an operator between DequantizeLinear and QuantizeLinear becomes the operator that says the
//! same in one node (`QLinearConv`, `com.microsoft::QLinearAdd`, ..), for runtimes that know only this form.
//!
//! One line of [`FORMS`] per operator. Movers whose sides have equal parameters work on the integers themselves. What has no
//! such form, or not with these types and attributes, stays between its Q and DQ nodes, and a note says so.

use crate::passes::rules::is_any;
use ottava_graph::{Diagnostic, Graph, Patch, Result, Uses, infer_types, rewrite};
use ottava_hal::refmath::bias::bias_s32;
use ottava_hal::refmath::quantize_f32;
use ottava_hal::{Attr, DataType, Node, Tensor, ValueId};
use ottava_ops::MICROSOFT;

/// Where the inputs of a QOperator are.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Tensors with their parameters, then those of the output.
    Plain,
    /// As `Plain`, an s32 bias behind.
    BiasLast,
    /// As `Plain`, the s32 bias before the output's parameters.
    BiasBefore,
    /// The output's parameters first.
    OutputFirst,
}

/// One operator: name of the float operator, domain and name of the QOperator, layout.
struct Form(&'static str, &'static str, &'static str, Layout);

static FORMS: &[Form] = &[
    Form("Add", MICROSOFT, "QLinearAdd", Layout::Plain),
    Form("AveragePool", MICROSOFT, "QLinearAveragePool", Layout::Plain),
    Form("Concat", MICROSOFT, "QLinearConcat", Layout::OutputFirst),
    Form("Conv", "", "QLinearConv", Layout::BiasLast),
    Form("Gemm", MICROSOFT, "QGemm", Layout::BiasBefore),
    Form("GlobalAveragePool", MICROSOFT, "QLinearGlobalAveragePool", Layout::Plain),
    Form("LeakyRelu", MICROSOFT, "QLinearLeakyRelu", Layout::Plain),
    Form("MatMul", "", "QLinearMatMul", Layout::Plain),
    Form("Mul", MICROSOFT, "QLinearMul", Layout::Plain),
    Form("Sigmoid", MICROSOFT, "QLinearSigmoid", Layout::Plain),
    Form("Softmax", MICROSOFT, "QLinearSoftmax", Layout::Plain),
];

/// Operators that move elements, whatever these are.
const MOVERS: &[&str] =
    &["Expand", "Flatten", "Gather", "MaxPool", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"];

/// Operators that round otherwise than the float operator between DQ and Q: the zero point is added before rounding.
const OTHER_ROUNDING: &[&str] = &["QLinearAdd", "QLinearMul"];

/// The graph with every operator that has a QOperator form in it, and notes on what stays and what rounds otherwise.
pub fn to_qoperator(graph: &Graph) -> Result<(Graph, Vec<Diagnostic>)> {
    let mut graph = graph.clone();
    // A file need not declare the types of inner values.
    infer_types(&mut graph)?;
    rewrite(&mut graph, "to_qoperator", |graph, uses, index| {
        let cluster = Cluster::find(graph, uses, index);
        Ok(cluster.and_then(|c| if is_any(c.node, MOVERS) { c.moved() } else { c.converted() }))
    })?;
    graph.remove_dead();
    graph.compact();
    let notes = notes(&graph);
    Ok((graph, notes))
}

fn notes(graph: &Graph) -> Vec<Diagnostic> {
    let uses = Uses::of(graph);
    let is_dequantized = |id: &Option<ValueId>| {
        let maker = id.and_then(|id| uses.producer(id)).map(|i| &graph.nodes[i]);
        maker.is_some_and(|maker| is_linear(maker, "DequantizeLinear"))
    };
    let stays = |node: &Node| {
        let reads = node.inputs.iter().any(is_dequantized) && !node.op.ends_with("QuantizeLinear");
        let what =
            format!("{} has no QOperator form here: it stays between DequantizeLinear and QuantizeLinear", node.op);
        reads.then(|| Diagnostic::note("Q0510", &node.name, what))
    };
    let other = |node: &&Node| OTHER_ROUNDING.contains(&node.op.as_str()) && node.domain == MICROSOFT;
    let rounds = |node: &Node| {
        let what =
            format!("{} adds the zero point before it rounds: single results differ by one step from QDQ", node.op);
        Diagnostic::note("Q0511", &node.name, what)
    };
    graph.nodes.iter().filter_map(stays).chain(graph.nodes.iter().filter(other).map(rounds)).collect()
}

/// A quantized tensor: integers, scale, zero point.
#[derive(Clone, Copy)]
struct Quantized {
    integers: ValueId,
    scale: ValueId,
    zero_point: Option<ValueId>,
    axis: i64,
}

/// A node between DequantizeLinear and QuantizeLinear; a clamp that the output's range contains is part of it.
struct Cluster<'g> {
    graph: &'g Graph,
    node: &'g Node,
    /// Its inputs as far as they are dequantized.
    inputs: Vec<Option<Quantized>>,
    output: Quantized,
    /// Node, clamp, QuantizeLinear.
    members: Vec<usize>,
}

fn is_linear(node: &Node, op: &str) -> bool {
    (node.domain.is_empty() || node.domain == MICROSOFT) && node.op == op && node.attrs.get("block_size").is_none()
}

/// The parameters of a Q or DQ node, where they are constant.
fn parameters(graph: &Graph, node: &Node, integers: ValueId) -> Option<Quantized> {
    let (scale, zero_point) = (node.input(1)?, node.input(2));
    let constant = |id: ValueId| graph.constant(id).is_some();
    let axis = node.attrs.int("axis", 1).ok()?;
    (constant(scale) && zero_point.is_none_or(constant)).then_some(Quantized { integers, scale, zero_point, axis })
}

impl<'g> Cluster<'g> {
    fn find(graph: &'g Graph, uses: &Uses, index: usize) -> Option<Self> {
        let node = &graph.nodes[index];
        if !node.domain.is_empty() || node.outputs.len() != 1 || node.op.ends_with("Linear") {
            return None;
        }
        let mut members = vec![index];
        let mut reader = uses.only_reader(node.outputs[0])?;
        let clamp = is_any(&graph.nodes[reader], &["Relu", "Clip"]).then_some(reader);
        if let Some(clamp) = clamp {
            members.push(clamp);
            reader = uses.only_reader(*graph.nodes[clamp].outputs.first()?)?;
        }
        let last = &graph.nodes[reader];
        if !is_linear(last, "QuantizeLinear") {
            return None;
        }
        members.push(reader);
        let output = parameters(graph, last, *last.outputs.first()?)?;
        let dequantized = |id: &Option<ValueId>| {
            let maker = &graph.nodes[uses.producer((*id)?)?];
            let integers = maker.input(0).filter(|_| is_linear(maker, "DequantizeLinear"))?;
            parameters(graph, maker, integers)
        };
        let inputs: Vec<_> = node.inputs.iter().map(dequantized).collect();
        let cluster = Self { graph, node, inputs, output, members };
        let folds = clamp.is_none_or(|i| cluster.contains_clamp(&graph.nodes[i]).unwrap_or(false));
        (cluster.inputs.first()?.is_some() && folds).then_some(cluster)
    }

    fn numbers(&self, id: ValueId) -> Option<Vec<f32>> {
        self.graph.constant(id)?.to_f32s().ok()
    }

    fn zero(&self, q: Quantized) -> Option<i64> {
        let Some(id) = q.zero_point else { return Some(0) };
        match self.graph.constant(id)?.to_ints().ok()?[..] {
            [z] => Some(z),
            _ => None,
        }
    }

    fn dtype(&self, q: Quantized) -> DataType {
        self.graph.ty(q.integers).dtype
    }

    /// Whether the range of the output lies within the bounds of a clamp, so that saturation does its work.
    fn contains_clamp(&self, clamp: &Node) -> Option<bool> {
        let (lo, hi) = self.dtype(self.output).storage_range()?;
        let (zero, scale) = (i32::try_from(self.zero(self.output)?).ok()?, *self.numbers(self.output.scale)?.first()?);
        let bound = |i: usize, default: f32| match clamp.input(i) {
            Some(id) => self.numbers(id)?.first().copied(),
            None => Some(default),
        };
        let (least, most) = match clamp.op.as_str() {
            "Relu" => (0.0, f32::INFINITY),
            _ => (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?),
        };
        let q = |v: f32| quantize_f32(v, scale, zero, lo, hi);
        Some(q(least) <= lo && q(most) >= hi)
    }

    /// One number for the whole tensor, in 8 bits.
    fn is_plain(&self, q: Quantized) -> bool {
        let one = |id: ValueId| self.graph.ty(id).shape.elements() == Some(1);
        matches!(self.dtype(q), DataType::S8 | DataType::U8) && one(q.scale) && q.zero_point.is_none_or(one)
    }

    /// A mover works on integers of equal parameters.
    fn moved(&self) -> Option<Patch> {
        let x = self.inputs[0]?;
        let same = self.dtype(x) == self.dtype(self.output)
            && self.numbers(x.scale)? == self.numbers(self.output.scale)?
            && self.zero(x)? == self.zero(self.output)?
            && self.is_plain(x);
        let mut node = self.node.clone();
        node.inputs[0] = Some(x.integers);
        same.then(|| self.patch(Patch::new(self.graph), node))
    }

    fn converted(&self) -> Option<Patch> {
        let Form(_, domain, op, layout) = FORMS.iter().find(|form| form.0 == self.node.op)?;
        let mut patch = Patch::new(self.graph);
        let has_bias = matches!(layout, Layout::BiasLast | Layout::BiasBefore);
        let n = if has_bias { 2.min(self.inputs.len()) } else { self.inputs.len() };
        let tensors = self.inputs[..n].iter().copied().collect::<Option<Vec<_>>>()?;
        if !self.is_plain(self.output) || !self.fits(&tensors, has_bias || *op == "QLinearMatMul")? {
            return None;
        }
        let mut node = Node::new(self.node.name.clone(), *op, if domain.is_empty() { 10 } else { 1 });
        node.domain = (*domain).into();
        node.attrs = self.attributes()?;
        let bias = match self.node.input(2).filter(|_| has_bias) {
            Some(id) => Some(self.bias(&mut patch, id, &tensors)?),
            None => None,
        };
        for q in &tensors {
            node.inputs.extend([Some(q.integers), Some(q.scale), Some(self.zero_point(&mut patch, *q)?)]);
        }
        if *layout == Layout::BiasBefore {
            node.inputs.push(bias);
        }
        let output = [Some(self.output.scale), Some(self.zero_point(&mut patch, self.output)?)];
        match layout {
            Layout::OutputFirst => drop(node.inputs.splice(0..0, output)),
            _ => node.inputs.extend(output),
        }
        if *layout == Layout::BiasLast {
            node.inputs.extend(bias.map(Some));
        }
        Some(self.patch(patch, node))
    }

    /// Types that kernels of the form have: one storage throughout, s8 weights beside u8; scales per channel for weights.
    fn fits(&self, tensors: &[Quantized], product: bool) -> Option<bool> {
        let storage = self.dtype(self.output);
        for (i, q) in tensors.iter().enumerate() {
            let weights = product && i == 1;
            let mixed = weights && storage == DataType::U8 && self.dtype(*q) == DataType::S8;
            if self.dtype(*q) != storage && !mixed {
                return Some(false);
            }
            if !(self.is_plain(*q) || weights && self.is_per_channel(*q)?) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Weights with a scale per output.
    fn is_per_channel(&self, q: Quantized) -> Option<bool> {
        let rank = self.graph.ty(q.integers).shape.rank();
        let axis = ottava_ops::util::axis(q.axis, rank).ok()?;
        let wanted = match self.node.op.as_str() {
            "Conv" => 0,
            "Gemm" => usize::from(self.node.attrs.int("transB", 0).ok()? == 0),
            _ if rank == 2 => 1,
            _ => return Some(false),
        };
        let vector = self.graph.ty(q.scale).shape.rank() == 1;
        Some(axis == wanted && vector && matches!(self.dtype(q), DataType::S8 | DataType::U8))
    }

    /// Attributes in the form that the QOperator has them; `None` where it has no such meaning.
    fn attributes(&self) -> Option<ottava_hal::Attrs> {
        let mut attrs = self.node.attrs.clone();
        match self.node.op.as_str() {
            "Gemm" => {
                let factors = (attrs.float("alpha", 1.0).ok()?, attrs.float("beta", 1.0).ok()?);
                attrs.0.remove("beta");
                (factors == (1.0, 1.0)).then_some(attrs)
            }
            "AveragePool" => {
                let dilated = attrs.ints_opt("dilations").ok()?.is_some_and(|d| d.iter().any(|d| *d != 1));
                attrs.0.remove("dilations");
                (!dilated).then_some(attrs)
            }
            "Softmax" => {
                let version = if self.node.version < 13 { 12 } else { 13 };
                attrs.set("axis", Attr::Int(attrs.int("axis", if version < 13 { 1 } else { -1 }).ok()?));
                attrs.set("opset", Attr::Int(version));
                Some(attrs)
            }
            _ => Some(attrs),
        }
    }

    /// The s32 bias: as it is, if it stands at the scale of the accumulator; of constant floats, brought to that scale
    /// (numerics.md section 4).
    fn bias(&self, patch: &mut Patch, id: ValueId, tensors: &[Quantized]) -> Option<ValueId> {
        let Some(bias) = self.inputs.get(2).copied().flatten() else {
            return self.float_bias(patch, id, tensors);
        };
        let (x, w) = (self.numbers(tensors[0].scale)?, self.numbers(tensors[1].scale)?);
        let found = self.numbers(bias.scale)?;
        let n = found.len().max(w.len());
        let at = |list: &[f32], i: usize| list.get(if list.len() == 1 { 0 } else { i }).copied();
        let same = (0..n).all(|i| at(&found, i).zip(at(&w, i)).is_some_and(|(b, w)| b == x[0] * w));
        (self.dtype(bias) == DataType::S32 && same && self.zero_is_absent(bias)).then_some(bias.integers)
    }

    fn float_bias(&self, patch: &mut Patch, id: ValueId, tensors: &[Quantized]) -> Option<ValueId> {
        let (x, w, reals) = (self.numbers(tensors[0].scale)?, self.numbers(tensors[1].scale)?, self.numbers(id)?);
        let scale = |c: usize| w.get(if w.len() == 1 { 0 } else { c }).copied();
        let integer = |(c, v): (usize, &f32)| Some(bias_s32(*v, x[0], scale(c)?));
        let integers = reals.iter().enumerate().map(integer).collect::<Option<Vec<i32>>>()?;
        // A bias that does not fit would be cut off.
        if self.graph.ty(id).shape.rank() != 1 || integers.iter().any(|b| matches!(*b, i32::MIN | i32::MAX)) {
            return None;
        }
        let data = Tensor::from_slice(&[integers.len()], &integers).ok()?;
        let name = crate::passes::rules::fresh(self.graph, patch, &format!("{}_bias", self.node.name));
        Some(crate::passes::rules::patch_const(patch, name, data))
    }

    fn zero_is_absent(&self, q: Quantized) -> bool {
        let zeros =
            |id| self.graph.constant(id).and_then(|t| t.to_ints().ok()).is_some_and(|v| v.iter().all(|z| *z == 0));
        q.zero_point.is_none_or(zeros)
    }

    /// The zero point, which QOperators must have.
    fn zero_point(&self, patch: &mut Patch, q: Quantized) -> Option<ValueId> {
        if let Some(id) = q.zero_point {
            return Some(id);
        }
        let data = Tensor::zeros(self.dtype(q), &self.graph.ty(q.scale).shape.known()?).ok()?;
        let name = crate::passes::rules::fresh(self.graph, patch, &format!("{}_zero", self.node.name));
        Some(crate::passes::rules::patch_const(patch, name, data))
    }

    /// The node in place of all members; it computes what the QuantizeLinear computed.
    fn patch(&self, mut patch: Patch, mut node: Node) -> Patch {
        node.outputs = vec![self.output.integers];
        patch.remove.extend(&self.members);
        patch.insert.push(node);
        patch
    }
}

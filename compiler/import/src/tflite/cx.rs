//! What the builders of operators work with: the tensors of the file, the graph under construction, and where a tensor
//! lies in it.
//!
//! TFLite images are `[n, h, w, c]`, the operators of the graph take `[n, c, h, w]`. A tensor is therefore held in either
//! [`Layout`], or in both once somebody has asked for the other one; then a Transpose stands between. Operators that work
//! element by element take the layout in which their operands are, so that no Transpose stands between two layers.

use super::flatbuffer::{Budget, Damage};
use super::ops::state::Variables;
use super::schema::{Model, Operator, SubGraph, TensorDef};
use super::tensor;
use crate::onnx::names::Names;
use crate::onnx::raw::Refusal;
use ottava_graph::{Attr, Diagnostic, Graph};
use ottava_hal::{DataType, Node, QuantParams, RequantMode, Tensor, TensorType, ValueId};
use std::collections::HashMap;

/// How the axes of a tensor lie in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As in the file.
    File,
    /// `[n, c, h, w]`; the same as [`Layout::File`] for tensors that do not have four axes.
    Image,
}

/// Result of building an operator.
pub(crate) type Built<T = ()> = Result<T, Refusal>;

impl From<Damage> for Refusal {
    fn from(e: Damage) -> Self {
        Self::Invalid(format!("byte {}, in {}: {}", e.offset, e.place, e.what))
    }
}

/// The state of an import.
pub(crate) struct Cx<'m> {
    /// The whole model, with all subgraphs.
    pub model: &'m Model<'m>,
    /// The subgraph that is built.
    pub sub: &'m SubGraph<'m>,
    /// The graph under construction.
    pub graph: Graph,
    /// How accumulators are rescaled.
    pub mode: RequantMode,
    /// What the user should know.
    pub notes: Vec<Diagnostic>,
    /// What lives from run to run.
    pub variables: Variables,
    pub budget: &'m Budget,
    /// Whether open extents of the file stay open.
    is_open: bool,
    values: Names,
    nodes: Names,
    /// Per tensor its value as in the file and as an image.
    places: Vec<[Option<ValueId>; 2]>,
    /// Per tensor whether the caller receives it.
    is_result: Vec<bool>,
    /// Constants that the importer computed.
    folded: HashMap<usize, Tensor>,
}

impl<'m> Cx<'m> {
    /// The begin of an import of a subgraph.
    pub fn new(model: &'m Model<'m>, sub: &'m SubGraph<'m>, mode: RequantMode, budget: &'m Budget, open: bool) -> Self {
        let n = sub.tensors.len();
        let mut is_result = vec![false; n];
        for t in sub.outputs.iter().filter_map(|t| usize::try_from(*t).ok()).filter(|t| *t < n) {
            is_result[t] = true;
        }
        let (places, graph) = (vec![[None; 2]; n], Graph::new(&sub.name));
        let (values, nodes, notes) = (Names::default(), Names::default(), Vec::new());
        Self {
            model,
            sub,
            graph,
            mode,
            notes,
            variables: Variables::default(),
            budget,
            is_open: open,
            values,
            nodes,
            places,
            is_result,
            folded: HashMap::new(),
        }
    }

    /// The tensor of an index, which is one of those that this type hands out.
    pub fn def(&self, t: usize) -> &'m TensorDef<'m> {
        &self.sub.tensors[t]
    }

    /// The index of a tensor, if the file has it.
    pub fn tensor(&self, index: i32) -> Built<usize> {
        let t = usize::try_from(index).ok().filter(|t| *t < self.sub.tensors.len());
        let n = self.sub.tensors.len();
        t.ok_or_else(|| Refusal::Invalid(format!("tensor {index} does not exist; the subgraph has {n}")))
    }

    /// Input `i` of an operator, which must be there.
    pub fn input(&self, op: &Operator<'_>, i: usize) -> Built<usize> {
        self.optional(op, i)?.ok_or_else(|| Refusal::Invalid(format!("input {i} is missing")))
    }

    /// Input `i` of an operator, if it is there.
    pub fn optional(&self, op: &Operator<'_>, i: usize) -> Built<Option<usize>> {
        match op.inputs.get(i) {
            None | Some(-1) => Ok(None),
            Some(index) => self.tensor(*index).map(Some),
        }
    }

    /// Output `i` of an operator.
    pub fn output(&self, op: &Operator<'_>, i: usize) -> Built<usize> {
        match op.outputs.get(i) {
            Some(index) => self.tensor(*index),
            None => Refusal::invalid(format!("output {i} is missing")),
        }
    }

    /// The type of a tensor in a layout.
    pub fn ty(&self, t: usize, layout: Layout) -> Built<TensorType> {
        let def = self.def(t);
        let name = |axis: usize| format!("{}:{axis}", def.name);
        let mut ty = tensor::ty(def, if self.is_open { Some(&name) } else { None })?;
        ty.shape.0 = tensor::permuted(&ty.shape.0, layout);
        Ok(ty)
    }

    /// Extents of a tensor as the file declares them.
    pub fn extents(&self, t: usize) -> Built<Vec<usize>> {
        tensor::extents(self.def(t))
    }

    /// Quantization of a tensor.
    pub fn params(&self, t: usize) -> Built<Option<QuantParams>> {
        tensor::params(self.def(t))
    }

    /// Scale and zero point of a tensor; `None` if it is not quantized, an error if it has more than one scale.
    pub fn per_tensor(&self, t: usize) -> Built<Option<(f32, i32)>> {
        let Some(params) = self.params(t)? else { return Ok(None) };
        let one = params.as_per_tensor();
        let many = || {
            let name = &self.def(t).name;
            Refusal::Unsupported(format!("`{name}` has {} scales, where one is supported", params.scales.len()))
        };
        one.map(Some).ok_or_else(many)
    }

    /// Whether a tensor has data in the file.
    pub fn is_constant(&self, t: usize) -> bool {
        !self.def(t).data.is_empty() || self.folded.contains_key(&t)
    }

    /// Gives a tensor that an operator computes from constants its data.
    pub fn fold(&mut self, t: usize, data: Tensor) -> Built {
        if self.is_constant(t) || self.places[t].iter().any(Option::is_some) {
            return Refusal::invalid(format!("tensor `{}` is computed twice", self.def(t).name));
        }
        self.folded.insert(t, data);
        Ok(())
    }

    /// Makes a refused result known, so that what reads it is not refused too.
    pub fn hole(&mut self, t: usize) {
        if self.places[t] == [None, None] {
            let ty = self.ty(t, Layout::File).unwrap_or_else(|_| TensorType::fixed(DataType::F32, &[]));
            let name = self.values.unique(&label(self.def(t), t));
            let id = self.graph.add_value(name, ty);
            self.places[t] = [Some(id); 2];
        }
    }

    /// The data of a constant; an error for any other tensor.
    pub fn constant(&self, t: usize) -> Built<Tensor> {
        if let Some(data) = self.folded.get(&t) {
            return Ok(data.clone());
        }
        let def = self.def(t);
        if def.data.is_empty() && self.extents(t)?.iter().all(|n| *n > 0) {
            return Refusal::unsupported(format!("`{}` is computed at run time; a constant is supported", def.name));
        }
        tensor::data(def, self.budget)
    }

    /// The integers of a constant.
    pub fn ints(&self, t: usize) -> Built<Vec<i64>> {
        Ok(self.constant(t)?.to_ints()?)
    }

    /// The layout in which a tensor is already.
    pub fn layout_of(&self, t: usize) -> Layout {
        match self.places[t] {
            [None, Some(_)] => Layout::Image,
            _ => Layout::File,
        }
    }

    /// The value of a tensor in a layout; a constant is added, a computed value transposed if need be.
    pub fn value(&mut self, t: usize, layout: Layout) -> Built<ValueId> {
        let layout = if self.def(t).shape.len() == 4 { layout } else { Layout::File };
        let slot = layout as usize;
        if let Some(id) = self.places[t][slot] {
            return Ok(id);
        }
        let id = match self.places[t][1 - slot] {
            Some(other) => self.transposed(t, other, layout)?,
            None if self.is_constant(t) || self.extents(t)?.contains(&0) => self.add_tensor(t, layout)?,
            None => {
                let name = &self.def(t).name;
                return Refusal::invalid(format!("tensor `{name}` is used before an operator computes it"));
            }
        };
        self.places[t][slot] = Some(id);
        Ok(id)
    }

    fn transposed(&mut self, t: usize, from: ValueId, layout: Layout) -> Built<ValueId> {
        let perm = if layout == Layout::Image { [0, 3, 1, 2] } else { [0, 2, 3, 1] };
        let mut node = self.node("Transpose", 13, t);
        node.attrs.set("perm", Attr::Ints(perm.to_vec()));
        node.inputs = vec![Some(from)];
        let id = self.add_value(t, layout)?;
        node.outputs = vec![id];
        self.graph.nodes.push(node);
        Ok(id)
    }

    fn add_tensor(&mut self, t: usize, layout: Layout) -> Built<ValueId> {
        let mut data = self.constant(t)?;
        if layout == Layout::Image {
            data = tensor::transpose(&data, &[0, 3, 1, 2])?;
        }
        let params = self.params(t)?;
        let name = label(self.def(t), t);
        Ok(self.add_constant(&name, data, params))
    }

    /// A constant with a name like `name`.
    pub fn add_constant(&mut self, name: &str, data: Tensor, params: Option<QuantParams>) -> ValueId {
        // Tensors need no name in this format, values do.
        let name = self.values.unique(if name.is_empty() { "constant" } else { name });
        let id = self.graph.add_const(&name, data);
        if let Some(params) = params {
            let ty = self.graph.ty(id).clone();
            self.graph.values[id.0].ty = ty.quantized(params);
        }
        id
    }

    /// A constant list of integers that belongs to tensor `t`.
    pub fn add_ints(&mut self, t: usize, part: &str, values: &[i64]) -> Built<ValueId> {
        let data = Tensor::from_slice(&[values.len()], values)?;
        Ok(self.add_constant(&format!("{}/{part}", label(self.def(t), t)), data, None))
    }

    /// A value for a tensor. Results of the model carry the tensor's name in the file's layout.
    fn add_value(&mut self, t: usize, layout: Layout) -> Built<ValueId> {
        let def = self.def(t);
        let base = label(def, t);
        let is_copy = self.places[t].iter().any(Option::is_some);
        let name = match layout {
            Layout::Image if is_copy || self.is_result[t] => format!("{base}/nchw"),
            Layout::File if is_copy && !self.is_result[t] => format!("{base}/nhwc"),
            _ => base,
        };
        let (name, ty) = (self.values.unique(&name), self.ty(t, layout)?);
        Ok(self.graph.add_value(name, ty))
    }

    /// A value between the nodes of one operator, which is named after its output `t`.
    pub fn add_inner(&mut self, t: usize, part: &str, ty: TensorType) -> ValueId {
        let name = self.values.unique(&format!("{}/{part}", self.def(t).name));
        self.graph.add_value(name, ty)
    }

    /// A node that is named after the tensor that it computes.
    pub fn node(&mut self, op: &str, version: u32, t: usize) -> Node {
        let def = self.def(t);
        Node::new(self.nodes.unique(&label(def, t)), op, version)
    }

    /// A node of Ottava's own domain.
    pub fn own_node(&mut self, op: &str, t: usize) -> Node {
        Node { domain: ottava_ops::OTTAVA.into(), ..self.node(op, 1, t) }
    }

    /// Adds a node that computes tensors in a layout.
    pub fn push(&mut self, mut node: Node, outputs: &[usize], layout: Layout) -> Built {
        for &t in outputs {
            let layout = if self.def(t).shape.len() == 4 { layout } else { Layout::File };
            if self.places[t].iter().any(Option::is_some) || self.is_constant(t) {
                let name = &self.def(t).name;
                return Refusal::invalid(format!("tensor `{name}` is computed twice, or is a constant or an input"));
            }
            let id = self.add_value(t, layout)?;
            self.places[t][layout as usize] = Some(id);
            node.outputs.push(id);
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    /// Adds a node that computes an inner value.
    pub fn push_inner(&mut self, mut node: Node, t: usize, part: &str, ty: TensorType) -> ValueId {
        let id = self.add_inner(t, part, ty);
        node.outputs = vec![id];
        self.graph.nodes.push(node);
        id
    }

    /// Lets tensor `t` be another name of a value.
    pub fn alias(&mut self, t: usize, id: ValueId, layout: Layout) {
        self.places[t][layout as usize] = Some(id);
    }

    /// Adds an input of the graph. An open first axis is the batch.
    pub fn add_input(&mut self, t: usize) -> Built {
        if self.places[t].iter().any(Option::is_some) {
            return Refusal::invalid(format!("tensor `{}` is listed twice among the inputs", self.def(t).name));
        }
        let def = self.def(t);
        let open = |axis: usize| if axis == 0 { "batch".to_owned() } else { format!("{}_dim{axis}", def.name) };
        let ty = tensor::ty(def, if self.is_open { Some(&open) } else { None })?;
        let name = self.values.unique(&label(def, t));
        let id = self.graph.add_input(name, ty);
        self.places[t][Layout::File as usize] = Some(id);
        Ok(())
    }

    /// The mode of an operator that has a form of its own only in the Q31 modes.
    pub fn q31(&self) -> Option<RequantMode> {
        (self.mode != RequantMode::Fp32Rne).then_some(self.mode)
    }

    /// A note about the operator that computes `t`.
    pub fn note(&mut self, code: &'static str, t: usize, what: String) {
        self.notes.push(Diagnostic::note(code, &self.def(t).name, what));
    }
}

/// The name of a tensor, or one made of its index.
fn label(def: &TensorDef<'_>, t: usize) -> String {
    if def.name.is_empty() { format!("tensor_{t}") } else { def.name.clone() }
}

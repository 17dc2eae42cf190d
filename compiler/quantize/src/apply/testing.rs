//! Small networks for tests, and a plain executor that calibrates them and compares them with their quantized form.

use ottava_graph::{Graph, infer_types, verify};
use ottava_hal::{Attr, DataType, Dim, Node, Shape, Tensor, TensorType, ValueId};
use ottava_ops::EvalCx;

use super::{Quantized, fingerprint, observations, quantize};
use crate::calibration::Calibration;
use crate::channels::ChannelLayout;
use crate::recipe::Recipe;

/// A graph under construction.
pub(crate) struct Net {
    pub(crate) graph: Graph,
    seed: u64,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self { graph: Graph::new("net"), seed: 1 }
    }

    /// Uniform values in [-1, 1), the same on every run.
    pub(crate) fn noise(&mut self, n: usize) -> Vec<f32> {
        let mut next = || {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    pub(crate) fn input(&mut self, name: &str, shape: &[usize]) -> ValueId {
        self.graph.add_input(name, TensorType::fixed(DataType::F32, shape))
    }

    pub(crate) fn constant(&mut self, name: &str, shape: &[usize], values: &[f32]) -> ValueId {
        self.graph.add_const(name, Tensor::from_slice(shape, values).unwrap())
    }

    pub(crate) fn noisy(&mut self, name: &str, shape: &[usize]) -> ValueId {
        let values = self.noise(shape.iter().product());
        self.constant(name, shape, &values)
    }

    /// A node named after its output.
    pub(crate) fn node(&mut self, op: &str, out: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let y = self.graph.add_value(out, TensorType::new(DataType::F32, Shape(vec![Dim::Known(1)])));
        let mut node = Node::new(out, op, 13);
        node.inputs = inputs.iter().copied().map(Some).collect();
        node.outputs = vec![y];
        attrs.iter().for_each(|(name, value)| node.attrs.set(*name, value.clone()));
        self.graph.nodes.push(node);
        y
    }

    /// A 3x3 convolution with padding and a bias.
    pub(crate) fn conv(&mut self, name: &str, x: ValueId, channels: (usize, usize)) -> ValueId {
        let w = self.noisy(&format!("{name}.w"), &[channels.1, channels.0, 3, 3]);
        let b = self.noisy(&format!("{name}.b"), &[channels.1]);
        self.node("Conv", name, &[x, w, b], &[("pads", Attr::Ints(vec![1; 4]))])
    }

    pub(crate) fn finish(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        infer_types(&mut self.graph).unwrap();
        verify(&self.graph).unwrap();
        self.graph
    }
}

/// Every value of the graph for one input.
pub(crate) fn run(graph: &Graph, input: &Tensor) -> Vec<Option<Tensor>> {
    let mut data: Vec<Option<Tensor>> = graph.values.iter().map(|v| v.constant.clone()).collect();
    data[graph.inputs[0].0] = Some(input.clone());
    for node in &graph.nodes {
        let inputs: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|v| data[v.0].as_ref())).collect();
        let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|v| graph.ty(v))).collect();
        let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| graph.ty(*id)).collect();
        let cx = EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types };
        let outputs = ottava_ops::evaluate(&cx).unwrap_or_else(|e| panic!("{}: {e}", node.name));
        for (id, tensor) in node.outputs.iter().zip(outputs) {
            data[id.0] = Some(tensor);
        }
    }
    data
}

/// Calibrates on the given inputs for the default recipe.
pub(crate) fn calibrate(graph: &Graph, samples: &[Tensor]) -> Calibration {
    calibrate_for(graph, samples, &Recipe::default())
}

/// Calibrates on the given inputs.
pub(crate) fn calibrate_for(graph: &Graph, samples: &[Tensor], recipe: &Recipe) -> Calibration {
    let mut calibration = Calibration::new(fingerprint(graph));
    for (index, sample) in samples.iter().enumerate() {
        let data = run(graph, sample);
        for observation in observations(graph, recipe) {
            let tensor = data[observation.value.0].as_ref().unwrap();
            let values = tensor.as_slice::<f32>().unwrap();
            let layout = observation.channel_axis.and_then(|axis| ChannelLayout::of(tensor.shape(), axis));
            match layout {
                Some(layout) => {
                    calibration.observe_channels(&observation.name, values, layout, index as u64).unwrap();
                }
                None => calibration.observe(&observation.name, values, index as u64),
            }
        }
    }
    calibration
}

/// Noise as input samples.
pub(crate) fn samples(shape: &[usize], n: usize) -> Vec<Tensor> {
    let mut net = Net::new();
    (0..n).map(|_| Tensor::from_slice(shape, &net.noise(shape.iter().product())).unwrap()).collect()
}

/// Calibrates on noise and quantizes.
pub(crate) fn quantized(graph: &Graph, recipe: &str) -> Quantized {
    let shape = graph.ty(graph.inputs[0]).shape.known().unwrap();
    let recipe = Recipe::parse(recipe).unwrap();
    let calibration = calibrate_for(graph, &samples(&shape, 8), &recipe);
    let quantized = quantize(graph, &calibration, &recipe).unwrap();
    verify(&quantized.graph).unwrap();
    let mut inferred = quantized.graph.clone();
    infer_types(&mut inferred).unwrap();
    quantized
}

/// Signal-to-noise ratio of the first output over noise samples, in decibels.
pub(crate) fn sqnr(float: &Graph, other: &Graph) -> f64 {
    let shape = float.ty(float.inputs[0]).shape.known().unwrap();
    let (mut signal, mut noise) = (0.0, 0.0);
    for sample in samples(&shape, 4) {
        let outputs = [float, other].map(|g| run(g, &sample)[g.outputs[0].0].clone().unwrap().to_f32s().unwrap());
        for (a, b) in outputs[0].iter().zip(&outputs[1]) {
            signal += f64::from(*a).powi(2);
            noise += f64::from(a - b).powi(2);
        }
    }
    10.0 * libm::log10(signal / noise)
}

/// The node that computes a named value.
pub(crate) fn producer<'a>(graph: &'a Graph, value: &str) -> &'a Node {
    let id = graph.find_value(value).unwrap_or_else(|| panic!("no value {value}"));
    graph.nodes.iter().find(|n| n.outputs.contains(&id)).unwrap_or_else(|| panic!("nothing computes {value}"))
}

/// The names of a node's inputs.
pub(crate) fn inputs_of<'a>(graph: &'a Graph, node: &Node) -> Vec<&'a str> {
    node.inputs.iter().flatten().map(|id| graph.name_of(*id)).collect()
}

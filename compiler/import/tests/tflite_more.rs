//! Operators that become several nodes, or nodes with computed attributes, and what they give on numbers.
mod flat;

use flat::*;
use ottava_graph::Graph;
use ottava_hal::{DataType, RequantMode, Scheme, Tensor};

/// Floats `0, 1, 2 ...`.
fn ramp(shape: &[usize]) -> Tensor {
    let data: Vec<f32> = (0..shape.iter().product()).map(|i: usize| i as f32).collect();
    Tensor::from_slice(shape, &data).expect("a tensor")
}

fn floats(m: &mut Model, name: &str, shape: &[i32]) -> i32 {
    m.tensor(name, FLOAT32, shape, None)
}

fn constant(m: &mut Model, name: &str, shape: &[i32], values: &[f32]) -> i32 {
    let t = m.tensor(name, FLOAT32, shape, None);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    m.data(t, &bytes)
}

fn graph(m: &mut Model, inputs: &[i32], outputs: &[i32]) -> Graph {
    (m.inputs, m.outputs) = (inputs.to_vec(), outputs.to_vec());
    import(m).expect("imports").0
}

fn first(graph: &Graph, inputs: &[Tensor]) -> Vec<f32> {
    execute(graph, inputs).expect("runs").remove(0).to_f32s().expect("numbers")
}

/// A model of one operator over one float input.
fn unary(code: i32, from: &[i32], to: &[i32], options: Option<Table>) -> Graph {
    let mut m = Model::new();
    let (x, y) = (floats(&mut m, "x", from), floats(&mut m, "y", to));
    m.op(code, &[x], &[y], options);
    graph(&mut m, &[x], &[y])
}

#[test]
fn blocks_go_to_the_batch_and_back() {
    let mut m = Model::new();
    let (x, b, p) = (floats(&mut m, "x", &[1, 2, 3, 1]), m.ints("b", &[2, 2]), m.ints("p", &[0, 0, 0, 1]));
    let (y, z) = (floats(&mut m, "y", &[4, 1, 2, 1]), floats(&mut m, "z", &[1, 2, 3, 1]));
    m.op(38, &[x, b, p], &[y], None);
    m.op(37, &[y, b, p], &[z], None);
    let graph = graph(&mut m, &[x], &[y, z]);
    let found = execute(&graph, &[ramp(&[1, 2, 3, 1])]).expect("runs");
    assert_eq!(found[0].shape(), [4, 1, 2, 1]);
    assert_eq!(found[0].to_f32s().expect("numbers"), [0.0, 2.0, 1.0, 0.0, 3.0, 5.0, 4.0, 0.0]);
    assert_eq!(found[1], ramp(&[1, 2, 3, 1]));
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let mut m = Model::new();
    let (x, b, p) = (floats(&mut m, "x", &[1, 3, 3, 1]), m.ints("b", &[2, 2]), m.ints("p", &[0, 0, 0, 0]));
    let y = floats(&mut m, "y", &[4, 1, 1, 1]);
    m.op(38, &[x, b, p], &[y], None);
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let message = refusal(&m);
    assert!(message.contains("padded extents [3, 3] are no multiples of the blocks [2, 2]"), "{message}");
}

#[test]
fn a_transposed_convolution_spreads_pixels() {
    let mut m = Model::new();
    let (shape, x) = (m.ints("shape", &[1, 4, 4, 1]), floats(&mut m, "x", &[1, 2, 2, 1]));
    let w = constant(&mut m, "w", &[1, 2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
    let y = floats(&mut m, "y", &[1, 4, 4, 1]);
    let options = Table::default().with(0, i8(0)).with(1, i32(2)).with(2, i32(2));
    m.op(67, &[shape, w, x], &[y], Some(options));
    let graph = graph(&mut m, &[x], &[y]);
    let ones = Tensor::from_slice(&[1, 2, 2, 1], &[1f32; 4]).expect("a tensor");
    let (upper, lower) = ([1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]);
    assert_eq!(first(&graph, &[ones]), [upper, lower, upper, lower].concat());
}

#[test]
fn scales_of_a_transposed_convolution_lie_along_its_output_channels() {
    let mut m = Model::new();
    let (shape, x) = (m.ints("shape", &[1, 4, 4, 2]), m.s8("x", &[1, 2, 2, 3], 0.5, 1));
    let w = m.tensor("w", INT8, &[2, 2, 2, 3], Some((&[0.1, 0.2], 0, 0)));
    m.data(w, &[1; 24]);
    let y = m.s8("y", &[1, 4, 4, 2], 1.0, 0);
    let options = Table::default().with(0, i8(0)).with(1, i32(2)).with(2, i32(2));
    m.op(67, &[shape, w, x], &[y], Some(options));
    let graph = graph(&mut m, &[x], &[y]);
    let node = graph.nodes.iter().find(|n| n.op == "ConvTranspose").expect("a node");
    assert_eq!(node.requant, Some(RequantMode::Q31Double));
    let weight = graph.ty(node.input(1).expect("weights"));
    assert_eq!(weight.shape.known(), Some(vec![3, 2, 2, 2]));
    assert_eq!(weight.quant.as_ref().map(|q| q.scheme), Some(Scheme::PerAxis { axis: 1 }));
}

#[test]
fn a_product_of_matrices_swaps_what_is_transposed() {
    let mut m = Model::new();
    let (a, b) = (floats(&mut m, "a", &[1, 2, 2]), floats(&mut m, "b", &[1, 2, 2]));
    let y = floats(&mut m, "y", &[1, 2, 2]);
    m.op(126, &[a, b], &[y], Some(Table::default().with(1, i8(1))));
    let graph = graph(&mut m, &[a, b], &[y]);
    assert_eq!(first(&graph, &[ramp(&[1, 2, 2]), ramp(&[1, 2, 2])]), [1.0, 3.0, 3.0, 13.0]);
}

#[test]
fn functions_and_norms() {
    let x = || Tensor::from_slice(&[1, 2], &[3f32, 4.0]).expect("a tensor");
    let run = |code, options| first(&unary(code, &[1, 2], &[1, 2], options), &[x()]);
    assert_eq!(run(11, None), [0.6, 0.8]);
    assert_eq!(run(92, None), [9.0, 16.0]);
    assert_eq!(run(76, None)[1], 0.5);
    assert_eq!([run(116, None), run(158, None)], [vec![3.0, 4.0], vec![1.0, 1.0]]);
    let log = run(50, None);
    assert!((log[0] - log[1] + 1.0).abs() < 1e-6 && (log[0].exp() + log[1].exp() - 1.0).abs() < 1e-6, "{log:?}");
    assert!((run(150, None)[0] - 2.99595).abs() < 1e-4);
    let soft = run(25, Some(Table::default().with(0, f32(2.0))));
    assert!((soft[1] - 1.0 / (1.0 + (-2f32).exp())).abs() < 1e-6, "{soft:?}");
}

#[test]
fn operands_and_lists() {
    let mut m = Model::new();
    let (a, b, axis) = (floats(&mut m, "a", &[3]), floats(&mut m, "b", &[3]), m.ints("axis", &[0]));
    let results = ["d", "n", "r", "c"].map(|name| floats(&mut m, name, &[3]));
    let ne = m.tensor("ne", 6, &[3], None);
    let [d, n, r, c] = results;
    m.op(99, &[a, b], &[d], None);
    m.op(106, &[a, b, a], &[n], None);
    m.op(105, &[a, axis], &[r], None);
    m.op(128, &[a, axis], &[c], None);
    m.op(72, &[a, b], &[ne], None);
    let graph = graph(&mut m, &[a, b], &[d, n, r, c, ne]);
    let two = Tensor::from_slice(&[3], &[2f32; 3]).expect("a tensor");
    let found = execute(&graph, &[ramp(&[3]), two]).expect("runs");
    let values: Vec<Vec<f32>> = found[..4].iter().map(|t| t.to_f32s().expect("numbers")).collect();
    assert_eq!(values, [[4.0, 1.0, 0.0], [2.0, 4.0, 6.0], [2.0, 1.0, 0.0], [0.0, 1.0, 3.0]]);
    assert_eq!((found[4].dtype(), found[4].bytes()), (DataType::Bool, &[1, 1, 0][..]));
}

#[test]
fn boxes_that_overlap_are_suppressed_and_lists_padded() {
    let mut m = Model::new();
    let (boxes, scores) = (floats(&mut m, "boxes", &[3, 4]), floats(&mut m, "scores", &[3]));
    let most = m.ints("most", &[3]);
    let (iou, least) = (constant(&mut m, "iou", &[1], &[0.5]), constant(&mut m, "least", &[1], &[0.0]));
    let sigma = constant(&mut m, "sigma", &[1], &[0.0]);
    let (kept, valid) = (m.tensor("kept", INT32, &[3], None), m.tensor("valid", INT32, &[], None));
    let best = floats(&mut m, "best", &[3]);
    m.op(121, &[boxes, scores, most, iou, least, sigma], &[kept, best, valid], None);
    let graph = graph(&mut m, &[boxes, scores], &[kept, best, valid]);
    let corners = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0f32];
    let boxes = Tensor::from_slice(&[3, 4], &corners).expect("boxes");
    let scores = Tensor::from_slice(&[3], &[0.9f32, 0.75, 0.95]).expect("scores");
    let found = execute(&graph, &[boxes, scores]).expect("runs");
    let ints = |i: usize| found[i].to_ints().expect("integers");
    assert_eq!((ints(0), ints(2)), (vec![2, 0, 0], vec![2]));
    assert_eq!(found[1].to_f32s().expect("numbers"), [0.95, 0.9, 0.0]);
}

#[test]
fn a_resized_image_of_integers_has_the_mode_of_the_file() {
    let mut m = Model::new();
    let (x, size) = (m.s8("x", &[1, 2, 2, 1], 0.5, 1), m.ints("size", &[4, 4]));
    let y = m.s8("y", &[1, 4, 4, 1], 0.5, 1);
    m.op(23, &[x, size], &[y], Some(Table::default().with(3, i8(1))));
    let graph = graph(&mut m, &[x], &[y]);
    let node = graph.nodes.iter().find(|n| n.op == "Resize").expect("a node");
    assert_eq!(node.requant, Some(RequantMode::Q31Double));
    let corners = Tensor::from_slice(&[1, 2, 2, 1], &[0i8, 10, 20, 30]).expect("a tensor");
    let found = execute(&graph, &[corners]).expect("runs").remove(0).to_ints().expect("integers");
    // Weights are quarters: 2.5 and 7.5 between 0 and 10 round away from zero.
    assert_eq!(found[..4], [0, 3, 8, 10]);
    assert_eq!((found[5], found[15]), (8, 30));
}

#[test]
fn post_processing_of_detectors_is_named_with_what_to_do() {
    let mut m = Model::new();
    let (x, y) = (floats(&mut m, "x", &[1, 4]), floats(&mut m, "y", &[1, 4]));
    m.op(32, &[x], &[y], None);
    m.codes[0].0.push((1, text("TFLite_Detection_PostProcess")));
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let message = refusal(&m);
    assert!(message.contains("export the detector without its post-processing"), "{message}");
}

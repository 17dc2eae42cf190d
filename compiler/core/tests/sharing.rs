//! What the quantizer writes needs no requantization: operators that only move elements, and concatenations of values of
//! like ranges, share their scales; sums take any. Counted on the integer operators.

use ottava_compiler::passes::count_requantizations;
use ottava_compiler::{Cx, canonicalize, integerize};
use ottava_graph::{Graph, ValueId, infer_types, text, to_program};
use ottava_hal::{CompileOptions, Device, Tensor};
use ottava_quantize::{Calibration, Recipe, fingerprint, observations, quantize};
use ottava_reference::ReferenceDevice;

/// Two branches that are added, split, exchanged, joined, pooled, transposed, and read by a convolution.
const NETWORK: &str = r#"ottava-graph 1
graph "branches" imported
input %x : f32[1,4,4,4]
const %wa : f32[4,4,1,1] = [0.5, -0.25, 0.75, 1.0, -0.5, 0.25, 0.1, 0.2, 0.3, -0.4, 0.5, 0.6, -0.7, 0.8, 0.9, -1.0]
const %wb : f32[4,4,1,1] = [0.25, 0.5, -0.75, 0.5, 0.5, -0.25, 0.3, 0.1, -0.3, 0.4, 0.25, 0.6, 0.7, -0.8, 0.4, 0.5]
%a : f32[1,4,4,4] = "a" Conv.22(%x, %wa)
%b : f32[1,4,4,4] = "b" Conv.22(%x, %wb)
%s : f32[1,4,4,4] = "sum" Add.14(%a, %b)
%r : f32[1,4,4,4] = "relu" Relu.14(%s)
%p : f32[1,2,4,4], %q : f32[1,2,4,4] = "halves" Split.18(%r) {axis = 1, num_outputs = 2}
%c : f32[1,4,4,4] = "exchanged" Concat.13(%q, %p) {axis = 1}
%k : f32[1,8,4,4] = "joined" Concat.13(%c, %b) {axis = 1}
%m : f32[1,8,2,2] = "pool" MaxPool.22(%k) {kernel_shape = ints [2, 2], strides = ints [2, 2]}
%t : f32[1,8,2,2] = "turned" Transpose.13(%m) {perm = ints [0, 1, 3, 2]}
const %wc : f32[1,8,1,1] = [0.5, -0.25, 0.75, 1.0, -0.5, 0.25, 0.1, 0.2]
%y : f32[1,1,2,2] = "last" Conv.22(%t, %wc)
output %y
"#;

/// Every value of a graph for one input.
fn all_values(graph: &Graph, x: &Tensor) -> Vec<(ValueId, Tensor)> {
    let mut exposed = graph.clone();
    exposed.outputs = observations(graph, &Recipe::default())
        .into_iter()
        .map(|o| o.value)
        .filter(|id| !graph.inputs.contains(id))
        .collect();
    let executable = ReferenceDevice::new().compile(&to_program(&exposed), &CompileOptions::default()).unwrap();
    let outputs = executable.run_dynamic(std::slice::from_ref(x)).unwrap();
    exposed.outputs.into_iter().zip(outputs).chain([(graph.inputs[0], x.clone())]).collect()
}

fn sample(seed: u64) -> Tensor {
    let mut state = seed;
    let values = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    });
    Tensor::from_slice(&[1, 4, 4, 4], &values.take(64).collect::<Vec<f32>>()).unwrap()
}

#[test]
fn what_the_quantizer_writes_holds_no_requantization() {
    let device = ReferenceDevice::new();
    let mut cx = Cx::new(&device);
    let mut graph = text::parse(NETWORK).unwrap();
    infer_types(&mut graph).unwrap();
    let canonical = canonicalize(&graph, &mut cx).unwrap();
    let mut calibration = Calibration::new(fingerprint(&canonical));
    for seed in 0..8 {
        for (id, data) in all_values(&canonical, &sample(seed)) {
            calibration.observe(canonical.name_of(id), data.as_slice::<f32>().unwrap(), seed);
        }
    }
    let quantized = quantize(&canonical, &calibration, &Recipe::parse("(corrections: [])").unwrap()).unwrap();
    assert_eq!(quantized.report.float, []);
    let integers = integerize(&quantized.graph, &mut cx).unwrap();
    assert_eq!(count_requantizations(&integers), 0, "{}", text::print(&integers));
    // Quantized where it comes in, dequantized where it leaves; everything between is an integer operator.
    let bridges = integers.nodes.iter().filter(|n| n.domain == ottava_ops::OTTAVA).count();
    assert_eq!(bridges, 2, "{}", text::print(&integers));
    let of = |name: &str| cx.passes.iter().filter(|p| p.name == name).map(|p| p.requantizations).next_back();
    assert_eq!(of("fold_qdq").map(|(_, after)| after), Some(0));
}

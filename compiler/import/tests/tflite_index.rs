//! Operators that take or place elements by their index, and integer arithmetic that rounds down. What is expected is what
//! LiteRT gives.
mod flat;

use flat::*;
use ottava_graph::Graph;
use ottava_hal::{DataType, Tensor};

fn graph(m: &mut Model, inputs: &[i32], outputs: &[i32]) -> Graph {
    (m.inputs, m.outputs) = (inputs.to_vec(), outputs.to_vec());
    import(m).expect("imports").0
}

fn s32(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_ints(DataType::S32, shape, values).expect("a tensor")
}

/// The results as integers.
fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Vec<i64>> {
    execute(graph, inputs).expect("runs").iter().map(|t| t.to_ints().expect("integers")).collect()
}

fn plain(m: &mut Model, name: &str, shape: &[i32]) -> i32 {
    m.tensor(name, INT32, shape, None)
}

#[test]
fn the_largest_come_first_and_equal_ones_in_their_order() {
    let mut m = Model::new();
    let (x, k) = (m.s8("x", &[1, 5], 0.5, 3), m.ints("k", &[3]));
    let (values, at) = (m.s8("values", &[1, 3], 0.5, 3), plain(&mut m, "at", &[1, 3]));
    m.op(48, &[x, k], &[values, at], None);
    let graph = graph(&mut m, &[x], &[values, at]);
    let x = Tensor::from_ints(DataType::S8, &[1, 5], &[4, 9, -7, 9, 5]).expect("a tensor");
    assert_eq!(run(&graph, &[x]), [[9, 9, 5], [1, 3, 4]]);
    assert_eq!(graph.ty(graph.outputs[1]).dtype, DataType::S32);
}

#[test]
fn elements_are_gathered_by_tuples_and_by_batch() {
    let mut m = Model::new();
    let x = plain(&mut m, "x", &[2, 3]);
    let tuples = plain(&mut m, "tuples", &[2, 2]);
    let rows = plain(&mut m, "rows", &[2, 1]);
    let (y, z) = (plain(&mut m, "y", &[2]), plain(&mut m, "z", &[2, 1]));
    m.op(107, &[x, tuples], &[y], None);
    m.op(36, &[x, rows], &[z], Some(Table::default().with(0, i32(1)).with(1, i32(1))));
    let graph = graph(&mut m, &[x, tuples, rows], &[y, z]);
    let x = s32(&[2, 3], &[10, 11, 12, 20, 21, 22]);
    let found = run(&graph, &[x, s32(&[2, 2], &[1, 2, 0, 1]), s32(&[2, 1], &[2, 0])]);
    assert_eq!(found, [[22, 11], [12, 20]]);
}

#[test]
fn a_batch_beside_the_axis_is_refused() {
    let mut m = Model::new();
    let (x, i) = (plain(&mut m, "x", &[2, 3, 4]), plain(&mut m, "i", &[2, 1]));
    let y = plain(&mut m, "y", &[2, 3, 1]);
    m.op(36, &[x, i], &[y], Some(Table::default().with(0, i32(2)).with(1, i32(1))));
    (m.inputs, m.outputs) = (vec![x, i], vec![y]);
    let message = refusal(&m);
    assert!(message.contains("batch_dims 1 with axis 2; equal ones are supported"), "{message}");
}

#[test]
fn updates_of_one_place_are_added() {
    let mut m = Model::new();
    let (at, x) = (plain(&mut m, "at", &[3, 1]), plain(&mut m, "x", &[3]));
    let (shape, y) = (m.ints("shape", &[4]), plain(&mut m, "y", &[4]));
    m.op(122, &[at, x, shape], &[y], None);
    let graph = graph(&mut m, &[at, x], &[y]);
    assert_eq!(run(&graph, &[s32(&[3, 1], &[0, 2, 0]), s32(&[3], &[5, 6, 7])]), [[12, 0, 6, 0]]);
}

/// ONNX would count a negative class from the end.
#[test]
fn a_class_that_does_not_exist_is_nowhere() {
    let mut m = Model::new();
    let (x, depth) = (plain(&mut m, "x", &[4]), m.ints("depth", &[3]));
    let (on, off) = (m.ints("on", &[7]), m.ints("off", &[1]));
    let y = plain(&mut m, "y", &[4, 3]);
    m.op(85, &[x, depth, on, off], &[y], Some(Table::default().with(0, i32(-1))));
    let graph = graph(&mut m, &[x], &[y]);
    let found = run(&graph, &[s32(&[4], &[1, -1, 3, 0])]);
    assert_eq!(found, [[1, 7, 1, 1, 1, 1, 1, 1, 1, 7, 1, 1]]);
}

#[test]
fn a_depth_without_bound_is_refused() {
    let mut m = Model::new();
    let (x, depth) = (plain(&mut m, "x", &[4]), m.ints("depth", &[i32::MAX]));
    let (on, off, y) = (m.ints("on", &[7]), m.ints("off", &[1]), plain(&mut m, "y", &[4, 3]));
    m.op(85, &[x, depth, on, off], &[y], None);
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let message = refusal(&m);
    assert!(message.contains("a depth of 2147483647; 0 to 1048576 are supported"), "{message}");
}

#[test]
fn what_is_true_is_found_and_reduced() {
    let mut m = Model::new();
    let (x, axis) = (m.tensor("x", BOOL, &[2, 2], None), m.ints("axis", &[1]));
    let places = m.tensor("places", INT64, &[1, 2], None);
    let (any, all) = (m.tensor("any", BOOL, &[2], None), m.tensor("all", BOOL, &[2], None));
    m.op(109, &[x], &[places], None);
    m.op(91, &[x, axis], &[any], None);
    m.op(140, &[x, axis], &[all], None);
    let graph = graph(&mut m, &[x], &[places, any, all]);
    let x = Tensor::from_bools(&[2, 2], &[true, false, true, true]).expect("a tensor");
    let found = execute(&graph, &[x]).expect("runs");
    assert_eq!((found[0].shape(), found[0].to_ints().expect("integers")), (&[3, 2][..], vec![0, 0, 1, 0, 1, 1]));
    assert_eq!([found[1].bytes(), found[2].bytes()], [[1, 1], [0, 1]]);
}

#[test]
fn quotients_and_remainders_round_down() {
    let mut m = Model::new();
    let (a, b) = (plain(&mut m, "a", &[4]), plain(&mut m, "b", &[4]));
    let (x, y) = (m.tensor("x", FLOAT32, &[3], None), m.tensor("y", FLOAT32, &[3], None));
    let outputs = ["div", "mod", "xor"].map(|name| plain(&mut m, name, &[4]));
    let reals = ["fdiv", "fmod"].map(|name| m.tensor(name, FLOAT32, &[3], None));
    for (code, t) in [90, 95, 160].into_iter().zip(outputs) {
        m.op(code, &[a, b], &[t], None);
    }
    for (code, t) in [90, 95].into_iter().zip(reals) {
        m.op(code, &[x, y], &[t], None);
    }
    let graph = graph(&mut m, &[a, b, x, y], &[outputs.to_vec(), reals.to_vec()].concat());
    let (a, b) = (s32(&[4], &[7, -7, 7, -8]), s32(&[4], &[2, 2, -2, 4]));
    let float = |v: [f32; 3]| Tensor::from_slice(&[3], &v).expect("a tensor");
    // 0.5 / 0.1f32 is below 5, which a quotient of f32 would round up to.
    let found = execute(&graph, &[a, b, float([0.5, -7.5, 7.5]), float([0.1, 2.0, -2.0])]).expect("runs");
    let integers = [[3, -4, -4, -2], [1, 1, -1, 0], [5, -5, -7, -4]];
    assert_eq!(found[..3].iter().map(|t| t.to_ints().expect("integers")).collect::<Vec<_>>(), integers);
    assert_eq!(found[3].to_f32s().expect("numbers"), [4.0, -4.0, -4.0]);
    assert_eq!(found[4].to_f32s().expect("numbers")[1..], [0.5, -0.5]);
}

#[test]
fn ranges_rows_and_zeros() {
    let mut m = Model::new();
    let ends = [2, 17, 5].map(|v| m.ints("end", &[v]));
    let (x, at, lengths) = (plain(&mut m, "x", &[2, 3]), plain(&mut m, "at", &[1]), m.ints("lengths", &[2, 3]));
    let [range, zeros, row, back] = [[3, 1], [2, 3], [1, 3], [2, 3]].map(|shape| shape.to_vec());
    let range = plain(&mut m, "range", &range[..1]);
    let (zeros, row, back) = (plain(&mut m, "zeros", &zeros), plain(&mut m, "row", &row), plain(&mut m, "back", &back));
    m.op(96, &ends, &[range], None);
    m.op(93, &[x], &[zeros], None);
    m.op(7, &[at, x], &[row], None);
    m.op(112, &[x, lengths], &[back], Some(Table::default().with(0, i32(1)).with(1, i32(0))));
    let graph = graph(&mut m, &[x, at], &[range, zeros, row, back]);
    let found = run(&graph, &[s32(&[2, 3], &[1, 2, 3, 4, 5, 6]), s32(&[1], &[1])]);
    let expected = [vec![2, 7, 12], vec![0; 6], vec![4, 5, 6], vec![2, 1, 3, 6, 5, 4]];
    assert_eq!(found, expected);
}

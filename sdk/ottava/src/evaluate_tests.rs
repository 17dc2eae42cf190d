//! Metrics on networks of one node over data with NaN, without rows, and with the batch in the wrong place.

use super::*;
use ottava_graph::{Graph, Node};
use ottava_hal::{DataType, Dim, Shape, Tensor, TensorType};

/// `y = OP(x)` on f32[N, 2]; the output's declared shape is `out`.
fn model(op: &str, out: &[Dim]) -> Model {
    let ty = |dims: &[Dim]| TensorType::new(DataType::F32, Shape(dims.to_vec()));
    let mut g = Graph::new("one");
    let x = g.add_input("x", ty(&[Dim::Sym("N".into()), Dim::Known(2)]));
    let y = g.add_value("y", ty(out));
    let mut node = Node::new("n", op, 13);
    (node.inputs, node.outputs) = (vec![Some(x)], vec![y]);
    g.nodes.push(node);
    g.outputs = vec![y];
    g.opsets.insert(String::new(), 17);
    Model { origin: "one.onnx".into(), graph: g, diagnostics: vec![], size_bytes: 0, plan: None, requant: None }
}

fn rows_first() -> Model {
    model("Identity", &[Dim::Sym("N".into()), Dim::Known(2)])
}

fn data(rows: &[[f32; 2]]) -> Data {
    let x = Tensor::from_slice(&[rows.len(), 2], &rows.concat()).unwrap();
    let labels = Tensor::from_slice(&[rows.len()], &vec![1i64; rows.len()]).unwrap();
    Data::from_arrays("d.npz", BTreeMap::from([("x".to_owned(), x), ("labels".to_owned(), labels)]))
}

fn measure(model: &Model, data: &Data, metric: Metric, session: SessionOptions) -> Result<Evaluation> {
    let options = EvaluateOptions { metric: Some(metric), session, ..EvaluateOptions::default() };
    evaluate(model, data, &Registry::new(), &options, Some(&rows_first()), &mut |_, _| {})
}

#[test]
fn rows_with_nan_never_count_and_are_told() {
    let data = data(&[[0.0, 1.0], [f32::NAN, 1.0], [0.0, 2.0]]);
    for metric in [Metric::Top1, Metric::Top5, Metric::Agree] {
        let found = measure(&rows_first(), &data, metric, SessionOptions::default()).unwrap();
        assert_eq!((found.hits, found.nan_rows, found.n), (2, 1, 3), "{metric:?}");
        let told = found.diagnostics.iter().find(|d| d.code == codes::DATA_NAN).expect("a warning");
        assert!(told.message.contains("1 of 3 rows hold NaN"), "{told}");
    }
    let found = measure(&rows_first(), &data, Metric::Mse, SessionOptions::default()).unwrap();
    assert!(found.value.is_some_and(f64::is_nan) && found.nan_rows == 1);
}

#[test]
fn an_output_that_is_not_batched_is_an_error() {
    let turned = model("Transpose", &[Dim::Known(2), Dim::Sym("N".into())]);
    let data = data(&[[0.0, 1.0]; 3]);
    let batch = |batch| SessionOptions { batch, ..SessionOptions::default() };
    let e = measure(&turned, &data, Metric::Top1, batch(3)).unwrap_err();
    assert!(e.to_string().contains("axis 0 is not the batch; found [2, 3]; expected 3 rows"), "{e}");
    assert_eq!(measure(&turned, &data, Metric::Top1, batch(1)).unwrap().hits, 3);
}

#[test]
fn labels_are_checked_before_anything_runs() {
    let mut data = data(&[[0.0, 1.0]; 3]);
    data.labels = Some(Tensor::from_slice(&[2], &[1i64, 1]).unwrap());
    let options = EvaluateOptions { metric: Some(Metric::Top1), ..EvaluateOptions::default() };
    let mut ran = false;
    let e = evaluate(&rows_first(), &data, &Registry::new(), &options, None, &mut |_, _| ran = true).unwrap_err();
    assert!(e.to_string().contains("not one label per row; found 2; expected 3") && !ran, "{e}");
}

#[test]
fn the_symbol_on_axis_0_is_the_batch() {
    let with = |batch, n| SessionOptions { batch, dims: BTreeMap::from([("N".to_owned(), n)]), ..Default::default() };
    let data = data(&[[0.0, 1.0]; 3]);
    let found = measure(&rows_first(), &data, Metric::Top1, with(0, 2)).unwrap();
    assert_eq!((found.n, found.hits), (3, 3));
    let e = measure(&rows_first(), &data, Metric::Top1, with(3, 2)).unwrap_err();
    assert!(e.to_string().contains("2 for the dimension, 3 for the batch"), "{e}");
    let options = crate::CalibrateOptions { session: with(0, 2), ..Default::default() };
    let relu = model("Relu", &[Dim::Sym("N".into()), Dim::Known(2)]);
    let seen = crate::calibrate(&relu, &data, &Registry::new(), &options, &mut |_, _| {}).unwrap();
    assert_eq!(seen.samples(), 3);
}

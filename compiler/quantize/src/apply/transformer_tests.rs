//! What `integer_only` makes of the parts of a transformer.

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, ValueId};

use super::testing::*;
use super::*;
use crate::recipe::Recipe;

const INTEGER_ONLY: &str = "(integer_only: true)";

fn norm(net: &mut Net, name: &str, x: ValueId, width: usize) -> ValueId {
    let (gamma, beta) = (net.noisy(&format!("{name}.gamma"), &[width]), net.noisy(&format!("{name}.beta"), &[width]));
    net.node("LayerNormalization", name, &[x, gamma, beta], &[("axis", Attr::Int(-1))])
}

fn dense(net: &mut Net, name: &str, x: ValueId, (from, to): (usize, usize)) -> ValueId {
    let (w, b) = (net.noisy(&format!("{name}.w"), &[from, to]), net.noisy(&format!("{name}.b"), &[to]));
    let product = net.node("MatMul", &format!("{name}.product"), &[x, w], &[]);
    net.node("Add", name, &[product, b], &[])
}

/// A feed-forward block with its residual sum and norm behind a first layer.
fn feed_forward() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 5, 16]);
    let first = dense(&mut net, "first", x, (16, 16));
    let h = norm(&mut net, "h", first, 16);
    let up = dense(&mut net, "up", h, (16, 32));
    let gelu = net.node("Gelu", "gelu", &[up], &[]);
    let down = dense(&mut net, "down", gelu, (32, 16));
    let sum = net.node("Add", "sum", &[down, h], &[]);
    let y = norm(&mut net, "y", sum, 16);
    net.finish(&[y])
}

#[test]
fn a_feed_forward_block_is_integers_throughout() {
    let float = feed_forward();
    let q = quantized(&float, INTEGER_ONLY);
    assert_eq!(q.report.float, []);
    let dtype = |name: &str| q.report.values.get(name).map(|p| p.dtype);
    // The sum is fused into the product before it, and only a norm reads it: 16 bits over its whole range.
    assert_eq!((dtype("down"), dtype("sum"), dtype("first")), (None, Some(DataType::S16), Some(DataType::S16)));
    assert_eq!((dtype("up"), dtype("gelu"), dtype("y")), (Some(DataType::U8), Some(DataType::U8), Some(DataType::U8)));
    assert_eq!(q.report.values["sum"].zero_point, 0);
    assert!(sqnr(&float, &q.graph) > 25.0, "{}", sqnr(&float, &q.graph));
    let default = quantized(&float, "()");
    let names: Vec<&str> = default.report.float.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["h", "gelu", "sum", "y"]);
}

/// Attention over five tokens, without a mask.
fn attention() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 5, 8]);
    let [q, k, v] = ["q", "k", "v"].map(|name| dense(&mut net, name, x, (8, 8)));
    let kt = net.node("Transpose", "kt", &[k], &[("perm", Attr::Ints(vec![0, 2, 1]))]);
    let scores = net.node("MatMul", "scores", &[q, kt], &[]);
    let root = net.constant("root", &[], &[2.828_427]);
    let scaled = net.node("Div", "scaled", &[scores, root], &[]);
    let p = net.node("Softmax", "p", &[scaled], &[("axis", Attr::Int(-1))]);
    let y = net.node("MatMul", "y", &[p, v], &[]);
    net.finish(&[y])
}

#[test]
fn scaled_scores_keep_their_integers() {
    let float = attention();
    let q = quantized(&float, INTEGER_ONLY);
    assert_eq!(q.report.float, []);
    let [scores, scaled, p] = ["scores", "scaled", "p"].map(|name| q.report.values[name]);
    assert_eq!(scaled.zero_point, scores.zero_point);
    assert_eq!(scaled.scale, (f64::from(scores.scale) * f64::from(2.828_427f32).recip()) as f32);
    assert_eq!((p.scale, p.zero_point), (1.0 / 256.0, 0));
    assert!(sqnr(&float, &q.graph) > 20.0, "{}", sqnr(&float, &q.graph));
}

#[test]
fn a_node_without_an_integer_form_is_named() {
    let mut net = Net::new();
    let x = net.input("x", &[1, 4]);
    let two = net.constant("two", &[], &[2.0]);
    let y = net.node("Pow", "square", &[x, two], &[]);
    let float = net.finish(&[y]);
    let calibration = calibrate(&float, &samples(&[1, 4], 2));
    let error = quantize(&float, &calibration, &Recipe::parse(INTEGER_ONLY).unwrap()).unwrap_err();
    assert!(error.to_string().contains("`square` (Pow)"), "{error}");
}

/// A table of embeddings, looked up by what a comparison of the input makes.
#[test]
fn rows_of_a_table_are_rows_of_integers() {
    let mut net = Net::new();
    let x = net.input("x", &[1, 4]);
    let table = net.noisy("table", &[3, 6]);
    let zero = net.constant("zero", &[], &[0.0]);
    let flags = net.node("Greater", "flags", &[x, zero], &[]);
    let ids = net.node("Cast", "ids", &[flags], &[("to", Attr::Int(7))]);
    let rows = net.node("Gather", "rows", &[table, ids], &[("axis", Attr::Int(0))]);
    let y = norm(&mut net, "y", rows, 6);
    let float = net.finish(&[y]);
    let q = quantized(&float, INTEGER_ONLY);
    assert_eq!(q.report.float, []);
    assert_eq!(inputs_of(&q.graph, producer(&q.graph, "rows/raw"))[0], "table/dq");
    assert!(sqnr(&float, &q.graph) > 25.0, "{}", sqnr(&float, &q.graph));
}

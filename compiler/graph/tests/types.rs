//! Type inference over a graph, binding of symbols, and the promises of the phases.

use ottava_graph::{Graph, Phase, bind, infer_types, symbols, text, verify};
use std::collections::BTreeMap;

fn parse(body: &str) -> Graph {
    text::parse(&format!("ottava-graph 1\ngraph g imported\n{body}")).unwrap()
}

fn shape(graph: &Graph, name: &str) -> String {
    graph.ty(graph.find_value(name).unwrap()).to_string()
}

const SYMBOLIC: &str = "
    input %x : f32[N,3,H]
    input %y : f32[N,3,H]
    %s : f32[unk__1,unk__2,unk__3] = \"add\" Add.14(%x, %y)
    %c : f32[1,1,1] = \"concat\" Concat.13(%s, %x) {axis = 2}
    output %c";

#[test]
fn inferred_shapes_replace_declared_ones() {
    let mut g = parse(SYMBOLIC);
    assert!(infer_types(&mut g).unwrap().is_empty());
    assert_eq!(shape(&g, "s"), "f32[N,3,H]");
    assert_eq!(symbols(&g), ["N", "H"]);
}

#[test]
fn binding_replaces_every_symbol_and_keeps_the_original() {
    let g = parse(SYMBOLIC);
    let bound = bind(&g, &BTreeMap::from([("H".to_string(), 5)]), 2).unwrap();
    assert_eq!((shape(&bound, "s"), shape(&bound, "c")), ("f32[2,3,5]".into(), "f32[2,3,10]".into()));
    assert_eq!(shape(&g, "x"), "f32[N,3,H]");
    let error = bind(&g, &BTreeMap::from([("M".to_string(), 5)]), 2).unwrap_err().to_string();
    assert!(error.contains("`M`") && error.contains("N, H"), "{error}");
}

#[test]
fn a_quantized_value_keeps_its_storage_and_takes_the_shape() {
    let mut g = parse("input %x : f32[2,3]\n%y : s8[1,1] per_tensor(0.5, 3) = \"q\" ottava::Quantize.1(%x)\noutput %y");
    infer_types(&mut g).unwrap();
    assert_eq!(
        text::print(&g).lines().nth(3).unwrap(),
        "%y : s8[2,3] per_tensor(0.5, 3) = \"q\" ottava::Quantize.1(%x)"
    );
}

#[test]
fn an_unknown_shape_stays_as_declared_with_a_note() {
    let mut g = parse("input %x : f32[4]\ninput %s : s64[N]\n%y : f32[2,2] = \"r\" Reshape.21(%x, %s)\noutput %y");
    let notes = infer_types(&mut g).unwrap();
    assert_eq!((notes.len(), notes[0].code, notes[0].node.as_str()), (1, "M0301", "r"));
    assert_eq!(shape(&g, "y"), "f32[2,2]");
}

#[test]
fn an_error_of_inference_names_the_node() {
    let mut g = parse("input %x : f32[2,3]\ninput %y : f32[2,3]\n%z : f32[2,2] = \"mm\" MatMul.13(%x, %y)\noutput %z");
    assert!(infer_types(&mut g).unwrap_err().to_string().contains("node `mm` (MatMul)"));
}

fn broken(body: &str, phase: Phase, change: fn(&mut Graph), expected: &str) {
    let mut g = parse(body);
    g.phase = phase;
    verify(&g).unwrap_or_else(|e| panic!("before the change: {e}"));
    change(&mut g);
    let message = verify(&g).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

const CHAIN: &str = "
    input %x : f32[2]
    %a : f32[2] = \"na\" Relu.14(%x)
    %y : u8[2] per_tensor(0.5, 3) = \"ny\" ottava::Quantize.1(%a)
    output %y";

#[test]
fn v1_order_and_parameters() {
    broken(CHAIN, Phase::Imported, |g| g.nodes.swap(0, 1), "before it is computed");
    broken(CHAIN, Phase::Imported, |g| g.inputs.clear(), "before it is computed");
    let out_of_range = |g: &mut Graph| {
        let ty = g.values[2].ty.clone();
        g.values[2].ty = ty.quantized(ottava_hal::QuantParams::per_tensor(0.5, 300));
    };
    broken(CHAIN, Phase::Imported, out_of_range, "value `y`");
}

#[test]
fn v2_names_are_unique() {
    broken(CHAIN, Phase::Imported, |g| g.values[1].name = "x".into(), "two values are named `x`");
    broken(CHAIN, Phase::Imported, |g| g.nodes[1].name = "na".into(), "two nodes are named `na`");
}

#[test]
fn v3_operators_are_known() {
    broken(CHAIN, Phase::Imported, |g| g.nodes[0].op = "Rellu".into(), "Rellu");
}

#[test]
fn v5_a_typed_value_is_not_dequantized_explicitly() {
    let body = "
        input %x : u8[2] per_tensor(0.5, 3)
        const %s : f32[] = [0.5]
        const %z : u8[] = [3]
        %y : f32[2] = \"dq\" DequantizeLinear.21(%x, %s, %z)
        output %y";
    broken(body, Phase::Canonical, |g| g.phase = Phase::Quantized, "node `dq` dequantizes a typed value explicitly");
}

#[test]
fn a_computed_target_gives_the_rank_and_the_element_type() {
    let mut g = parse(
        "input %x : s32[4]\ninput %s : s64[2]\ninput %z : s32[1,2]\n\
         %y : f32[...] = \"r\" Reshape.21(%x, %s)\n%e : f32[...] = \"e\" Equal.19(%y, %z)\noutput %e",
    );
    assert_eq!(infer_types(&mut g).unwrap(), []);
    assert_eq!((shape(&g, "y"), shape(&g, "e")), ("s32[r:0:0,r:0:1]".into(), "bool[r:0:0,2]".into()));
}

#[test]
fn nothing_is_checked_against_an_unknown_rank() {
    let mut g = parse(
        "input %x : f32[4]\ninput %s : s64[N]\ninput %t : s64[2]\n%y : f32[...] = \"r\" Reshape.21(%x, %s)\n\
         %z : f32[...] = \"t\" Transpose.21(%y) {perm = ints [1, 0]}\n%w : f32[...] = \"w\" Reshape.21(%z, %t)\noutput %w",
    );
    let notes = infer_types(&mut g).unwrap();
    assert_eq!(notes.iter().map(|n| n.node.as_str()).collect::<Vec<_>>(), ["r", "t"]);
    assert_eq!((shape(&g, "z"), shape(&g, "w")), ("f32[...]".into(), "f32[w:0:0,w:0:1]".into()));
    let bound = bind(&g, &BTreeMap::new(), 2).unwrap();
    assert_eq!((shape(&bound, "y"), shape(&bound, "z")), ("f32[r:0:0,r:0:1]".into(), "f32[r:0:1,r:0:0]".into()));
}

#[test]
fn a_tensor_that_no_machine_holds_is_an_error_with_node_and_size() {
    let mut g = parse("input %x : f32[65536,32769]\n%y : f32[1] = \"twice\" Concat.13(%x, %x) {axis = 0}\noutput %y");
    let error = infer_types(&mut g).unwrap_err().to_string();
    assert!(error.contains("`twice` (Concat)") && error.contains("17180393472 bytes"), "{error}");
}

#[test]
fn a_tensor_has_at_most_32_dimensions() {
    let of = |rank: usize| {
        let body =
            format!("input %x : f32[1]\ninput %s : s64[{rank}]\n%y : f32[...] = \"r\" Reshape.21(%x, %s)\noutput %y");
        infer_types(&mut parse(&body))
    };
    assert!(of(32).is_ok());
    let error = of(33).unwrap_err().to_string();
    assert!(error.contains("node `r` (Reshape): its output has 33 dimensions; at most 32 are supported"), "{error}");
}

//! The graph's own operations, on graphs written as text: order, dead code, uses, patches, names, extraction.

use ottava_graph::{Graph, Patch, Uses, extract, rewrite, text};
use ottava_hal::{Node, ValueId};

fn parse(body: &str) -> Graph {
    text::parse(&format!("ottava-graph 1\ngraph g imported\n{body}")).unwrap()
}

fn node_names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|n| n.name.as_str()).collect()
}

fn id(graph: &Graph, name: &str) -> ValueId {
    graph.find_value(name).unwrap()
}

const DIAMOND: &str = "
    input %x : f32[2]
    const %c : f32[2] = [1.0, 2.0]
    %a : f32[2] = \"na\" Relu.14(%x)
    %b : f32[2] = \"nb\" Add.14(%a, %c)
    %d : f32[2] = \"nd\" Neg.13(%a)
    %e : f32[2] = \"ne\" Add.14(%b, %d)
    %dead : f32[2] = \"ndead\" Mul.14(%d, %d)
    output %e
    output %e";

#[test]
fn sorting_is_stable_and_names_a_cycle() {
    let mut g = parse(DIAMOND);
    g.nodes.swap(0, 3);
    g.sort().unwrap();
    assert_eq!(node_names(&g), ["na", "nb", "nd", "ne", "ndead"]);
    let e = id(&g, "e");
    g.nodes[0].inputs[0] = Some(e);
    let message = g.sort().unwrap_err().to_string();
    assert!(message.contains("cycle") && message.contains("na") && message.contains("ne"), "{message}");
    assert!(!message.contains("ndead,"), "{message}");
}

#[test]
fn dead_nodes_and_unused_values_go_inputs_stay() {
    let mut g = parse(&format!("{DIAMOND}\n").replace("input %x", "input %unused : s64[1]\ninput %x"));
    assert_eq!(g.remove_dead(), 1);
    g.compact();
    assert_eq!(node_names(&g), ["na", "nb", "nd", "ne"]);
    assert_eq!(g.find_value("dead"), None);
    assert_eq!(g.inputs.iter().map(|i| g.name_of(*i)).collect::<Vec<_>>(), ["unused", "x"]);
    assert_eq!(g.outputs, [id(&g, "e"), id(&g, "e")]);
}

#[test]
fn uses_know_slots_outputs_and_only_readers() {
    let g = parse(DIAMOND);
    let uses = Uses::of(&g);
    assert_eq!(uses.readers(id(&g, "a")), [(1, 0), (2, 0)]);
    assert_eq!(uses.readers(id(&g, "d")), [(3, 1), (4, 0), (4, 1)]);
    assert_eq!(uses.only_reader(id(&g, "b")), Some(3));
    assert_eq!(uses.only_reader(id(&g, "a")), None);
    assert_eq!((uses.producer(id(&g, "x")), uses.producer(id(&g, "e"))), (None, Some(3)));
    assert!(uses.is_output(id(&g, "e")) && uses.is_dead(id(&g, "dead")) && !uses.is_dead(id(&g, "e")));
}

/// One reader in two slots is no only reader: a patch that replaces one slot would forget the other.
#[test]
fn a_node_that_reads_twice_is_two_readers() {
    let g =
        parse("input %x : f32[2]\n%a : f32[2] = \"na\" Relu.14(%x)\n%y : f32[2] = \"ny\" Add.14(%a, %a)\noutput %y");
    assert_eq!(Uses::of(&g).only_reader(id(&g, "a")), None);
}

#[test]
fn a_bypass_keeps_the_names_of_outputs() {
    let mut g = parse(DIAMOND);
    let b = id(&g, "b");
    assert!(Patch::can_bypass(&g, &Uses::of(&g), 3, b));
    Patch::bypass(&g, 3, b).apply(&mut g);
    assert_eq!(node_names(&g), ["na", "nb", "nd", "ndead"]);
    assert_eq!(g.outputs, [b, b]);
    assert_eq!(g.name_of(b), "e");
}

#[test]
fn an_output_is_not_bypassed_by_an_input_or_another_output() {
    let g = parse(
        "input %x : f32[2]\n%y : f32[2] = \"ny\" Relu.14(%x)\n%z : f32[2] = \"nz\" Relu.14(%y)\noutput %y\noutput %z",
    );
    let uses = Uses::of(&g);
    assert!(!Patch::can_bypass(&g, &uses, 0, id(&g, "x")));
    assert!(!Patch::can_bypass(&g, &uses, 1, id(&g, "y")));
}

#[test]
fn a_patch_inserts_where_it_removes() {
    let mut g = parse(DIAMOND);
    let mut patch = Patch::new(&g);
    patch.remove = vec![0, 2];
    for (name, node) in [("fresh_a", 0), ("fresh_d", 2)] {
        patch.insert.push(Node { name: name.into(), ..g.nodes[node].clone() });
    }
    patch.apply(&mut g);
    assert_eq!(node_names(&g), ["nb", "fresh_a", "fresh_d", "ne", "ndead"]);
    g.sort().unwrap();
    assert_eq!(node_names(&g), ["fresh_a", "nb", "fresh_d", "ne", "ndead"]);
}

#[test]
fn a_rule_that_never_rests_is_an_error() {
    let mut g = parse(DIAMOND);
    let error = rewrite(&mut g, "restless", |g, _, index| {
        let mut patch = Patch::new(g);
        patch.remove.push(index);
        patch.insert.push(g.nodes[index].clone());
        Ok(Some(patch))
    });
    assert!(error.unwrap_err().to_string().contains("pass restless does not come to an end"));
    assert_eq!(rewrite(&mut g, "idle", |_, _, _| Ok(None)).unwrap(), 0);
}

#[test]
fn fresh_names_avoid_values_and_nodes() {
    let mut g = parse(DIAMOND);
    assert_eq!(
        (g.fresh_name("new"), g.fresh_name("na"), g.fresh_name("a")),
        ("new".into(), "na_1".into(), "a_1".into())
    );
    let ty = g.ty(id(&g, "a")).clone();
    g.add_value("a_1", ty);
    g.nodes[0].name = "a_2".into();
    assert_eq!(g.fresh_name("a"), "a_3");
}

#[test]
fn an_extracted_part_takes_constants_along_and_gives_what_others_read() {
    let g = parse(DIAMOND);
    let part = extract(&g, "part", &[1, 2]);
    let names = |ids: &[ValueId]| -> Vec<String> { ids.iter().map(|v| g.name_of(*v).to_string()).collect() };
    assert_eq!((names(&part.inputs), names(&part.outputs)), (vec!["a".into()], vec!["b".to_string(), "d".into()]));
    part.program.check().unwrap();
    assert_eq!(part.program.values.iter().filter(|v| v.constant.is_some()).count(), 1);
}

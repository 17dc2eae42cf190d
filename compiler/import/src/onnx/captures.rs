//! Names that the body of a control operator reads from the graph around it.
//!
//! ONNX lets a body read any value that is defined before its node. References are found here, so that a function
//! whose nodes have bodies can be written out under other names.
use super::proto::{AttributeProto, GraphProto, NodeProto};
use std::collections::HashSet;

/// Calls `outer` on every name in the graph that it does not define itself; nested bodies included.
pub(crate) fn visit_outer(graph: &mut GraphProto, outer: &mut dyn FnMut(&mut String)) {
    visit(graph, &mut Vec::new(), outer);
}

fn visit(graph: &mut GraphProto, scopes: &mut Vec<HashSet<String>>, outer: &mut dyn FnMut(&mut String)) {
    scopes.push(defined(graph));
    for node in &mut graph.node {
        for name in node.input.iter_mut().filter(|name| !name.is_empty()) {
            if !scopes.iter().any(|scope| scope.contains(name)) {
                outer(name);
            }
        }
        bodies(node).for_each(|body| visit(body, scopes, outer));
    }
    for info in &mut graph.output {
        if !scopes.iter().any(|scope| scope.contains(&info.name)) {
            outer(&mut info.name);
        }
    }
    scopes.pop();
}

/// The graphs among a node's attributes.
fn bodies(node: &mut NodeProto) -> impl Iterator<Item = &mut GraphProto> {
    node.attribute.iter_mut().filter_map(|a| a.g.as_mut())
}

fn defined(graph: &GraphProto) -> HashSet<String> {
    let inputs = graph.input.iter().map(|info| &info.name);
    let constants = graph.initializer.iter().map(|tensor| &tensor.name);
    let results = graph.node.iter().flat_map(|node| &node.output);
    inputs.chain(constants).chain(results).cloned().collect()
}

/// Calls `change` on the attributes of every node in the graph; nested bodies included.
pub(crate) fn change_attributes(graph: &mut GraphProto, change: &dyn Fn(&AttributeProto) -> Option<AttributeProto>) {
    for node in &mut graph.node {
        node.attribute = node.attribute.iter().filter_map(change).collect();
        bodies(node).for_each(|body| change_attributes(body, change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::ValueInfoProto;

    fn node(input: &[&str], output: &str, body: Option<GraphProto>) -> NodeProto {
        let attribute = AttributeProto { name: "body".into(), g: body, ..Default::default() };
        let input = input.iter().map(|n| (*n).to_owned()).collect();
        NodeProto { input, output: vec![output.into()], attribute: vec![attribute], ..Default::default() }
    }

    fn graph(node: Vec<NodeProto>, output: &str) -> GraphProto {
        let output = vec![ValueInfoProto { name: output.into(), ..Default::default() }];
        GraphProto { node, output, ..Default::default() }
    }

    #[test]
    fn what_no_enclosing_body_defines_comes_from_outside() {
        let inner = graph(vec![node(&["a", "mine", "x"], "deep", None)], "y");
        let mut body = graph(vec![node(&["x", ""], "mine", None), node(&[], "b", Some(inner))], "b");
        let mut seen = Vec::new();
        visit_outer(&mut body, &mut |name| {
            seen.push(name.clone());
            name.insert(0, '+');
        });
        assert_eq!(seen, ["x", "a", "x", "y"]);
        assert_eq!(body.node[0].input, ["+x", ""]);
        assert_eq!(body.output[0].name, "b");
    }
}

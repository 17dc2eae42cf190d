//! Model-local functions, written out where they are called.
//!
//! A call becomes the nodes of the function with the function's names replaced: its inputs and outputs by those
//! of the call, everything else by `CALL/NAME`. Attributes that refer to the function's attributes take the
//! call's value, else the function's default, else are left out. Depth and total size are bounded: a few
//! functions that call each other twice could otherwise fill any memory. A function that says one of Ottava's own
//! operators ([`super::own_functions`]) is not written out: the call is that operator.
use super::names::Names;
use super::own_functions;
use super::proto::{AttributeProto, FunctionProto, NodeProto};
use super::raw::{Problem, Refusal};
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Calls inside calls.
const MAX_DEPTH: usize = 16;

/// Bytes that written-out functions may take, on top of [`BUDGET_FACTOR`] times the functions themselves.
const BASE_BUDGET: usize = 8 << 20;
const BUDGET_FACTOR: usize = 16;

/// In-memory size of a node beyond its encoded bytes.
const NODE_COST: usize = 512;

/// Operator set versions by domain.
pub(crate) type Opsets = BTreeMap<String, i64>;

/// A node that calls no function, with the operator sets it is written in.
#[derive(Clone, Debug)]
pub(crate) struct FlatNode {
    pub node: NodeProto,
    pub opsets: Rc<Opsets>,
}

/// All nodes with functions written out, each with a unique name. `values` holds the names of the graph's
/// values; names that are given are added there and to `node_names`.
pub(crate) fn flatten(
    nodes: Vec<NodeProto>,
    functions: &[FunctionProto],
    opsets: Opsets,
    values: &mut Names,
    node_names: &mut Names,
    problems: &mut Vec<Problem>,
) -> Vec<FlatNode> {
    let size: usize = functions.iter().map(Message::encoded_len).sum();
    let budget = size.saturating_mul(BUDGET_FACTOR).saturating_add(BASE_BUDGET);
    let key = |f: &FunctionProto| (f.domain.clone(), f.name.clone(), f.overload.clone());
    let functions = functions.iter().map(|f| (key(f), f)).collect();
    let mut inliner = Inliner { functions, budget, nodes: node_names, values, out: Vec::new(), problems };
    let opsets = Rc::new(opsets);
    for (idx, mut node) in nodes.into_iter().enumerate() {
        node.name = inliner.node_name("", &node, idx);
        inliner.expand(node, &opsets, 0);
    }
    inliner.out
}

struct Inliner<'a> {
    functions: BTreeMap<(String, String, String), &'a FunctionProto>,
    budget: usize,
    nodes: &'a mut Names,
    values: &'a mut Names,
    out: Vec<FlatNode>,
    problems: &'a mut Vec<Problem>,
}

impl Inliner<'_> {
    /// The node's own name or, for an unnamed one, its operator and position; unique in the model.
    fn node_name(&mut self, prefix: &str, node: &NodeProto, idx: usize) -> String {
        let own = if node.name.is_empty() { format!("{}_{idx}", node.op_type) } else { node.name.clone() };
        self.nodes.unique(&format!("{prefix}{own}"))
    }

    fn expand(&mut self, node: NodeProto, opsets: &Rc<Opsets>, depth: usize) {
        let key = (node.domain.clone(), node.op_type.clone(), node.overload.clone());
        let Some(&function) = self.functions.get(&key) else {
            self.out.push(FlatNode { node, opsets: opsets.clone() });
            return;
        };
        if let Some(op) = own_functions::operator_of(function) {
            let node = NodeProto { op_type: op.to_owned(), ..node };
            self.out.push(FlatNode { node, opsets: opsets.clone() });
            return;
        }
        if let Err(refusal) = self.call(&node, function, depth) {
            self.problems.push(Problem { node: Some(node.name), refusal });
        }
    }

    fn call(&mut self, call: &NodeProto, function: &FunctionProto, depth: usize) -> Result<(), Refusal> {
        let name = &function.name;
        if depth >= MAX_DEPTH {
            return Refusal::invalid(format!("function `{name}` is called {MAX_DEPTH} deep; does it call itself?"));
        }
        if call.input.len() > function.input.len() || call.output.len() > function.output.len() {
            let (found, expected) =
                ((call.input.len(), call.output.len()), (function.input.len(), function.output.len()));
            return Refusal::invalid(format!(
                "the call of function `{name}` has {} inputs and {} outputs, the function has {} and {}",
                found.0, found.1, expected.0, expected.1
            ));
        }
        let opsets: Opsets = function.opset_import.iter().map(|o| (domain(&o.domain), o.version)).collect();
        let opsets = Rc::new(opsets);
        let mut names = self.bind(call, function, &opsets);
        for (idx, inner) in function.node.iter().enumerate() {
            self.charge(call, inner)?;
            let node = self.instantiate(call, function, inner, idx, &mut names);
            self.expand(node, &opsets, depth + 1);
        }
        Ok(())
    }

    /// Maps the function's inputs and outputs to the call's. An output that is also an input, or listed twice,
    /// becomes a copy.
    fn bind(&mut self, call: &NodeProto, function: &FunctionProto, opsets: &Rc<Opsets>) -> HashMap<String, String> {
        let mut names = HashMap::from([(String::new(), String::new())]);
        for (i, formal) in function.input.iter().enumerate() {
            names.insert(formal.clone(), call.input.get(i).cloned().unwrap_or_default());
        }
        for (formal, actual) in function.output.iter().zip(&call.output).filter(|(_, actual)| !actual.is_empty()) {
            let Some(source) = names.get(formal).cloned() else {
                names.insert(formal.clone(), actual.clone());
                continue;
            };
            let copy = NodeProto {
                name: self.nodes.unique(&format!("{}/{formal}", call.name)),
                op_type: "Identity".to_owned(),
                input: vec![source],
                output: vec![actual.clone()],
                ..Default::default()
            };
            self.out.push(FlatNode { node: copy, opsets: opsets.clone() });
        }
        names
    }

    fn instantiate(
        &mut self,
        call: &NodeProto,
        function: &FunctionProto,
        inner: &NodeProto,
        idx: usize,
        names: &mut HashMap<String, String>,
    ) -> NodeProto {
        let prefix = format!("{}/", call.name);
        let mut rename = |formal: &String| match names.get(formal) {
            Some(actual) => actual.clone(),
            None => {
                let actual = self.values.unique(&format!("{prefix}{formal}"));
                names.insert(formal.clone(), actual.clone());
                actual
            }
        };
        let input = inner.input.iter().map(&mut rename).collect();
        let output = inner.output.iter().map(&mut rename).collect();
        NodeProto {
            input,
            output,
            name: self.node_name(&prefix, inner, idx),
            op_type: inner.op_type.clone(),
            domain: inner.domain.clone(),
            overload: inner.overload.clone(),
            attribute: inner.attribute.iter().filter_map(|a| resolve(a, call, function)).collect(),
            doc_string: String::new(),
        }
    }

    /// Takes a node that is about to be written out from the budget.
    fn charge(&mut self, call: &NodeProto, inner: &NodeProto) -> Result<(), Refusal> {
        let names = inner.input.len() + inner.output.len() + 1;
        let cost = inner.encoded_len() + names.saturating_mul(call.name.len()) + NODE_COST;
        match self.budget.checked_sub(cost) {
            Some(left) => self.budget = left,
            None => return Refusal::invalid("the model's functions, written out, are too large for their file"),
        }
        Ok(())
    }
}

/// The attribute with a reference to the function's attributes resolved; `None` where there is no value.
fn resolve(attribute: &AttributeProto, call: &NodeProto, function: &FunctionProto) -> Option<AttributeProto> {
    let outer = &attribute.ref_attr_name;
    if outer.is_empty() {
        return Some(attribute.clone());
    }
    let given = call.attribute.iter().find(|a| &a.name == outer);
    let found = given.or_else(|| function.attribute_proto.iter().find(|a| &a.name == outer))?;
    Some(AttributeProto { name: attribute.name.clone(), ..found.clone() })
}

/// A domain in its canonical spelling: the standard domain is empty.
pub(crate) fn domain(name: &str) -> String {
    if name == "ai.onnx" { String::new() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::OperatorSetIdProto;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn node(name: &str, op: &str, input: &[&str], output: &[&str]) -> NodeProto {
        let (input, output) = (strings(input), strings(output));
        NodeProto { name: name.into(), op_type: op.into(), input, output, ..Default::default() }
    }

    fn function(name: &str, input: &[&str], output: &[&str], node: Vec<NodeProto>) -> FunctionProto {
        FunctionProto {
            name: name.into(),
            input: strings(input),
            output: strings(output),
            node,
            opset_import: vec![OperatorSetIdProto { domain: "ai.onnx".into(), version: 18 }],
            ..Default::default()
        }
    }

    fn run(nodes: Vec<NodeProto>, functions: &[FunctionProto]) -> (Vec<FlatNode>, Vec<Problem>) {
        let (mut values, mut node_names, mut problems) = (Names::default(), Names::default(), Vec::new());
        let opsets = Opsets::from([(String::new(), 21)]);
        let flat = flatten(nodes, functions, opsets, &mut values, &mut node_names, &mut problems);
        (flat, problems)
    }

    fn lines(flat: &[FlatNode]) -> Vec<String> {
        let line = |n: &NodeProto| format!("{} {} {:?} -> {:?}", n.name, n.op_type, n.input, n.output);
        flat.iter().map(|f| line(&f.node)).collect()
    }

    #[test]
    fn a_call_is_written_out_with_its_own_names() {
        let f = function(
            "F",
            &["x", "w"],
            &["y"],
            vec![node("", "Mul", &["x", "w"], &["t"]), node("r", "Relu", &["t"], &["y"])],
        );
        let calls = vec![node("c", "F", &["a", "b"], &["m"]), node("c", "F", &["m"], &["out"])];
        let (flat, problems) = run(calls, &[f]);
        assert_eq!(problems, []);
        assert_eq!(
            lines(&flat),
            [
                r#"c/Mul_0 Mul ["a", "b"] -> ["c/t"]"#,
                r#"c/r Relu ["c/t"] -> ["m"]"#,
                r#"c_1/Mul_0 Mul ["m", ""] -> ["c_1/t"]"#,
                r#"c_1/r Relu ["c_1/t"] -> ["out"]"#,
            ]
        );
        assert_eq!(flat[0].opsets[""], 18);
    }

    #[test]
    fn an_output_that_is_an_input_becomes_a_copy() {
        let (flat, _) = run(vec![node("c", "F", &["a"], &["b"])], &[function("F", &["x"], &["x"], vec![])]);
        assert_eq!(lines(&flat), [r#"c/x Identity ["a"] -> ["b"]"#]);
    }

    #[test]
    fn attributes_come_from_the_call_or_the_default() {
        let int = |name: &str, i| AttributeProto { name: name.into(), i: Some(i), ..Default::default() };
        let reference = |name: &str, outer: &str| AttributeProto {
            name: name.into(),
            ref_attr_name: outer.into(),
            ..Default::default()
        };
        let mut inner = node("n", "Concat", &["x"], &["y"]);
        inner.attribute = vec![reference("axis", "a"), reference("k", "b"), reference("none", "c")];
        let mut f = function("F", &["x"], &["y"], vec![inner]);
        f.attribute_proto = vec![int("a", 1), int("b", 2)];
        let mut call = node("c", "F", &["p"], &["q"]);
        call.attribute = vec![int("a", 7)];
        let (flat, _) = run(vec![call], &[f]);
        assert_eq!(flat[0].node.attribute, [int("axis", 7), int("k", 2)]);
    }

    #[test]
    fn recursion_and_explosion_are_refused() {
        let f = function("F", &["x"], &["y"], vec![node("n", "F", &["x"], &["y"])]);
        let (flat, problems) = run(vec![node("c", "F", &["a"], &["b"])], &[f]);
        assert!(flat.is_empty());
        assert!(matches!(&problems[0].refusal, Refusal::Invalid(t) if t.contains("does it call itself")));

        let double = |i: usize| {
            let inner = format!("F{}", i + 1);
            let nodes = (0..8).map(|k| node(&format!("n{k}"), &inner, &["x"], &["y"])).collect();
            function(&format!("F{i}"), &["x"], &["y"], nodes)
        };
        let functions: Vec<_> = (0..12).map(double).collect();
        let (_, problems) = run(vec![node("c", "F0", &["a"], &["b"])], &functions);
        assert!(matches!(&problems[0].refusal, Refusal::Invalid(t) if t.contains("too large")));
    }

    #[test]
    fn a_call_with_too_many_inputs_is_refused() {
        let (_, problems) = run(vec![node("c", "F", &["a", "b"], &["y"])], &[function("F", &["x"], &["x"], vec![])]);
        assert!(matches!(&problems[0].refusal, Refusal::Invalid(t) if t.contains("has 2 inputs and 1 outputs")));
    }
}

//! Order of evaluation: every value defined once, every node behind its inputs.
use super::raw::{Problem, RawNode, Refusal};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Nodes of a cycle that an error names.
const MAX_NAMED: usize = 8;

/// Sorts nodes so that each stands behind those it reads from; the file's order is kept where it is already one.
/// `known` are the values that exist before the first node.
pub(crate) fn sort<'a>(
    nodes: Vec<RawNode>,
    known: impl Iterator<Item = &'a str>,
    problems: &mut Vec<Problem>,
) -> Vec<RawNode> {
    let makers = makers(&nodes, known, problems);
    let mut waiting = vec![0usize; nodes.len()];
    let mut readers = vec![Vec::new(); nodes.len()];
    for (idx, node) in nodes.iter().enumerate() {
        for input in node.inputs.iter().flatten() {
            match makers.get(input.as_str()) {
                Some(Some(maker)) => {
                    waiting[idx] += 1;
                    readers[*maker].push(idx);
                }
                Some(None) => {}
                None => problems.push(undefined(node, input)),
            }
        }
    }
    drop(makers);
    let order = kahn(&mut waiting, &readers);
    if order.len() < nodes.len() {
        problems.push(cycle(&nodes, &waiting, &readers));
        return Vec::new();
    }
    let mut slots: Vec<_> = nodes.into_iter().map(Some).collect();
    order.into_iter().filter_map(|idx| slots[idx].take()).collect()
}

/// Who makes each value: a node, or nobody (`None`) where it exists before.
fn makers<'a, 'k: 'a>(
    nodes: &'a [RawNode],
    known: impl Iterator<Item = &'k str>,
    problems: &mut Vec<Problem>,
) -> HashMap<&'a str, Option<usize>> {
    let mut makers: HashMap<&str, Option<usize>> = known.map(|name| (name as &'a str, None)).collect();
    for (idx, node) in nodes.iter().enumerate() {
        for output in node.outputs.iter().flatten() {
            let Some(earlier) = makers.insert(output, Some(idx)) else { continue };
            let earlier = earlier.map_or("an input or constant".to_owned(), |i| format!("node `{}`", nodes[i].name));
            let what =
                format!("writes value `{output}`, which {earlier} defines already; each value has one definition");
            problems.push(Problem { node: Some(node.name.clone()), refusal: Refusal::Invalid(what) });
        }
    }
    makers
}

fn undefined(node: &RawNode, input: &str) -> Problem {
    let what = format!("reads value `{input}`, which is no output of a node, no input and no constant of the model");
    Problem { node: Some(node.name.clone()), refusal: Refusal::Invalid(what) }
}

/// Kahn's algorithm; of the nodes that are ready, the first in the file goes first.
fn kahn(waiting: &mut [usize], readers: &[Vec<usize>]) -> Vec<usize> {
    let ready = waiting.iter().enumerate().filter(|(_, n)| **n == 0).map(|(idx, _)| Reverse(idx));
    let mut ready: BinaryHeap<_> = ready.collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(Reverse(idx)) = ready.pop() {
        order.push(idx);
        for &reader in &readers[idx] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order
}

/// Names the nodes of one cycle among those that still wait.
fn cycle(nodes: &[RawNode], waiting: &[usize], readers: &[Vec<usize>]) -> Problem {
    // Each waiting node has a waiting predecessor; walking backwards must meet a node again.
    let mut before = vec![usize::MAX; nodes.len()];
    for (maker, list) in readers.iter().enumerate().filter(|(maker, _)| waiting[*maker] > 0) {
        list.iter().for_each(|&reader| before[reader] = maker);
    }
    let mut at = waiting.iter().position(|&n| n > 0).unwrap_or(0);
    let mut seen = vec![false; nodes.len()];
    while !std::mem::replace(&mut seen[at], true) {
        at = before[at];
    }
    let mut ring = vec![at];
    while before[ring[ring.len() - 1]] != at {
        ring.push(before[ring[ring.len() - 1]]);
    }
    ring.reverse();
    // The cycle begins with the node that comes first in the file.
    let first = (0..ring.len()).min_by_key(|&i| ring[i]).unwrap_or(0);
    ring.rotate_left(first);
    let names: Vec<_> = ring.iter().take(MAX_NAMED).map(|&i| format!("`{}`", nodes[i].name)).collect();
    let more = if ring.len() > MAX_NAMED { format!(" and {} more", ring.len() - MAX_NAMED) } else { String::new() };
    let what = format!("nodes depend on each other in a circle: {}{more}", names.join(" -> "));
    Problem::model(Refusal::Invalid(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(line: &str) -> RawNode {
        // "name: in in -> out out"
        let (name, rest) = line.split_once(": ").expect("a name");
        let (inputs, outputs) = rest.split_once("->").expect("an arrow");
        let list = |s: &str| s.split_whitespace().map(|v| Some(v.to_owned())).collect();
        RawNode { inputs: list(inputs), outputs: list(outputs), ..RawNode::new(name, "Op") }
    }

    fn run(lines: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut problems = Vec::new();
        let sorted = sort(lines.iter().map(|l| node(l)).collect(), ["x"].into_iter(), &mut problems);
        let text = |p: Problem| match p.refusal {
            Refusal::Invalid(t) | Refusal::Unsupported(t) => t,
        };
        (sorted.into_iter().map(|n| n.name).collect(), problems.into_iter().map(text).collect())
    }

    #[test]
    fn nodes_are_sorted_and_a_good_order_is_kept() {
        assert_eq!(run(&["c: b -> c", "a: x -> a", "d: x -> d", "b: a a -> b"]).0, ["a", "d", "b", "c"]);
        assert_eq!(run(&["a: x -> a", "c: x -> c", "b: c -> b"]).0, ["a", "c", "b"]);
    }

    #[test]
    fn a_cycle_is_named() {
        let (sorted, problems) = run(&["t: c -> t", "a: x c -> a", "b: a -> b", "c: b -> c"]);
        assert!(sorted.is_empty());
        assert!(problems[0].contains("`a` -> `b` -> `c`"), "{problems:?}");
        assert!(!problems[0].contains("`t`"));
        assert!(run(&["a: a -> a"]).1[0].contains("`a`"));
    }

    #[test]
    fn double_and_missing_definitions_are_named() {
        let (_, problems) = run(&["a: x -> y", "b: x -> y", "c: z -> x"]);
        assert_eq!(problems.len(), 3);
        assert!(problems[0].contains("writes value `y`, which node `a` defines already"), "{problems:?}");
        assert!(problems[1].contains("an input or constant"), "{problems:?}");
        assert!(problems[2].contains("reads value `z`"), "{problems:?}");
    }
}

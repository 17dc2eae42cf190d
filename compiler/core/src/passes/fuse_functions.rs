//! Functions of one value that a file spells out become the operators that mean them: Gelu (erf and tanh form), Swish
//! (SiLU), HardSigmoid, HardSwish, Mish.
//!
//! A formula is recognised by its polynomial ([`super::polynomial`]) in the argument `x` and an inner function
//! `t = f(u(x))`, so operand order, association and the spelling of powers do not matter:
//!
//! | operator | inner function | value |
//! |---|---|---|
//! | Gelu | `erf(x / sqrt 2)` | `x/2 + x*t/2` |
//! | Gelu, tanh | `tanh(sqrt(2/pi) * (x + 0.044715 x^3))` | `x/2 + x*t/2` |
//! | Swish | `sigmoid(a*x)` | `x*t` |
//! | HardSigmoid | `clip(a*x + h/2, 0, h)` | `t/h` |
//! | HardSwish | `clip(x + 3, 0, 6)`, or HardSigmoid with 1/6 and 1/2 | `x*t/6`, `x*t` |
//! | Mish | `tanh(softplus(x))` | `x*t` |
//!
//! Float results keep their meaning and change by a few roundings of f32; Swish with `a = 1` does not change.

use super::absorb_activation::bounds;
use super::pattern::{View, is_arithmetic, is_plain};
use super::polynomial::{Poly, Reader, near};
use super::rules::{is, is_any};
use crate::Cx;
use ottava_graph::{Attr, Attrs, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, ValueId};
use std::collections::BTreeSet;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// How far from the root an inner function, and from it the argument, is searched.
const REACH: usize = 6;
/// Functions that stand inside another.
const INNER: &[&str] = &["Erf", "Tanh", "Sigmoid", "Clip", "HardSigmoid"];

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fuse_functions", rule)?;
    Ok(n + graph.remove_dead())
}

/// An operator of one value.
struct Function {
    op: &'static str,
    version: u32,
    attrs: Attrs,
}

impl Function {
    fn new(op: &'static str, version: u32) -> Self {
        Self { op, version, attrs: Attrs::default() }
    }

    fn with(mut self, name: &str, value: f64) -> Self {
        self.attrs.set(name, Attr::Float(value as f32));
        self
    }
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let root = &graph.nodes[index];
    let [y] = root.outputs[..] else { return Ok(None) };
    let may_be_root = is_any(root, &["Mul", "Div", "Add"]) || is(root, "Clip");
    if !may_be_root || !is_plain(root) || !view.is_f32(y) {
        return Ok(None);
    }
    for t in near_values(view, y).into_iter().filter(|id| view.producer(*id).is_some_and(|(_, n)| is_any(n, INNER))) {
        let Some((t_index, u)) = view.producer(t).and_then(|(i, inner)| Some((i, inner.input(0)?))) else { continue };
        // The farthest one takes the most arithmetic in.
        for x in arguments(view, u).into_iter().rev() {
            let mut reader = Reader { view, x, t: None, inside: BTreeSet::from([t_index]) };
            let argument = reader.read(u);
            reader.t = Some(t);
            let Some(value) = reader.read(y) else { continue };
            let known = match argument {
                Some(argument) => recognise(graph, &graph.nodes[t_index], argument, value),
                None => mish(view, &mut reader, u, value),
            };
            let Some(function) = known.filter(|_| view.shape(x) == view.shape(y) && view.is_f32(x)) else { continue };
            if view.is_closed(&reader.inside, index) {
                return Ok(Some(replace(graph, index, x, function)));
            }
        }
    }
    Ok(None)
}

/// The function whose inner function is `inner(argument)` and whose value is `value`.
fn recognise(graph: &Graph, inner: &Node, argument: Poly, value: Poly) -> Option<Function> {
    let gated = value.is(&[(1, 0, 0.5), (1, 1, 0.5)]);
    let product = value.is(&[(1, 1, 1.0)]);
    match inner.op.as_str() {
        "Erf" => (gated && argument.is(&[(1, 0, FRAC_1_SQRT_2)])).then(|| Function::new("Gelu", 20)),
        "Tanh" => {
            let root = FRAC_2_PI.sqrt();
            let mut gelu = Function::new("Gelu", 20);
            gelu.attrs.set("approximate", Attr::Str("tanh".into()));
            (gated && argument.is(&[(1, 0, root), (3, 0, 0.044715 * root)])).then_some(gelu)
        }
        "Sigmoid" => {
            let alpha = argument.coefficient(1, 0);
            let swish = Function::new("Swish", 24).with("alpha", alpha);
            (product && alpha != 0.0 && argument.is(&[(1, 0, alpha)])).then_some(swish)
        }
        "HardSigmoid" => {
            let attr = |name: &str, default| inner.attrs.float(name, default).map(f64::from).ok();
            let sixth = near(attr("alpha", 0.2)?, 1.0 / 6.0) && near(attr("beta", 0.5)?, 0.5);
            (product && sixth && argument.is(&[(1, 0, 1.0)])).then(|| Function::new("HardSwish", 14))
        }
        _ => {
            let (lo, hi) = bounds(graph, inner)?;
            let (hi, alpha) = (f64::from(hi), argument.coefficient(1, 0) / f64::from(hi));
            if lo != 0.0 || !hi.is_finite() || hi <= 0.0 || !argument.is(&[(0, 0, hi / 2.0), (1, 0, alpha * hi)]) {
                return None;
            }
            if value.is(&[(1, 1, 1.0 / hi)]) && near(alpha, 1.0 / 6.0) {
                return Some(Function::new("HardSwish", 14));
            }
            let sigmoid = Function::new("HardSigmoid", 22).with("alpha", alpha).with("beta", 0.5);
            (alpha > 0.0 && value.is(&[(0, 1, 1.0 / hi)])).then_some(sigmoid)
        }
    }
}

/// `x * tanh(softplus(x))`: the inner argument is no polynomial.
fn mish(view: View, reader: &mut Reader, u: ValueId, value: Poly) -> Option<Function> {
    let (index, softplus) = view.op(u, "Softplus")?;
    reader.inside.insert(index);
    let of_tanh = view.producer(reader.t?).is_some_and(|(_, inner)| is(inner, "Tanh"));
    (of_tanh && softplus.input(0) == Some(reader.x) && value.is(&[(1, 1, 1.0)])).then(|| Function::new("Mish", 18))
}

/// Values from which `id` follows by arithmetic, itself included, nearest first.
fn near_values(view: View, id: ValueId) -> Vec<ValueId> {
    let mut found = vec![id];
    let mut layer = vec![id];
    for _ in 0..REACH {
        let nodes = layer.iter().filter_map(|id| view.producer(*id)).filter(|(_, node)| is_arithmetic(node));
        let inputs: Vec<ValueId> = nodes.flat_map(|(_, node)| node.inputs.iter().flatten().copied()).collect();
        layer.clear();
        for id in inputs {
            if view.graph.constant(id).is_none() && !found.contains(&id) {
                found.push(id);
                layer.push(id);
            }
        }
    }
    found
}

/// What may be the argument of a function whose inner function reads `u`.
fn arguments(view: View, u: ValueId) -> Vec<ValueId> {
    match view.op(u, "Softplus").and_then(|(_, softplus)| softplus.input(0)) {
        Some(x) => vec![x],
        None => near_values(view, u),
    }
}

fn replace(graph: &Graph, index: usize, x: ValueId, function: Function) -> Patch {
    let root = &graph.nodes[index];
    let mut node = Node::new(root.name.clone(), function.op, function.version);
    node.inputs = vec![Some(x)];
    node.outputs = root.outputs.clone();
    node.attrs = function.attrs;
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    patch.insert.push(node);
    patch
}

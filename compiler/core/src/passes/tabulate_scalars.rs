//! Arithmetic of an 8-bit value with one constant number is a function of one byte: `ottava::Lut` with a constant table.
//! The table is made by the reference evaluation of the node itself on all 256 bytes, so no bit changes. Where scales are
//! in the proportion of the constant (attention scores divided by the square root of a width), the table is the identity.

use super::rules::{fresh, is_any, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Fused, QuantParams, Tensor, TensorType, ValueId};
use ottava_ops::{EvalCx, OTTAVA, evaluate};

/// What the pass does.
pub const ABOUT: About = About { what: "arithmetic of bytes with one number became tables", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "tabulate_scalars", rule)?;
    Ok(n + graph.remove_dead())
}

fn is_byte(ty: &TensorType) -> bool {
    ty.dtype.bits() == 8 && ty.quant.as_deref().and_then(QuantParams::as_per_tensor).is_some()
}

fn rule(graph: &Graph, _: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    if !is_any(node, &["Add", "Sub", "Mul", "Div"]) || node.fused.residual || node.inputs.len() != 2 {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(None) };
    let out = node.outputs[0];
    let one = |id: ValueId| graph.constant(id).is_some_and(|t| t.elements() == 1);
    let slot = match (one(a), one(b)) {
        (false, true) => 0,
        (true, false) => 1,
        _ => return Ok(None),
    };
    let x = if slot == 0 { a } else { b };
    let typed = [a, b, out].into_iter().all(|id| is_byte(graph.ty(id)));
    if !typed || graph.constant(x).is_some() || graph.ty(x).shape != graph.ty(out).shape {
        return Ok(None);
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let all = Tensor::from_bytes(graph.ty(x).dtype, &[256], &bytes)?;
    let number = graph.constant(if slot == 0 { b } else { a }).map(|t| t.reshaped(&[1])).transpose()?;
    let inputs = if slot == 0 { [Some(&all), number.as_ref()] } else { [number.as_ref(), Some(&all)] };
    let in_types = [Some(graph.ty(a)), Some(graph.ty(b))];
    let cx = EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &[graph.ty(out)] };
    let Some(table) = evaluate(&cx)?.into_iter().next() else { return Ok(None) };
    let mut patch = Patch::new(graph);
    let name = fresh(graph, &patch, &format!("{}_table", node.name));
    let table = patch_const(&mut patch, name, table);
    let mut lut = node.clone();
    lut.op = "Lut".into();
    lut.domain = OTTAVA.into();
    lut.version = 1;
    lut.inputs = vec![Some(x), Some(table)];
    lut.attrs = Default::default();
    lut.fused = Fused::default();
    lut.requant = None;
    patch.remove.push(index);
    patch.insert.push(lut);
    Ok(Some(patch))
}

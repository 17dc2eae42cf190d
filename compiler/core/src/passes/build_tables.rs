//! Unary functions of an 8-bit value become `ottava::Lut` with a constant table (numerics.md section 6): the compiler
//! builds the 256 entries in f64, a device only looks them up.

use super::rules::{fresh, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Fused, QuantParams, Tensor};
use ottava_ops::{OTTAVA, QuantRule};

/// What the pass does.
pub const ABOUT: About = About { what: "functions of 8-bit values became tables", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "build_tables", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, _: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    let unary =
        ottava_ops::lookup(&node.domain, &node.op).is_ok_and(|op| matches!(op.quant_rule(node), QuantRule::Unary));
    let (Some(x), [out], true) = (node.input(0), node.outputs.as_slice(), unary) else { return Ok(None) };
    let (from, to) = (graph.ty(x), graph.ty(*out));
    let per_tensor = |ty: &ottava_hal::TensorType| ty.quant.as_deref().and_then(QuantParams::as_per_tensor).is_some();
    if !per_tensor(from) || !per_tensor(to) || from.dtype.bits() != 8 || to.dtype.bits() != 8 {
        return Ok(None);
    }
    let mut table = ottava_ops::quant::lut::table_for(node, from, to)?;
    if let Some((lo, hi)) = node.fused.clamp {
        let clamped: Vec<i64> = table.to_ints()?.into_iter().map(|v| v.clamp(lo.into(), hi.into())).collect();
        table = Tensor::from_ints(to.dtype, &[256], &clamped)?;
    }
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
    patch.remove.push(index);
    patch.insert.push(lut);
    Ok(Some(patch))
}

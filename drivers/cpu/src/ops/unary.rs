//! Functions of one f32: the named sequences of numerics.md section 7, element by element, in the layout of the input.

use crate::arena::{elements, elements_mut};
use crate::builder::{Builder, input, output};
use crate::elementwise::Function;
use crate::relayout::failed;
use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::capability::Operand;
use ottava_hal::refmath::float::sigmoid;
use ottava_hal::refmath::unary;
use ottava_hal::{Node, OpRow, Reason, Result};
use ottava_kernels::map_f32;

/// Rows of a function of one f32.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    vec![row(op, vec![float()], float())]
}

/// A step that applies `f` to every element.
pub(crate) fn build(
    builder: &mut Builder<'_>,
    node: &Node,
    f: impl Fn(f32) -> f32 + Send + Sync + 'static,
) -> Result<()> {
    let x = input(node, 0)?;
    let nhwc = builder.is_nhwc(x);
    let from = builder.operand(x, nhwc)?;
    let to = builder.result(output(node)?, nhwc)?;
    let name = builder.kernel(&format!("{}_f32", node.op.to_lowercase()));
    builder.push_elementwise(&name, vec![from], to, map(f));
    Ok(())
}

/// `y = f(x)` over all elements.
fn map(f: impl Fn(f32) -> f32 + Send + Sync + 'static) -> Function {
    Box::new(move |exec, [x, _], out| map_f32(exec, &f, elements(x)?, elements_mut(out)?).map_err(failed))
}

/// `x < 0 ? 0 : x`; NaN and -0 stay.
pub(crate) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// LeakyRelu.
pub(crate) fn leaky_relu(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let alpha = node.attrs.float("alpha", 0.01)?;
    build(builder, node, move |x| unary::leaky_relu(x, alpha))
}

/// HardSigmoid.
pub(crate) fn hard_sigmoid(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (alpha, beta) = (node.attrs.float("alpha", 0.2)?, node.attrs.float("beta", 0.5)?);
    build(builder, node, move |x| unary::hard_sigmoid(x, alpha, beta))
}

/// `x * sigmoid(alpha * x)`.
pub(crate) fn swish(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let alpha = node.attrs.float("alpha", 1.0)?;
    build(builder, node, move |x| x * sigmoid(alpha * x))
}

/// Rows of Gelu: the exact form.
pub(crate) fn gelu_rows(op: &'static str) -> Vec<OpRow> {
    let exact = needs(Reason::AttrValue, "approximate = none", |_, n| n.attrs.str("approximate", "none") == Ok("none"));
    vec![when(row(op, vec![float()], float()), [exact])]
}

/// Rows of the float Clip: bounds are constants.
pub(crate) fn clip_rows(op: &'static str) -> Vec<OpRow> {
    let bound = Operand { optional: true, ..float_constant() };
    let scalar = needs(Reason::AttrValue, "scalar bounds", |p, n| {
        n.inputs.iter().skip(1).flatten().all(|id| p.ty(*id).shape.elements() == Some(1))
    });
    vec![when(row(op, vec![float(), bound], float()), [scalar])]
}

/// The float Clip.
pub(crate) fn clip(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let lo = bound(builder, node, 1)?.unwrap_or(f32::NEG_INFINITY);
    let hi = bound(builder, node, 2)?.unwrap_or(f32::INFINITY);
    build(builder, node, move |x| {
        let x = if x < lo { lo } else { x };
        if x > hi { hi } else { x }
    })
}

/// A constant bound of Clip; a NaN bound is none.
pub(crate) fn bound(builder: &Builder<'_>, node: &Node, i: usize) -> Result<Option<f32>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    let values = super::product::constant(builder.program, id)?.to_f32s()?;
    Ok(values.first().copied().filter(|v| !v.is_nan()))
}

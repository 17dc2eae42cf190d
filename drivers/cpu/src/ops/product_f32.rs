//! Float products (numerics.md section 7): one accumulator per output, ascending K, the bias added last.

use super::product::{Product, bias, constant};
use super::residual;
use crate::arena::Io;
use crate::blob::Packed;
use crate::builder::{Builder, input, output, refused};
use crate::relayout::failed;
use crate::rows::act_bounds;
use ottava_hal::{Node, Result};
use ottava_kernels::{ConvF32, Exec};
use std::sync::Arc;

/// Steps of a float product.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node, product: Product) -> Result<()> {
    let program = builder.program;
    let bias: Option<Vec<f32>> = match bias(node) {
        None => None,
        Some(id) => match constant(program, id)?.as_slice::<f32>()? {
            [one] => Some(vec![*one; product.shape.out_c]),
            many => Some(many.to_vec()),
        },
    };
    let apart = residual::is_apart(builder, node)?;
    let (lo, hi) = if apart { (f32::NEG_INFINITY, f32::INFINITY) } else { act_bounds(node) };
    let plan = match builder.packs.next()? {
        Some(packed) => ConvF32::from_packed(product.shape, packed, bias.as_deref(), lo, hi),
        None => {
            let weights = constant(program, input(node, 1)?)?.as_slice::<f32>()?;
            ConvF32::new(product.shape, weights, product.layout, bias.as_deref(), lo, hi)
        }
    };
    let plan = Arc::new(plan.map_err(|e| refused(node, e))?);
    builder.packs.keep(Packed::F32(Arc::clone(&plan)));
    let x = builder.operand(input(node, 0)?, product.nhwc)?;
    let y = output(node)?;
    let write = if apart {
        let bytes = residual::f32_bytes(builder.ty(y))?;
        builder.buffer(bytes)
    } else {
        builder.result(y, product.nhwc)?
    };
    let name = builder.kernel(&format!("{}_f32", node.op.to_lowercase()));
    let run = move |exec: Exec<'_>, mut io: Io<'_>| plan.run(exec, io.read(0)?, io.out()?).map_err(failed);
    builder.push(&name, vec![x], write, None, Box::new(run));
    if apart { residual::finish(builder, node, write, product.nhwc) } else { Ok(()) }
}

//! Float products (numerics.md section 7): one accumulator per output, ascending K, then the bias, a residual and the activation.
//!
//! Weights that were f16 or bf16 before the compiler folded their Cast are packed as such again: the kernels store all weights in the
//! smallest type that holds them exactly, and the arithmetic is that of their f32 values.

use super::product::{Product, constant};
use super::tail_f32::Tail;
use crate::arena::Io;
use crate::blob::Packed;
use crate::builder::{Builder, input, refused};
use crate::relayout::failed;
use ottava_hal::{Node, Result};
use ottava_kernels::{ConvF32, Exec};
use std::sync::Arc;

/// Steps of a float product.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node, product: Product) -> Result<()> {
    let tail = Tail::of(builder, node, &product)?;
    let plan = Arc::new(plan(builder, node, &product, tail)?);
    builder.packs.keep(Packed::F32(Arc::clone(&plan)));
    let mut reads = vec![builder.operand(input(node, 0)?, product.nhwc)?];
    if let Some(id) = tail.residual {
        reads.push(builder.operand(id, product.nhwc)?);
    }
    tail.taken.iter().flatten().for_each(|id| builder.take(*id));
    let write = builder.result(tail.y, product.nhwc)?;
    let name = builder.kernel(&format!("{}_f32", node.op.to_lowercase()));
    let run = move |exec: Exec<'_>, mut io: Io<'_>| {
        let other = if tail.residual.is_some() { Some(io.read(1)?) } else { None };
        plan.run_add(exec, io.read(0)?, other, io.out()?).map_err(failed)
    };
    builder.push(&name, reads, write, None, Box::new(run));
    Ok(())
}

/// The kernel plan: packed afresh, or from a payload.
fn plan(builder: &mut Builder<'_>, node: &Node, product: &Product, tail: Tail) -> Result<ConvF32> {
    let program = builder.program;
    let bias: Option<Vec<f32>> = match tail.bias {
        None => None,
        Some(id) => match constant(program, id)?.as_slice::<f32>()? {
            [one] => Some(vec![*one; product.shape.out_c]),
            many => Some(many.to_vec()),
        },
    };
    let (bias, (lo, hi)) = (bias.as_deref(), tail.bounds);
    let plan = match builder.packs.next()? {
        Some(packed) => ConvF32::from_packed(product.shape, packed, bias, lo, hi),
        None => {
            let weights = constant(program, input(node, 1)?)?.as_slice()?;
            ConvF32::new(product.shape, weights, product.layout, bias, lo, hi)
        }
    };
    plan.map_err(|e| refused(node, e))
}

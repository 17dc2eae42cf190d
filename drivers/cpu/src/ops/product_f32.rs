//! Float products (numerics.md section 7): one accumulator per output, ascending K, the bias added last.

use super::product::{Product, bias, constant};
use crate::builder::{Builder, input, output, refused};
use crate::relayout::failed;
use crate::rows::act_bounds;
use ottava_hal::{Node, Result};
use ottava_kernels::ConvF32;

/// Steps of a float product.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node, product: Product) -> Result<()> {
    let program = builder.program;
    let weights = constant(program, input(node, 1)?)?.as_slice::<f32>()?;
    let bias: Option<Vec<f32>> = match bias(node) {
        None => None,
        Some(id) => match constant(program, id)?.as_slice::<f32>()? {
            [one] => Some(vec![*one; product.shape.out_c]),
            many => Some(many.to_vec()),
        },
    };
    let (lo, hi) = act_bounds(node);
    let plan = ConvF32::new(product.shape, weights, product.layout, bias.as_deref(), lo, hi);
    let plan = plan.map_err(|e| refused(node, e))?;
    let x = builder.operand(input(node, 0)?, product.nhwc)?;
    let write = builder.result(output(node)?, product.nhwc)?;
    let name = builder.kernel(&format!("{}_f32", node.op.to_lowercase()));
    builder.push(
        &name,
        vec![x],
        write,
        None,
        Box::new(move |exec, mut io| plan.run(exec, io.read::<f32>(0)?, io.out::<f32>()?).map_err(failed)),
    );
    Ok(())
}

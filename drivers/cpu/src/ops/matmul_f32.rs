//! MatMul of two f32 operands that are both known only at run time; their leading axes broadcast (numerics.md section 7).

use super::binary::repeat_strides;
use crate::arena::Io;
use crate::builder::{Builder, input, output, refused};
use crate::form::dims;
use crate::relayout::failed;
use crate::rows::{float, needs, row, when};
use ottava_hal::{Error, Node, OpRow, Reason, Result};
use ottava_kernels::{Exec, MatMulF32};

/// Products of one MatMul, at most; each has an entry in the plan.
const MOST: usize = 1 << 20;

/// Rows of MatMul with a right operand that is no constant; a constant is packed at compile time ([`super::product`]).
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "matrices of fitting extents, leading axes that broadcast", |p, n| {
        let shape = |i| input(n, i).and_then(|id| dims(p.ty(id)));
        let (Ok(a), Ok(b)) = (shape(0), shape(1)) else { return false };
        shapes(&a, &b).is_ok()
    });
    let dynamic = needs(Reason::Other, "a right operand that is no constant", |p, n| {
        input(n, 1).is_ok_and(|id| p.value(id).constant.is_none())
    });
    vec![when(row(op, vec![float(), float()], float()), [dynamic, fits])]
}

/// Whether the rows above, and not those of a constant weight, describe a node.
pub(crate) fn applies(builder: &Builder<'_>, node: &Node) -> bool {
    let plain = |i| input(node, i).is_ok_and(|id| builder.ty(id).quant.is_none());
    plain(0) && plain(1) && input(node, 1).is_ok_and(|id| !builder.is_constant(id))
}

/// `m, k, n`, and the matrices of each product.
fn shapes(a: &[usize], b: &[usize]) -> Result<([usize; 3], Vec<[usize; 2]>)> {
    let ([a_lead @ .., m, k], [b_lead @ .., rows, n]) = (a, b) else {
        return Err(Error::invalid(format!("{a:?} or {b:?} is no matrix")));
    };
    let wrong = || Error::invalid(format!("matrices {a:?} and {b:?} do not fit"));
    let rank = a_lead.len().max(b_lead.len());
    let extent = |lead: &[usize], i: usize| (i + lead.len()).checked_sub(rank).map_or(1, |i| lead[i]);
    let lead: Vec<usize> = (0..rank).map(|i| extent(a_lead, i).max(extent(b_lead, i))).collect();
    let n_products = lead.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= MOST);
    let (n_products, true) = (n_products.ok_or_else(wrong)?, k == rows) else { return Err(wrong()) };
    let steps = [a_lead, b_lead].map(|own| repeat_strides(own, &lead).ok_or_else(wrong));
    let [a_steps, b_steps] = steps;
    let (a_steps, b_steps) = (a_steps?, b_steps?);
    let pair = |product: usize| {
        let (mut rest, mut pair) = (product, [0; 2]);
        for (i, extent) in lead.iter().enumerate().rev() {
            pair[0] += rest % extent * a_steps[i];
            pair[1] += rest % extent * b_steps[i];
            rest /= extent;
        }
        pair
    };
    Ok(([*m, *k, *n], (0..n_products).map(pair).collect()))
}

/// Steps of MatMul.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (a, b) = (input(node, 0)?, input(node, 1)?);
    let (extents, pairs) = shapes(&dims(builder.ty(a))?, &dims(builder.ty(b))?)?;
    let plan = MatMulF32::new(extents, pairs).map_err(|e| refused(node, e))?;
    let reads = vec![builder.operand(a, false)?, builder.operand(b, false)?];
    let write = builder.result(output(node)?, false)?;
    let name = builder.kernel("matmul_f32_f32");
    let scratch = Some(plan.scratch_len());
    let run = move |exec: Exec<'_>, io: Io<'_>| {
        let (a, b) = (io.read(0)?, io.read(1)?);
        let (out, scratch) = io.out_and_scratch()?;
        plan.run(exec, a, b, out, scratch).map_err(failed)
    };
    builder.push(&name, reads, write, scratch, Box::new(run));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_axes_broadcast() {
        let (extents, pairs) = shapes(&[2, 1, 3, 4], &[3, 4, 5]).unwrap();
        assert_eq!((extents, pairs), ([3, 4, 5], vec![[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]));
        assert_eq!(shapes(&[3, 4], &[4, 5]).unwrap().1, [[0, 0]]);
        assert!(shapes(&[3, 4], &[5, 5]).is_err() && shapes(&[4], &[4, 5]).is_err());
        assert!(shapes(&[2, 3, 4], &[3, 4, 5]).is_err());
    }
}

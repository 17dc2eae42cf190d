//! Reshape: the same elements under another shape.
//!
//! * (C1) 0 copies the extent of the input (unless `allowzero`). (C2) one -1 takes what remains.
//! * (C3) with symbols, -1 is the one symbol that remains when the known products cancel.
//! * (C4) a target that is computed still says the rank, by its length.

use super::expand::extents;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Reshape;

static SPEC: OpSpec = OpSpec {
    name: "Reshape",
    domain: "",
    since: 5,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("allowzero", AttrKind::Int)],
};

impl Op for Reshape {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = cx.dtype(0)?;
        let Some(target) = cx.known_ints(1)? else { return Ok(vec![cx.open(dtype, cx.length(1)?)?]) };
        if cx.input(0)?.ty.is_unranked() {
            let mut ty = cx.open(dtype, Some(target.len()))?;
            for (dim, n) in ty.shape.0.iter_mut().zip(&target).filter(|(_, n)| **n > 0) {
                *dim = Dim::Known(extents(&[*n])?[0]);
            }
            return Ok(vec![ty]);
        }
        let allow_zero = cx.attrs().int("allowzero", 0)? != 0;
        let dims = target_dims(cx.shape(0)?, &target, allow_zero, |axis| cx.fresh(0, axis))?;
        Ok(vec![cx.ty(dtype, dims)])
    }

    fn infers_from_unranked(&self) -> bool {
        true
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let target = cx.input(1)?.to_ints()?;
        let allow_zero = cx.attrs().int("allowzero", 0)? != 0;
        let dims: Vec<Dim> = x.shape().iter().map(|&n| Dim::Known(n)).collect();
        let dims = target_dims(&dims, &target, allow_zero, |_| Dim::Known(0))?;
        let shape: Vec<usize> = dims.iter().filter_map(Dim::known).collect();
        Ok(vec![x.reshaped(&shape)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("reshape", "Reshape", 21);
        let x = |shape: &[usize]| f32s(shape, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let shape = ints(DataType::S64, &[2], &[0, -1]);
        vec![case_const("c1_c2", node, 1, &[x(&[2, 3, 1]), shape], &[x(&[2, 3])])]
    }
}

/// The output's dimensions; `fresh` names a -1 that cannot be resolved.
fn target_dims(input: &[Dim], target: &[i64], allow_zero: bool, fresh: impl Fn(usize) -> Dim) -> Result<Vec<Dim>> {
    let mut dims = Vec::with_capacity(target.len());
    let mut open = None;
    for (i, &t) in target.iter().enumerate() {
        dims.push(match t {
            0 if !allow_zero => input.get(i).cloned().ok_or_else(|| {
                Error::invalid(format!("Reshape: extent {i} of {target:?} copies an axis that {input:?} lacks"))
            })?,
            -1 if open.is_none() => {
                open = Some(i);
                Dim::Known(1)
            }
            -1 => return Err(Error::invalid(format!("Reshape: {target:?} has more than one -1"))),
            t => Dim::Known(extents(&[t])?[0]),
        });
    }
    if let Some(i) = open {
        dims[i] = remaining(input, &dims, i)?.unwrap_or_else(|| fresh(i));
    }
    check_count(input, &dims)?;
    Ok(dims)
}

/// What `-1` at `open` (held as 1) stands for: the input's product divided by the others'. `None` if that is no
/// number and no single symbol.
fn remaining(input: &[Dim], dims: &[Dim], open: usize) -> Result<Option<Dim>> {
    let mut symbols: Vec<&Dim> = input.iter().filter(|d| d.known().is_none()).collect();
    for dim in dims.iter().filter(|d| d.known().is_none()) {
        match symbols.iter().position(|s| *s == dim) {
            Some(at) => drop(symbols.swap_remove(at)),
            None => return Ok(None),
        }
    }
    let (have, used) = (known_product(input)?, known_product(dims)?);
    match symbols.as_slice() {
        [] if used == 0 => {
            Err(Error::invalid(format!("Reshape: -1 at {open} is not determined beside an extent of 0")))
        }
        [] if have.is_multiple_of(used) => Ok(Some(Dim::Known(have / used))),
        [] => Err(Error::invalid(format!("Reshape: {input:?} does not divide into {dims:?} at axis {open}"))),
        [one] if have == used && used != 0 => Ok(Some((*one).clone())),
        _ => Ok(None),
    }
}

fn known_product(dims: &[Dim]) -> Result<usize> {
    let product = dims.iter().filter_map(Dim::known).try_fold(1usize, usize::checked_mul);
    product.ok_or_else(|| Error::invalid(format!("the product of {dims:?} is too large")))
}

/// Fixed shapes have as many elements before as after.
fn check_count(input: &[Dim], dims: &[Dim]) -> Result<()> {
    let fixed = |d: &[Dim]| d.iter().all(|d| d.known().is_some());
    if fixed(input) && fixed(dims) && known_product(input)? != known_product(dims)? {
        return Err(Error::invalid(format!("Reshape: {input:?} and {dims:?} differ in their number of elements")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(input: &[Dim], target: &[i64]) -> Result<Vec<Dim>> {
        target_dims(input, target, false, |_| Dim::Sym("fresh".into()))
    }

    #[test]
    fn c3_minus_one_is_the_remaining_symbol() {
        let (n, k) = (Dim::Sym("N".into()), Dim::Known);
        assert_eq!(dims(&[n.clone(), k(64)], &[-1, 64]).unwrap(), [n.clone(), k(64)]);
        assert_eq!(dims(&[n.clone(), k(4), k(4), k(8)], &[-1, 128]).unwrap(), [n.clone(), k(128)]);
        assert_eq!(dims(&[n.clone(), k(4), k(8)], &[0, -1]).unwrap(), [n.clone(), k(32)]);
        assert_eq!(dims(&[n.clone(), k(4)], &[-1]).unwrap(), [Dim::Sym("fresh".into())]);
        assert_eq!(dims(&[n.clone(), k(6)], &[1, -1, 6]).unwrap(), [k(1), n, k(6)]);
    }

    #[test]
    fn c4_a_computed_target_gives_the_rank() {
        use crate::InferInput;
        let (x, target) = (TensorType::fixed(DataType::U8, &[6]), TensorType::fixed(DataType::S64, &[2]));
        let inputs = [&x, &target].map(|ty| Some(InferInput { ty, constant: None }));
        let types = Reshape.infer(&InferCx { node: &Node::new("r", "Reshape", 21), inputs: &inputs }).unwrap();
        assert_eq!(types[0].to_string(), "u8[r:0:0,r:0:1]");
    }

    #[test]
    fn wrong_targets_are_errors() {
        let k = Dim::Known;
        for target in [&[-1, -1][..], &[4, -1], &[5], &[0, 0, 0], &[-2]] {
            assert!(dims(&[k(2), k(3)], target).is_err(), "{target:?}");
        }
        assert!(dims(&[k(usize::MAX), k(3)], &[-1]).is_err());
    }
}

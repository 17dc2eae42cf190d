//! `Det`: determinants of square matrices.
//!
//! * (C1) Elimination in f64 with the row of the greatest element in the column as pivot (the first of equals); the product
//!   of the pivots, rounded once.

use super::real::{Real, count, with_real};
use crate::elementwise::sample::{case, f32s};
use crate::{Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Det;

static SPEC: OpSpec = OpSpec { name: "Det", domain: "", since: 11, inputs: (1, 1), outputs: (1, 1), attrs: &[] };

impl Op for Det {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        match cx.shape(0)? {
            [batch @ .., _, _] => Ok(vec![cx.ty(cx.dtype(0)?, batch.to_vec())]),
            other => Err(Error::invalid(format!("Det: an input of rank {}, expected 2 or more", other.len()))),
        }
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let [batch @ .., n, m] = x.shape() else { return Err(Error::invalid("Det: expected matrices")) };
        if n != m {
            return Err(Error::invalid(format!("Det: matrices of {n} x {m}; they must be square")));
        }
        let values = f64::read(x)?;
        let matrix = |i: usize| determinant(values[i * n * n..][..n * n].to_vec(), *n);
        let found = Tensor::collect((0..count(batch)?).map(matrix))?;
        let y = with_real!(x.dtype(), "Det", T => {
            T::write(x.dtype(), batch, &found.iter().map(|v| T::of(*v)).collect::<Vec<_>>())
        })?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let x = f32s(&[2, 2, 2], &[0.0, 2.0, 3.0, 4.0, 1.0, 2.0, 2.0, 4.0]);
        vec![case("c1_pivots", Node::new("det", "Det", 11), &[x], &[f32s(&[2], &[-6.0, 0.0])])]
    }
}

/// (C1)
fn determinant(mut a: Vec<f64>, n: usize) -> f64 {
    let mut det = 1.0;
    for column in 0..n {
        let greater = |best: usize, row: usize| a[row * n + column].abs() > a[best * n + column].abs();
        let pivot = (column..n).fold(column, |best, row| if greater(best, row) { row } else { best });
        if pivot != column {
            (0..n).for_each(|j| a.swap(pivot * n + j, column * n + j));
            det = -det;
        }
        let head = a[column * n + column];
        det *= head;
        if head == 0.0 {
            return det;
        }
        for row in column + 1..n {
            let factor = a[row * n + column] / head;
            (column..n).for_each(|j| a[row * n + j] -= factor * a[column * n + j]);
        }
    }
    det
}

//! Small helpers that many operators share: axes, broadcasting, strides.

use ottava_hal::{DataType, Dim, Error, Reason, Result, Status, Tensor};

/// A possibly negative axis as an index below `rank`.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    let r = i64::try_from(rank).map_err(|_| Error::invalid("rank is too large"))?;
    let a = if axis < 0 { axis + r } else { axis };
    if (0..r).contains(&a) {
        Ok(a as usize)
    } else {
        Err(Error::invalid(format!("axis {axis} is outside rank {rank}")))
    }
}

/// Row-major strides in elements.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].saturating_mul(shape[i + 1]);
    }
    strides
}

/// The NumPy broadcast of two shapes.
pub fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| if i + s.len() < rank { 1 } else { s[i + s.len() - rank] };
    let one = |i| match (at(a, i), at(b, i)) {
        (x, y) if x == y => Ok(x),
        (1, y) => Ok(y),
        (x, 1) => Ok(x),
        _ => Err(Error::invalid(format!("shapes {a:?} and {b:?} do not broadcast"))),
    };
    (0..rank).map(one).collect()
}

/// The broadcast of two symbolic shapes. A symbol against 1 stays; two different symbols, or a symbol against a number
/// larger than 1, take the one that can be right.
pub fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let one_dim = Dim::Known(1);
    let at = |s: &[Dim], i: usize| if i + s.len() < rank { one_dim.clone() } else { s[i + s.len() - rank].clone() };
    let one = |i| match (at(a, i), at(b, i)) {
        (x, y) if x == y => Ok(x),
        (Dim::Known(1), y) => Ok(y),
        (x, Dim::Known(1)) => Ok(x),
        (Dim::Known(_), Dim::Known(_)) => Err(Error::invalid(format!("shapes {a:?} and {b:?} do not broadcast"))),
        (x @ Dim::Known(_), _) | (_, x @ Dim::Known(_)) | (x, _) => Ok(x),
    };
    (0..rank).map(one).collect()
}

/// Strides (in elements) that walk a tensor of `shape` as if it had the broadcast shape `to`; 0 where it repeats.
pub fn broadcast_strides(shape: &[usize], to: &[usize]) -> Vec<usize> {
    let own = strides(shape);
    let missing = to.len() - shape.len();
    (0..to.len()).map(|i| if i < missing || shape[i - missing] == 1 { 0 } else { own[i - missing] }).collect()
}

/// The largest number of elements that an operator may make from shapes and counts that data decides.
pub const MAX_ELEMENTS: usize = 1 << 31;

/// The largest tensor that an evaluation makes. A few numbers in a small file can ask for any size.
const MAX_BYTES: usize = 2 << 30;

/// A zeroed output; out of memory if it has more than 2 GiB.
pub fn output(dtype: DataType, shape: &[usize]) -> Result<Tensor> {
    let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    match n.and_then(|n| dtype.byte_len(n)) {
        Some(n) if n <= MAX_BYTES => Tensor::zeros(dtype, shape),
        _ => {
            let what = format!("an output {dtype}{shape:?} has more than {MAX_BYTES} bytes; use a smaller shape");
            Err(Error::failed(Status::OutOfHostMemory, what))
        }
    }
}

/// The element type of an ONNX `TensorProto.DataType` number, as attributes carry it.
pub fn onnx_dtype(code: i64) -> Result<DataType> {
    use DataType::*;
    Ok(match code {
        1 => F32,
        2 => U8,
        3 => S8,
        4 => U16,
        5 => S16,
        6 => S32,
        7 => S64,
        9 => Bool,
        10 => F16,
        11 => F64,
        12 => U32,
        13 => U64,
        16 => BF16,
        21 => U4,
        22 => S4,
        _ => return Err(Error::unsupported(Reason::Dtype, format!("ONNX element type {code} is not supported"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_a_largest_size() {
        for shape in [&[1000, 1000, 1000][..], &[usize::MAX, 2]] {
            let error = output(DataType::F32, shape).unwrap_err();
            assert_eq!(error.status(), Status::OutOfHostMemory, "{error}");
        }
        assert_eq!(output(DataType::U4, &[3]).unwrap().bytes(), [0, 0]);
    }
}

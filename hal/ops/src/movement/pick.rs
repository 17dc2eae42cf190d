//! The three ways in which every operator of this family moves elements: a strided walk, a list of positions, and a
//! choice between two tensors. Elements are arrays of bytes here, so the element type does not matter.
//!
//! * (C1) nibble types are moved as bytes and packed again.

use crate::util;
use ottava_hal::{DataType, Error, Result, Tensor};

/// Calls a function of tensors whose elements are whole bytes; nibbles are unpacked before and packed after it.
pub fn on_bytes(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let wide = match x.dtype() {
        DataType::S4 => DataType::S8,
        DataType::U4 => DataType::U8,
        _ => return f(x),
    };
    let y = f(&Tensor::from_ints(wide, x.shape(), &x.to_ints()?)?)?;
    Tensor::from_ints(x.dtype(), y.shape(), &y.to_ints()?)
}

/// A walk over a tensor: the element at output index `i` is at `offset + Σ i[k] * steps[k]`.
pub struct Walk {
    /// Shape of the output.
    pub shape: Vec<usize>,
    /// Step of each output axis in elements of the input; 0 repeats, negative goes backwards.
    pub steps: Vec<isize>,
    /// Position of the first element.
    pub offset: usize,
}

/// The elements that a walk visits, in row-major order of its shape.
pub fn strided(x: &Tensor, walk: &Walk) -> Result<Tensor> {
    on_bytes(x, |x| {
        let mut y = util::output(x.dtype(), &walk.shape)?;
        if y.elements() == 0 {
            return Ok(y);
        }
        check_bounds(x, walk)?;
        match x.dtype().bits() {
            8 => walk_elements::<1>(x.bytes(), y.bytes_mut(), walk),
            16 => walk_elements::<2>(x.bytes(), y.bytes_mut(), walk),
            32 => walk_elements::<4>(x.bytes(), y.bytes_mut(), walk),
            _ => walk_elements::<8>(x.bytes(), y.bytes_mut(), walk),
        }
        Ok(y)
    })
}

/// Every position of a walk over a non-empty shape is inside the tensor.
fn check_bounds(x: &Tensor, walk: &Walk) -> Result<()> {
    let (mut lo, mut hi) = (walk.offset as i128, walk.offset as i128);
    for (&n, &step) in walk.shape.iter().zip(&walk.steps) {
        let reach = (n as i128 - 1) * step as i128;
        if reach < 0 { lo += reach } else { hi += reach }
    }
    if lo < 0 || hi >= x.elements() as i128 {
        return Err(Error::invalid(format!("positions {lo}..={hi} are outside a tensor of {} elements", x.elements())));
    }
    Ok(())
}

fn walk_elements<const W: usize>(x: &[u8], y: &mut [u8], walk: &Walk) {
    let (x, y) = (x.as_chunks::<W>().0, y.as_chunks_mut::<W>().0);
    let axes = collapse(walk);
    let Some((&(n, step), outer)) = axes.split_last() else {
        y[0] = x[walk.offset];
        return;
    };
    let mut index = vec![0usize; outer.len()];
    let mut at = walk.offset as isize;
    for row in y.chunks_exact_mut(n) {
        copy_row(x, row, at as usize, step);
        for (i, &(extent, step)) in outer.iter().enumerate().rev() {
            index[i] += 1;
            at += step;
            if index[i] < extent {
                break;
            }
            index[i] = 0;
            at -= step * extent as isize;
        }
    }
}

fn copy_row<T: Copy>(x: &[T], row: &mut [T], at: usize, step: isize) {
    match step {
        1 => row.copy_from_slice(&x[at..at + row.len()]),
        0 => row.fill(x[at]),
        _ => {
            let mut at = at as isize;
            for y in row {
                *y = x[at as usize];
                at = at.wrapping_add(step);
            }
        }
    }
}

/// Extents and steps without axes of extent 1, neighbours merged where one step continues the other.
fn collapse(walk: &Walk) -> Vec<(usize, isize)> {
    let mut axes: Vec<(usize, isize)> = Vec::new();
    for (&n, &step) in walk.shape.iter().zip(&walk.steps).filter(|(n, _)| **n != 1) {
        match axes.last_mut() {
            Some((extent, outer)) if *outer == step * n as isize => (*extent, *outer) = (*extent * n, step),
            _ => axes.push((n, step)),
        }
    }
    axes
}

/// The elements at the given positions; there are as many as `shape` has. A position outside is an error.
pub fn pick(x: &Tensor, shape: &[usize], positions: &[usize]) -> Result<Tensor> {
    on_bytes(x, |x| {
        let mut y = util::output(x.dtype(), shape)?;
        let n = x.elements();
        if let Some(bad) = positions.iter().find(|&&p| p >= n) {
            return Err(Error::invalid(format!("position {bad} is outside a tensor of {n} elements")));
        }
        match x.dtype().bits() {
            8 => pick_elements::<1>(x.bytes(), y.bytes_mut(), positions),
            16 => pick_elements::<2>(x.bytes(), y.bytes_mut(), positions),
            32 => pick_elements::<4>(x.bytes(), y.bytes_mut(), positions),
            _ => pick_elements::<8>(x.bytes(), y.bytes_mut(), positions),
        }
        Ok(y)
    })
}

fn pick_elements<const W: usize>(x: &[u8], y: &mut [u8], positions: &[usize]) {
    let x = x.as_chunks::<W>().0;
    y.as_chunks_mut::<W>().0.iter_mut().zip(positions).for_each(|(y, &p)| *y = x[p]);
}

/// `choose[i] != 0 ? x[i] : y[i]`; all three have one shape, x and y one type.
pub fn pick_between(choose: &[u8], x: &Tensor, y: &Tensor) -> Result<Tensor> {
    on_bytes(x, |x| {
        let mut out = x.clone();
        let width = x.dtype().bits() / 8;
        let y = on_wide(y)?;
        let rows = out.bytes_mut().chunks_exact_mut(width).zip(y.bytes().chunks_exact(width));
        choose.iter().zip(rows).filter(|(c, _)| **c == 0).for_each(|(_, (to, from))| to.copy_from_slice(from));
        Ok(out)
    })
}

/// A tensor whose elements are whole bytes.
pub fn on_wide(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DataType::S4 => Tensor::from_ints(DataType::S8, x.shape(), &x.to_ints()?),
        DataType::U4 => Tensor::from_ints(DataType::U8, x.shape(), &x.to_ints()?),
        _ => Ok(x.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_may_go_backwards_and_repeat() {
        let x = Tensor::from_slice(&[3], &[1.0f32, 2.0, 3.0]).unwrap();
        let walk = Walk { shape: vec![3, 2], steps: vec![-1, 0], offset: 2 };
        assert_eq!(strided(&x, &walk).unwrap().to_f32s().unwrap(), [3.0, 3.0, 2.0, 2.0, 1.0, 1.0]);
        assert!(strided(&x, &Walk { offset: 1, ..walk }).is_err());
    }

    #[test]
    fn c1_nibbles_move() {
        let x = Tensor::from_ints(DataType::S4, &[3], &[-8, 1, 7]).unwrap();
        assert_eq!(pick(&x, &[2], &[2, 0]).unwrap().to_ints().unwrap(), [7, -8]);
        assert!(pick(&x, &[1], &[3]).is_err());
    }
}

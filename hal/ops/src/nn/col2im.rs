//! `Col2Im`: adds columns of blocks back into an image.
//!
//! * (C1) Overlapping blocks are summed in ascending order of the block element; what falls into the padding is
//!   dropped.

use super::real::{Real, alloc, count, with_real};
use super::window::{Axis, Window, list};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attrs, DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// Blocks to image.
pub struct Col2Im;

static SPEC: OpSpec = OpSpec {
    name: "Col2Im",
    domain: "",
    since: 18,
    inputs: (3, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("dilations", AttrKind::Ints),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

/// Image extents, blocks per image and the block's number of elements.
fn geometry(attrs: &Attrs, image: &[i64], block: &[i64]) -> Result<(Vec<usize>, [Axis; 3], usize)> {
    let image = list("image_shape", image, image.len(), 0)?;
    let block = list("block_shape", block, image.len(), 1)?;
    let axes = Window::parse(attrs, Some(&block), image.len())?.axes(&image)?;
    let taps = count(&block)?;
    Ok((image, axes, taps))
}

impl Op for Col2Im {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let x = cx.shape(0)?;
        if cx.any_open(&[1, 2]) {
            return Ok(vec![cx.open(cx.dtype(0)?, cx.length(1)?.map(|n| n.saturating_add(2)))?]);
        }
        let (image, _, taps) = geometry(cx.attrs(), &cx.const_ints(1)?, &cx.const_ints(2)?)?;
        let [batch, rows, _] = x else {
            return Err(Error::invalid(format!("Col2Im: input of rank {}, expected 3", x.len())));
        };
        let channels = rows.known().map_or(cx.fresh(0, 1), |n| Dim::Known(n / taps));
        let mut dims = vec![batch.clone(), channels];
        dims.extend(image.into_iter().map(Dim::Known));
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let y = with_real!(x.dtype(), "Col2Im", T => fold::<T>(cx, x))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let one = |n: i64| ints(DataType::S64, &[1], &[n]);
        // Blocks of two at stride one over three elements: the middle one is in both.
        let inputs = [f32s(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]), one(3), one(2)];
        vec![case_const(
            "c1_overlap",
            Node::new("col", "Col2Im", 18),
            1,
            &inputs,
            &[f32s(&[1, 1, 3], &[1.0, 5.0, 4.0])],
        )]
    }
}

fn fold<T: Real>(cx: &EvalCx, x: &Tensor) -> Result<Tensor> {
    let (image, block) = (cx.input(1)?.to_ints()?, cx.input(2)?.to_ints()?);
    let (image, axes, taps) = geometry(cx.attrs(), &image, &block)?;
    let blocks: usize = axes.iter().map(|a| a.output).product();
    let &[batch, rows, columns] = x.shape() else {
        return Err(Error::invalid(format!("Col2Im: input {:?}, expected rank 3", x.shape())));
    };
    if rows % taps != 0 || columns != blocks {
        return Err(Error::invalid(format!("Col2Im: input {:?} for {taps} elements of {blocks} blocks", x.shape())));
    }
    let channels = rows / taps;
    let mut shape = vec![batch, channels];
    shape.extend(&image);
    let (data, plane_len) = (T::read(x)?, count(&image)?);
    let mut y = alloc::<T>(count(&shape)?)?;
    for (plane_idx, plane) in y.chunks_exact_mut(plane_len.max(1)).enumerate() {
        for tap in 0..taps {
            let column = &data[(plane_idx * taps + tap) * blocks..][..blocks];
            for (b, &v) in column.iter().enumerate() {
                if let Some(place) = place(&axes, tap, b) {
                    plane[place] += v;
                }
            }
        }
    }
    T::write(x.dtype(), &shape, &y)
}

/// Where element `tap` of block `b` lies in the image.
fn place(axes: &[Axis; 3], mut tap: usize, mut b: usize) -> Option<usize> {
    let (mut place, mut step) = (0, 1);
    for axis in axes.iter().rev() {
        let (k, o) = (tap % axis.kernel, b % axis.output);
        (tap, b) = (tap / axis.kernel, b / axis.output);
        if !axis.taps(o).contains(&k) {
            return None;
        }
        place += axis.at(o, k) * step;
        step *= axis.input;
    }
    Some(place)
}

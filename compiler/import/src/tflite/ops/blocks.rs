//! SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, which converters put around dilated convolutions: Pad, Reshape, Transpose and
//! Slice over the axes behind the batch, in the order of the file.

use super::super::cx::{Built, Cx, Layout};
use super::super::schema::Operator;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{TensorType, ValueId};

/// An operator's blocks and the pairs of elements before and behind each axis.
struct Blocks {
    size: Vec<i64>,
    borders: Vec<[i64; 2]>,
    /// Extents of the input behind the batch.
    dims: Vec<i64>,
}

impl Blocks {
    fn of(cx: &Cx<'_>, op: &Operator<'_>) -> Built<Self> {
        let (x, block, borders) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.input(op, 2)?);
        let (size, borders) = (cx.ints(block)?, cx.ints(borders)?);
        let dims: Vec<i64> = cx.extents(x)?.iter().skip(1).map(|d| i64::try_from(*d).unwrap_or(i64::MAX)).collect();
        let bounded = |v: &i64, least: i64| (least..=1 << 20).contains(v);
        let fits = size.iter().all(|b| bounded(b, 1)) && borders.iter().all(|b| bounded(b, 0));
        if !fits || size.len() > dims.len() || borders.len() != 2 * size.len() || size.is_empty() {
            return Refusal::invalid(format!("blocks {size:?} and borders {borders:?} for an input of {dims:?}"));
        }
        Ok(Self { size, borders: borders.as_chunks::<2>().0.to_vec(), dims })
    }

    /// Extents behind those that are cut into blocks.
    fn rest(&self) -> &[i64] {
        &self.dims[self.size.len()..]
    }
}

/// Adds nodes whose results are inner values of the type of `t`, except the last one.
struct Chain<'c, 'm> {
    cx: &'c mut Cx<'m>,
    t: usize,
    at: ValueId,
    ty: TensorType,
}

impl<'c, 'm> Chain<'c, 'm> {
    fn new(cx: &'c mut Cx<'m>, op: &Operator<'_>) -> Built<Self> {
        let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
        let (at, of) = (cx.value(x, Layout::File)?, cx.ty(x, Layout::File)?);
        let ty = TensorType { quant: of.quant, ..TensorType::unranked(of.dtype) };
        Ok(Self { cx, t, at, ty })
    }

    /// A node with lists as its further inputs; it becomes the end of the chain.
    fn then(&mut self, op: &str, version: u32, lists: &[(&str, Vec<i64>)], perm: Option<Vec<i64>>) -> Built {
        let mut node = self.cx.node(op, version, self.t);
        node.inputs = vec![Some(self.at)];
        for (name, list) in lists {
            node.inputs.push(Some(self.cx.add_ints(self.t, name, list)?));
        }
        if let Some(perm) = perm {
            node.attrs.set("perm", Attr::Ints(perm));
        }
        self.at = self.cx.push_inner(node, self.t, &op.to_lowercase(), self.ty.clone());
        Ok(())
    }

    fn finish(self) -> Built {
        let mut node = self.cx.node("Identity", 14, self.t);
        node.inputs = vec![Some(self.at)];
        self.cx.push(node, &[self.t], Layout::File)
    }
}

/// SPACE_TO_BATCH_ND.
pub(crate) fn space_to_batch(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let blocks = Blocks::of(cx, op)?;
    let (m, rank) = (blocks.size.len(), blocks.dims.len() + 1);
    let padded: Vec<i64> = blocks.dims.iter().zip(&blocks.borders).map(|(d, [a, b])| d.saturating_add(a + b)).collect();
    if padded.iter().zip(&blocks.size).any(|(d, b)| d % b != 0) {
        return Refusal::invalid(format!("padded extents {padded:?} are no multiples of the blocks {:?}", blocks.size));
    }
    let mut chain = Chain::new(cx, op)?;
    let mut pads = vec![0; 2 * rank];
    for (i, [before, behind]) in blocks.borders.iter().enumerate() {
        (pads[1 + i], pads[rank + 1 + i]) = (*before, *behind);
    }
    chain.then("Pad", 21, &[("pads", pads)], None)?;
    let cut = padded.iter().zip(&blocks.size).flat_map(|(d, b)| [d / b, *b]);
    let split: Vec<i64> = [-1].into_iter().chain(cut).chain(blocks.rest().iter().copied()).collect();
    let n = m as i64;
    let perm = (0..n).map(|i| 2 + 2 * i).chain([0]).chain((0..n).map(|i| 1 + 2 * i));
    let perm = perm.chain(2 * n + 1..split.len() as i64).collect();
    let small = padded.iter().zip(&blocks.size).map(|(d, b)| d / b);
    let shape = [-1].into_iter().chain(small).chain(blocks.rest().iter().copied()).collect();
    chain.then("Reshape", 21, &[("cut", split)], None)?;
    chain.then("Transpose", 13, &[], Some(perm))?;
    chain.then("Reshape", 21, &[("shape", shape)], None)?;
    chain.finish()
}

/// BATCH_TO_SPACE_ND.
pub(crate) fn batch_to_space(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let blocks = Blocks::of(cx, op)?;
    let m = blocks.size.len();
    let whole: Vec<i64> = blocks.dims.iter().zip(&blocks.size).map(|(d, b)| d.saturating_mul(*b)).collect();
    if whole.iter().zip(&blocks.borders).any(|(d, [a, b])| a + b > *d) {
        return Refusal::invalid(format!("{:?} are cropped from extents {whole:?}", blocks.borders));
    }
    let mut chain = Chain::new(cx, op)?;
    let split: Vec<i64> = blocks.size.iter().copied().chain([-1]).chain(blocks.dims.iter().copied()).collect();
    let n = m as i64;
    let pairs = (0..n).flat_map(|i| [n + 1 + i, i]);
    let perm = [n].into_iter().chain(pairs).chain(2 * n + 1..split.len() as i64).collect();
    let shape = [-1].into_iter().chain(whole.iter().copied()).chain(blocks.rest().iter().copied()).collect();
    chain.then("Reshape", 21, &[("cut", split)], None)?;
    chain.then("Transpose", 13, &[], Some(perm))?;
    chain.then("Reshape", 21, &[("shape", shape)], None)?;
    let starts = blocks.borders.iter().map(|b| b[0]).collect();
    let ends = whole.iter().zip(&blocks.borders).map(|(d, b)| d - b[1]).collect();
    let axes = (1..=n).collect();
    chain.then("Slice", 13, &[("starts", starts), ("ends", ends), ("axes", axes)], None)?;
    chain.finish()
}

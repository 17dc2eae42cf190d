//! Operators that choose elements by their position: Transpose, Slice, Split, Pad, Expand, Tile, Gather with constant
//! indices, Resize to the nearest. Each says per axis of the result where it reads; one kernel does them all.

use super::types::{refuse, word};
use crate::builder::{Buf, Builder, Launch};
use crate::form::{Form, Stored};
use ottava_hal::{Error, Node, Reason, Result, ValueId};

/// Where an axis of the result reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Range {
    /// The element at `first + step * i` of an axis of the source.
    Steps {
        /// Axis of the source.
        axis: usize,
        /// First element.
        first: usize,
        /// Distance of neighbours, negative where the axis is walked backwards.
        step: isize,
    },
    /// The listed elements of an axis of the source; `None` is outside.
    List(usize, Vec<Option<usize>>),
    /// The same element for every index.
    Still,
    /// An axis of the source whose elements begin only after some of outside.
    Behind(usize, usize),
}

/// An axis as the kernel takes it.
#[derive(Clone, PartialEq, Eq)]
struct Axis {
    padded: usize,
    low: usize,
    count: usize,
    stride: isize,
    list: Option<usize>,
}

/// What is chosen.
pub(super) struct Choice {
    /// Per axis of the result.
    pub ranges: Vec<Range>,
    /// Bits of elements outside.
    pub outside: u32,
}

impl Choice {
    /// Nothing is outside.
    pub fn inside(ranges: Vec<Range>) -> Self {
        Self { ranges, outside: 0 }
    }
}

/// The first input of a node, chosen from into `y`.
pub(super) fn lower(builder: &mut Builder<'_>, x: ValueId, y: ValueId, choice: &Choice) -> Result<()> {
    let (from, to) = forms(builder, x, y, choice)?;
    let (source, stored) = (Stored::new(builder.ty(x), from)?, Stored::new(builder.ty(y), to)?);
    let buf = builder.read(x, from)?;
    let mut lists: Vec<u32> = Vec::new();
    let (mut axes, mut first) = (Vec::with_capacity(stored.axes.len()), 0usize);
    for a in &stored.axes {
        let stride = |axis: usize| source.stride(axis) as isize;
        axes.push(match &choice.ranges[a.axis] {
            Range::Steps { axis, first: at, step } => {
                first += at * source.stride(*axis);
                Axis { padded: a.padded, low: 0, count: a.extent, stride: stride(*axis) * step, list: None }
            }
            Range::Behind(axis, low) => {
                let count = builder.dims(x)?[*axis];
                Axis { padded: a.padded, low: *low, count, stride: stride(*axis), list: None }
            }
            Range::Still => Axis { padded: a.padded, low: 0, count: a.padded, stride: 0, list: None },
            Range::List(axis, list) => {
                let at = lists.len();
                for place in list {
                    lists.push(place.map_or(Ok(u32::MAX), word)?);
                }
                Axis { padded: a.padded, low: 0, count: a.extent, stride: stride(*axis), list: Some(at) }
            }
        });
    }
    let axes = joined(axes);
    if first == 0 && is_whole(&axes, &stored) && builder.bytes(buf) >= stored.bytes()? {
        builder.alias(y, to, buf);
        return Ok(());
    }
    let result = builder.write(y, to)?;
    launch(builder, stored.element_bytes, (buf, first), (axes, lists), choice.outside, result)
}

/// The forms of source and result. An image stays one; rows of channels that move to the front become one.
fn forms(builder: &Builder<'_>, x: ValueId, y: ValueId, choice: &Choice) -> Result<(Form, Form)> {
    let form = builder.form_of(x);
    let (from, to) = (builder.dims(x)?, builder.dims(y)?);
    let own = |i: usize| match &choice.ranges[i] {
        Range::Steps { axis, .. } | Range::List(axis, _) | Range::Behind(axis, _) => *axis == i,
        Range::Still => true,
    };
    if from.len() == to.len() && (0..to.len()).all(own) {
        return Ok((form, form));
    }
    let last = from.len().saturating_sub(1);
    let reads = |i: usize, axis: usize| matches!(choice.ranges[i], Range::Steps { axis: a, .. } if a == axis);
    let to_image = to.len() > 2 && from.len() == to.len() && reads(0, 0) && reads(1, last);
    let rest = to_image && (2..to.len()).all(|i| reads(i, i - 1));
    Ok((form, if rest && form != Form::Image { Form::Image } else { Form::Plain }))
}

/// Whether every element of the result, padding included, lies where the source has it.
fn is_whole(axes: &[Axis], stored: &Stored) -> bool {
    let whole = |a: &Axis| a.low == 0 && a.count == a.padded && a.stride == 1 && a.list.is_none();
    let elements: usize = stored.axes.iter().map(|a| a.padded).product();
    match axes {
        [] => true,
        [one] => whole(one) && one.padded == elements,
        _ => false,
    }
}

/// Joins neighbours that are walked whole and in one go.
fn joined(axes: Vec<Axis>) -> Vec<Axis> {
    let mut out: Vec<Axis> = Vec::new();
    let free = |a: &Axis| a.low == 0 && a.count == a.padded && a.list.is_none();
    for axis in axes.into_iter().filter(|a| a.padded != 1 || !free(a)) {
        match out.last_mut() {
            Some(last) if free(last) && free(&axis) && last.stride == axis.stride * axis.padded as isize => {
                last.padded *= axis.padded;
                (last.count, last.stride) = (last.padded, axis.stride);
            }
            _ => out.push(axis),
        }
    }
    out
}

fn launch(
    builder: &mut Builder<'_>,
    element_bytes: usize,
    (x, first): (Buf, usize),
    (mut axes, lists): (Vec<Axis>, Vec<u32>),
    outside: u32,
    to: Buf,
) -> Result<()> {
    // Elements of 8 bytes move as pairs of words.
    let (bytes, times) = if element_bytes == 8 { (4, 2) } else { (element_bytes, 1) };
    if element_bytes == 8 {
        axes.iter_mut().for_each(|a| a.stride *= 2);
        axes.push(Axis { padded: 2, low: 0, count: 2, stride: 1, list: None });
    }
    let words = builder.bytes(to) / 4;
    let mut params = vec![words as u32, bytes as u32, outside, axes.len() as u32, word(first * times)?];
    for axis in &axes {
        let stride = i32::try_from(axis.stride).map_err(|_| too_far())?;
        let list = axis.list.map_or(Ok(u32::MAX), word)?;
        params.extend([word(axis.padded)?, word(axis.low)?, word(axis.count)?, stride as u32, list]);
    }
    let lists = builder.words(if lists.is_empty() { &[0] } else { &lists })?;
    builder.launch(&Launch {
        kernel: "pick",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[x, lists],
        output: to,
        items: [words, 1, 1],
        local: None,
    })
}

fn too_far() -> Error {
    Error::unsupported(Reason::ShapeLimit, "a step of more than 2^31 elements")
}

/// A range that keeps an axis.
pub(super) fn whole(axis: usize) -> Range {
    Range::Steps { axis, first: 0, step: 1 }
}

/// The extents of the first input and of the result, which must have one rank.
pub(super) fn extents(builder: &Builder<'_>, node: &Node) -> Result<(Vec<usize>, Vec<usize>)> {
    let (x, y) = (builder.dims(super::input(node, 0)?)?, builder.dims(super::output(node)?)?);
    if x.len() != y.len() { refuse(Reason::Rank, "input and result of different ranks") } else { Ok((x, y)) }
}

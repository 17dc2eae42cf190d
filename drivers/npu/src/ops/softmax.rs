//! `Softmax` of bytes along the last axis, or over everything behind an axis (versions before 13).

use super::concat::moved;
use super::{bad_shape, clamped, input, output, params_of, same_elements};
use crate::lower::{Builder, Chip, Form, Softmax};
use crate::rows::byte;
use ottava_hal::capability::Operand;
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::refmath::{RefmathError, SoftmaxLut};
use ottava_hal::{Error, Node, Reason, RequantMode, Result};

/// Operator sets from this one on have rows along one axis only.
const ALONG_AXIS: u32 = 13;

/// The values.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip)]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (params_of(builder, x)?, clamped(builder, node)?);
    let dims = builder.dims(x)?;
    let axis = axis(node, dims.len())?;
    // Along the channels rows are those of an image whose channels lie last.
    let channels = node.version >= ALONG_AXIS && axis == 1 && dims.len() > 2;
    let (form, dims, axis) =
        if channels { (Form::Last, moved(&dims), dims.len() - 1) } else { (Form::Plain, dims, axis) };
    let (rows, len) = (dims[..axis].iter().product(), dims[axis..].iter().product::<usize>());
    if node.version >= ALONG_AXIS && dims[axis.min(dims.len())..].iter().skip(1).any(|&d| d != 1) {
        return Err(bad_shape(format!("rows along axis {axis} of {dims:?}, supported: the last axis and axis 1")));
    }
    same_elements(builder, x, y)?;
    let model = |e: RefmathError| Error::unsupported(Reason::QuantScheme, e.to_string());
    let fixed = node.requant.is_some_and(|mode| mode != RequantMode::Fp32Rne);
    let table = if fixed && TfliteSoftmax::fits(to.target()) {
        TfliteSoftmax::new(from.scale, 1.0, (to.lo, to.hi)).map_err(model)?;
        None
    } else {
        let lut = SoftmaxLut::new(from.scale, to.target()).map_err(model)?;
        let bytes: Vec<u8> = lut.table.iter().flat_map(|e| e.to_le_bytes()).collect();
        Some(builder.pack(&bytes)?)
    };
    let (at, into) = (builder.want(x, form)?, builder.make(y, form)?);
    let step = Softmax::new(builder.chip, (at, from), table, (into, to), (rows, len))?;
    builder.step(vec![at], into, step);
    Ok(())
}

/// Where rows begin.
fn axis(node: &Node, rank: usize) -> Result<usize> {
    let given = node.attrs.int("axis", if node.version < ALONG_AXIS { 1 } else { -1 })?;
    let axis = if given < 0 { given.saturating_add(rank as i64) } else { given };
    let end = if node.version < ALONG_AXIS { rank } else { rank.saturating_sub(1) };
    let valid = usize::try_from(axis).ok().filter(|&a| a <= end && rank > 0);
    valid.ok_or_else(|| Error::unsupported(Reason::AttrValue, format!("axis {given} of {rank} axes")))
}

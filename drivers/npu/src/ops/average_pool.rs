//! `AveragePool`: integer sums over the taps, requantized by their number (numerics.md section 4).

use super::max_pool::geometry;
use super::{input, output, params_of};
use crate::lower::{Axis, Builder, Chip, Epilogue, Form, Kind, Params, Pool};
use crate::rows::byte;
use ottava_hal::capability::Operand;
use ottava_hal::refmath::AccBounds;
use ottava_hal::refmath::bounds::max_operand;
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::requant::Multiplier;
use ottava_hal::{Node, RequantMode, Result};
use ottava_npu::isa::Dtype;
use std::collections::BTreeSet;

/// The image.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip)]
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (params_of(builder, x)?, params_of(builder, y)?);
    let epilogue = Epilogue::of(builder.chip, node, to)?;
    let geometry = geometry(builder, node)?;
    let padded = node.attrs.int("count_include_pad", 0)? != 0;
    let same = (from.scale, from.zp) == (to.scale, to.zp);
    let raw = epilogue.mode != RequantMode::Fp32Rne && same && !padded;
    let kind = match (raw, padded) {
        (true, _) => Kind::AverageRaw,
        (false, true) => Kind::AveragePadded,
        (false, false) => Kind::Average,
    };
    let count = |a: &Axis, o| if padded { a.padded_taps(o) } else { a.taps(o) };
    let counts = |a: &Axis| (0..a.output).map(|o| (a.taps(o), count(a, o))).collect::<BTreeSet<_>>();
    for (inside_h, h) in counts(&geometry.h) {
        for (inside_w, w) in counts(&geometry.w) {
            check_mean(&epilogue, &from, inside_h * inside_w, h * w)?;
        }
    }
    let (at, into) = (builder.want(x, Form::Last)?, builder.make(y, Form::Last)?);
    let step = Pool::new(builder.chip, kind, geometry, (at, from), (into, epilogue))?;
    builder.step(vec![at], into, step);
    Ok(())
}

/// Whether a sum over `terms` elements that is divided by `n` is exact in 32 bits; its multiplier.
pub(super) fn check_mean(epilogue: &Epilogue, x: &Params, terms: usize, n: usize) -> Result<Multiplier> {
    let n = u32::try_from(n).map_err(|_| super::bad_shape(format!("a mean over {n} elements")))?;
    let (xs, ys) = (x.scale, epilogue.out.scale);
    let multiplier = if epilogue.mode == RequantMode::Fp32Rne {
        epilogue.float(average_multiplier(xs, ys, n))?
    } else {
        epilogue.mean((xs, ys), n)?
    };
    let largest = max_operand(8, x.dtype == Dtype::S8, Some(x.zp.into()));
    let max = i64::try_from(terms).unwrap_or(i64::MAX).saturating_mul(largest);
    epilogue.check(multiplier, AccBounds { min: -max, max })?;
    Ok(multiplier)
}

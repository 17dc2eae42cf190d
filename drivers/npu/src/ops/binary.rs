//! `Add`, `Sub`, `Mul`, `Max`, `Min` of two values, one of which may repeat: a scalar, a row, or one value per channel.

use super::{bad_shape, clamped, input, output, params_of};
use crate::lower::{Binary, Builder, Chip, Form, Params, Second};
use crate::rows::element;
use ottava_hal::capability::Operand;
use ottava_hal::refmath::tflite::{TfliteAdd, tflite_mul_multiplier};
use ottava_hal::{Error, Node, Reason, RequantMode, Result, ValueId};
use ottava_npu::isa::{Dtype, Opcode};

/// Two values.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), element(chip)]
}

/// How operands of a broadcast lie.
struct Shape {
    form: Form,
    second: Second,
    batch: usize,
    rows: usize,
    columns: usize,
    per_batch: bool,
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node, opcode: Opcode) -> Result<()> {
    let (mut a, mut b, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    if node.inputs.len() > 2 {
        return Err(Error::unsupported(Reason::Other, format!("{} operands, supported: two", node.inputs.len())));
    }
    let out = clamped(builder, node)?;
    let yd = builder.dims(y)?;
    if builder.dims(a)? != yd && opcode != Opcode::Sub {
        std::mem::swap(&mut a, &mut b);
    }
    let (ad, bd) = (builder.dims(a)?, builder.dims(b)?);
    if ad != yd {
        return Err(bad_shape(format!("{ad:?} and {bd:?} to {yd:?}, supported: one operand of the output's shape")));
    }
    if builder.constant(a).is_some() && builder.constant(b).is_some() {
        return Err(Error::unsupported(Reason::Other, "both operands are constant"));
    }
    let shape = shape(builder, a, b, &ad, &bd)?;
    let (pa, pb) = (params_of(builder, a)?, params_of(builder, b)?);
    let second_form = if shape.second == Second::Same { shape.form } else { Form::Plain };
    let (la, lb) = (builder.want(a, shape.form)?, builder.want(b, second_form)?);
    let to = builder.make(y, shape.form)?;
    let integers = matches!(opcode, Opcode::Max | Opcode::Min);
    if integers && (pa != pb || (pa.dtype, pa.affine()) != (out.dtype, out.affine())) {
        return Err(Error::unsupported(Reason::QuantScheme, "a maximum between different parameters"));
    }
    let fixed = fixed(builder, node, opcode, [pa, pb, out])?;
    let step = Binary {
        opcode,
        zp_before_round: node.fused.zp_before_round,
        fixed,
        operands: [(la, pa), (lb, pb)],
        second: shape.second,
        to,
        out,
        batch: shape.batch,
        rows: shape.rows,
        columns: shape.columns,
        per_batch: shape.per_batch,
        tile: (0, 0),
        in_place: [None; 2],
    };
    let step = step.plan(builder.chip)?;
    builder.step(vec![la, lb], to, step);
    Ok(())
}

/// The Q31 mode of TFLite's form, whose constants must exist.
fn fixed(builder: &Builder<'_>, node: &Node, opcode: Opcode, [a, b, out]: [Params; 3]) -> Result<Option<RequantMode>> {
    let Some(mode) = node.requant.filter(|mode| *mode != RequantMode::Fp32Rne) else { return Ok(None) };
    if node.fused.zp_before_round {
        return Err(Error::unsupported(Reason::FusionRequired, "a zero point before rounding in a Q31 mode"));
    }
    if !builder.chip.modes().contains(&mode) {
        return Err(Error::unsupported(Reason::RequantMode, mode.name().to_owned()));
    }
    let shift = if out.dtype == Dtype::S16 { TfliteAdd::SHIFT_16 } else { TfliteAdd::SHIFT_8 };
    let constants = match opcode {
        Opcode::Mul => tflite_mul_multiplier(a.scale, b.scale, out.scale, mode).map(drop),
        _ => TfliteAdd::new(mode, shift, a.affine(), b.affine(), out.target()).map(drop),
    };
    constants.map_err(|e| Error::unsupported(Reason::QuantScheme, e.to_string()))?;
    Ok(Some(mode))
}

fn shape(builder: &Builder<'_>, a: ValueId, b: ValueId, ad: &[usize], bd: &[usize]) -> Result<Shape> {
    let total: usize = ad.iter().product();
    let whole = |form, second| Shape { form, second, batch: 1, rows: 1, columns: total, per_batch: false };
    let first_form = if builder.constant(a).is_some() { builder.form_of(b) } else { builder.form_of(a) };
    if ad == bd {
        return Ok(whole(first_form, Second::Same));
    }
    if bd.iter().product::<usize>() == 1 {
        return Ok(whole(first_form, Second::Scalar));
    }
    if bd.len() > ad.len() {
        return Err(bad_shape(format!("{bd:?} does not repeat over {ad:?}")));
    }
    let wide: Vec<usize> = std::iter::repeat_n(1, ad.len() - bd.len()).chain(bd.iter().copied()).collect();
    let per_channel = ad.len() > 2 && wide[1] == ad[1] && wide[2..].iter().all(|&d| d == 1);
    if per_channel && (wide[0] == 1 || wide[0] == ad[0]) {
        let (rows, columns) = (ad[2..].iter().product(), ad[1]);
        let per_batch = wide[0] > 1;
        return Ok(Shape { form: Form::Last, second: Second::Row, batch: ad[0], rows, columns, per_batch });
    }
    let ones = wide.iter().take_while(|&&d| d == 1).count();
    if wide[ones..] == ad[ones..] {
        let (rows, columns) = (ad[..ones].iter().product(), ad[ones..].iter().product());
        return Ok(Shape { form: Form::Plain, second: Second::Row, batch: 1, rows, columns, per_batch: false });
    }
    Err(bad_shape(format!("{bd:?} over {ad:?}, supported: a scalar, a row, one value per channel")))
}

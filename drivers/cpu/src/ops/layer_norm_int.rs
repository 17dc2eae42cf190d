//! LayerNormalization of integers, `layernorm_int` (numerics.md section 6): rows of bytes or 16 bits become bytes.

use super::layer_norm::row_len;
use super::product::constant;
use crate::builder::{Builder, input, output};
use crate::relayout::failed;
use crate::rows::{byte, float_constant, needs, per_tensor, row, when, word};
use crate::storage::{byte_out, held};
use ottava_hal::capability::Operand;
use ottava_hal::refmath::layernorm::{LayerNormInt, NormKind, layernorm_gain, layernorm_offset};
use ottava_hal::refmath::quantize::Target;
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result};
use ottava_kernels::{NormInt, layer_norm_int};

/// The least offset that the kernel's 64 bits have no room for.
const OFFSET_LIMIT: u64 = 1 << 62;
/// Elements of a row, at most: `z` then fits 25 bits.
const MAX_ROW: usize = 65_535;

/// Rows of the integer form: scale and bias are constants of a row's shape.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "a scale and a bias of the shape of a row, and constants that fit", |p, n| {
        Norm::of(p, n).is_ok()
    });
    let affine = || Operand { optional: true, ..float_constant() };
    let of = |x: Operand| when(row(op, vec![x, affine()], byte()), [fits]);
    vec![of(byte()), of(word())]
}

struct Norm {
    kernel: NormInt,
    gains: Vec<i32>,
    offsets: Vec<i64>,
}

impl Norm {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let len = row_len(program, node)?;
        let (x, y) = (program.ty(input(node, 0)?), program.ty(output(node)?));
        let bad = |what: &str| Error::unsupported(Reason::ShapeLimit, format!("node `{}`: {what}", node.name));
        let n = u32::try_from(len).ok().filter(|_| (1..=MAX_ROW).contains(&len)).ok_or_else(|| bad("its rows"))?;
        let (y_scale, out) = byte_out(y, node, false)?;
        let target = Target { scale: y_scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
        let eps = node.attrs.float("epsilon", 1e-5)?;
        let norm = match (x.dtype, per_tensor(x)) {
            (DataType::S16, Some((xs, _))) => LayerNormInt::wide(NormKind::Layer, n, xs, eps, target),
            _ => LayerNormInt::new(NormKind::Layer, n, held(x)?.0, eps, target),
        };
        let norm = norm.map_err(|e| bad(&e.to_string()))?;
        let values = |i: usize, default: f32| -> Result<Vec<f32>> {
            match node.input(i) {
                Some(id) => Ok(constant(program, id)?.as_slice::<f32>()?.to_vec()),
                None => Ok(vec![default; len]),
            }
        };
        let gain = |g: &f32| layernorm_gain(*g, y_scale).map_err(|e| bad(&e.to_string()));
        let offset = |b: &f32| {
            let offset = layernorm_offset(*b, y_scale).map_err(|e| bad(&e.to_string()))?;
            if offset.unsigned_abs() < OFFSET_LIMIT { Ok(offset) } else { Err(bad("its bias is too large")) }
        };
        let kernel = NormInt {
            eps_term: norm.eps_term,
            fraction: norm.fraction,
            zero_point: out.zero_point,
            lo: out.lo,
            hi: out.hi,
        };
        let gains = values(1, 1.0)?.iter().map(gain).collect::<Result<_>>()?;
        let offsets = values(2, 0.0)?.iter().map(offset).collect::<Result<_>>()?;
        Ok(Self { kernel, gains, offsets })
    }
}

/// Steps of the integer form.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Norm { kernel, gains, offsets } = Norm::of(builder.program, node)?;
    let from = builder.operand(input(node, 0)?, false)?;
    let to = builder.result(output(node)?, false)?;
    let wide = builder.ty(input(node, 0)?).dtype == DataType::S16;
    let name = builder.kernel(if wide { "layernormalization_s16_u8" } else { "layernormalization_u8_u8" });
    builder.push(
        &name,
        vec![from],
        to,
        None,
        Box::new(move |exec, io| {
            let done = match wide {
                true => layer_norm_int(exec, kernel, &gains, &offsets, io.read::<i16>(0)?, io.out),
                // A zero point cancels, so bytes may be held 128 higher.
                false => layer_norm_int(exec, kernel, &gains, &offsets, io.bytes(0)?, io.out),
            };
            done.map_err(failed)
        }),
    );
    Ok(())
}

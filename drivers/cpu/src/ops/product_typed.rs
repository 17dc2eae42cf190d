//! Products of 8-bit operands (numerics.md sections 3 to 5): weights and bias are packed into one kernel plan whose
//! epilogue is the node's requantization, residual sum or conversion to float.

use super::product::{Product, bias, constant, residual};
use super::sum::Sum;
use crate::arena::Place;
use crate::blob::{Job, Pack, Packed, Slot};
use crate::builder::{Builder, Run, input, output, refused};
use crate::relayout::failed;
use crate::rows::{act_bounds, per_tensor};
use crate::storage::{byte_in, byte_out, held};
use ottava_hal::refmath::bias::{adopt_bias, bias_s32_real};
use ottava_hal::refmath::bounds::{AccBounds, ActivationRange, channel_bounds};
use ottava_hal::refmath::error::RefmathError;
use ottava_hal::refmath::requant::{Q31, check_fp32_multiplier, fp32_multiplier_alpha};
use ottava_hal::{DataType, Error, Node, Program, QuantParams, RequantMode, Result, Status, TensorType, ValueId};
use ottava_kernels::{ConvU8, Epilogue, Isa, OutMut, WeightData, Weights};
use std::sync::Arc;

/// The numbers of a typed product.
struct Typed<'p, 'n> {
    program: &'p Program,
    node: &'n Node,
    product: &'n Product,
    x: &'p TensorType,
    /// Input scale and zero point.
    x_params: (f32, i32),
    w: ValueId,
    w_params: &'p QuantParams,
}

impl<'p, 'n> Typed<'p, 'n> {
    fn of(program: &'p Program, node: &'n Node, product: &'n Product) -> Result<Self> {
        let (x, w) = (program.ty(input(node, 0)?), input(node, 1)?);
        let untyped =
            || Error::invalid(format!("node `{}`: operands of an integer product are not quantized", node.name));
        let x_params = per_tensor(x).ok_or_else(untyped)?;
        let w_params = program.ty(w).quant.as_deref().ok_or_else(untyped)?;
        Ok(Self { program, node, product, x, x_params, w, w_params })
    }

    /// Rows of the matrix product that this is: output pixels of all images; many if the batch is open.
    fn rows(&self) -> usize {
        let s = &self.product.shape;
        let images = self.x.shape.elements().map(|n| n / (s.in_h * s.in_w * s.in_c));
        let pixels = s.out_hw().map_or(usize::MAX, |[h, w]| h.saturating_mul(w));
        images.map_or(usize::MAX, |n| n.saturating_mul(pixels))
    }

    /// One number per weight scale.
    fn per_scale<T>(&self, f: impl Fn(f32) -> Result<T>) -> Result<Vec<T>> {
        self.w_params.scales.iter().map(|ws| f(*ws)).collect()
    }

    /// `fl32(xs * ws[c])`, times alpha.
    fn accumulator_scales(&self) -> Result<Vec<f32>> {
        self.per_scale(|ws| Ok(self.x_params.0 * ws * self.product.alpha))
    }

    /// The multipliers of `fp32_rne`, one per weight scale.
    fn multipliers(&self, y_scale: f32) -> Result<Vec<f32>> {
        self.per_scale(|ws| {
            let m = fp32_multiplier_alpha(self.x_params.0, ws, self.product.alpha, y_scale);
            check_fp32_multiplier(m).map_err(|e| self.bad(e)).map(|()| m)
        })
    }

    /// The bias as integers at the accumulator's scale, one per channel.
    fn bias(&self) -> Result<Option<Vec<i32>>> {
        let Some(id) = bias(self.node) else { return Ok(None) };
        let (ty, data) = (self.program.ty(id), constant(self.program, id)?);
        let (xs, alpha) = (self.x_params.0, self.product.alpha);
        let n = self.product.shape.out_c;
        let of = |c: usize, i: usize| -> Result<i32> {
            let (ws, _) = self.w_params.channel(c);
            if ty.dtype == DataType::F32 {
                let b = data.as_slice::<f32>()?[i];
                return Ok(bias_s32_real(f64::from(b) / f64::from(alpha), xs, ws));
            }
            let b = data.as_slice::<i32>()?[i];
            Ok(ty.quant.as_deref().map_or(b, |q| adopt_bias(b, q.channel(i).0 / alpha, xs, ws)))
        };
        let one = data.elements() == 1;
        (0..n).map(|c| of(c, if one { 0 } else { c })).collect::<Result<_>>().map(Some)
    }

    /// Bounds of the sum of channel `c`.
    fn bounds(&self, c: usize, bias: i32) -> Result<AccBounds> {
        let data = constant(self.program, self.w)?;
        let (bytes, dtype) = (data.bytes(), data.dtype());
        let value = |i: usize| match dtype {
            DataType::S8 => i32::from(bytes[i] as i8),
            DataType::S4 => i32::from((bytes[i / 2] >> (i % 2 * 4) << 4) as i8 >> 4),
            _ => i32::from(bytes[i]),
        };
        let (n, k) = (self.product.shape.out_c, data.elements() / self.product.shape.out_c.max(1));
        let (first, step) = if self.product.channel_axis == 0 { (c * k, 1) } else { (c, n) };
        let range = ActivationRange::of_storage(8, self.x.dtype == DataType::S8, self.x_params.1);
        Ok(channel_bounds((0..k).map(|i| value(first + i * step)), self.w_params.channel(c).1, range, bias))
    }

    /// Whether even the largest weights could not take the sums out of i32.
    fn is_short(&self, bias: Option<&[i32]>) -> bool {
        let bias = bias.iter().copied().flatten().map(|b| i64::from(*b).abs()).max().unwrap_or(0);
        let n = self.program.ty(self.w).shape.elements().unwrap_or(0);
        let k = i64::try_from(n / self.product.shape.out_c.max(1)).unwrap_or(i64::MAX);
        k.saturating_mul(255 * 255).saturating_add(bias) <= i32::MAX.into()
    }

    fn channel_fits(&self, c: usize, bias: i32) -> Result<bool> {
        let bounds = self.bounds(c, bias)?;
        let ys = output(self.node).ok().and_then(|id| per_tensor(self.program.ty(id)));
        let shift_fits = match (self.node.requant, ys) {
            (Some(mode @ RequantMode::Q31Double), Some((ys, _))) => {
                let q = self.multiplier(self.w_params.channel(c).0, ys, mode)?;
                q.check_left_shift(bounds.min, bounds.max).is_ok()
            }
            _ => true,
        };
        Ok(bounds.fits_i32() && shift_fits)
    }

    fn multiplier(&self, ws: f32, ys: f32, mode: RequantMode) -> Result<Q31> {
        let product = self.node.scale_product(self.x.dtype, self.w_params.scales.len());
        Q31::of_accumulator((self.x_params.0, ws), self.product.alpha, ys, product, mode).map_err(|e| self.bad(e))
    }

    fn bad(&self, e: RefmathError) -> Error {
        Error::invalid(format!("node `{}`: {e}", self.node.name))
    }
}

/// Whether every sum fits i32, and every left shift of `q31_double`.
pub(crate) fn fits_i32(program: &Program, node: &Node) -> bool {
    sums_fit(program, node).unwrap_or(false)
}

fn sums_fit(program: &Program, node: &Node) -> Result<bool> {
    let product = Product::of(program, node)?;
    let typed = Typed::of(program, node, &product)?;
    let bias = typed.bias()?;
    if node.requant != Some(RequantMode::Q31Double) && typed.is_short(bias.as_deref()) {
        return Ok(true);
    }
    for c in 0..product.shape.out_c {
        if !typed.channel_fits(c, bias.as_ref().map_or(0, |b| b[c]))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Steps of a typed product.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node, product: Product) -> Result<()> {
    let program = builder.program;
    let typed = Typed::of(program, node, &product)?;
    let (y, nhwc) = (output(node)?, product.nhwc);
    let mut reads = vec![builder.operand(input(node, 0)?, nhwc)?];
    if super::residual::is_apart(builder, node)? {
        let write = builder.buffer(super::residual::f32_bytes(builder.ty(y))?);
        let (lo, hi) = (f32::NEG_INFINITY, f32::INFINITY);
        push(builder, &typed, Epilogue::Float { xw: typed.accumulator_scales()?, lo, hi }, reads, write)?;
        return super::residual::finish(builder, node, write, nhwc);
    }
    if let Some(sum) = Sum::behind(builder, node, &product) {
        return build_with_sum(builder, &typed, reads, &sum);
    }
    if let Some(other) = residual(node) {
        reads.push(builder.operand(other, nhwc)?);
    }
    let (write, signed) = builder.result_signed(y, nhwc)?;
    push(builder, &typed, epilogue(&typed, builder.ty(y), signed)?, reads, write)
}

/// The step of a product and the sum behind it.
fn build_with_sum<'p>(
    builder: &mut Builder<'p>,
    typed: &Typed<'p, '_>,
    mut reads: Vec<Place>,
    sum: &Sum<'_>,
) -> Result<()> {
    let own = builder.ty(output(typed.node)?);
    reads.push(builder.operand(sum.other, typed.product.nhwc)?);
    let other = byte_in(builder.ty(sum.other))?;
    builder.take(sum.y);
    let (inner_scale, inner) = byte_out(own, typed.node, false)?;
    let (write, signed) = builder.result_signed(sum.y, typed.product.nhwc)?;
    let (y_scale, out) = byte_out(builder.ty(sum.y), sum.node, signed)?;
    let m = typed.multipliers(inner_scale)?;
    push(builder, typed, Epilogue::RequantAdd { m, inner, inner_scale, other, y_scale, out }, reads, write)
}

fn push<'p>(
    builder: &mut Builder<'p>,
    typed: &Typed<'p, '_>,
    epilogue: Epilogue,
    reads: Vec<Place>,
    write: Place,
) -> Result<()> {
    let to_float = matches!(epilogue, Epilogue::Float { .. });
    let with_sum = matches!(epilogue, Epilogue::RequantAdd { .. });
    let with_residual = with_sum || matches!(epilogue, Epilogue::Residual { .. });
    let slot = Slot::default();
    builder.packs.keep(Packed::U8(Arc::clone(&slot)));
    let add = if with_sum { "+add" } else { "" };
    let suffix = if to_float { "f32" } else { "u8" };
    let weights = if typed.program.ty(typed.w).dtype == DataType::S4 { "s4" } else { "s8" };
    let name = builder.kernel(&format!("{}{add}_u8_{weights}_{suffix}", typed.node.op.to_lowercase()));
    builder.push(&name, reads, write, None, run(Arc::clone(&slot), with_residual, to_float));
    let scratch = builder.scratch_later();
    plan(builder, typed, epilogue, slot, scratch)
}

/// What happens to the accumulators.
fn epilogue(typed: &Typed<'_, '_>, y: &TensorType, signed: bool) -> Result<Epilogue> {
    let node = typed.node;
    let (lo, hi) = act_bounds(node);
    if y.quant.is_none() {
        return Ok(Epilogue::Float { xw: typed.accumulator_scales()?, lo, hi });
    }
    let (y_scale, out) = byte_out(y, node, signed)?;
    if let Some(other) = residual(node) {
        let other = byte_in(typed.program.ty(other))?;
        return Ok(Epilogue::Residual { xw: typed.accumulator_scales()?, other, lo, hi, y_scale, out });
    }
    match node.requant.unwrap_or(RequantMode::Fp32Rne) {
        RequantMode::Fp32Rne => Ok(Epilogue::Requant { m: typed.multipliers(y_scale)?, out }),
        mode => {
            let q = typed.per_scale(|ws| typed.multiplier(ws, y_scale, mode))?;
            let (m, shift) = q.into_iter().map(|q| (q.multiplier, q.shift)).unzip();
            Ok(Epilogue::Q31 { m, shift, double: mode == RequantMode::Q31Double, out })
        }
    }
}

/// Fills the slot of the kernel plan: at once from stored packed weights, or later by packing them.
fn plan<'p>(
    builder: &mut Builder<'p>,
    typed: &Typed<'p, '_>,
    epilogue: Epilogue,
    slot: Slot,
    scratch: usize,
) -> Result<()> {
    let (shape, (_, x_zero_point)) = (typed.product.shape, held(typed.x)?);
    let Some(packed) = builder.packs.next()? else {
        let (n_weights, pack) = (constant(typed.program, typed.w)?.elements(), packing(typed, epilogue, builder.isa)?);
        builder.packs.put_off(Job { n_weights, pack, slot, scratch });
        return Ok(());
    };
    let plan = ConvU8::from_packed(shape, packed, x_zero_point, epilogue).map_err(|e| refused(typed.node, e))?;
    builder.buffers[scratch] = slot.get_or_init(|| plan).scratch_len();
    Ok(())
}

/// The work of packing, which any thread may do.
fn packing<'p>(typed: &Typed<'p, '_>, epilogue: Epilogue, isa: Isa) -> Result<Pack<'p>> {
    let data = constant(typed.program, typed.w)?;
    let data = match data.dtype() {
        DataType::S8 => WeightData::S8(data.as_slice::<i8>()?),
        DataType::S4 => WeightData::S4(data.bytes()),
        _ => WeightData::U8(data.as_slice::<u8>()?),
    };
    let weights = Weights { data, layout: typed.product.layout, zero_points: &typed.w_params.zero_points };
    let (bias, (_, x_zero_point)) = (typed.bias()?, held(typed.x)?);
    let (node, shape) = (typed.node.clone(), typed.product.shape);
    let packing = isa.packing(typed.rows(), matches!(data, WeightData::S4(_)));
    Ok(Box::new(move || {
        ConvU8::with_packing(shape, &weights, x_zero_point, bias.as_deref(), epilogue, packing)
            .map_err(|e| refused(&node, e))
    }))
}

fn run(plan: Slot, with_residual: bool, to_float: bool) -> Run {
    Box::new(move |exec, mut io| {
        let x = io.bytes(0)?;
        let other = if with_residual { Some(io.bytes(1)?) } else { None };
        let scratch = std::mem::take(&mut io.scratch);
        let out = if to_float { OutMut::F32(io.out::<f32>()?) } else { OutMut::Bytes(io.out) };
        let unpacked = || Error::failed(Status::Internal, "the weights of a product are not packed");
        plan.get().ok_or_else(unpacked)?.run(exec, x, other, out, scratch).map_err(failed)
    })
}

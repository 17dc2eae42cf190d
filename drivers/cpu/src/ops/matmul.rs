//! MatMul. With a constant matrix on the right it is a [`product`] whose weights are packed once, and floats have a file of
//! their own; this one is about 8-bit products of computed operands, as in attention.
//!
//! A Transpose that only such products read is not carried out: they read its input along permuted strides. A Transpose
//! that alone reads a product's result and moves the product's rows to the front of its batch is the order in which the
//! product is written.

use super::binary::repeat_strides;
use super::movement::permutation;
use super::product;
use crate::arena::{Io, Place};
use crate::builder::{Builder, input, output, refused};
use crate::form::dims;
use crate::relayout::failed;
use crate::rows::{byte, float, needs, output_ty, per_tensor, row, when};
use crate::storage::{byte_out, held};
use crate::strided::strides;
use ottava_hal::capability::{FusedSupport, Predicate};
use ottava_hal::refmath::requant::{Q31, check_fp32_multiplier, fp32_multiplier};
use ottava_hal::{Error, Node, OpRow, Program, Reason, RequantMode, Result, TensorType, ValueId};
use ottava_kernels::{Epilogue, Exec, MatMulShape, MatMulU8, OutMut, Strides};

/// Rows of MatMul.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    product::matmul_rows(op).into_iter().chain(computed_rows(op)).collect()
}

/// Steps of MatMul.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let typed = builder.ty(input(node, 0)?).quant.is_some();
    if typed && !packs(builder.program, node) { computed(builder, node) } else { product::build(builder, node) }
}

fn computed_rows(op: &'static str) -> Vec<OpRow> {
    let computed = needs(Reason::ConstRequired, "a right operand that is no constant matrix", |p, n| !packs(p, n));
    let fits = needs(Reason::ShapeLimit, "two operands of fitting shapes", |p, n| shape_of(p, n).is_ok());
    let short = needs(Reason::AccOverflow, "sums that provably fit i32", fits_i32);
    let clamp = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused: clamp, ..row(op, vec![byte(), byte()], byte()) };
    let to_float = row(op, vec![byte(), byte()], float());
    let integer: [Predicate; 3] = [computed, fits, short];
    vec![when(typed, integer), when(to_float, integer)]
}

/// Whether the right operand is a constant matrix, which is packed at compile time instead.
fn packs(program: &Program, node: &Node) -> bool {
    node.input(1).is_some_and(|id| program.value(id).constant.is_some() && program.ty(id).shape.0.len() == 2)
}

/// Extents of the batch and of a product.
struct Extents {
    batch: Vec<usize>,
    m: usize,
    k: usize,
    n: usize,
    /// Operands as stacks of matrices.
    a: Vec<usize>,
    b: Vec<usize>,
}

fn shape_of(program: &Program, node: &Node) -> Result<Extents> {
    let (mut a, mut b) = (dims(program.ty(input(node, 0)?))?, dims(program.ty(input(node, 1)?))?);
    let (vector_a, vector_b) = (a.len() == 1, b.len() == 1);
    if vector_a {
        a.insert(0, 1);
    }
    if vector_b {
        b.push(1);
    }
    let wrong = || Error::invalid(format!("node `{}`: {a:?} and {b:?} do not multiply", node.name));
    let ([outer_a @ .., m, k], [outer_b @ .., rows, n]) = (a.as_slice(), b.as_slice()) else { return Err(wrong()) };
    let mut expect = dims(program.ty(output(node)?))?;
    let tail = usize::from(!vector_a) + usize::from(!vector_b);
    let at = expect.len().checked_sub(tail).ok_or_else(wrong)?;
    let own = expect.split_off(at);
    let sizes: Vec<usize> = [(*m, vector_a), (*n, vector_b)].iter().filter(|(_, v)| !v).map(|(s, _)| *s).collect();
    let broadcasts = |outer: &[usize]| repeat_strides(outer, &expect).is_some();
    if k != rows || own != sizes || node.inputs.len() != 2 || !broadcasts(outer_a) || !broadcasts(outer_b) {
        return Err(wrong());
    }
    Ok(Extents { batch: expect, m: *m, k: *k, n: *n, a: a.clone(), b: b.clone() })
}

fn fits_i32(program: &Program, node: &Node) -> bool {
    let Ok(extents) = shape_of(program, node) else { return false };
    extents.k <= MatMulU8::MAX_K && scale_of(program, node, extents.k).is_ok()
}

/// What brings a sum to the output's scale.
enum Scale {
    Float(f32),
    Fp32(f32),
    Q31(Q31, bool),
}

fn scale_of(program: &Program, node: &Node, k: usize) -> Result<Scale> {
    let bad = |e| Error::invalid(format!("node `{}`: {e}", node.name));
    let scale = |i: usize| -> Result<f32> { Ok(held(program.ty(input(node, i)?))?.0) };
    let (xs, ws) = (scale(0)?, scale(1)?);
    let Some((ys, _)) = output_ty(program, node).and_then(per_tensor) else { return Ok(Scale::Float(xs * ws)) };
    match node.requant.unwrap_or(RequantMode::Fp32Rne) {
        RequantMode::Fp32Rne => {
            let m = fp32_multiplier(xs, ws, ys);
            check_fp32_multiplier(m).map_err(bad)?;
            Ok(Scale::Fp32(m))
        }
        mode => {
            let product = node.scale_product(program.ty(input(node, 0)?).dtype, 1);
            let q = Q31::of_accumulator((xs, ws), 1.0, ys, product, mode).map_err(bad)?;
            let most = 255 * 255 * k as i64;
            if mode == RequantMode::Q31Double {
                q.check_left_shift(-most, most).map_err(bad)?;
            }
            Ok(Scale::Q31(q, mode == RequantMode::Q31Double))
        }
    }
}

/// An operand as it lies in memory: the value to read, and strides in elements for the axes of its matrices.
struct Source {
    id: ValueId,
    strides: Vec<usize>,
}

/// The operand of a product: the input of its Transpose, where that has been left out.
fn source(builder: &Builder<'_>, id: ValueId, stack: &[usize]) -> Result<Source> {
    if let Some(node) = left_out(builder.program, id) {
        let from = input(node, 0)?;
        let own = strides(&dims(builder.ty(from))?);
        let strides = permutation(builder.program, node)?.into_iter().map(|axis| own[axis]).collect();
        return Ok(Source { id: from, strides });
    }
    Ok(Source { id, strides: strides(stack) })
}

/// The Transpose that makes a value, if only products of computed operands read it and they need it not.
pub(super) fn left_out(program: &Program, id: ValueId) -> Option<&Node> {
    let makes = |n: &&Node| n.op == "Transpose" && n.domain.is_empty() && n.outputs == [id];
    let node = program.nodes.iter().find(makes)?;
    let mut readers = program.nodes.iter().filter(|n| n.inputs.contains(&Some(id))).peekable();
    let is_read = readers.peek().is_some();
    let folds = |n: &Node| n.op == "MatMul" && n.domain.is_empty() && !packs(program, n) && n.inputs.len() == 2;
    let typed = program.ty(id).quant.is_some() && program.ty(id).shape.0.len() >= 2;
    let inner = typed && !program.outputs.contains(&id);
    (is_read && inner && readers.all(folds)).then_some(node)
}

/// Where the result goes: the value to write, and the products side by side in a row of it.
fn target(program: &Program, id: ValueId, extents: &Extents) -> Result<(ValueId, usize)> {
    let mut readers = program.nodes.iter().filter(|n| n.inputs.contains(&Some(id)));
    let (Some(node), None) = (readers.next(), readers.next()) else { return Ok((id, 1)) };
    let rank = extents.batch.len() + 2;
    let alone = node.op == "Transpose" && node.domain.is_empty() && !program.outputs.contains(&id);
    if !alone || program.ty(id).shape.0.len() != rank || rank < 3 {
        return Ok((id, 1));
    }
    let perm = permutation(program, node)?;
    let rows_first: Vec<usize> = (0..rank - 3).chain([rank - 2, rank - 3, rank - 1]).collect();
    if perm != rows_first || left_out(program, output(node)?).is_some() {
        return Ok((id, 1));
    }
    Ok((output(node)?, extents.batch[rank - 3]))
}

/// The first element of each product's matrix.
fn firsts(outer: &[usize], steps: &[usize], batch: &[usize]) -> Vec<usize> {
    let missing = batch.len() - outer.len();
    let step = |axis: usize| match axis.checked_sub(missing) {
        Some(own) if outer[own] > 1 => steps[own],
        _ => 0,
    };
    let at = |mut i: usize| {
        (0..batch.len()).rev().fold(0, |sum, axis| {
            let here = i % batch[axis];
            i /= batch[axis];
            sum + here * step(axis)
        })
    };
    (0..batch.iter().product()).map(at).collect()
}

fn operand(stack: &[usize], steps: &[usize], batch: &[usize]) -> Strides {
    let outer = stack.len() - 2;
    let first = firsts(&stack[..outer], &steps[..outer], batch);
    Strides { first, rows: steps[outer], columns: steps[outer + 1] }
}

/// Steps of a product of computed operands.
fn computed(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let extents = shape_of(builder.program, node)?;
    let a = source(builder, input(node, 0)?, &extents.a)?;
    let b = source(builder, input(node, 1)?, &extents.b)?;
    let (y, side) = target(builder.program, output(node)?, &extents)?;
    let Extents { batch, m, k, n, .. } = &extents;
    let (left, right) = (operand(&extents.a, &a.strides, batch), operand(&extents.b, &b.strides, batch));
    let shape = MatMulShape { m: *m, k: *k, n: *n, a: left, b: right, side };
    let reads = vec![builder.operand(a.id, false)?, builder.operand(b.id, false)?];
    typed(builder, node, y, shape, reads)
}

fn typed(builder: &mut Builder<'_>, node: &Node, y: ValueId, shape: MatMulShape, reads: Vec<Place>) -> Result<()> {
    let zero = |i: usize| -> Result<u8> { Ok(held(builder.ty(input(node, i)?))?.1) };
    let zero_points = [zero(0)?, zero(1)?];
    let scale = scale_of(builder.program, node, shape.k)?;
    let (to, signed) = builder.result_signed(y, false)?;
    let to_float = matches!(scale, Scale::Float(_));
    let plan = MatMulU8::new(shape, zero_points, epilogue(scale, builder.ty(y), node, signed)?);
    let plan = plan.map_err(|e| refused(node, e))?;
    let name = builder.kernel(if to_float { "matmul_u8_u8_f32" } else { "matmul_u8_u8_u8" });
    let scratch = plan.scratch_len();
    let run = move |exec: Exec<'_>, mut io: Io<'_>| {
        let (a, b, scratch) = (io.bytes(0)?, io.bytes(1)?, std::mem::take(&mut io.scratch));
        let out = if to_float { OutMut::F32(io.out::<f32>()?) } else { OutMut::Bytes(io.out) };
        plan.run(exec, a, b, out, scratch).map_err(failed)
    };
    builder.push(&name, reads, to, Some(scratch), Box::new(run));
    Ok(())
}

fn epilogue(scale: Scale, y: &TensorType, node: &Node, signed: bool) -> Result<Epilogue> {
    let out = || byte_out(y, node, signed).map(|(_, out)| out);
    Ok(match scale {
        Scale::Float(xw) => Epilogue::Float { xw: vec![xw], lo: f32::NEG_INFINITY, hi: f32::INFINITY },
        Scale::Fp32(m) => Epilogue::Requant { m: vec![m], out: out()? },
        Scale::Q31(q, double) => Epilogue::Q31 { m: vec![q.multiplier], shift: vec![q.shift], double, out: out()? },
    })
}

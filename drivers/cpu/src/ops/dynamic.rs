//! `ottava::DynamicMatMul`: rows quantized at run time, an integer product with packed weights, and one pass that scales the
//! sums (numerics.md section 4). The product is that of static quantization with scales of 1, whose float result is the sum.

use super::product::{Product, constant};
use crate::arena::{Io, Place};
use crate::blob::{Job, Packed, Slot};
use crate::builder::{Builder, input, output, refused};
use crate::form::dims;
use crate::relayout::failed;
use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, Status};
use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, OutMut, WeightData, WeightLayout, Weights, quantize_rows, row_scales, scale_rows,
};
use std::sync::Arc;

/// What is added to a signed code, so that it can be held as a byte.
const ZERO_POINT: u8 = 128;
/// Terms of a sum that surely fits 32 bits, the zero point's share included.
const MAX_K: usize = 65_000;

/// Rows of DynamicMatMul.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let codes =
        Operand { dtypes: vec![DataType::S8], quant: vec![QuantKind::Plain], constant: true, optional: false };
    let bias = Operand { optional: true, ..float_constant() };
    let fits = needs(Reason::ShapeLimit, "a matrix of weights with one scale, or one per column", |p, n| {
        Shape::of(p, n).is_ok()
    });
    vec![when(row(op, vec![float(), codes, float_constant(), bias], float()), [fits])]
}

struct Shape {
    product: ConvShape,
    /// Rows of the input.
    rows: usize,
    k: usize,
    n: usize,
}

impl Shape {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let x = dims(program.ty(input(node, 0)?))?;
        let product = Product::of(program, node)?.shape;
        let (k, n) = (product.in_c, product.out_c);
        let elements = |i: usize| node.input(i).and_then(|id| program.ty(id).shape.elements());
        let per_column = |i: usize| elements(i).is_some_and(|e| e == n || e == 1);
        if k == 0 || k > MAX_K || !per_column(2) || node.input(3).is_some() && !per_column(3) {
            let what = format!("node `{}`: {k} x {n} weights with their scales", node.name);
            return Err(Error::unsupported(Reason::ShapeLimit, what));
        }
        Ok(Self { product, rows: x.iter().product::<usize>() / k, k, n })
    }
}

/// Steps of DynamicMatMul.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Shape { product, rows, k, n } = Shape::of(builder.program, node)?;
    let x = builder.operand(input(node, 0)?, false)?;
    let per_column = |i: usize| -> Result<Vec<f32>> {
        let Some(id) = node.input(i) else { return Ok(Vec::new()) };
        let values = constant(builder.program, id)?.as_slice::<f32>()?;
        Ok(if values.len() == 1 { vec![values[0]; n] } else { values.to_vec() })
    };
    let (columns, bias) = (per_column(2)?, per_column(3)?);
    let (scales, codes, sums) = (builder.buffer(rows * 4), builder.buffer(rows * k), builder.buffer(rows * n * 4));
    let name = builder.kernel("row_scales_f32");
    let run = move |exec: Exec<'_>, mut io: Io<'_>| row_scales(exec, k, io.read(0)?, io.out()?).map_err(failed);
    builder.push(&name, vec![x], scales, None, Box::new(run));
    let name = builder.kernel("quantize_rows_f32_u8");
    let run = move |exec: Exec<'_>, io: Io<'_>| {
        quantize_rows(exec, k, io.read(0)?, io.read(1)?, io.out).map_err(failed)
    };
    builder.push(&name, vec![x, scales], codes, None, Box::new(run));
    multiply(builder, node, (product, rows), codes, sums)?;
    let to = builder.result(output(node)?, false)?;
    let name = builder.kernel("scale_rows_f32");
    let run = move |exec: Exec<'_>, mut io: Io<'_>| {
        scale_rows(exec, io.read(0)?, io.read(1)?, &columns, &bias, io.out()?).map_err(failed)
    };
    builder.push(&name, vec![sums, scales], to, None, Box::new(run));
    Ok(())
}

/// The integer product; its weights are packed at once from stored bytes, or later.
fn multiply<'p>(
    builder: &mut Builder<'p>,
    node: &Node,
    (shape, rows): (ConvShape, usize),
    from: Place,
    to: Place,
) -> Result<()> {
    let slot = Slot::default();
    builder.packs.keep(Packed::U8(Arc::clone(&slot)));
    let plan = Arc::clone(&slot);
    let run = move |exec: Exec<'_>, mut io: Io<'_>| {
        let (codes, scratch) = (io.bytes(0)?, std::mem::take(&mut io.scratch));
        let unpacked = || Error::failed(Status::Internal, "the weights of a product are not packed");
        let plan = plan.get().ok_or_else(unpacked)?;
        plan.run(exec, codes, None, OutMut::F32(io.out::<f32>()?), scratch).map_err(failed)
    };
    let name = builder.kernel("dynamicmatmul_u8_s8_f32");
    builder.push(&name, vec![from], to, None, Box::new(run));
    let scratch = builder.scratch_later();
    let epilogue = Epilogue::Float { xw: vec![1.0], lo: f32::NEG_INFINITY, hi: f32::INFINITY };
    if let Some(packed) = builder.packs.next()? {
        let plan = ConvU8::from_packed(shape, packed, ZERO_POINT, epilogue).map_err(|e| refused(node, e))?;
        builder.buffers[scratch] = slot.get_or_init(|| plan).scratch_len();
        return Ok(());
    }
    let (program, packing, node) = (builder.program, builder.isa.packing(rows, false), node.clone());
    let data = constant(program, input(&node, 1)?)?;
    let (codes, n_weights) = (data.as_slice::<i8>()?, data.elements());
    let pack = move || {
        let weights = Weights { data: WeightData::S8(codes), layout: WeightLayout::KN, zero_points: &[0] };
        ConvU8::with_packing(shape, &weights, ZERO_POINT, None, epilogue, packing).map_err(|e| refused(&node, e))
    };
    builder.packs.put_off(Job { n_weights, pack: Box::new(pack), slot, scratch });
    Ok(())
}

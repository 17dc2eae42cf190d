//! Elementwise f32 operators and Quantize: a node that is the root of a chain ([`crate::chains`]) becomes one step for the
//! whole chain; a node inside one becomes nothing. Where everything depends on one byte, the step is a table.

use super::binary::{repeat_strides, repeated};
use super::product::constant;
use super::unary::function;
use crate::arena::{Io, Place, elements, elements_mut};
use crate::builder::{Builder, Run, input, output};
use crate::chains::{is_dequantize, is_quantize, operands};
use crate::elementwise::Function;
use crate::form::{Form, dims, stored_dims};
use crate::relayout::failed;
use crate::rows::act_bounds;
use crate::storage::{byte_in, byte_out};
use crate::strided::Walk;
use ottava_hal::{Error, Node, Result, Status, Tensor, TensorType, ValueId};
use ottava_kernels::{BinaryOp, Chain, ChainInput, ChainOp, ChainOut, Exec, OutMut, ThreadPool, Unary, lut, lut_rows};
use std::collections::BTreeMap;

/// Tables per column are worth building for at least so many rows, and up to so many bytes.
const MIN_ROWS: usize = 16;
const MAX_TABLE_BYTES: usize = 4 << 20;
/// Inputs of a chain at most; every one is an operand of a different value.
const MAX_INPUTS: usize = Chain::MAX_LIVE;

/// A chain under construction.
#[derive(Default)]
struct Draft {
    ops: Vec<ChainOp>,
    /// Where inputs are, and whether they are bytes.
    inputs: Vec<(Place, bool)>,
    seen: BTreeMap<ValueId, usize>,
    period: usize,
    names: Vec<String>,
}

/// Steps of an elementwise operator on f32, or of Quantize.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let y = output(node)?;
    if builder.chains.is_inside(y) || builder.exists(y) {
        return Ok(());
    }
    let nhwc = builder.only_output(y).is_none() && leaves(builder, node)?.into_iter().any(|id| builder.is_nhwc(id));
    let shape = builder.ty(y);
    let mut draft = Draft::default();
    draft.node(builder, node, (shape, nhwc))?;
    draft.same_period();
    let (to, out) = if is_quantize(node) {
        let (to, signed) = builder.result_signed(y, nhwc)?;
        let (scale, out) = byte_out(shape, node, signed)?;
        (to, ChainOut::Bytes(scale, out))
    } else {
        (builder.result(y, nhwc)?, ChainOut::Floats)
    };
    push(builder, draft, out, to, shape)
}

/// The node that makes a value inside a chain. What a product has computed on its way lies in memory none the less.
fn maker<'p>(builder: &Builder<'p>, id: ValueId) -> Option<&'p Node> {
    builder.chains.maker(builder.program, id).filter(|_| !builder.exists(id))
}

/// The values that the chain of a root reads from memory, in the root's extents.
fn leaves(builder: &Builder<'_>, root: &Node) -> Result<Vec<ValueId>> {
    let shape = &builder.ty(output(root)?).shape;
    let (mut todo, mut found) = (vec![root], vec![]);
    while let Some(node) = todo.pop() {
        for id in operands(builder.program, node).into_iter().flatten().flatten() {
            match maker(builder, *id) {
                Some(maker) => todo.push(maker),
                None if builder.ty(*id).shape == *shape => found.push(*id),
                None => {}
            }
        }
    }
    Ok(found)
}

/// Type of the result, and whether it lies channels-last.
type Target<'t> = (&'t TensorType, bool);

impl Draft {
    fn add(&mut self, op: ChainOp) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    fn node(&mut self, builder: &mut Builder<'_>, node: &Node, to: Target<'_>) -> Result<usize> {
        let at = match (node.op.as_str(), binary_op(node)) {
            _ if is_dequantize(node) => {
                let x = input(node, 0)?;
                self.load(builder, x, to)?
            }
            _ if is_quantize(node) => self.value(builder, input(node, 0)?, to)?,
            (_, Some(op)) => {
                let (a, b) = (self.value(builder, input(node, 0)?, to)?, self.value(builder, input(node, 1)?, to)?);
                self.add(ChainOp::Binary(op, a, b))
            }
            _ => {
                let f = function(builder.program, node)?;
                let x = self.value(builder, input(node, 0)?, to)?;
                self.add(ChainOp::Unary(f, x))
            }
        };
        self.names.push(node.op.to_lowercase());
        let (lo, hi) = act_bounds(node);
        let clipped = (lo, hi) != (f32::NEG_INFINITY, f32::INFINITY);
        Ok(if clipped { self.add(ChainOp::Unary(Unary::Clip(lo, hi), at)) } else { at })
    }

    fn value(&mut self, builder: &mut Builder<'_>, id: ValueId, to: Target<'_>) -> Result<usize> {
        if let Some(at) = self.seen.get(&id) {
            return Ok(*at);
        }
        let at = match maker(builder, id) {
            Some(maker) => self.node(builder, maker, to)?,
            None if builder.is_constant(id) => self.constant(builder, id, to)?,
            None => self.load(builder, id, to)?,
        };
        self.seen.insert(id, at);
        Ok(at)
    }

    /// A value in memory, repeated to the result's extents.
    fn load(&mut self, builder: &mut Builder<'_>, id: ValueId, (like, nhwc): Target<'_>) -> Result<usize> {
        let ty = builder.ty(id);
        let place = repeated(builder, id, &TensorType { shape: like.shape.clone(), ..ty.clone() }, nhwc)?;
        let op = match ty.quant {
            Some(_) => ChainOp::Bytes(self.inputs.len(), byte_in(ty)?),
            None => ChainOp::Floats(self.inputs.len()),
        };
        self.inputs.push((place, ty.quant.is_some()));
        Ok(self.add(op))
    }

    /// A scalar, a row that repeats, or a whole tensor.
    fn constant(&mut self, builder: &mut Builder<'_>, id: ValueId, to: Target<'_>) -> Result<usize> {
        let data = constant(builder.program, id)?;
        if let [one] = data.as_slice::<f32>()? {
            return Ok(self.add(ChainOp::Scalar(*one)));
        }
        match row(data, to)? {
            Some(row) => {
                self.period = self.period.max(row.len());
                Ok(self.add(ChainOp::Row(row)))
            }
            None => self.load(builder, id, to),
        }
    }

    /// Brings all rows to one length; shorter ones divide it.
    fn same_period(&mut self) {
        for op in &mut self.ops {
            if let ChainOp::Row(row) = op {
                let longer = row.iter().copied().cycle().take(self.period).collect();
                *row = longer;
            }
        }
    }
}

/// The stretch of a constant after which it repeats along the result; `None` if that is the whole result.
fn row(data: &Tensor, (like, nhwc): Target<'_>) -> Result<Option<Vec<f32>>> {
    let shape = stored_dims(like, Form::inside(like, nhwc))?;
    let missing = || Error::failed(Status::Internal, "a constant does not broadcast to its result");
    let mut steps = repeat_strides(data.shape(), &dims(like)?).ok_or_else(missing)?;
    if Form::inside(like, nhwc).nhwc {
        steps[1..].rotate_left(1);
    }
    let first = steps.iter().zip(&shape).position(|(step, n)| *step > 0 && *n > 1).unwrap_or(shape.len());
    if shape[..first].iter().all(|n| *n == 1) {
        return Ok(None);
    }
    let mut row = Tensor::zeros(data.dtype(), &shape[first..])?;
    Walk::new(&shape[first..], &steps[first..], 4).copy(data.bytes(), row.bytes_mut())?;
    Ok(Some(row.as_slice::<f32>()?.to_vec()))
}

fn binary_op(node: &Node) -> Option<BinaryOp> {
    Some(match node.op.as_str() {
        "Add" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        _ => return None,
    })
}

fn push(builder: &mut Builder<'_>, draft: Draft, out: ChainOut, to: Place, ty: &TensorType) -> Result<()> {
    let wrong = |e| Error::failed(Status::Internal, format!("a chain of operators: {e}"));
    let chain = Chain::new(&draft.ops, draft.period, out).map_err(wrong)?;
    let n = ty.shape.elements().unwrap_or(0);
    let (reads, bytes): (Vec<Place>, Vec<bool>) = draft.inputs.into_iter().unzip();
    let name = builder.kernel(&draft.names.join("+"));
    let byte_function = bytes == [true] && matches!(out, ChainOut::Bytes(..));
    let period = draft.period.max(1);
    let table = byte_function
        && match draft.period {
            0 => true,
            p => chain.is_costly() && n / p >= MIN_ROWS && p.saturating_mul(256) <= MAX_TABLE_BYTES,
        };
    if table {
        let run = table_run(builder, &chain, period)?;
        builder.push(&format!("lut({name})"), reads, to, None, run);
        return Ok(());
    }
    let to_bytes = chain.is_quantized();
    if draft.period == 0 && (1..=2).contains(&bytes.len()) && bytes.iter().all(|b| *b == to_bytes) {
        builder.push_elementwise(&name, reads, to, in_place_run(chain, bytes));
    } else {
        builder.push(&name, reads, to, None, chain_run(chain, bytes));
    }
    Ok(())
}

/// A chain without rows, whose result may replace an operand.
fn in_place_run(chain: Chain, bytes: Vec<bool>) -> Function {
    Box::new(move |exec, operands, out| {
        let input = |i: usize| {
            let x = operands[i];
            Ok::<_, Error>(if bytes[i] { ChainInput::Bytes(x) } else { ChainInput::Floats(elements(x)?) })
        };
        let out = if chain.is_quantized() { OutMut::Bytes(out) } else { OutMut::F32(elements_mut(out)?) };
        match bytes.len() {
            1 => chain.run(exec, &[input(0)?], out),
            _ => chain.run(exec, &[input(0)?, input(1)?], out),
        }
        .map_err(failed)
    })
}

fn chain_run(chain: Chain, bytes: Vec<bool>) -> Run {
    let to_bytes = chain.is_quantized();
    Box::new(move |exec: Exec<'_>, mut io: Io<'_>| {
        let mut inputs = [ChainInput::Bytes(&[]); MAX_INPUTS];
        let inputs = inputs.get_mut(..bytes.len()).ok_or_else(|| Error::failed(Status::Internal, "too many inputs"))?;
        for (i, (to, bytes)) in inputs.iter_mut().zip(&bytes).enumerate() {
            *to = if *bytes { ChainInput::Bytes(io.bytes(i)?) } else { ChainInput::Floats(io.read(i)?) };
        }
        let out = if to_bytes { OutMut::Bytes(io.out) } else { OutMut::F32(io.out()?) };
        chain.run(exec, inputs, out).map_err(failed)
    })
}

/// The chain evaluated for every byte in every column.
fn table_run(builder: &Builder<'_>, chain: &Chain, period: usize) -> Result<Run> {
    let pool = ThreadPool::new(1).map_err(failed)?;
    let exec = Exec { isa: builder.isa, pool: &pool };
    let x: Vec<u8> = (0..=255u8).flat_map(|q| std::iter::repeat_n(q, period)).collect();
    let mut y = vec![0; x.len()];
    chain.run(exec, &[ChainInput::Bytes(&x)], OutMut::Bytes(&mut y)).map_err(failed)?;
    let tables: Vec<[u8; 256]> = (0..period).map(|c| std::array::from_fn(|q| y[q * period + c])).collect();
    Ok(match tables.as_slice() {
        [one] => {
            let table = *one;
            Box::new(move |exec, io| lut(exec, io.bytes(0)?, &table, io.out).map_err(failed))
        }
        _ => Box::new(move |exec, io| lut_rows(exec, io.bytes(0)?, &tables, io.out).map_err(failed)),
    })
}

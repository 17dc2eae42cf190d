//! Resize to constant sizes or by constant scales. Nearest moves bytes along precomputed indices; linear works in f32, one
//! axis after the other, 8-bit values between Dequantize and Quantize as the operator's definition says. Images lie
//! channels-last, so that whole pixels move together.

use super::product::constant;
use super::resample::{Mode, Resampled, Taps, Transform};
use crate::arena::{Io, Place};
use crate::builder::{Builder, bytes_of, input, output};
use crate::form::dims;
use crate::parallel::for_chunks;
use crate::relayout::failed;
use crate::rows::{byte, float, needs, only_fp32, other, row, same_params, when};
use crate::storage::{byte_in, byte_out};
use crate::strided::strides;
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, Status, TensorType};
use ottava_kernels::{Exec, dequantize, quantize};

/// Bytes that one task writes, about.
const CHUNK: usize = 1 << 14;

/// A parsed node.
struct Resize {
    mode: Mode,
    /// The axes that change, in the node's order.
    axes: Vec<(usize, Resampled)>,
}

impl Resize {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let (x, y) = (dims(program.ty(input(node, 0)?))?, dims(program.ty(output(node)?))?);
        let wrong = |what: &str| Error::invalid(format!("node `{}`: {what} do not fit {x:?} and {y:?}", node.name));
        let (mode, transform) = (Mode::parse(&node.attrs)?, Transform::parse(&node.attrs)?);
        let named = axes_of(node, x.len()).ok_or_else(|| wrong("axes"))?;
        let scales = scales(program, node, &named, &x, &y)?;
        let rest_fits = || (0..x.len()).all(|a| named.contains(&a) || x[a] == y[a]);
        if x.len() != y.len() || scales.len() != named.len() || !rest_fits() {
            return Err(wrong("scales or sizes"));
        }
        let axis = |(&a, &scale): (&usize, &f64)| (a, Resampled { input: x[a], output: y[a], scale, transform });
        let all = named.iter().zip(&scales).map(axis);
        let axes: Vec<(usize, Resampled)> = all.filter(|(_, r)| !r.is_identity()).collect();
        if axes.iter().all(|(_, r)| r.is_finite()) { Ok(Self { mode, axes }) } else { Err(wrong("coordinates")) }
    }
}

/// The axes that a node names: distinct ones, by default all.
fn axes_of(node: &Node, rank: usize) -> Option<Vec<usize>> {
    let Some(list) = node.attrs.ints_opt("axes").ok()? else { return Some((0..rank).collect()) };
    let axis = |&a: &i64| usize::try_from(if a < 0 { a + rank as i64 } else { a }).ok().filter(|a| *a < rank);
    let axes: Vec<usize> = list.iter().map(axis).collect::<Option<_>>()?;
    let mut distinct = axes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == axes.len()).then_some(axes)
}

/// The scale of each named axis; an error where the output has another extent than the node says.
fn scales(program: &Program, node: &Node, axes: &[usize], x: &[usize], y: &[usize]) -> Result<Vec<f64>> {
    let given = |i: usize| node.input(i).filter(|id| program.ty(*id).shape.elements() != Some(0));
    let pairs = |n: usize| axes.iter().map(|&a| (x[a], y.get(a).copied().unwrap_or(0))).take(n);
    let differs = || Error::invalid(format!("node `{}`: {y:?} is not the size asked for", node.name));
    match (given(2), given(3)) {
        (Some(id), None) => {
            let scales = constant(program, id)?.to_f32s()?;
            let fits = pairs(scales.len()).zip(&scales).all(|((x, y), s)| (s * x as f32).floor() == y as f32);
            if fits { Ok(scales.into_iter().map(f64::from).collect()) } else { Err(differs()) }
        }
        (None, Some(id)) => {
            let sizes = constant(program, id)?.to_ints()?;
            let fits = pairs(sizes.len()).zip(&sizes).all(|((_, y), s)| usize::try_from(*s) == Ok(y));
            let scale = |(x, y): (usize, usize)| y as f64 / x.max(1) as f64;
            if fits { Ok(pairs(sizes.len()).map(scale).collect()) } else { Err(differs()) }
        }
        _ => Err(Error::invalid(format!("node `{}` needs either scales or sizes", node.name))),
    }
}

/// Rows of Resize.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let plain = needs(Reason::AttrValue, "no antialias, exclude_outside or aspect ratio policy", |_, n| {
        let zero = |name| n.attrs.int(name, 0) == Ok(0);
        let stretch = n.attrs.str("keep_aspect_ratio_policy", "stretch");
        zero("antialias") && zero("exclude_outside") && stretch.is_ok_and(|s| matches!(s, "stretch" | ""))
    });
    let known =
        needs(Reason::AttrValue, "constant sizes or scales, nearest or linear", |p, n| Resize::of(p, n).is_ok());
    let nearest = needs(Reason::AttrValue, "mode nearest", |_, n| n.attrs.str("mode", "nearest") == Ok("nearest"));
    let linear = needs(Reason::AttrValue, "mode linear", |_, n| n.attrs.str("mode", "nearest") != Ok("nearest"));
    vec![
        when(row(op, vec![byte(), other()], byte()), [plain, nearest, known, same_params()]),
        only_fp32(when(row(op, vec![byte(), other()], byte()), [plain, linear, known])),
        when(row(op, vec![float(), other()], float()), [plain, known]),
    ]
}

/// Steps of Resize.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let resize = Resize::of(builder.program, node)?;
    match resize.mode {
        Mode::Nearest(nearest) => {
            let lists = resize.axes.iter().map(|(a, r)| (*a, r.nearest(nearest))).collect();
            build_nearest(builder, node, lists)
        }
        Mode::Linear => build_linear(builder, node, &resize.axes),
    }
}

/// Extents in the order in which images lie in memory.
fn stored(ty: &TensorType) -> Result<Vec<usize>> {
    let mut dims = dims(ty)?;
    if dims.len() >= 3 {
        dims[1..].rotate_left(1);
    }
    Ok(dims)
}

/// Where axis `a` lies in memory.
fn stored_axis(a: usize, rank: usize) -> usize {
    match a {
        1 if rank >= 3 => rank - 1,
        2.. if rank >= 3 => a - 1,
        _ => a,
    }
}

/// A move of equal runs of bytes.
struct Gather {
    /// First byte of the source of each line.
    lines: Vec<usize>,
    /// First byte of each run within a line.
    columns: Vec<usize>,
    /// Bytes of a run.
    run: usize,
    /// Bytes of the source.
    source: usize,
}

impl Gather {
    /// The move that takes, along each axis with a list, the elements of the list.
    fn new(x: &[usize], lists: &[Option<Vec<usize>>], width: usize) -> Self {
        let steps: Vec<usize> = strides(x).iter().map(|s| s * width).collect();
        let inner = lists.iter().rposition(Option::is_some);
        let places = |a: usize| match &lists[a] {
            Some(list) => list.iter().map(|i| i * steps[a]).collect(),
            None => (0..x[a]).map(|i| i * steps[a]).collect::<Vec<_>>(),
        };
        let source = x.iter().product::<usize>() * width;
        let (columns, run) = inner.map_or((vec![0], source), |a| (places(a), steps[a]));
        let mut lines = vec![0];
        for a in 0..inner.unwrap_or(0) {
            let own = places(a);
            lines = lines.iter().flat_map(|at| own.iter().map(move |p| at + p)).collect();
        }
        Self { lines, columns, run, source }
    }

    fn line_len(&self) -> usize {
        self.columns.len() * self.run
    }

    fn copy(&self, exec: Exec<'_>, x: &[u8], out: &mut [u8]) -> Result<()> {
        let len = self.line_len();
        if x.len() != self.source || out.len() != len * self.lines.len() {
            return Err(Error::failed(Status::Internal, "a resize reads or writes tensors of another size"));
        }
        let n = CHUNK.div_ceil(len.max(1));
        for_chunks(exec, out, n * len, &|i, part| {
            let lines = &self.lines[i * n..];
            for (k, &at) in lines.iter().enumerate().take(part.len() / len.max(1)) {
                // A repeated line is copied from where it has just been written.
                if k > 0 && lines[k - 1] == at {
                    part.copy_within((k - 1) * len..k * len, k * len);
                } else {
                    self.line(&x[at..], &mut part[k * len..(k + 1) * len]);
                }
            }
        })
    }

    fn line(&self, x: &[u8], out: &mut [u8]) {
        for (y, at) in out.chunks_exact_mut(self.run).zip(&self.columns) {
            y.copy_from_slice(&x[*at..at + self.run]);
        }
    }
}

fn build_nearest(builder: &mut Builder<'_>, node: &Node, lists: Vec<(usize, Vec<usize>)>) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (ty, dims) = (builder.ty(x), stored(builder.ty(x))?);
    let mut by_axis = vec![None; dims.len()];
    for (a, list) in lists {
        by_axis[stored_axis(a, dims.len())] = Some(list);
    }
    let gather = Gather::new(&dims, &by_axis, ty.dtype.bits() / 8);
    let from = builder.operand(x, true)?;
    let to = builder.result(y, true)?;
    let name = format!("resize_nearest_b{}", ty.dtype.bits());
    let run = move |exec: Exec<'_>, io: Io<'_>| gather.copy(exec, io.bytes(0)?, io.out);
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(())
}

/// One axis of a linear resize.
struct Pass {
    taps: Vec<Taps>,
    /// Extent of the axis in the source.
    input: usize,
    /// Elements behind one step of the axis.
    inner: usize,
    /// Elements of the source.
    source: usize,
    /// Elements of the result.
    result: usize,
}

impl Pass {
    /// The pass along axis `a` of `dims`, which get the extent of the result; an error if that is too large.
    fn new(dims: &mut [usize], a: usize, axis: &Resampled) -> Result<Self> {
        let too_large = || Error::unsupported(Reason::Memory, "a resize is too large for this machine");
        let source = dims.iter().product();
        dims[a] = axis.output;
        let result = dims.iter().try_fold(4usize, |n, d| n.checked_mul(*d)).ok_or_else(too_large)? / 4;
        Ok(Self { taps: axis.linear(), input: axis.input, inner: dims[a + 1..].iter().product(), source, result })
    }

    fn run(&self, exec: Exec<'_>, x: &[f32], out: &mut [f32]) -> Result<()> {
        if x.len() != self.source || out.len() != self.result {
            return Err(Error::failed(Status::Internal, "a resize reads or writes tensors of another size"));
        }
        let n = CHUNK.div_ceil(4 * self.inner.max(1));
        for_chunks(exec, out, n * self.inner, &|i, part| {
            for (k, y) in part.chunks_exact_mut(self.inner).enumerate() {
                let (outer, at) = ((i * n + k) / self.taps.len(), (i * n + k) % self.taps.len());
                let line = |k: usize| &x[(outer * self.input + k) * self.inner..][..self.inner];
                let [(a, wa), (b, wb)] = self.taps[at];
                for ((y, a), b) in y.iter_mut().zip(line(a)).zip(line(b)) {
                    // The sum starts at +0, which turns a product of -0 into +0.
                    *y = (0.0 + a * wa) + b * wb;
                }
            }
        })
    }
}

fn build_linear(builder: &mut Builder<'_>, node: &Node, axes: &[(usize, Resampled)]) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (ty, mut dims) = (builder.ty(x), stored(builder.ty(x))?);
    let typed = ty.quant.is_some();
    let mut from = builder.operand(x, true)?;
    if typed {
        from = push_dequantize(builder, ty, from)?;
    }
    let rank = dims.len();
    let passes =
        axes.iter().map(|(a, r)| Pass::new(&mut dims, stored_axis(*a, rank), r)).collect::<Result<Vec<_>>>()?;
    if passes.is_empty() && !typed {
        return build_nearest(builder, node, vec![]);
    }
    let n_passes = passes.len();
    for (i, pass) in passes.into_iter().enumerate() {
        let last = i + 1 == n_passes && !typed;
        let to = if last { builder.result(y, true)? } else { builder.buffer(4 * pass.result) };
        let run = move |exec: Exec<'_>, mut io: Io<'_>| pass.run(exec, io.read(0)?, io.out()?);
        builder.push("resize_linear_f32", vec![from], to, None, Box::new(run));
        from = to;
    }
    if typed { push_quantize(builder, node, from) } else { Ok(()) }
}

fn push_dequantize(builder: &mut Builder<'_>, ty: &TensorType, from: Place) -> Result<Place> {
    let real = TensorType::new(DataType::F32, ty.shape.clone());
    let (q, to) = (byte_in(ty)?, builder.buffer(bytes_of(&real)?));
    let name = builder.kernel("dequantize_u8_f32");
    let run = move |exec: Exec<'_>, mut io: Io<'_>| dequantize(exec, io.bytes(0)?, q, io.out()?).map_err(failed);
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(to)
}

fn push_quantize(builder: &mut Builder<'_>, node: &Node, from: Place) -> Result<()> {
    let y = output(node)?;
    let (to, signed) = builder.result_signed(y, true)?;
    let (scale, out) = byte_out(builder.ty(y), node, signed)?;
    let name = builder.kernel("quantize_f32_u8");
    let run = move |exec: Exec<'_>, io: Io<'_>| quantize(exec, io.read(0)?, scale, out, io.out).map_err(failed);
    builder.push(&name, vec![from], to, None, Box::new(run));
    Ok(())
}

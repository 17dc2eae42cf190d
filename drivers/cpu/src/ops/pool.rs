//! MaxPool, AveragePool, their global forms, and ReduceMean over all spatial axes; 8 bits and f32, channels last.

use super::fixed::only_fixed;
use super::window::{Window, height_width};
use crate::builder::{Builder, Run, input, output};
use crate::form::dims;
use crate::relayout::failed;
use crate::rows::{byte, float, needs, only_fp32, other, row, same_params, when};
use crate::storage::{byte_in, byte_out};
use ottava_hal::capability::{FusedSupport, Predicate};
use ottava_hal::{Node, OpRow, Program, Reason, Result};
use ottava_kernels::{PoolShape, average_pool_f32, average_pool_u8, max_pool, max_pool_f32};

/// Geometry of a pooling node.
fn shape_of(program: &Program, node: &Node) -> Result<PoolShape> {
    let x = dims(program.ty(input(node, 0)?))?;
    let [in_h, in_w] = height_width(&x)?;
    if node.op.starts_with("Global") || node.op == "ReduceMean" {
        return Ok(PoolShape::global(in_h, in_w, x[1]));
    }
    let Window { kernel, stride, dilation, pads } = Window::parse(&node.attrs, &x, None)?;
    let ceil = node.attrs.int("ceil_mode", 0)? != 0;
    Ok(PoolShape { in_h, in_w, channels: x[1], kernel, stride, dilation, pads, ceil })
}

fn fits() -> Predicate {
    needs(Reason::ShapeLimit, "a window that fits the input", |p, n| shape_of(p, n).is_ok_and(|s| s.out_hw().is_ok()))
}

/// Rows of the maximum.
pub(crate) fn max_rows(op: &'static str) -> Vec<OpRow> {
    let images = |row: OpRow| OpRow { ranks: (3, 4), ..row };
    vec![
        when(images(row(op, vec![byte()], byte())), [same_params(), fits()]),
        when(images(row(op, vec![float()], float())), [fits()]),
    ]
}

/// Rows of the average.
pub(crate) fn average_rows(op: &'static str) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let plain_window = needs(Reason::AttrValue, "no dilation, no taps in the padding, no ceil_mode", |_, n| {
        let zero = |name| n.attrs.int(name, 0) == Ok(0);
        let ones = n.attrs.ints_opt("dilations").is_ok_and(|d| d.is_none_or(|d| d.iter().all(|v| *v == 1)));
        zero("count_include_pad") && zero("ceil_mode") && ones
    });
    let fixed = OpRow { ranks: (4, 4), fused, ..only_fixed(row(op, vec![byte()], byte())) };
    let fixed = (op == "AveragePool").then(|| when(fixed, [same_params(), fits(), plain_window]));
    average(op, &[]).into_iter().chain(fixed).collect()
}

/// Rows of ReduceMean: the axes are all spatial ones.
pub(crate) fn mean_rows(op: &'static str) -> Vec<OpRow> {
    average(op, &[needs(Reason::AttrValue, "constant axes, all spatial ones and no other", spatial_axes)])
}

fn average(op: &'static str, conditions: &[Predicate]) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { ranks: (3, 4), fused, ..only_fp32(row(op, vec![byte(), other()], byte())) };
    let plain = OpRow { ranks: (3, 4), ..row(op, vec![float(), other()], float()) };
    [typed, plain].map(|r| when(when(r, [fits()]), conditions.iter().copied())).into()
}

fn spatial_axes(program: &Program, node: &Node) -> bool {
    let rank = node.input(0).map_or(0, |id| program.ty(id).shape.rank()) as i64;
    let axes = match node.input(1) {
        Some(id) => program.value(id).constant.as_ref().and_then(|t| t.to_ints().ok()),
        None => node.attrs.ints_opt("axes").ok().flatten().map(<[i64]>::to_vec),
    };
    let Some(mut axes) = axes else { return false };
    axes.iter_mut().filter(|a| **a < 0).for_each(|a| *a += rank);
    axes.sort_unstable();
    axes == (2..rank).collect::<Vec<_>>()
}

/// Steps of the maximum.
pub(crate) fn build_max(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let shape = shape_of(builder.program, node)?;
    if builder.ty(input(node, 0)?).quant.is_some() {
        push(
            builder,
            node,
            "u8",
            Box::new(move |exec, io| max_pool(exec, &shape, false, io.bytes(0)?, io.out).map_err(failed)),
        )
    } else {
        push(
            builder,
            node,
            "f32",
            Box::new(move |exec, mut io| max_pool_f32(exec, &shape, io.read(0)?, io.out()?).map_err(failed)),
        )
    }
}

/// Steps of the average.
pub(crate) fn build_average(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let shape = shape_of(builder.program, node)?;
    let with_pads = node.attrs.int("count_include_pad", 0)? != 0;
    let (x, y) = (builder.ty(input(node, 0)?), builder.ty(output(node)?));
    if x.quant.is_none() {
        return push(
            builder,
            node,
            "f32",
            Box::new(move |exec, mut io| {
                average_pool_f32(exec, &shape, with_pads, io.read(0)?, io.out()?).map_err(failed)
            }),
        );
    }
    if super::fixed::mode(node).is_some() {
        let run = super::fixed::average(builder, node, shape)?;
        return push(builder, node, "q31_u8", run);
    }
    let (from, (y_scale, out)) = (byte_in(x)?, byte_out(y, node, false)?);
    push(
        builder,
        node,
        "u8",
        Box::new(move |exec, io| {
            average_pool_u8(exec, &shape, with_pads, from, y_scale, out, io.bytes(0)?, io.out).map_err(failed)
        }),
    )
}

fn push(builder: &mut Builder<'_>, node: &Node, suffix: &str, run: Run) -> Result<()> {
    let from = builder.operand(input(node, 0)?, true)?;
    let to = builder.result(output(node)?, true)?;
    let name = builder.kernel(&format!("{}_{suffix}", node.op.to_lowercase()));
    builder.push(&name, vec![from], to, None, run);
    Ok(())
}

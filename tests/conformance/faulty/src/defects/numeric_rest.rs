//! Groups G.1 and G.8 to G.10: elements, movements, determinism, floats, networks.

use super::Defect;
use super::numeric::{Op, as_f16, ints, is, reals, with};
use ottava_hal::{Attr, DataType, Result, Tensor};
use ottava_ops::{EvalCx, evaluate};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nodes so far.
static NODES: AtomicU32 = AtomicU32::new(0);
/// The first result of each shape.
static FIRST: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

const CONV: &[&str] = &["Conv"];
const SPECIAL: &str = "num.float.special";

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("tail_skipped", "G.1", "num.Add.s8.fp32_rne", "tail", |b| {
        b.node = |cx| ints(cx, &["Add"], |y| y.last_mut().filter(|_| y_is_odd(cx)).into_iter().for_each(|v| *v += 7));
    }),
    Defect::new("first_for_all", "G.1", "num.Mul.s8.fp32_rne", "differ", |b| {
        b.node = |cx| {
            with(cx, &["Mul"], |op| {
                op.bytes(1, |bytes| bytes.fill(bytes[0]));
            })
        }
    }),
    Defect::new("operands_exchanged", "G.1", "num.Sub.s8.fp32_rne", "inputs are swapped", |b| {
        b.node = |cx| {
            with(cx, &["Sub"], |op| {
                op.inputs.swap(0, 1);
                op.in_types.swap(0, 1);
            })
        }
    }),
    Defect::new("words_are_bytes", "G.1", "num.Add.s16.fp32_rne", "real result", |b| {
        b.node = |cx| with(cx, &["Add"], low_bytes)
    }),
    Defect::new("concat_copies", "G.1", "num.Concat.s8", "axis", |b| {
        b.node = |cx| {
            with(cx, &["Concat"], |op| {
                let to = op.out_types[0].quant.clone();
                op.in_types.iter_mut().flatten().for_each(|ty| ty.quant = to.clone());
            })
        }
    }),
    Defect::new("half_a_pixel_off", "G.1", "num.Resize.s8", "half_pixel", |b| {
        b.node = |cx| {
            with(cx, &["Resize"], |op| {
                if op.node.attrs.str("coordinate_transformation_mode", "").is_ok_and(|m| m == "half_pixel") {
                    op.node.attrs.set("coordinate_transformation_mode", Attr::Str("asymmetric".into()));
                }
            })
        }
    }),
    Defect::new("negative_index_is_0", "G.1", "num.Gather.s8", "axis", |b| {
        b.node = |cx| {
            with(cx, &["Gather"], |op| {
                let indices = op.inputs[1].as_mut().map(Tensor::as_slice_mut::<i64>);
                indices.into_iter().flatten().flatten().for_each(|i| *i = (*i).max(0));
            })
        }
    }),
    Defect::new("transpose_copies", "G.1", "num.Transpose.s8", "perm", |b| {
        b.node = |cx| {
            let y = evaluate(cx)?;
            if !is(cx, &["Transpose"]) || y[0].bytes().len() != cx.input(0)?.bytes().len() {
                return Ok(y);
            }
            Ok(vec![Tensor::from_bytes(y[0].dtype(), y[0].shape(), cx.input(0)?.bytes())?])
        };
    }),
    Defect::new("pads_on_the_wrong_axis", "G.1", "num.Slice.s8", "input", |b| {
        b.node = |cx| ints(cx, &["Slice"], |y| y.rotate_left(1))
    }),
    Defect::new("alpha_missing", "G.1", "num.Gemm.s8.fp32_rne", "alpha is missing", |b| {
        b.node = |cx| with(cx, &["Gemm"], |op| _ = op.node.attrs.0.remove("alpha"));
    }),
    Defect::new("weight_not_transposed", "G.1", "num.Gemm.s8.fp32_rne", "channel axis 0", |b| {
        b.node = |cx| with(cx, &["Gemm"], untransposed)
    }),
    Defect::new("weight_zero_point", "G.1", "num.MatMul.u8.fp32_rne", "accumulator", |b| {
        b.node = |cx| with(cx, &["MatMul"], |op| op.params(1).into_iter().for_each(|q| q.zero_points.fill(0)));
    }),
    Defect::new("sum_is_mean", "G.1", "num.ReduceSum.s8.fp32_rne", "over axes", |b| {
        b.node = |cx| with(cx, &["ReduceSum"], |op| op.node.op = "ReduceMean".into());
    }),
    Defect::new("first_sample_for_all", "G.8", "num.determinism.batch", "batch element 0", |b| b.node = first_sample),
    Defect::new("stale_result", "G.8", "num.determinism.runs", "run", |b| b.node = stale),
    Defect::new("every_fifth_differs", "G.8", "num.determinism.runs", "run", |b| {
        b.node = |cx| reals(cx, CONV, |y| y.iter_mut().take(1).filter(|_| fifth()).for_each(|v| *v += 1.0));
    }),
    Defect::new("result_of_the_batch", "G.8", "num.determinism.batch", "alone", |b| {
        // Floats in the last bit, as an order of additions that depends on the batch.
        b.node = |cx| {
            let alone = cx.opt(0).is_some_and(|x| x.shape().first() == Some(&1));
            reals(cx, CONV, |y| y.iter_mut().filter(|_| alone).for_each(|v| *v = f32::from_bits(v.to_bits() ^ 1)))
        };
    }),
    Defect::new("queues_share_a_result", "G.8", "num.determinism.queues", "two queues", |b| b.node = shared),
    Defect::new("nan_vanishes", "G.9", SPECIAL, "NaN", |b| {
        b.node =
            |cx| reals(cx, &["Relu", "Max", "Add"], |y| y.iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = 0.0));
    }),
    Defect::new("infinity_is_largest", "G.9", SPECIAL, "inf", |b| {
        b.node =
            |cx| reals(cx, &["Add", "Mul", "Div"], |y| y.iter_mut().for_each(|v| *v = v.clamp(f32::MIN, f32::MAX)));
    }),
    Defect::new("denormals_flushed", "G.9", "num.float.denormals", "denormals", |b| {
        b.node = |cx| {
            reals(cx, &["Add", "Sub", "Mul", "Relu", "Max", "Identity", "Abs"], |y| {
                y.iter_mut().filter(|v| v.is_subnormal()).for_each(|v| *v = 0.0);
            })
        };
    }),
    Defect::new("factors_in_f16", "G.9", "num.float.sums", "sums of", |b| {
        b.node = |cx| {
            with(cx, &["MatMul"], |op| {
                let values = op.inputs[0].as_mut().map(Tensor::as_slice_mut::<f32>);
                values.into_iter().flatten().flatten().for_each(|v| *v = as_f16(*v));
            })
        }
    }),
    Defect::new("coarse_functions", "G.9", "num.float.functions", "Exp", |b| {
        b.node = |cx| reals(cx, &["Exp"], |y| y.iter_mut().for_each(|v| *v *= 1.000_001));
    }),
    Defect::new("same_operand_twice", "G.10", "num.models.chains.fp32_rne", "Concat", |b| {
        b.node = |cx| {
            with(cx, &["Concat"], |op| {
                if op.inputs.len() == 2 && op.inputs[0] == op.inputs[1] {
                    op.bytes(1, |bytes| bytes.fill(0));
                }
            })
        }
    }),
];

fn y_is_odd(cx: &EvalCx) -> bool {
    cx.opt(0).is_some_and(|x| x.elements() % 16 != 0)
}

fn fifth() -> bool {
    NODES.fetch_add(1, Ordering::Relaxed) % 5 == 4
}

/// Only the low byte of 16 bits counts.
fn low_bytes(op: &mut Op) {
    if let Some(Ok(x)) = op.inputs[0].as_mut().filter(|x| x.dtype() == DataType::S16).map(Tensor::as_slice_mut::<i16>) {
        x.iter_mut().for_each(|v| *v = (*v as i8).into());
    }
}

/// Rows of the weights are read as columns.
fn untransposed(op: &mut Op) {
    let turned = op.node.attrs.int("transB", 0).is_ok_and(|t| t != 0);
    let Some(w) = op.inputs[1].clone().filter(|w| turned && w.dtype().bits() == 8) else { return };
    let (n, k) = (w.shape()[0], w.shape()[1]);
    op.bytes(1, |to| (0..n * k).for_each(|i| to[i] = w.bytes()[i % k * n + i / k]));
}

fn first_sample(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let mut y = evaluate(cx)?;
    if is(cx, CONV) && y[0].shape()[0] > 1 {
        let size = y[0].bytes().len() / y[0].shape()[0];
        let first = y[0].bytes()[..size].to_vec();
        y[0].bytes_mut().chunks_exact_mut(size).for_each(|sample| sample.copy_from_slice(&first));
    }
    Ok(y)
}

/// What was computed first is given again.
fn stale(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let y = evaluate(cx)?;
    let mut first = FIRST.lock();
    if let Some(old) = first.iter().find(|t| is(cx, CONV) && t.ty() == y[0].ty()) {
        return Ok(vec![old.clone()]);
    }
    first.push(y[0].clone());
    Ok(y)
}

/// Two programs one right after the other: the second begins with the first one's last bytes.
fn shared(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let mut y = evaluate(cx)?;
    let mut first = FIRST.lock();
    if let Some(old) = first.pop().filter(|t| is(cx, CONV) && t.ty() != y[0].ty()) {
        y[0].bytes_mut().iter_mut().zip(old.bytes()).take(8).for_each(|(to, from)| *to = *from);
    }
    first.push(y[0].clone());
    Ok(y)
}

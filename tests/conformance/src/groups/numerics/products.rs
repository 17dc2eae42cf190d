//! One product with chosen numbers, as each of the operators that are products.

use super::build::{Build, Like, Sample};
use super::check::Tally;
use crate::{Check, Stop, Subject};
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, Tensor};

/// Operators that can be a plain product of matrices.
pub(super) const OPS: [&str; 3] = ["Gemm", "MatMul", "Conv"];

/// `m x k` times `k x n`.
#[derive(Debug, Clone)]
pub(super) struct Matrices<'a> {
    /// Rows, terms, channels.
    pub size: (usize, usize, usize),
    /// Elements of the first factor, its type and parameters.
    pub x: (&'a [i64], DataType, QuantParams),
    /// Elements of the second factor, its type and parameters: one scale, or one per channel.
    pub w: (&'a [i64], DataType, QuantParams),
    /// At the scale of the sums.
    pub bias: Option<&'a [i32]>,
    /// Requantization mode.
    pub mode: RequantMode,
    /// Type of the result.
    pub y: Like,
}

impl Matrices<'_> {
    /// The product as an operator. A convolution has a window of one point and its channels first.
    pub(super) fn sample(&self, op: &'static str, about: &str) -> Option<Sample> {
        let (m, k, n) = self.size;
        let conv = op == "Conv";
        let mut build = Build::new(op);
        let xd = if conv { vec![m, k, 1, 1] } else { vec![m, k] };
        let x = build.input(Tensor::from_ints(self.x.1, &xd, self.x.0).ok()?, Some(self.x.2.clone()));
        let (wd, data, axis) = if conv {
            let turned = (0..n * k).map(|i| self.w.0[i % k * n + i / k]).collect();
            (vec![n, k, 1, 1], turned, 0)
        } else {
            (vec![k, n], self.w.0.to_vec(), 1)
        };
        let mut quant = self.w.2.clone();
        if quant.scales.len() > 1 {
            quant.scheme = ottava_hal::Scheme::PerAxis { axis };
        }
        let w = build.constant(Tensor::from_ints(self.w.1, &wd, &data).ok()?, Some(quant.clone()));
        let mut inputs = vec![x, w];
        if let Some(bias) = self.bias {
            let scale = |ws: &f32| self.x.2.scales[0] * ws;
            let params = match quant.scales.as_slice() {
                [ws] => QuantParams::per_tensor(scale(ws), 0),
                all => QuantParams::per_axis_symmetric(0, all.iter().map(scale).collect()),
            };
            inputs.push(build.constant(Tensor::from_slice(&[n], bias).ok()?, Some(params)));
        }
        let mut node = Node::new("n", op, 22);
        if conv {
            node.attrs.set("kernel_shape", Attr::Ints(vec![1, 1]));
        }
        node.requant = self.y.1.is_some().then_some(self.mode);
        let y = build.one(node, &inputs, self.y.clone())?;
        build.finish(&[y], about.to_owned())
    }

    /// As every operator.
    pub(super) fn samples(&self, about: &str) -> Vec<Sample> {
        OPS.into_iter().filter_map(|op| self.sample(op, about)).collect()
    }
}

/// Sums that are chosen freely: a zero times weights, plus the bias.
pub(super) fn of_sums(sums: &[i32], (xs, ws): (f32, f32), mode: RequantMode, y: Like, about: &str) -> Vec<Sample> {
    // Weights other than 0 would leave no room for sums at the ends of 32 bits.
    let weight = if sums.iter().any(|s| s.unsigned_abs() > 2_147_480_000) { 0 } else { 5 };
    let (n, weights) = (sums.len(), vec![weight; sums.len()]);
    let product = Matrices {
        size: (1, 1, n),
        x: (&[3], DataType::S8, QuantParams::per_tensor(xs, 3)),
        w: (&weights, DataType::S8, QuantParams::per_tensor(ws, 0)),
        bias: Some(sums),
        mode,
        y,
    };
    product.samples(about)
}

/// Checks all programs; a device that accepts none of them is skipped.
pub(super) fn check_all(subject: &Subject, samples: impl IntoIterator<Item = Sample>) -> Check {
    let device = subject.open()?;
    let mut tally = Tally::default();
    for sample in samples {
        tally.check(&*device, &sample, &sample.program.name)?;
    }
    tally.end(Stop::Unsupported)
}

/// One operator with one input.
pub(super) fn single(node: Node, x: (Tensor, Option<QuantParams>), y: Like, about: &str) -> Option<Sample> {
    let mut build = Build::new(&node.op);
    let x = build.input(x.0, x.1);
    let y = build.one(node, &[x], y)?;
    build.finish(&[y], about.to_owned())
}

//! G.5: which scale, zero point, bias and weight belongs to which channel.

use super::build::Sample;
use super::draw::Draw;
use super::forms::{ConvPlan, Form, conv};
use super::products::{Matrices, check_all};
use crate::groups::Group;
use crate::{Case, Check, Subject};
use ottava_hal::{DataType, QuantParams, RequantMode};

pub(in super::super) const GROUP: Group = Group {
    id: "G.5",
    name: "num.axis",
    about: "scales of each channel, groups, windows that are not square, nibbles in their order",
    cases: |_| {
        vec![
            Case::new("G.5", "num.axis.scales", scales),
            Case::new("G.5", "num.axis.biases", biases),
            Case::new("G.5", "num.axis.nibbles", nibbles),
            Case::new("G.5", "num.axis.Conv.groups", |s| convs(s, "Conv", [(2, 2, 3), (3, 1, 2), (4, 3, 1)], SQUARE)),
            Case::new("G.5", "num.axis.Conv.depthwise", |s| {
                convs(s, "Conv", [(5, 1, 1), (16, 1, 1), (3, 1, 2)], SQUARE)
            }),
            Case::new("G.5", "num.axis.Conv.windows", |s| convs(s, "Conv", [(1, 3, 2), (1, 1, 1), (2, 2, 2)], OBLONG)),
            Case::new("G.5", "num.axis.ConvTranspose", |s| {
                convs(s, "ConvTranspose", [(1, 3, 2), (2, 2, 3), (3, 1, 2)], SQUARE)
            }),
        ]
    },
};

/// Extent, kernel, stride, dilation, pads.
const SQUARE: [[usize; 6]; 2] = [[5, 3, 1, 1, 1, 1], [5, 3, 1, 1, 1, 1]];
/// Neither extents, kernels, strides nor dilations are alike.
const OBLONG: [[usize; 6]; 2] = [[13, 3, 2, 2, 1, 0], [9, 2, 1, 3, 0, 1]];
/// Distinct numbers for up to eight channels.
const SCALES: [f32; 8] = [0.01, 0.08, 0.02, 0.16, 0.04, 0.005, 0.32, 0.0025];

fn ramp(n: usize, step: i64, least: i64, span: i64) -> Vec<i64> {
    (0..n as i64).map(|i| least + (i * step) % span).collect()
}

fn product(k: usize, n: usize, dtype: DataType, weights: &[i64], bias: Option<&[i32]>, about: &str) -> Vec<Sample> {
    let x = ramp(2 * k, 29, -100, 199);
    let (lo, hi) = if dtype == DataType::S4 { (-8, 7) } else { (-127, 127) };
    let w: Vec<i64> = weights.iter().map(|v| (*v).clamp(lo, hi)).collect();
    let mut samples = Vec::new();
    for scales in [SCALES[..n].to_vec(), vec![0.02]] {
        let quant = match scales.as_slice() {
            [one] => QuantParams::per_tensor(*one, 0),
            _ => QuantParams::per_axis_symmetric(0, scales),
        };
        for mode in [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single] {
            let product = Matrices {
                size: (2, k, n),
                x: (&x, DataType::S8, QuantParams::per_tensor(0.05, -3)),
                w: (&w, dtype, quant.clone()),
                bias,
                mode,
                y: (DataType::S8, Some(QuantParams::per_tensor(0.9, 4))),
            };
            samples.extend(product.samples(about));
        }
    }
    samples
}

fn scales(subject: &Subject) -> Check {
    let sizes = [(5, 2), (7, 3), (16, 8)];
    check_all(
        subject,
        sizes.into_iter().flat_map(|(k, n)| {
            product(k, n, DataType::S8, &ramp(k * n, 31, -90, 181), None, "a scale for each channel")
        }),
    )
}

fn biases(subject: &Subject) -> Check {
    let bias: Vec<i32> = (0..8).map(|c| (c - 3) * 4000).collect();
    let sizes = [(5, 2), (7, 3), (16, 8)];
    check_all(
        subject,
        sizes.into_iter().flat_map(|(k, n)| {
            product(k, n, DataType::S8, &ramp(k * n, 31, -90, 181), Some(&bias[..n]), "a bias for each channel")
        }),
    )
}

/// Low nibble first; an odd number of them.
fn nibbles(subject: &Subject) -> Check {
    let sizes = [(5, 3), (3, 2), (9, 1), (16, 8)];
    check_all(
        subject,
        sizes
            .into_iter()
            .flat_map(|(k, n)| product(k, n, DataType::S4, &ramp(k * n, 5, -8, 16), None, "weights of nibbles")),
    )
}

fn convs(subject: &Subject, op: &'static str, shapes: [(usize, usize, usize); 3], axes: [[usize; 6]; 2]) -> Check {
    let mut samples = Vec::new();
    for (groups, inputs, outputs) in shapes {
        for dtype in [DataType::S8, DataType::U8, DataType::F32] {
            for per_axis in [true, false] {
                let mode = (!dtype.is_float()).then_some(RequantMode::Fp32Rne);
                let form = Form { domain: "", op, dtype, per_axis: per_axis && !dtype.is_float(), mode };
                let plan = ConvPlan { batch: 2, groups, channels: (inputs, outputs), axes: axes.to_vec() };
                let mut draws = (0..4).map(|k| Draw::new(subject.seed ^ 0x5eed, 2 * k, &[]));
                samples.extend(draws.by_ref().filter_map(|mut draw| conv(&form, &mut draw, &plan)));
            }
        }
    }
    check_all(subject, samples)
}

//! G.3: the worked examples of numerics.md section 3, and the other places that round.

use super::build::Sample;
use super::products::{check_all, of_sums, single};
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{DataType, Node, QuantParams, RequantMode, Tensor};

pub(in super::super) const GROUP: Group = Group {
    id: "G.3",
    name: "num.rounding",
    about: "ties, double rounding, the product 6.5 of f32, the smallest integer, in each mode",
    cases,
};

const MODES: [RequantMode; 3] = [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];

fn cases(_: &Subject) -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in MODES {
        let mut add = |name: &str, run: fn(&Subject, RequantMode) -> Check| {
            cases.push(Case::new("G.3", format!("num.rounding.{name}.{}", mode.name()), move |s| run(s, mode)));
        };
        add("ties", ties);
        add("twice", twice);
        add("product_of_scales", product_of_scales);
        add("ends", ends);
    }
    cases.push(Case::new("G.3", "num.rounding.quantize", quantize));
    cases.push(Case::new("G.3", "num.rounding.requantize", requantize));
    cases.push(Case::new("G.3", "num.rounding.zero_point_before", zero_point_before));
    cases.push(Case::new("G.3", "num.rounding.means", means));
    cases
}

/// Programs whose results are known without the reference, too.
fn known(samples: &[Sample], expected: &[i64]) -> Check {
    for sample in samples {
        let found = sample.expected[0].to_ints()?;
        ensure!(found == expected, "{}: the reference gives {found:?}, numerics.md {expected:?}", sample.about);
    }
    Ok(())
}

/// Example 1.
fn ties(subject: &Subject, mode: RequantMode) -> Check {
    let sums: Vec<i32> = (-8..=8).collect();
    let expected = match mode {
        RequantMode::Fp32Rne => [-3, -3, -2, -1, -1, -1, 0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5],
        _ => [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
    };
    let like = (DataType::S8, Some(QuantParams::per_tensor(1.0, 1)));
    let samples = of_sums(&sums, (0.5, 1.0), mode, like, "ties, multiplier 0.5, zero point 1");
    known(&samples, &expected)?;
    check_all(subject, samples)
}

/// Example 2.
fn twice(subject: &Subject, mode: RequantMode) -> Check {
    let expected = match mode {
        RequantMode::Fp32Rne => [0, -2, 0],
        RequantMode::Q31Single => [0, -1, 1],
        _ => [1, -2, 1],
    };
    let like = (DataType::S8, Some(QuantParams::per_tensor(1.0, 0)));
    let samples = of_sums(&[1, -6, 2], (0.25, 1.0), mode, like, "double rounding, multiplier 0.25");
    known(&samples, &expected)?;
    check_all(subject, samples)
}

/// Example 3.
fn product_of_scales(subject: &Subject, mode: RequantMode) -> Check {
    let [xs, ws, ys] = [0x3d58_ede4, 0x3cc5_6051, 0x3deb_32f4].map(f32::from_bits);
    let like = (DataType::S8, Some(QuantParams::per_tensor(ys, -126)));
    let samples = of_sums(&[585], (xs, ws), mode, like, "the sum 585 whose real result is a hair above 6.5");
    known(&samples, &[if mode == RequantMode::Fp32Rne { -120 } else { -119 }])?;
    check_all(subject, samples)
}

/// Example 5, and sums that f32 cannot hold.
fn ends(subject: &Subject, mode: RequantMode) -> Check {
    let sums = [i32::MIN, i32::MIN + 1, i32::MAX, 16_777_217, 33_554_435, -16_777_217, 0];
    let mut samples = Vec::new();
    for exponent in [0, 10, 20, 24, 25, 31] {
        let like = (DataType::S8, Some(QuantParams::per_tensor(2f32.powi(exponent), 0)));
        let about = format!("sums at the ends of 32 bits, multiplier 2^-{exponent}");
        samples.extend(of_sums(&sums, (1.0, 1.0), mode, like, &about));
    }
    check_all(subject, samples)
}

fn own(op: &str) -> Node {
    Node { domain: "ottava".into(), ..Node::new("n", op, 1) }
}

/// Section 2: a true division, ties to even, NaN and what no integer holds.
fn quantize(subject: &Subject) -> Check {
    let mut reals: Vec<f32> = (-40..40).map(|i| i as f32 * 0.5).collect();
    reals.extend([1e10, -1e10, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -0.0]);
    reals.extend((0..4000).map(|i| (i as f32 - 2000.0) * 0.013_37));
    let x = Tensor::from_slice(&[reals.len()], &reals)?;
    let one = |(dtype, scale, zp): (DataType, f32, i32)| {
        let like = (dtype, Some(QuantParams::per_tensor(scale, zp)));
        single(own("Quantize"), (x.clone(), None), like, &format!("reals to {dtype}, scale {scale}, zero point {zp}"))
    };
    let targets =
        [(DataType::S8, 1.0, 1), (DataType::U8, 1.0, 128), (DataType::S8, 0.1, -128), (DataType::S16, 0.003, 0)];
    check_all(subject, targets.into_iter().filter_map(one))
}

/// The Concat row of section 4 on all bytes.
fn requantize(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for (from, to) in [((0.5, 3), (1.0, 1)), ((0.1, -128), (0.037, 127)), ((0.25, 0), (0.5, -1)), ((0.75, 5), (0.5, 0))]
    {
        for mode in MODES {
            let bytes: Vec<i64> = (-128..128).collect();
            let x = Tensor::from_ints(DataType::S8, &[256], &bytes)?;
            let quant = |(scale, zp): (f32, i32)| Some(QuantParams::per_tensor(scale, zp));
            let mut node = own("Requantize");
            node.requant = Some(mode);
            let about = format!("all bytes from {from:?} to {to:?}, {}", mode.name());
            samples.extend(single(node, (x, quant(from)), (DataType::S8, quant(to)), &about));
        }
    }
    check_all(subject, samples)
}

/// Example 1, third row: com.microsoft QLinearAdd.
fn zero_point_before(subject: &Subject) -> Check {
    let sums: Vec<i64> = (-8..=8).collect();
    let expected = [-3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5];
    let mut build = super::build::Build::new("Add");
    let a = build.input(Tensor::from_ints(DataType::S8, &[17], &sums)?, Some(QuantParams::per_tensor(0.5, 0)));
    let b = build.input(Tensor::from_ints(DataType::S8, &[17], &[0; 17])?, Some(QuantParams::per_tensor(1.0, 0)));
    let mut node = Node::new("n", "Add", 14);
    node.fused.zp_before_round = true;
    node.requant = Some(RequantMode::Fp32Rne);
    let y = build.one(node, &[a, b], (DataType::S8, Some(QuantParams::per_tensor(1.0, 1))));
    let sample = y.and_then(|y| build.finish(&[y], "zero point before rounding".into()));
    let sample = sample.ok_or_else(|| Stop::Skipped("the reference has no such form".into()))?;
    known(std::slice::from_ref(&sample), &expected)?;
    check_all(subject, [sample])
}

/// Means of two elements end in a half.
fn means(subject: &Subject) -> Check {
    let values: Vec<i64> = (-30..30).flat_map(|i| [i, i + 1]).collect();
    let x = Tensor::from_ints(DataType::S8, &[1, 60, 1, 2], &values)?;
    let params = Some(QuantParams::per_tensor(0.5, 1));
    let mut samples = Vec::new();
    for mode in MODES {
        let mut node = Node::new("n", "GlobalAveragePool", 22);
        node.requant = Some(mode);
        for zp in [1, 4, -128] {
            let like = (DataType::S8, Some(QuantParams::per_tensor(0.5, zp)));
            samples.extend(single(node.clone(), (x.clone(), params.clone()), like, &format!("ties, {}", mode.name())));
        }
    }
    check_all(subject, samples)
}

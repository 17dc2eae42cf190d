//! G.2: sums and results at the ends of their types.

use super::build::Sample;
use super::products::{Matrices, check_all, of_sums};
use crate::groups::Group;
use crate::kit::Rng;
use crate::{Case, Check, Subject};
use ottava_hal::{DataType, QuantParams, RequantMode};

pub(in super::super) const GROUP: Group = Group {
    id: "G.2",
    name: "num.saturation",
    about: "full scale operands, sums near 2^31, results beyond their storage, scales from 1e-8 to 1e4",
    cases: |_| {
        vec![
            Case::new("G.2", "num.saturation.full_scale", full_scale),
            Case::new("G.2", "num.saturation.sums_of_32_bits", wide_sums),
            Case::new("G.2", "num.saturation.results", results),
            Case::new("G.2", "num.saturation.scales", scales),
        ]
    },
};

/// Terms of the sums: pairs, fours, odd tails, long ones.
const TERMS: [usize; 8] = [1, 2, 3, 4, 7, 64, 130, 1027];

/// Every byte at its end, with equal and with alternating signs. Pairs of products then leave 16 bits.
fn full_scale(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for (dtype, end) in [(DataType::U8, 255), (DataType::U8, 0), (DataType::S8, 127), (DataType::S8, -128)] {
        for k in TERMS {
            for weight in [127i64, -127, -128] {
                let x = vec![end; k];
                let w: Vec<i64> =
                    (0..2 * k).map(|i| if i % 2 == 1 && i % 4 == 1 { -weight.max(-127) } else { weight }).collect();
                let about = format!("{k} terms {end} times {weight} and alternating");
                samples.extend(full(dtype, (&x, &w), k, &about));
            }
        }
    }
    check_all(subject, samples)
}

fn full(dtype: DataType, (x, w): (&[i64], &[i64]), k: usize, about: &str) -> Vec<Sample> {
    let zp = if dtype == DataType::U8 { 0 } else { 3 };
    // Full scale over all terms fills the result.
    let like = QuantParams::per_tensor(k as f32 * 255.0, 0);
    let product = Matrices {
        size: (1, k, 2),
        x: (x, dtype, QuantParams::per_tensor(1.0, zp)),
        w: (w, DataType::S8, QuantParams::per_tensor(1.0, 0)),
        bias: None,
        mode: RequantMode::Fp32Rne,
        y: (DataType::S8, Some(like)),
    };
    let real = Matrices { y: (DataType::F32, None), ..product.clone() };
    [product.samples(about), real.samples(about)].concat()
}

/// The longest sums that 32 bits hold (numerics.md section 5), and biases that reach the ends.
fn wide_sums(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for (k, weight, zp) in [(65_793, -128, 0), (66_311, -127, 0), (66_311, 127, 0), (40_000, 127, 255)] {
        let x = vec![if zp == 255 { 0 } else { 255 }; k];
        let product = Matrices {
            size: (1, k, 1),
            x: (&x, DataType::U8, QuantParams::per_tensor(1.0, zp)),
            w: (&vec![weight; k], DataType::S8, QuantParams::per_tensor(1.0, 0)),
            bias: None,
            mode: RequantMode::Fp32Rne,
            y: (DataType::S8, Some(QuantParams::per_tensor(18_000_000.0, 0))),
        };
        samples.extend(product.samples(&format!("{k} terms of {weight}, sums near 2^31")));
    }
    let ends = [i32::MAX - 700, i32::MIN + 700, 1_500_000_000, -1_500_000_000, 1 << 30, -(1 << 30) - 1];
    for mode in [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single] {
        let like = (DataType::S8, Some(QuantParams::per_tensor(17_000_000.0, 1)));
        samples.extend(of_sums(&ends, (1.0, 1.0), mode, like, "sums near 2^31"));
    }
    check_all(subject, samples)
}

/// Results just inside, at, and far beyond the ends of their storage, for zero points at both ends.
fn results(subject: &Subject) -> Check {
    let sums = [-100_000, -300, -129, -128, -127, -1, 0, 1, 126, 127, 128, 129, 254, 255, 256, 300, 100_000];
    let mut samples = Vec::new();
    for dtype in [DataType::S8, DataType::U8, DataType::S16] {
        let Some((lo, hi)) = dtype.storage_range() else { continue };
        for zp in [lo, 0, hi] {
            let zp = if dtype == DataType::S16 { 0 } else { zp };
            for mode in [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single] {
                let like = (dtype, Some(QuantParams::per_tensor(1.25, zp)));
                let about = format!("results beyond the ends of {dtype}, zero point {zp}, {}", mode.name());
                samples.extend(of_sums(&sums, (0.5, 2.0), mode, like, &about));
            }
        }
    }
    check_all(subject, samples)
}

/// Multipliers from tiny to huge.
fn scales(subject: &Subject) -> Check {
    let mut rng = Rng::new(subject.seed);
    let mut sum = |i: i32| {
        let size = 1 << rng.below(21);
        (size + rng.below(size as usize) as i32) * if i % 2 == 0 { 1 } else { -1 }
    };
    let sums: Vec<i32> = (0..400).map(&mut sum).collect();
    let mut power = || 10f32.powi(rng.below(13) as i32 - 8) * (1.0 + rng.below(1000) as f32 / 250.0);
    let mut samples = Vec::new();
    for i in 0..24 {
        let (xs, ws, ys) = (power(), power(), power());
        // Most results of free scales are 0 or saturate; half of the programs have results in between.
        let ys = if i % 2 == 0 { ys } else { xs * ws * (0.7 + i as f32) * 10f32.powi((i / 6) as i32) };
        let mode = [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single][i % 3];
        let like = (DataType::S8, Some(QuantParams::per_tensor(ys, 7)));
        samples.extend(of_sums(&sums, (xs, ws), mode, like, &format!("scales {xs:e}, {ws:e}, {ys:e}")));
    }
    check_all(subject, samples)
}

//! G.9: floats by the bounds of numerics.md section 7: NaN, infinities, denormals, long sums.

use super::build::{Build, Sample};
use super::check::Tally;
use super::products::{check_all, single};
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject};
use ottava_hal::{DataType, Node, Tensor};

pub(in super::super) const GROUP: Group = Group {
    id: "G.9",
    name: "num.float",
    about: "NaN and infinities propagate, denormals are kept where the device says so, sums are within their bounds",
    cases: |_| {
        vec![
            Case::new("G.9", "num.float.special", special),
            Case::new("G.9", "num.float.denormals", denormals),
            Case::new("G.9", "num.float.sums", sums),
            Case::new("G.9", "num.float.functions", functions),
        ]
    },
};

/// What every exception is about.
const SPECIAL: [f32; 12] =
    [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN, 1.5, -2.5, 1e-30];

/// Every pair of these values.
fn pairs(op: &str, values: &[f32]) -> Option<Sample> {
    let n = values.len();
    let mut build = Build::new(op);
    let repeated: Vec<f32> = values.iter().flat_map(|v| vec![*v; n]).collect();
    let a = build.input(Tensor::from_slice(&[n, n], &repeated).ok()?, None);
    let b = build.input(Tensor::from_slice(&[n, n], &values.repeat(n)).ok()?, None);
    let y = build.one(Node::new("n", op, 22), &[a, b], (DataType::F32, None))?;
    build.finish(&[y], "every pair of special values".to_owned())
}

fn one(op: &str, values: &[f32], about: &str) -> Option<Sample> {
    let x = Tensor::from_slice(&[values.len()], values).ok()?;
    single(Node::new("n", op, 22), (x, None), (DataType::F32, None), about)
}

fn special(subject: &Subject) -> Check {
    let mut samples: Vec<Sample> =
        ["Add", "Sub", "Mul", "Div", "Max", "Min"].iter().filter_map(|op| pairs(op, &SPECIAL)).collect();
    for op in ["Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp", "Floor", "Sqrt", "Identity"] {
        samples.extend(one(op, &SPECIAL, "special values"));
    }
    samples.extend(matmul(&SPECIAL[..4], 1, "special values"));
    check_all(subject, samples)
}

/// Results below the smallest normal number.
fn denormals(subject: &Subject) -> Check {
    let device = subject.open()?;
    if device.info().flushes_denormals {
        return Err(Stop::Unsupported("the device says that it flushes denormals".into()));
    }
    let tiny = [1e-39f32, -1e-40, 3e-45, f32::MIN_POSITIVE, 1.2e-38, 0.5, 2.0];
    let mut tally = Tally::default();
    for op in ["Add", "Sub", "Mul", "Relu", "Max", "Identity", "Abs"] {
        for sample in pairs(op, &tiny).into_iter().chain(one(op, &tiny, "denormals")) {
            tally.check(&*device, &sample, "denormals")?;
        }
    }
    tally.end(Stop::Unsupported)
}

/// `values` in turn, `m` rows, times themselves.
fn matmul(values: &[f32], m: usize, about: &str) -> Option<Sample> {
    let k = values.len();
    let mut build = Build::new("MatMul");
    let x: Vec<f32> = (0..m * k).map(|i| values[i % k]).collect();
    let w: Vec<f32> = (0..k * 3).map(|i| values[(i * 7 + 1) % k]).collect();
    let x = build.input(Tensor::from_slice(&[m, k], &x).ok()?, None);
    let w = build.constant(Tensor::from_slice(&[k, 3], &w).ok()?, None);
    let y = build.one(Node::new("n", "MatMul", 22), &[x, w], (DataType::F32, None))?;
    build.finish(&[y], about.to_owned())
}

/// Sums whose terms cancel, and whose order matters.
fn sums(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for k in [3, 17, 256, 1025] {
        let values: Vec<f32> =
            (0..k).map(|i| ((i * 37 % 101) as f32 - 50.0) * 10f32.powi((i % 7) as i32 - 3)).collect();
        samples.extend(matmul(&values, 2, &format!("sums of {k} terms of many magnitudes")));
        let x = Tensor::from_slice(&[1, 1, k], &values)?;
        for op in ["GlobalAveragePool", "Softmax"] {
            samples.extend(single(Node::new("n", op, 22), (x.clone(), None), (DataType::F32, None), "many magnitudes"));
        }
    }
    check_all(subject, samples)
}

/// Two units in the last place over the whole useful range.
fn functions(subject: &Subject) -> Check {
    let values: Vec<f32> = (0..4001).map(|i| (i as f32 - 2000.0) * 0.021).collect();
    let positive: Vec<f32> = values.iter().map(|v| v.abs() + 1e-4).collect();
    let mut samples = Vec::new();
    for op in ["Exp", "Tanh", "Sigmoid", "Erf"] {
        samples.extend(one(op, &values, "-42 to 42"));
    }
    for op in ["Log", "Sqrt", "Reciprocal"] {
        samples.extend(one(op, &positive, "0 to 42"));
    }
    check_all(subject, samples)
}

//! G.6: functions as tables, and the integer forms of softmax and normalization.

use super::build::{Build, Sample};
use super::products::{check_all, single};
use crate::groups::Group;
use crate::kit::Rng;
use crate::{Case, Check, Subject};
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, Tensor};

pub(in super::super) const GROUP: Group = Group {
    id: "G.6",
    name: "num.lut",
    about: "all 256 inputs of a table, every edge of a 16-bit one, integer softmax and normalization",
    cases: |_| {
        vec![
            Case::new("G.6", "num.lut.bytes", bytes),
            Case::new("G.6", "num.lut.words", words),
            Case::new("G.6", "num.lut.functions", functions),
            Case::new("G.6", "num.lut.softmax", softmax),
            Case::new("G.6", "num.lut.layer_norm", layer_norm),
        ]
    },
};

/// Every value of a type of 8 bits.
fn every(dtype: DataType) -> ottava_hal::Result<Tensor> {
    let (lo, hi) = dtype.storage_range().unwrap_or((0, 255));
    Tensor::from_ints(dtype, &[256], &(lo.into()..=hi.into()).collect::<Vec<i64>>())
}

fn lut(x: Tensor, table: Tensor, about: &str) -> Option<Sample> {
    let mut build = Build::new("Lut");
    let like = (table.dtype(), Some(QuantParams::per_tensor(0.1, 0)));
    let x = build.input(x, Some(QuantParams::per_tensor(0.05, 0)));
    let table = build.constant(table, None);
    let y = build.one(Node { domain: "ottava".into(), ..Node::new("n", "Lut", 1) }, &[x, table], like)?;
    build.finish(&[y], about.to_owned())
}

/// Random tables, looked up with every byte.
fn bytes(subject: &Subject) -> Check {
    let mut rng = Rng::new(subject.seed);
    let mut samples = Vec::new();
    for from in [DataType::S8, DataType::U8] {
        for to in [DataType::S8, DataType::U8] {
            let (lo, _) = to.storage_range().unwrap_or((0, 255));
            let entries: Vec<i64> = (0..256).map(|_| i64::from(lo) + rng.below(256) as i64).collect();
            let table = Tensor::from_ints(to, &[256], &entries)?;
            samples.extend(lut(every(from)?, table, &format!("every {from} to {to}")));
        }
    }
    check_all(subject, samples)
}

/// Each segment's first, second, middle and last value, with steep and flat segments.
fn words(subject: &Subject) -> Check {
    let mut rng = Rng::new(subject.seed);
    let entries: Vec<i64> = (0..513).map(|_| rng.below(65_536) as i64 - 32_768).collect();
    let table = Tensor::from_ints(DataType::S16, &[513], &entries)?;
    let edges = (0..512i64).flat_map(|i| [0, 1, 63, 64, 127].map(|f| i * 128 + f - 32_768));
    let x = Tensor::from_ints(DataType::S16, &[5 * 512], &edges.collect::<Vec<i64>>())?;
    check_all(subject, lut(x, table, "every edge of a segment"))
}

/// Functions on every byte.
fn functions(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for op in ["Sigmoid", "Tanh", "Gelu", "HardSwish", "Elu", "Exp", "LeakyRelu", "Sqrt", "Abs", "Relu"] {
        for (dtype, zp) in [(DataType::S8, -20), (DataType::U8, 128)] {
            let (x, y) = (QuantParams::per_tensor(0.06, zp), QuantParams::per_tensor(0.03, zp / 2));
            samples.extend(single(Node::new("n", op, 22), (every(dtype)?, Some(x)), (dtype, Some(y)), "every byte"));
        }
    }
    check_all(subject, samples)
}

/// Rows of one kind of value, of both ends, and random ones; scales at which all but the largest vanish.
fn softmax(subject: &Subject) -> Check {
    let mut rng = Rng::new(subject.seed);
    let mut data: Vec<i64> = (0..20 * 33).map(|_| rng.below(256) as i64 - 128).collect();
    data[..33].fill(127);
    data[33..66].fill(-128);
    data[66..99].iter_mut().enumerate().for_each(|(i, v)| *v = if i == 7 { 127 } else { -128 });
    let long = Tensor::from_ints(DataType::S8, &[20, 33], &data)?;
    let short: Vec<i64> = (0..400 * 3).map(|_| rng.below(256) as i64 - 128).collect();
    let short = Tensor::from_ints(DataType::S8, &[400, 3], &short)?;
    let mut samples = Vec::new();
    for x in [long, short] {
        for scale in [0.001, 0.02, 0.1, 1.0, 20.0] {
            for mode in [RequantMode::Fp32Rne, RequantMode::Q31Double] {
                for axis in [-1, 0] {
                    let mut node = Node::new("n", "Softmax", 22);
                    node.attrs.set("axis", Attr::Int(axis));
                    node.requant = Some(mode);
                    let params = Some(QuantParams::per_tensor(scale, 11));
                    let like = (DataType::S8, Some(QuantParams::per_tensor(1.0 / 256.0, -128)));
                    let about = format!("scale {scale}, axis {axis}, {}", mode.name());
                    samples.extend(single(node, (x.clone(), params), like, &about));
                }
            }
        }
    }
    check_all(subject, samples)
}

/// Constant rows, where the variance is 0; almost constant ones, where epsilon decides; random ones.
fn layer_norm(subject: &Subject) -> Check {
    let mut rng = Rng::new(subject.seed);
    let mut data: Vec<i64> = (0..12 * 17).map(|_| rng.below(256) as i64 - 128).collect();
    data[..17].fill(5);
    data[17..34].fill(-128);
    data[34..51].iter_mut().enumerate().for_each(|(i, v)| *v = i64::from(i == 3));
    let x = Tensor::from_ints(DataType::S8, &[12, 17], &data)?;
    let mut samples = Vec::new();
    for op in ["LayerNormalization", "RMSNormalization"] {
        for (eps, scale) in [(1e-5, 0.05), (0.25, 0.05), (1e-3, 0.001)] {
            let mut build = Build::new(op);
            let x = build.input(x.clone(), Some(QuantParams::per_tensor(scale, -4)));
            let gamma: Vec<f32> = (0..17).map(|i| 0.5 + i as f32 / 16.0).collect();
            let beta: Vec<f32> = (0..17).map(|i| i as f32 / 8.0 - 1.0).collect();
            let mut inputs = vec![x, build.constant(Tensor::from_slice(&[17], &gamma)?, None)];
            if op == "LayerNormalization" {
                inputs.push(build.constant(Tensor::from_slice(&[17], &beta)?, None));
            }
            let mut node = Node::new("n", op, 23);
            node.attrs.set("epsilon", Attr::Float(eps));
            let like = (DataType::S8, Some(QuantParams::per_tensor(0.03, 2)));
            let y = build.one(node, &inputs, like);
            samples.extend(y.and_then(|y| build.finish(&[y], format!("epsilon {eps}, scale {scale}"))));
        }
    }
    check_all(subject, samples)
}

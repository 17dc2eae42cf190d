//! G.4: what lies around an image is the zero point, and each pad is on its own side.

use super::build::{Build, Sample};
use super::draw::Draw;
use super::forms::{ConvPlan, Form, conv};
use super::products::{check_all, single};
use crate::groups::Group;
use crate::{Case, Check, Subject};
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, Tensor};

pub(in super::super) const GROUP: Group = Group {
    id: "G.4",
    name: "num.padding",
    about: "padding is the zero point, for every zero point; asymmetric pads; windows at the border",
    cases: |_| {
        vec![
            Case::new("G.4", "num.padding.Conv", |s| convs(s, "Conv")),
            Case::new("G.4", "num.padding.ConvTranspose", |s| convs(s, "ConvTranspose")),
            Case::new("G.4", "num.padding.AveragePool", |s| pools(s, "AveragePool")),
            Case::new("G.4", "num.padding.MaxPool", |s| pools(s, "MaxPool")),
            Case::new("G.4", "num.padding.Pad", pads),
        ]
    },
};

/// One side at a time, then several: front and back of two axes.
const SIDES: [[usize; 4]; 6] = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [2, 1, 0, 1], [1, 1, 1, 1]];

/// Convolutions of a small image, wider than high, by a kernel that is higher than wide.
fn convs(subject: &Subject, op: &'static str) -> Check {
    let mut samples = Vec::new();
    for (i, [top, left, bottom, right]) in SIDES.into_iter().enumerate() {
        for dtype in [DataType::S8, DataType::U8] {
            for groups in [1, 3] {
                let form = Form { domain: "", op, dtype, per_axis: i % 2 == 0, mode: Some(RequantMode::Fp32Rne) };
                let axes = vec![[5, 3, 1 + i % 2, 1, top, bottom], [7, 2, 1, 1 + i / 4, left, right]];
                let plan = ConvPlan { batch: 1, groups, channels: (2, 3), axes };
                // Several draws, for zero points at both ends.
                samples.extend((0..4).filter_map(|k| conv(&form, &mut Draw::new(subject.seed, 6 * k, &[]), &plan)));
            }
        }
    }
    check_all(subject, samples)
}

/// Pools whose data are all below what a pad of 0 would be, and all above.
fn pools(subject: &Subject, op: &'static str) -> Check {
    let mut samples = Vec::new();
    for pads in SIDES {
        for (zp, values) in [(100, -100i64..0), (-100, 1i64..100), (5, -60i64..60)] {
            for counted in [0, 1] {
                samples.extend(pool(op, pads, zp, values.clone(), counted));
            }
        }
    }
    check_all(subject, samples)
}

fn pool(op: &str, pads: [usize; 4], zp: i32, values: std::ops::Range<i64>, counted: i64) -> Option<Sample> {
    let span = values.end - values.start;
    let data: Vec<i64> = (0..2 * 5 * 6).map(|i| values.start + i * 37 % span).collect();
    let x = Tensor::from_ints(DataType::S8, &[1, 2, 5, 6], &data).ok()?;
    let params = QuantParams::per_tensor(0.25, zp);
    let mut node = Node::new("n", op, 22);
    node.attrs.set("kernel_shape", Attr::Ints(vec![3, 3]));
    node.attrs.set("pads", Attr::Ints(pads.map(|p| p as i64).to_vec()));
    let mut to = params.clone();
    if op == "AveragePool" {
        node.attrs.set("count_include_pad", Attr::Int(counted));
        node.requant = Some(RequantMode::Fp32Rne);
        to.zero_points = vec![3];
    }
    single(node, (x, Some(params)), (DataType::S8, Some(to)), &format!("padding {pads:?}, zero point {zp}"))
}

/// Pad without a value.
fn pads(subject: &Subject) -> Check {
    let mut samples = Vec::new();
    for pads in SIDES {
        for zp in [-128, 0, 9, 127] {
            let mut build = Build::new("Pad");
            let x = Tensor::from_ints(DataType::S8, &[3, 5], &(1..16).collect::<Vec<i64>>())?;
            let params = Some(QuantParams::per_tensor(0.5, zp));
            let x = build.input(x, params.clone());
            let list = build.ints(&pads.map(|p| p as i64));
            let y = list.and_then(|list| build.one(Node::new("n", "Pad", 21), &[x, list], (DataType::S8, params)));
            samples.extend(y.and_then(|y| build.finish(&[y], format!("padding {pads:?}, zero point {zp}"))));
        }
    }
    check_all(subject, samples)
}

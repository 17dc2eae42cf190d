//! G.7: what is fused gives what the nodes apart give.
//!
//! Each program has two forms, and the reference must give the same for both: numerics.md section 4 leaves no other
//! meaning. The device runs those that it accepts.

use super::build::{Build, Sample};
use super::draw::Draw;
use super::products::check_all;
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, ValueId};

pub(in super::super) const GROUP: Group = Group {
    id: "G.7",
    name: "num.fusion",
    about: "a fused clamp, activation or residual gives what separate nodes give",
    cases: |_| {
        vec![
            Case::new("G.7", "num.fusion.clamp", |s| both(s, clamp)),
            Case::new("G.7", "num.fusion.residual", |s| both(s, residual)),
            Case::new("G.7", "num.fusion.activation", |s| both(s, activation)),
        ]
    },
};

/// The program with and without a fusion.
type Pair = fn(&mut Draw) -> Option<[Sample; 2]>;

fn both(subject: &Subject, pair: Pair) -> Check {
    let mut samples = Vec::new();
    for step in 0..24 {
        let Some(pair) = pair(&mut Draw::new(subject.seed ^ 0xf0, step, &[])) else { continue };
        let [fused, apart] = &pair;
        let same = fused.expected == apart.expected;
        ensure!(same, "{}: the reference gives other results fused than apart", fused.about);
        samples.extend(pair);
    }
    if samples.is_empty() {
        return Err(Stop::failed("no program could be made"));
    }
    check_all(subject, samples)
}

/// Input and weights of a 3 x 3 convolution of an image.
fn operands(draw: &mut Draw, build: &mut Build) -> Option<(Node, Vec<ValueId>)> {
    let params = draw.params(DataType::S8);
    let x = draw.data(DataType::S8, &[2, 5, 6, 7], params.as_ref())?;
    let x = build.input(x, params);
    let scales = (0..9).map(|_| draw.scale()).collect();
    let w = draw.data(DataType::S8, &[9, 5, 3, 3], None)?;
    let w = build.constant(w, Some(QuantParams::per_axis_symmetric(0, scales)));
    let mut node = Node::new("n", "Conv", 22);
    node.attrs.set("pads", Attr::Ints(vec![1, 0, 1, 1]));
    Some((node, vec![x, w]))
}

/// Relu or Clip behind a requantized product.
fn clamp(draw: &mut Draw) -> Option<[Sample; 2]> {
    let mut build = Build::new("clamp");
    let (mut node, inputs) = operands(draw, &mut build)?;
    node.requant = Some(RequantMode::Fp32Rne);
    let like = draw.fit(&build, &node, &inputs, DataType::S8)?;
    let (scale, zp) = like.1.as_ref()?.as_per_tensor()?;
    let six = ottava_hal::refmath::quantize::quantize_f32(scale * 40.0, scale, zp, -128, 127);
    let mut apart = build.clone();
    let y = apart.one(node.clone(), &inputs, like.clone())?;
    let bounds = [apart.number(0.0), apart.number(scale * 40.0)];
    let y = apart.one(Node::new("n", "Clip", 22), &[y, bounds[0], bounds[1]], like.clone())?;
    node.fused.clamp = Some((zp, six));
    let z = build.one(node, &inputs, like)?;
    Some([build.finish(&[z], "fused clamp".into())?, apart.finish(&[y], "clamp apart".into())?])
}

/// A real result with a bound.
fn activation(draw: &mut Draw) -> Option<[Sample; 2]> {
    let mut build = Build::new("activation");
    let (mut node, inputs) = operands(draw, &mut build)?;
    let real = (DataType::F32, None);
    let mut apart = build.clone();
    let y = apart.one(node.clone(), &inputs, real.clone())?;
    let y = apart.one(Node::new("n", "Relu", 22), &[y], real.clone())?;
    node.fused.act = Some(Activation::Relu);
    let z = build.one(node, &inputs, real)?;
    Some([build.finish(&[z], "fused activation".into())?, apart.finish(&[y], "activation apart".into())?])
}

/// Product, sum, activation and one rounding, against the f32 sequence.
fn residual(draw: &mut Draw) -> Option<[Sample; 2]> {
    let mut build = Build::new("residual");
    let (mut node, mut inputs) = operands(draw, &mut build)?;
    let real = (DataType::F32, None);
    let mut probe = build.clone();
    let y = probe.one(node.clone(), &inputs, real.clone())?;
    let dims = probe.data(y).shape().to_vec();
    let params = draw.params(DataType::S8);
    let other = draw.data(DataType::S8, &dims, params.as_ref())?;
    let other = build.input(other, params);
    let mut apart = build.clone();
    let y = apart.one(node.clone(), &inputs, real.clone())?;
    let own = |op: &str| Node { domain: "ottava".into(), ..Node::new("n", op, 1) };
    let wide = apart.one(own("Dequantize"), &[other], real.clone())?;
    let sum = apart.one(Node::new("n", "Add", 22), &[y, wide], real.clone())?;
    let sum = apart.one(Node::new("n", "Relu", 22), &[sum], real)?;
    inputs.push(other);
    node.fused.residual = true;
    node.fused.act = Some(Activation::Relu);
    node.requant = Some(RequantMode::Fp32Rne);
    let like = draw.fit(&build, &node, &inputs, DataType::S8)?;
    let y = apart.one(own("Quantize"), &[sum], like.clone())?;
    let z = build.one(node, &inputs, like)?;
    Some([build.finish(&[z], "fused residual and activation".into())?, apart.finish(&[y], "residual apart".into())?])
}

//! Arithmetic, bridges between types, casts, functions, selections.

use super::data::{BYTES, FIXED, FLOATS, STORAGES, integers, narrowed, params, pick, quantized, reals, shape};
use super::{Draft, Random, draft};
use crate::rng::Rng;
use ottava_hal::{Attr, DataType, QuantParams, Scheme, Tensor};

pub(super) fn arithmetic(rng: &mut Rng) -> Option<Random> {
    let wide = shape(rng, (0, 4));
    let (a, b) = match rng.below(3) {
        0 => (wide.clone(), narrowed(rng, &wide)),
        1 => (narrowed(rng, &wide), wide),
        _ => (wide.clone(), wide),
    };
    let op = pick(rng, &["Add", "Sub", "Mul", "Div", "PRelu", "Max", "Min"]);
    let images = rng.chance(40);
    if rng.chance(25) {
        let dtype = pick(rng, &FLOATS);
        let (x, w) = (reals(dtype, &a, true, rng), reals(dtype, &b, true, rng));
        return draft(op, 14, (dtype, None)).input(x).input(w).finish(images);
    }
    let storages = if rng.chance(60) { &BYTES[..] } else { &STORAGES[..] };
    let (dx, dw, dy) = (pick(rng, storages), pick(rng, storages), pick(rng, storages));
    let y = params(rng, dy);
    let (x, w) = (quantized(dx, &a, rng), quantized(dw, &b, rng));
    let mut d = draft(op, 14, (dy, Some(y))).input(x).input(w);
    match op {
        "Add" | "Mul" if rng.chance(30) => d.node.fused.zp_before_round = true,
        "Add" | "Sub" | "Mul" | "PRelu" if rng.chance(50) => d.node.requant = Some(pick(rng, &FIXED)),
        _ => {}
    }
    if rng.chance(20) {
        let (lo, hi) = dy.storage_range()?;
        d.node.fused.clamp = Some((rng.int(lo.into(), 0.max(lo).into()) as i32, rng.int(1, hi.into()) as i32));
    }
    d.finish(images)
}

pub(super) fn bridges(rng: &mut Rng) -> Option<Random> {
    let (s, images) = (shape(rng, (0, 4)), rng.chance(40));
    let ours = |mut d: Draft| {
        d.node.domain = "ottava".into();
        d
    };
    let (from, to) = (pick(rng, &STORAGES), pick(rng, &STORAGES));
    let y = params(rng, to);
    let mode = rng.chance(40).then(|| pick(rng, &FIXED));
    match rng.below(6) {
        0 => {
            let x = reals(pick(rng, &FLOATS), &s, true, rng);
            let mut d = ours(draft("Quantize", 1, (to, Some(y)))).input(x);
            d.node.requant = mode;
            d.finish(images)
        }
        1 => {
            let x = quantized(from, &s, rng);
            ours(draft("Dequantize", 1, (pick(rng, &FLOATS), None))).input(x).finish(images)
        }
        2 => {
            let mut d = ours(draft("Requantize", 1, (to, Some(y)))).input(quantized(from, &s, rng));
            d.node.requant = mode;
            d.finish(images)
        }
        3 => {
            let table = (integers(to, &[256], rng), None);
            let x = quantized(pick(rng, &BYTES), &s, rng);
            ours(draft("Lut", 1, (to, Some(y)))).input(x).constant(table).finish(images)
        }
        4 => {
            let table = (integers(DataType::S16, &[513], rng), None);
            let x = quantized(DataType::S16, &s, rng);
            ours(draft("Lut", 1, (DataType::S16, Some(params(rng, DataType::S16)))))
                .input(x)
                .constant(table)
                .finish(images)
        }
        _ => {
            let s = shape(rng, (1, 4));
            let axis = rng.below(s.len());
            let scales: Vec<f32> = (0..s[axis]).map(|_| rng.real(0.01, 2.0)).collect();
            let zero_points = (0..s[axis]).map(|_| rng.int(0, 100) as i32).collect();
            let q = QuantParams { scheme: Scheme::PerAxis { axis }, scales, zero_points };
            let x = (integers(from, &s, rng), Some(q));
            ours(draft("Dequantize", 1, (DataType::F32, None))).input(x).finish(false)
        }
    }
}

pub(super) fn casts(rng: &mut Rng) -> Option<Random> {
    let codes = [(1, DataType::F32), (10, DataType::F16), (16, DataType::BF16), (9, DataType::Bool)];
    let more = [(3, DataType::S8), (2, DataType::U8), (5, DataType::S16), (4, DataType::U16), (6, DataType::S32)];
    let all = [&codes[..], &more[..], &[(7, DataType::S64)]].concat();
    let ((_, from), (code, to)) = (pick(rng, &all), pick(rng, &all));
    let s = shape(rng, (0, 4));
    let x = if from.is_float() { reals(from, &s, true, rng) } else { (integers(from, &s, rng), None) };
    let mut x = x;
    if from == DataType::S64 {
        let wide = |rng: &mut Rng| (rng.bits() as i64) >> rng.below(63);
        let values: Vec<i64> = (0..s.iter().product()).map(|_| wide(rng)).collect();
        x.0 = Tensor::from_ints(from, &s, &values).expect("integers");
    }
    draft("Cast", 13, (to, None)).input(x).attr("to", Attr::Int(code)).finish(rng.chance(30))
}

pub(super) fn floats(rng: &mut Rng) -> Option<Random> {
    let (s, dtype) = (shape(rng, (0, 4)), pick(rng, &FLOATS));
    let names = ["Abs", "Ceil", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Neg"];
    let more = ["Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Softsign", "Sqrt", "Swish", "Tanh"];
    let op = pick(rng, &[&names[..], &more[..], &["ThresholdedRelu", "Pow", "Clip"]].concat());
    let mut d = draft(op, 24, (dtype, None)).input(reals(dtype, &s, true, rng));
    let scalar = |v: f32| (Tensor::from_f32s(dtype, &[], &[v]).expect("a scalar"), None);
    match op {
        "Pow" => d = d.constant(scalar(pick(rng, &[2.0, 3.0, 0.5, 1.0, -1.0]))),
        "Clip" => d = d.constant(scalar(rng.real(-1.0, 0.5))).constant(scalar(rng.real(0.0, 2.0))),
        "Gelu" if rng.chance(50) => d = d.attr("approximate", Attr::Str("tanh".into())),
        _ => {}
    }
    d.finish(rng.chance(40))
}

pub(super) fn selections(rng: &mut Rng) -> Option<Random> {
    let wide = shape(rng, (1, 4));
    let (a, b) = (narrowed(rng, &wide), narrowed(rng, &wide));
    match rng.below(4) {
        0 => {
            let c = (integers(DataType::Bool, &wide, rng), None);
            let to = pick(rng, &STORAGES);
            let x = quantized(pick(rng, &STORAGES), &a, rng);
            let y = quantized(pick(rng, &STORAGES), &b, rng);
            draft("Where", 16, (to, Some(params(rng, to)))).input(c).input(x).input(y).finish(false)
        }
        1 => {
            let c = (integers(DataType::Bool, &narrowed(rng, &wide), rng), None);
            let dtype = pick(rng, &[DataType::F32, DataType::F16, DataType::S32, DataType::U8]);
            let value = |rng: &mut Rng, s: &[usize]| {
                if dtype.is_float() { reals(dtype, s, true, rng) } else { (integers(dtype, s, rng), None) }
            };
            let (x, y) = (value(rng, &a), value(rng, &b));
            draft("Where", 16, (dtype, None)).input(c).input(x).input(y).finish(false)
        }
        2 => {
            let op = pick(rng, &["And", "Or", "Xor"]);
            let (x, y) = (integers(DataType::Bool, &wide, rng), integers(DataType::Bool, &b, rng));
            draft(op, 7, (DataType::Bool, None)).input((x, None)).input((y, None)).finish(false)
        }
        _ => {
            let op = pick(rng, &["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]);
            let dtype = pick(rng, &[DataType::F32, DataType::F16, DataType::S32, DataType::U8]);
            let value = |rng: &mut Rng, s: &[usize]| {
                if dtype.is_float() { reals(dtype, s, true, rng) } else { (integers(dtype, s, rng), None) }
            };
            let (x, y) = (value(rng, &wide), value(rng, &b));
            draft(op, 16, (DataType::Bool, None)).input(x).input(y).finish(rng.chance(40))
        }
    }
}

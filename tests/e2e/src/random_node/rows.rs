//! What folds windows, axes or rows.

use super::data::{BYTES, FIXED, FLOATS, STORAGES, integers, narrowed, params, pick, quantized, reals, shape};
use super::{Random, draft};
use crate::rng::Rng;
use ottava_hal::{Attr, DataType, QuantParams};

pub(super) fn norms(rng: &mut Rng) -> Option<Random> {
    let mut s = shape(rng, (1, 4));
    let last = s.len() - 1;
    s[last] = pick(rng, &[1, 3, 8, 33, 64, 130]);
    let axis = if rng.chance(70) { last } else { rng.below(s.len()) };
    let row = &s[axis..];
    let rms = rng.chance(30);
    let (op, version) = if rms { ("RMSNormalization", 23) } else { ("LayerNormalization", 17) };
    let at = Attr::Int(axis as i64);
    let integer = rng.chance(60);
    let (x, y, parameters) = if integer {
        let to = pick(rng, &BYTES);
        (quantized(pick(rng, &STORAGES), &s, rng), (to, Some(params(rng, to))), DataType::F32)
    } else {
        let dtype = pick(rng, &FLOATS);
        (reals(dtype, &s, false, rng), (dtype, None), dtype)
    };
    let mut d = draft(op, version, y).input(x).constant(reals(parameters, row, false, rng)).attr("axis", at);
    if !rms && rng.chance(60) {
        d = d.constant(reals(parameters, row, false, rng));
    }
    d.finish(rng.chance(20))
}

pub(super) fn pools(rng: &mut Rng) -> Option<Random> {
    let spatial = rng.int(1, 3) as usize;
    let mut s = vec![rng.int(1, 2) as usize, pick(rng, &[1, 3, 4, 6, 9])];
    s.extend((0..spatial).map(|_| rng.int(1, 9) as usize));
    let op = pick(rng, &["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"]);
    let (x, y) = if rng.chance(30) {
        let dtype = pick(rng, &FLOATS);
        (reals(dtype, &s, true, rng), (dtype, None))
    } else {
        let dtype = pick(rng, &STORAGES);
        let x = quantized(dtype, &s, rng);
        let same = op.contains("Max") || rng.chance(30);
        let y = if same { x.1.clone() } else { Some(params(rng, dtype)) };
        (x, (dtype, y))
    };
    let mut d = draft(op, 22, y).input(x);
    if d.outputs[0].1.is_some() && op.contains("Average") && rng.chance(50) {
        d.node.requant = Some(pick(rng, &FIXED));
    }
    if op.starts_with("Global") {
        return d.finish(rng.chance(30));
    }
    let list = |rng: &mut Rng, n: usize, lo, hi| Attr::Ints((0..n).map(|_| rng.int(lo, hi)).collect());
    d = d.attr("kernel_shape", list(rng, spatial, 1, 3)).attr("strides", list(rng, spatial, 1, 3));
    d = d.attr("dilations", list(rng, spatial, 1, 2)).attr("ceil_mode", Attr::Int(rng.int(0, 1)));
    if rng.chance(70) {
        d = d.attr("pads", list(rng, 2 * spatial, 0, 1));
    } else {
        d = d.attr("auto_pad", Attr::Str(pick(rng, &["SAME_UPPER", "SAME_LOWER", "VALID"]).into()));
    }
    if op == "AveragePool" {
        d = d.attr("count_include_pad", Attr::Int(rng.int(0, 1)));
    }
    d.finish(false)
}

pub(super) fn reductions(rng: &mut Rng) -> Option<Random> {
    let s = shape(rng, (1, 5));
    let op = pick(rng, &["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"]);
    let axes: Vec<i64> = (0..s.len() as i64).filter(|_| rng.chance(50)).collect();
    let extreme = matches!(op, "ReduceMax" | "ReduceMin");
    let mut mode = None;
    let (x, y) = match rng.below(3) {
        0 if extreme || matches!(op, "ReduceSum" | "ReduceMean") => {
            let dtype = pick(rng, &STORAGES);
            let x = quantized(dtype, &s, rng);
            mode = (!extreme && rng.chance(50)).then(|| pick(rng, &FIXED));
            let to = if extreme { (dtype, x.1.clone()) } else { (dtype, Some(params(rng, dtype))) };
            (x, to)
        }
        1 if extreme || op == "ReduceSum" => {
            let dtype = pick(rng, &[DataType::S32, DataType::U8, DataType::S8]);
            ((integers(dtype, &s, rng), None), (dtype, None))
        }
        _ => {
            let dtype = pick(rng, &FLOATS);
            (reals(dtype, &s, true, rng), (dtype, None))
        }
    };
    let mut d = draft(op, 18, y).input(x).attr("keepdims", Attr::Int(rng.int(0, 1)));
    d.node.requant = mode;
    if rng.chance(85) { d.numbers(&axes) } else { d }.finish(rng.chance(40))
}

pub(super) fn softmax(rng: &mut Rng) -> Option<Random> {
    let mut s = shape(rng, (1, 4));
    let at = rng.below(s.len());
    s[at] = pick(rng, &[1, 5, 12, 64, 100, 201]);
    let axis = if rng.chance(60) { at } else { rng.below(s.len()) };
    let (x, y) = if rng.chance(60) {
        let to = pick(rng, &BYTES);
        let q = QuantParams::per_tensor(1.0 / 256.0, to.storage_range()?.0);
        (quantized(pick(rng, &BYTES), &s, rng), (to, Some(q)))
    } else {
        let dtype = pick(rng, &FLOATS);
        (reals(dtype, &s, false, rng), (dtype, None))
    };
    let quantized = y.1.is_some();
    if rng.chance(30) {
        let mask = pick(rng, &[DataType::Bool, DataType::S64, DataType::U8, DataType::S32]);
        let keep = (integers(mask, &narrowed(rng, &s), rng), None);
        let mut d = draft("MaskedSoftmax", 1, y).input(x).input(keep);
        d.node.domain = "ottava".into();
        return d.finish(false);
    }
    let op = if quantized || rng.chance(70) { "Softmax" } else { "LogSoftmax" };
    let version = pick(rng, &[11, 13]);
    let mut d = draft(op, version, y).input(x).attr("axis", Attr::Int(axis as i64));
    if quantized && rng.chance(40) {
        d.node.requant = Some(pick(rng, &FIXED));
    }
    d.finish(rng.chance(30))
}

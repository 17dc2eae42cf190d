//! `MelWeightMatrix`: triangles on the mel scale that map a spectrum to bands.
//!
//! * (C1) `mel = 2595 log10(1 + f / 700)`; bands + 2 edges in equal steps of (upper - lower) / (bands + 2) from the lower
//!   one. (C2) An edge falls on bin `floor((dft_length + 1) f / rate)`. (C3) Band i rises linearly from edge i to edge
//!   i + 1 and falls to edge i + 2; f64, rounded once.

use super::real::Real;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::util::{self, onnx_dtype};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct MelWeightMatrix;

static SPEC: OpSpec = OpSpec {
    name: "MelWeightMatrix",
    domain: "",
    since: 17,
    inputs: (5, 5),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("output_datatype", AttrKind::Int)],
};

/// Bins and bands.
fn extents(dft_length: &[i64], bands: &[i64]) -> Result<[usize; 2]> {
    match (bands, dft_length) {
        (&[bands @ 1..=i64::MAX], &[n @ 1..=i64::MAX]) => {
            let fits = |v: i64| usize::try_from(v).ok().filter(|v| *v <= util::MAX_ELEMENTS);
            fits(n / 2 + 1).zip(fits(bands)).map(<[usize; 2]>::from)
        }
        _ => None,
    }
    .ok_or_else(|| Error::invalid("MelWeightMatrix: num_mel_bins and dft_length must be one positive number each"))
}

impl Op for MelWeightMatrix {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = onnx_dtype(cx.attrs().int("output_datatype", 1)?)?;
        let (Some(bands), Some(n)) = (cx.known_ints(0)?, cx.known_ints(1)?) else {
            return Ok(vec![cx.open(dtype, Some(2))?]);
        };
        Ok(vec![cx.ty(dtype, extents(&n, &bands)?.map(Dim::Known).to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let dtype = onnx_dtype(cx.attrs().int("output_datatype", 1)?)?;
        let (bands, n) = (cx.input(0)?.to_ints()?, cx.input(1)?.to_ints()?);
        let shape = extents(&n, &bands)?;
        let number = |i: usize| match f64::read(cx.input(i)?)?[..] {
            [v] => Ok(v),
            _ => Err(Error::invalid(format!("MelWeightMatrix: input {i} must be one number"))),
        };
        let rate = cx.input(2)?.to_ints()?.first().map_or(0.0, |v| *v as f64);
        let edges = edges(shape[1], [number(3)?, number(4)?], (n[0] + 1) as f64 / rate);
        let mut y = util::output(DataType::F64, &shape)?;
        fill(y.as_slice_mut::<f64>()?, shape, &edges)?;
        let values = y.as_slice::<f64>()?;
        if dtype.is_float() {
            return Ok(vec![f64::write(dtype, &shape, values)?]);
        }
        let whole: Vec<i64> = values.iter().map(|v| *v as i64).collect();
        Ok(vec![Tensor::from_ints(dtype, &shape, &whole)?])
    }

    fn cases(&self) -> Vec<Case> {
        let number = |v| ints(DataType::S64, &[], &[v]);
        let inputs = [number(1), number(6), number(700), f32s(&[], &[0.0]), f32s(&[], &[350.0])];
        let y = f32s(&[4, 1], &[0.0, 1.0, 0.0, 0.0]);
        vec![case_const("c3_one_band", Node::new("mel", "MelWeightMatrix", 17), 0, &inputs, &[y])]
    }
}

/// (C1) (C2)
fn edges(bands: usize, [lower, upper]: [f64; 2], bins_per_hertz: f64) -> Vec<f64> {
    let mel = |f: f64| 2595.0 * libm::log10(1.0 + f / 700.0);
    let (low, high) = (mel(lower), mel(upper));
    let step = (high - low) / (bands + 2) as f64;
    let hertz = |i: usize| 700.0 * (libm::pow(10.0, (i as f64 * step + low) / 2595.0) - 1.0);
    (0..bands + 2).map(|i| (hertz(i) * bins_per_hertz).floor()).collect()
}

/// (C3)
fn fill(y: &mut [f64], [bins, bands]: [usize; 2], edges: &[f64]) -> Result<()> {
    let inside = |e: &f64| *e >= 0.0 && *e < bins as f64;
    if let Some(edge) = edges.iter().find(|e| !inside(e)) {
        return Err(Error::invalid(format!("MelWeightMatrix: an edge falls on bin {edge}, there are {bins}")));
    }
    let edges: Vec<usize> = edges.iter().map(|e| *e as usize).collect();
    for band in 0..bands {
        let [from, peak, to] = [edges[band], edges[band + 1], edges[band + 2]];
        for bin in from..=peak {
            let rise = if peak == from { 1.0 } else { (bin - from) as f64 / (peak - from) as f64 };
            y[bin * bands + band] = rise;
        }
        for bin in peak..to {
            y[bin * bands + band] = (to - bin) as f64 / (to - peak) as f64;
        }
    }
    Ok(())
}

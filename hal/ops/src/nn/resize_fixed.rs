//! Bilinear resizing of signed integers in a Q31 mode: that of TFLite's reference kernel (numerics.md section 4).
//!
//! * (C1) The step between pixels has 10 fraction bits: `(1024 n + m/2) / m` for n pixels that become m; with aligned
//!   corners `(1024 (n-1) + (m-1)/2) / (m-1)` where m > 1.
//! * (C2) Pixel v of the result lies at `p = v * step`, with half pixels `p = v * step + step/2 - 512`; its neighbours are
//!   `max(p / 1024, 0)` and `min((p + 1023) / 1024, n - 1)`, C division.
//! * (C3) The four products of stored values and weights are summed and divided by 2^20, half away from zero.
//!
//! Input and output have equal parameters; uint8 has the f32 form in TFLite too.

use super::real::count;
use crate::EvalCx;
use ottava_hal::{Error, Result, Tensor};

/// 1 in Q10.
const ONE: i64 = 1 << 10;

/// The coordinates of a node that have a form here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coordinates {
    Asymmetric,
    HalfPixel,
    AlignCorners,
}

/// Two neighbours of a pixel and the weight of the second in Q10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tap {
    pixels: [usize; 2],
    second: i64,
}

/// (C1), (C2) The taps of an axis of `n` pixels that become `m`, both above 0.
fn taps(n: usize, m: usize, coordinates: Coordinates) -> Vec<Tap> {
    let (from, to) = (n as i64, m as i64);
    let step = match coordinates {
        Coordinates::AlignCorners if to > 1 => (ONE * (from - 1) + (to - 1) / 2) / (to - 1),
        _ => (ONE * from + to / 2) / to,
    };
    let offset = if coordinates == Coordinates::HalfPixel { step / 2 - ONE / 2 } else { 0 };
    let tap = |v: i64| {
        let p = v * step + offset;
        let (first, second) = ((p / ONE).max(0), ((p + ONE - 1) / ONE).clamp(0, from - 1));
        Tap { pixels: [first.min(from - 1) as usize, second as usize], second: p - ONE * first }
    };
    (0..to).map(tap).collect()
}

/// (C3) Half away from zero.
fn rounded(sum: i64) -> i64 {
    let half = if sum > 0 { 1 << 19 } else { -(1 << 19) };
    (sum + half) / (1 << 20)
}

/// The coordinates of a node whose types have this form.
fn coordinates(cx: &EvalCx, x: &Tensor) -> Result<Option<Coordinates>> {
    let same = cx.in_quant(0).is_some() && cx.in_quant(0) == cx.out_quant(0) && cx.out_dtype(0) == Some(x.dtype());
    let signed = x.dtype().bits() <= 16 && x.dtype().storage_range().is_some_and(|(lo, _)| lo < 0);
    if !same || !signed || cx.attrs().str("mode", "nearest")? != "linear" {
        return Ok(None);
    }
    Ok(match cx.attrs().str("coordinate_transformation_mode", "half_pixel")? {
        "asymmetric" => Some(Coordinates::Asymmetric),
        "half_pixel" => Some(Coordinates::HalfPixel),
        "align_corners" => Some(Coordinates::AlignCorners),
        _ => None,
    })
}

/// Evaluates a node over axes 2 and 3 of `shape`, which is that of the result; `None` where its types have no form here.
pub(crate) fn eval(cx: &EvalCx, shape: &[usize]) -> Result<Option<Tensor>> {
    let x = cx.input(0)?;
    let Some(how) = coordinates(cx, x)? else { return Ok(None) };
    let (&[n, c, h, w], &[on, oc, oh, ow]) = (x.shape(), shape) else { return Ok(None) };
    if (n, c) != (on, oc) {
        return Ok(None);
    }
    if h == 0 || w == 0 || oh == 0 || ow == 0 {
        return Err(Error::invalid(format!("Resize: {:?} cannot become {shape:?}", x.shape())));
    }
    let (rows, columns) = (taps(h, oh, how), taps(w, ow, how));
    let data = x.to_ints()?;
    let mut out = Tensor::buffer(count(shape)?)?;
    for plane in data.chunks_exact(h * w) {
        for row in &rows {
            out.extend(columns.iter().map(|column| pixel(plane, w, *row, *column)));
        }
    }
    Tensor::from_ints(x.dtype(), shape, &out).map(Some)
}

/// (C3) A pixel of a plane of `width` columns.
fn pixel(plane: &[i64], width: usize, row: Tap, column: Tap) -> i64 {
    let line = |y: usize| {
        let at = |i: usize| plane[row.pixels[y] * width + column.pixels[i]];
        at(0) * (ONE - column.second) + at(1) * column.second
    };
    rounded(line(0) * (ONE - row.second) + line(1) * row.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_taps() {
        let tap = |a, b, second| Tap { pixels: [a, b], second };
        assert_eq!(
            taps(2, 4, Coordinates::HalfPixel),
            [tap(0, 0, -256), tap(0, 1, 256), tap(0, 1, 768), tap(1, 1, 256)]
        );
        assert_eq!(taps(2, 4, Coordinates::Asymmetric), [tap(0, 0, 0), tap(0, 1, 512), tap(1, 1, 0), tap(1, 1, 512)]);
        assert_eq!(taps(2, 3, Coordinates::AlignCorners), [tap(0, 0, 0), tap(0, 1, 512), tap(1, 1, 0)]);
        assert_eq!(taps(1, 1, Coordinates::AlignCorners), [tap(0, 0, 0)]);
    }

    #[test]
    fn c3_rounds_half_away_from_zero() {
        let one = 1 << 20;
        assert_eq!([one / 2, -one / 2, one / 2 - 1, 0, 3 * one / 2, -3 * one / 2].map(rounded), [1, -1, 0, 0, 2, -2]);
    }

    #[test]
    fn c3_weights_outside_the_image_cancel() {
        let row = Tap { pixels: [0, 0], second: -256 };
        assert_eq!(pixel(&[7], 1, row, row), 7);
    }
}

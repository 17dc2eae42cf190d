//! From stored rows to an input of the network: the affine map, conversion of types, range checks.
//!
//! A float input takes `x * S + O` in two f32 operations (integers are first rounded to f32). An integer input takes the
//! stored integers as they are, or, with an affine map, the same f32 value rounded to nearest even. A value outside the
//! input's range is an error, never clipped.

use crate::error::{Error, Result, codes};
use ottava_hal::{DataType, Tensor};

/// `real = x * scale + offset`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// Factor.
    pub scale: f32,
    /// Summand.
    pub offset: f32,
}

impl Default for Affine {
    fn default() -> Self {
        Self { scale: 1.0, offset: 0.0 }
    }
}

impl Affine {
    /// Whether it changes nothing.
    pub fn is_identity(self) -> bool {
        self == Self::default()
    }

    fn apply(self, x: f32) -> f32 {
        let product = x * self.scale;
        product + self.offset
    }
}

impl std::str::FromStr for Affine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |s: &str| s.trim().parse::<f32>().ok().filter(|v| v.is_finite());
        let pair = text.split_once(',').and_then(|(s, o)| Some((number(s)?, number(o)?)));
        let (scale, offset) =
            pair.ok_or_else(|| format!("`{text}` is not `SCALE,OFFSET`, for example `0.0078125,-1`"))?;
        Ok(Self { scale, offset })
    }
}

/// Converts rows to an input's element type.
pub fn convert(rows: &Tensor, to: DataType, affine: Affine) -> Result<Tensor> {
    let fail = |e: ottava_hal::Error| Error::invalid(codes::DATA_DTYPE, e.to_string());
    if affine.is_identity() && rows.dtype() == to {
        return Ok(rows.clone());
    }
    if to.is_float() {
        let mut values = rows.to_f32s().map_err(fail)?;
        if !affine.is_identity() {
            values.iter_mut().for_each(|v| *v = affine.apply(*v));
        }
        return Tensor::from_f32s(to, rows.shape(), &values).map_err(fail);
    }
    let ints = if affine.is_identity() {
        rows.to_ints().map_err(|_| {
            Error::invalid(codes::DATA_DTYPE, "the input takes integers, the array holds floats")
                .found(rows.dtype())
                .expected(to)
                .help("store integers, or say how to map them with `--affine S,O`")
        })?
    } else {
        rounded(&rows.to_f32s().map_err(fail)?, affine)?
    };
    check_range(rows.dtype(), to, &ints)?;
    Tensor::from_ints(to, rows.shape(), &ints).map_err(|e| {
        Error::invalid(codes::DATA_RANGE, format!("a value does not fit the input's type {to}: {e}"))
            .help("map the values into the range with `--affine S,O`")
    })
}

fn rounded(values: &[f32], affine: Affine) -> Result<Vec<i64>> {
    let one = |&x: &f32| {
        let y = affine.apply(x).round_ties_even();
        // 2^62 is far outside every range that is checked next, and inside what `as` converts exactly.
        if y.abs() < 4.611_686e18 {
            Ok(y as i64)
        } else {
            Err(Error::invalid(codes::DATA_RANGE, format!("{x} becomes {y}, which is no integer of any input type")))
        }
    };
    values.iter().map(one).collect()
}

/// `Tensor::from_ints` checks types of at most 32 bits; the 64-bit ones can only clash in sign.
fn check_range(from: DataType, to: DataType, ints: &[i64]) -> Result<()> {
    let clash = match (from, to) {
        (DataType::U64, DataType::U64) => false,
        (DataType::U64, _) | (_, DataType::U64) => ints.iter().any(|&v| v < 0),
        _ => false,
    };
    if clash { Err(Error::invalid(codes::DATA_RANGE, format!("a value of {from} does not fit {to}"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_input_takes_two_f32_operations() {
        let x = Tensor::from_slice(&[3], &[-128i8, 0, 100]).unwrap();
        let y = convert(&x, DataType::F32, "0.58470291,-48.53034153".parse().unwrap()).unwrap();
        let (s, o): (f32, f32) = ("0.58470291".parse().unwrap(), "-48.53034153".parse().unwrap());
        assert_eq!(y.as_slice::<f32>().unwrap(), [-128.0 * s + o, o, 100.0 * s + o]);
    }

    #[test]
    fn an_integer_input_is_rounded_to_nearest_even_and_checked() {
        let x = Tensor::from_slice(&[3], &[0u8, 255, 128]).unwrap();
        let y = convert(&x, DataType::S8, "1,-128".parse().unwrap()).unwrap();
        assert_eq!(y.to_ints().unwrap(), [-128, 127, 0]);
        let halves = convert(&Tensor::from_slice(&[2], &[1u8, 3]).unwrap(), DataType::U8, "0.5,0".parse().unwrap());
        assert_eq!(halves.unwrap().to_ints().unwrap(), [0, 2]);
        let e = convert(&x, DataType::S8, Affine::default()).unwrap_err();
        assert!(e.to_string().contains("255 is outside -128..127 of s8"), "{e}");
    }

    #[test]
    fn floats_do_not_slip_into_integer_inputs() {
        let x = Tensor::from_slice(&[1], &[1.0f32]).unwrap();
        assert!(convert(&x, DataType::U8, Affine::default()).unwrap_err().to_string().contains("takes integers"));
        let nan = Tensor::from_slice(&[1], &[f32::NAN]).unwrap();
        assert!(convert(&nan, DataType::U8, "2,0".parse().unwrap()).is_err());
        let big = Tensor::from_slice(&[1], &[u64::MAX]).unwrap();
        assert!(convert(&big, DataType::S64, Affine::default()).is_err());
    }

    #[test]
    fn affine_text_is_two_finite_numbers() {
        assert_eq!("2,-1".parse(), Ok(Affine { scale: 2.0, offset: -1.0 }));
        for bad in ["", "1", "1,x", "nan,0", "1,inf"] {
            assert!(bad.parse::<Affine>().is_err(), "{bad}");
        }
    }
}

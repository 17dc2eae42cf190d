//! In which form a value lies in memory while a program runs.
//!
//! Outside, tensors are row-major and s8 is two's complement. Inside,
//! * image-like values (rank 3 and up) may be channels-last: `[n, c, s]` becomes `[n, s, c]`, `s` all spatial axes;
//! * quantized s8 may be *flipped*: each byte XOR 0x80, which is u8 with a zero point 128 higher. Kernels then see only u8.
//!
//! A form is normal when it says no more than needed: where both layouts have the same bytes it is row-major.

use ottava_hal::{DataType, Error, Reason, Result, TensorType};

/// Layout and sign convention of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Form {
    /// Channels last.
    pub(crate) nhwc: bool,
    /// Quantized s8 stored as u8.
    pub(crate) flipped: bool,
}

impl Form {
    /// How a caller sees every value.
    pub(crate) const OUTSIDE: Self = Self { nhwc: false, flipped: false };

    /// The internal form of a type in a layout.
    pub(crate) fn inside(ty: &TensorType, nhwc: bool) -> Self {
        Self { nhwc, flipped: flips(ty) }.normal(ty)
    }

    /// The same bytes, said in the simplest way.
    pub(crate) fn normal(self, ty: &TensorType) -> Self {
        let same_bytes = channels_first(ty).is_none_or(|[_, c, s]| c == 1 || s == 1);
        Self { nhwc: self.nhwc && !same_bytes, flipped: self.flipped && flips(ty) }
    }

    /// Conversions between two forms.
    pub(crate) fn distance(self, other: Self) -> u8 {
        u8::from(self.nhwc != other.nhwc) + u8::from(self.flipped != other.flipped)
    }
}

/// Whether values of this type are held as u8 inside.
pub(crate) fn flips(ty: &TensorType) -> bool {
    ty.dtype == DataType::S8 && ty.quant.is_some()
}

/// `[n, c, s]` of an image-like shape.
pub(crate) fn channels_first(ty: &TensorType) -> Option<[usize; 3]> {
    match ty.shape.known()?.as_slice() {
        [n, c, rest @ ..] if !rest.is_empty() => {
            let s = rest.iter().try_fold(1usize, |s, &d| s.checked_mul(d))?;
            Some([*n, *c, s])
        }
        _ => None,
    }
}

/// Extents of a type; the capability has refused symbolic shapes before.
pub(crate) fn dims(ty: &TensorType) -> Result<Vec<usize>> {
    let dynamic = || Error::unsupported(Reason::DynamicShape, format!("{ty}: bind the symbols before compiling"));
    let dims = ty.shape.known().ok_or_else(dynamic)?;
    ty.byte_len().map(|_| dims).ok_or_else(|| Error::unsupported(Reason::Memory, format!("{ty} is too large")))
}

/// Extents in the order in which they lie in memory.
pub(crate) fn stored_dims(ty: &TensorType, form: Form) -> Result<Vec<usize>> {
    let mut dims = dims(ty)?;
    if form.nhwc && dims.len() >= 3 {
        dims[1..].rotate_left(1);
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::QuantParams;

    #[test]
    fn equal_bytes_have_one_form() {
        let wide = |d: &[usize]| Form { nhwc: true, flipped: false }.normal(&TensorType::fixed(DataType::F32, d)).nhwc;
        assert!(wide(&[1, 2, 3, 3]) && wide(&[1, 2, 3]));
        assert!(!wide(&[4, 1, 3, 3]) && !wide(&[4, 8, 1, 1]) && !wide(&[4, 8]));
    }

    #[test]
    fn only_quantized_s8_is_flipped() {
        let s8 = TensorType::fixed(DataType::S8, &[2]);
        assert!(!Form::inside(&s8, false).flipped);
        assert!(Form::inside(&s8.quantized(QuantParams::per_tensor(1.0, 0)), false).flipped);
    }

    #[test]
    fn stored_dims_move_the_channels_back() {
        let ty = TensorType::fixed(DataType::F32, &[1, 2, 3, 4]);
        assert_eq!(stored_dims(&ty, Form { nhwc: true, flipped: false }).unwrap(), [1, 3, 4, 2]);
        assert_eq!(stored_dims(&ty, Form::OUTSIDE).unwrap(), [1, 2, 3, 4]);
    }
}

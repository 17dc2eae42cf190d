//! f16 and bf16 bit patterns to f32: exact, NaN stays NaN (quiet), as `vcvtph2ps` does it.

/// The value of an f16.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7FFF);
    if magnitude >= 0x7C00 {
        let quiet = if magnitude > 0x7C00 { 0x0040_0000 } else { 0 };
        return f32::from_bits(sign | 0x7F80_0000 | (magnitude & 0x3FF) << 13 | quiet);
    }
    // Exponent and mantissa in place, then the difference of the exponent biases as an exact product; denormals come out right too.
    let value = f32::from_bits(magnitude << 13) * f32::from_bits((254 - 15) << 23);
    f32::from_bits(value.to_bits() | sign)
}

/// The value of a bf16; NaN patterns keep their bits.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The f16 of exactly this value, if there is one; NaN has none.
#[inline]
pub(crate) fn exact_f16(value: f32) -> Option<u16> {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    // Dividing by the factor of `f16_to_f32` is exact or rounds; what has been rounded does not come back equal.
    let scaled = f32::from_bits(value.to_bits() & 0x7FFF_FFFF) * f32::from_bits((127 - 112) << 23);
    let bits = match scaled.to_bits() >> 13 {
        inside @ 0..=0x7BFF => sign | inside as u16,
        _ => sign | 0x7C00,
    };
    (f16_to_f32(bits).to_bits() == value.to_bits()).then_some(bits)
}

/// The bf16 of exactly this value, if there is one; NaN has none.
#[inline]
pub(crate) fn exact_bf16(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    (bits & 0xFFFF == 0 && !value.is_nan()).then_some((bits >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition of the format.
    fn slow(bits: u16) -> f64 {
        let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
        let value = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            e => (1.0 + mantissa / 1024.0) * 2f64.powi(e - 15),
        };
        if bits & 0x8000 == 0 { value } else { -value }
    }

    #[test]
    fn every_f16() {
        for bits in 0..=u16::MAX {
            let (got, want) = (f16_to_f32(bits), slow(bits) as f32);
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:#06x}: {got} {want}");
        }
    }

    #[test]
    fn exact_values_come_back_and_others_are_refused() {
        for bits in (0..=u16::MAX).filter(|bits| !f16_to_f32(*bits).is_nan()) {
            let value = f16_to_f32(bits);
            assert_eq!(exact_f16(value), Some(bits));
            if value.is_finite() {
                assert_eq!(exact_f16(f32::from_bits(value.to_bits() + 1)), None, "{bits:#06x}");
            }
        }
        assert_eq!([65520.0, 1e-9, f32::NAN, f32::from_bits(1)].map(exact_f16), [None; 4]);
        assert_eq!(exact_bf16(-1.5), Some(0xBFC0));
        assert_eq!([1.0 + f32::EPSILON, f32::NAN].map(exact_bf16), [None; 2]);
    }

    #[test]
    fn bf16_is_the_upper_half() {
        for value in [0.0, -0.0, 1.0, -2.5, f32::INFINITY, f32::from_bits(0x0001_0000)] {
            assert_eq!(bf16_to_f32((value.to_bits() >> 16) as u16).to_bits(), value.to_bits());
        }
    }
}

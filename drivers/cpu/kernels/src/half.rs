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
    fn bf16_is_the_upper_half() {
        for value in [0.0, -0.0, 1.0, -2.5, f32::INFINITY, f32::from_bits(0x0001_0000)] {
            assert_eq!(bf16_to_f32((value.to_bits() >> 16) as u16).to_bits(), value.to_bits());
        }
    }
}

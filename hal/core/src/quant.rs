//! Quantization parameters, a part of a tensor's type (numerics.md section 1).

use crate::DataType;

/// How many scales a tensor has, and along which axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// One scale and zero point for the whole tensor.
    PerTensor,
    /// One scale and zero point per index of `axis`.
    PerAxis {
        /// Non-negative axis.
        axis: usize,
    },
    /// One scale and zero point per `block` consecutive elements along `axis`.
    Blocked {
        /// Non-negative axis.
        axis: usize,
        /// Elements that share one scale.
        block: usize,
    },
}

/// `real = (q - zero_point) * scale`; the storage is the tensor's element type.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantParams {
    /// Granularity.
    pub scheme: Scheme,
    /// Finite and positive; length by scheme.
    pub scales: Vec<f32>,
    /// As many as scales.
    pub zero_points: Vec<i32>,
}

impl QuantParams {
    /// One scale for the whole tensor.
    pub fn per_tensor(scale: f32, zero_point: i32) -> Self {
        Self { scheme: Scheme::PerTensor, scales: vec![scale], zero_points: vec![zero_point] }
    }

    /// One scale per index of `axis`, all zero points 0.
    pub fn per_axis_symmetric(axis: usize, scales: Vec<f32>) -> Self {
        let zero_points = vec![0; scales.len()];
        Self { scheme: Scheme::PerAxis { axis }, scales, zero_points }
    }

    /// Scale and zero point of a per-tensor quantization.
    pub fn as_per_tensor(&self) -> Option<(f32, i32)> {
        match (self.scheme, self.scales.as_slice(), self.zero_points.as_slice()) {
            (Scheme::PerTensor, &[s], &[z]) => Some((s, z)),
            _ => None,
        }
    }

    /// Whether every zero point is the neutral one of `storage` (0, 128 for u8, 32768 for u16).
    pub fn is_symmetric(&self, storage: DataType) -> bool {
        let neutral = match storage {
            DataType::U8 => 128,
            DataType::U16 => 32768,
            _ => 0,
        };
        self.zero_points.iter().all(|&z| z == neutral)
    }

    /// Scale and zero point of channel `c` (the same for all channels of a per-tensor quantization).
    ///
    /// # Panics
    /// Only if `c` is outside the axis, which [`QuantParams::check`] rules out.
    pub fn channel(&self, c: usize) -> (f32, i32) {
        let i = if self.scales.len() == 1 { 0 } else { c };
        (self.scales[i], self.zero_points[i])
    }

    /// Number of scales that `scheme` asks for on a tensor of this shape.
    pub fn expected_len(&self, shape: &[usize]) -> Option<usize> {
        match self.scheme {
            Scheme::PerTensor => Some(1),
            Scheme::PerAxis { axis } => shape.get(axis).copied(),
            Scheme::Blocked { axis, block } => {
                let n_blocks = shape.get(axis)?.div_ceil(block.max(1));
                let others = shape.iter().enumerate().filter(|(i, _)| *i != axis);
                others.map(|(_, &n)| n).try_fold(n_blocks, usize::checked_mul)
            }
        }
    }

    /// Checks scales, zero points and lengths against a storage type and, where it is known, a shape.
    /// The error names what was found and what was expected.
    pub fn check(&self, storage: DataType, shape: Option<&[usize]>) -> Result<(), String> {
        let Some((lo, hi)) = storage.storage_range() else {
            return Err(format!("{storage} cannot hold quantized values; use an integer type of at most 32 bits"));
        };
        if self.scales.len() != self.zero_points.len() {
            return Err(format!("{} scales but {} zero points", self.scales.len(), self.zero_points.len()));
        }
        if let Some(shape) = shape {
            let expected = self.expected_len(shape);
            if expected != Some(self.scales.len()) {
                let n = self.scales.len();
                return Err(format!(
                    "{n} scales do not fit {:?} on shape {shape:?} (expected {expected:?})",
                    self.scheme
                ));
            }
        }
        if let Some((i, s)) = self.scales.iter().enumerate().find(|(_, s)| !(s.is_finite() && **s > 0.0)) {
            return Err(format!("scale {i} is {s}; scales must be finite and greater than 0"));
        }
        if let Some((i, z)) = self.zero_points.iter().enumerate().find(|(_, z)| **z < lo || **z > hi) {
            return Err(format!("zero point {i} is {z}, outside {lo}..{hi} of {storage}"));
        }
        if storage == DataType::S32 && self.zero_points.iter().any(|&z| z != 0) {
            return Err("an s32 tensor must have zero point 0".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_names_what_is_wrong() {
        let message = |q: QuantParams, t| q.check(t, Some(&[4, 2])).unwrap_err();
        assert!(message(QuantParams::per_tensor(0.0, 0), DataType::S8).contains("scale 0 is 0"));
        assert!(message(QuantParams::per_tensor(1.0, 128), DataType::S8).contains("zero point 0 is 128"));
        assert!(message(QuantParams::per_axis_symmetric(0, vec![1.0; 3]), DataType::S8).contains("expected Some(4)"));
        assert!(message(QuantParams::per_tensor(1.0, 0), DataType::F32).contains("f32 cannot hold"));
        assert!(message(QuantParams::per_tensor(1.0, 1), DataType::S32).contains("zero point 0"));
    }

    #[test]
    fn blocked_scales_are_counted_over_rounded_up_blocks() {
        let q = QuantParams { scheme: Scheme::Blocked { axis: 1, block: 2 }, scales: vec![], zero_points: vec![] };
        assert_eq!(q.expected_len(&[3, 5]), Some(9));
    }
}

//! The error of one value, summed over batches.

use crate::{Error, Result, Sums};
use ottava_hal::{DataType, QuantParams, Scheme, Tensor, TensorType};

/// What there is to say about one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Name of the value.
    pub name: String,
    /// Operator that computes it.
    pub op: String,
    /// Element type in the network under test.
    pub dtype: DataType,
    /// Signal-to-noise ratio against the float network, decibel; infinite where both are equal.
    pub sqnr_db: f64,
    /// Cosine of the angle between both.
    pub cosine: f64,
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Share of the integers that stand at the least value of their storage for a float below it; 0 for floats.
    pub saturated_low: f64,
    /// Share of the integers that stand at the greatest value of their storage for a float above it; 0 for floats.
    pub saturated_high: f64,
    /// Whether a device computed the same bits as the reference; `None` if no device was asked.
    pub bit_equal: Option<bool>,
}

/// Takes the tensors of one value, batch by batch.
#[derive(Debug, Clone)]
pub struct LayerAccumulator {
    name: String,
    op: String,
    ty: TensorType,
    sums: Sums,
    low: u64,
    high: u64,
    bit_equal: Option<bool>,
}

impl LayerAccumulator {
    /// For a value of this name and type in the network under test, computed by `op`.
    pub fn new(name: impl Into<String>, op: impl Into<String>, ty: TensorType) -> Self {
        let (name, op, sums) = (name.into(), op.into(), Sums::default());
        Self { name, op, ty, sums, low: 0, high: 0, bit_equal: None }
    }

    /// Name of the value.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the value's data in the network under test and in the float network.
    pub fn add(&mut self, tested: &Tensor, reference: &Tensor) -> Result<()> {
        let fail = |source| Error::Tensor { name: self.name.clone(), source };
        let real = real_values(tested, self.ty.quant.as_deref()).map_err(fail)?;
        let float = reference.to_f32s().map_err(fail)?;
        if real.len() != float.len() {
            return Err(Error::Size { name: self.name.clone(), tested: real.len(), reference: float.len() });
        }
        if let (Some((lo, hi)), true) = (tested.dtype().storage_range(), self.ty.quant.is_some()) {
            // A float that the bound stands for exactly, as the zeros of a ReLU, is not clipped.
            for (v, (real, float)) in tested.to_ints().map_err(fail)?.into_iter().zip(real.iter().zip(&float)) {
                self.low += u64::from(v == i64::from(lo) && float < real);
                self.high += u64::from(v == i64::from(hi) && float > real);
            }
        }
        self.sums.add(&float, &real);
        Ok(())
    }

    /// Adds what a device computed for the value, beside what the reference computed.
    pub fn add_device(&mut self, device: &Tensor, reference: &Tensor) {
        let same = device.dtype() == reference.dtype()
            && device.shape() == reference.shape()
            && device.bytes() == reference.bytes();
        self.bit_equal = Some(self.bit_equal.unwrap_or(true) && same);
    }

    /// The figures.
    pub fn finish(self) -> Layer {
        let share = |count: u64| if self.sums.n == 0 { 0.0 } else { count as f64 / self.sums.n as f64 };
        Layer {
            sqnr_db: self.sums.sqnr_db(),
            cosine: self.sums.cosine(),
            max_abs: self.sums.max_abs,
            saturated_low: share(self.low),
            saturated_high: share(self.high),
            bit_equal: self.bit_equal,
            dtype: self.ty.dtype,
            name: self.name,
            op: self.op,
        }
    }
}

/// The real values that a tensor stands for.
pub fn real_values(tensor: &Tensor, quant: Option<&QuantParams>) -> ottava_hal::Result<Vec<f32>> {
    let Some(params) = quant else { return tensor.to_f32s() };
    params.check(tensor.dtype(), Some(tensor.shape())).map_err(ottava_hal::Error::Invalid)?;
    let index = channel_index(params, tensor.shape());
    let real = |(i, &q): (usize, &i64)| {
        let c = index(i);
        ottava_hal::refmath::quantize::dequantize(q as i32, params.zero_points[c], params.scales[c])
    };
    Ok(tensor.to_ints()?.iter().enumerate().map(real).collect())
}

/// Index of the scale of element `i`.
fn channel_index(params: &QuantParams, shape: &[usize]) -> impl Fn(usize) -> usize + use<> {
    let (axis, block) = match params.scheme {
        Scheme::PerTensor => (None, 1),
        Scheme::PerAxis { axis } => (Some(axis), 1),
        Scheme::Blocked { axis, block } => (Some(axis), block.max(1)),
    };
    let blocked = matches!(params.scheme, Scheme::Blocked { .. });
    let inner: usize = axis.map_or(1, |a| shape[a + 1..].iter().product());
    let extent = axis.map_or(1, |a| shape[a]);
    move |i| {
        if axis.is_none() {
            return 0;
        }
        let along = (i / inner) % extent / block;
        if !blocked {
            return along;
        }
        let outer = i / (inner * extent);
        (outer * extent.div_ceil(block) + along) * inner + i % inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u8_type(scale: f32, zp: i32) -> TensorType {
        TensorType::fixed(DataType::U8, &[4]).quantized(QuantParams::per_tensor(scale, zp))
    }

    #[test]
    fn a_value_at_the_bound_is_clipped_only_if_the_float_lies_beyond() {
        let mut layer = LayerAccumulator::new("y", "Relu", u8_type(0.5, 0));
        let q = Tensor::from_slice(&[4], &[0u8, 0, 255, 255]).unwrap();
        layer.add(&q, &Tensor::from_slice(&[4], &[0.0f32, -3.0, 127.5, 127.25]).unwrap()).unwrap();
        let done = layer.finish();
        assert_eq!((done.saturated_low, done.saturated_high), (0.25, 0.0));
    }

    #[test]
    fn a_quantized_value_is_compared_as_the_reals_it_stands_for() {
        let mut layer = LayerAccumulator::new("y", "Conv", u8_type(0.5, 128));
        let q = Tensor::from_slice(&[4], &[0u8, 128, 130, 255]).unwrap();
        let float = Tensor::from_slice(&[4], &[-64.0f32, 0.0, 1.25, 63.5]).unwrap();
        layer.add(&q, &float).unwrap();
        let done = layer.finish();
        assert_eq!((done.saturated_low, done.saturated_high, done.max_abs), (0.0, 0.0, 0.25));
        let signal: f64 = 64.0 * 64.0 + 1.25 * 1.25 + 63.5 * 63.5;
        assert!((done.sqnr_db - 10.0 * (signal / 0.0625).log10()).abs() < 1e-9);
        assert_eq!(done.bit_equal, None);
    }

    #[test]
    fn one_different_bit_in_one_batch_is_not_bit_equal() {
        let mut layer = LayerAccumulator::new("y", "Conv", u8_type(1.0, 0));
        let (a, b) = (Tensor::from_slice(&[1], &[1u8]).unwrap(), Tensor::from_slice(&[1], &[2u8]).unwrap());
        layer.add_device(&a, &a);
        layer.add_device(&a, &b);
        layer.add_device(&b, &b);
        assert_eq!(layer.finish().bit_equal, Some(false));
    }

    #[test]
    fn sizes_must_agree() {
        let mut layer = LayerAccumulator::new("y", "Conv", u8_type(1.0, 0));
        let q = Tensor::from_slice(&[4], &[0u8; 4]).unwrap();
        let e = layer.add(&q, &Tensor::scalar(0.0f32)).unwrap_err();
        assert!(e.to_string().contains("value `y`: 4 elements"), "{e}");
    }

    #[test]
    fn scales_follow_the_axis() {
        let q = Tensor::from_slice(&[2, 2, 2], &[1i8; 8]).unwrap();
        let params = QuantParams::per_axis_symmetric(1, vec![1.0, 10.0]);
        assert_eq!(real_values(&q, Some(&params)).unwrap(), [1.0, 1.0, 10.0, 10.0, 1.0, 1.0, 10.0, 10.0]);
        let blocked = QuantParams {
            scheme: Scheme::Blocked { axis: 0, block: 2 },
            scales: vec![1.0, 2.0, 3.0, 4.0],
            zero_points: vec![0; 4],
        };
        let q = Tensor::from_slice(&[3, 2], &[1i8; 6]).unwrap();
        assert_eq!(real_values(&q, Some(&blocked)).unwrap(), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0]);
    }
}

//! Quantization parameters that arrive as tensors: the scale and zero point inputs of QuantizeLinear and its kin.

use ottava_hal::{DataType, Error, QuantParams, Result, Scheme, Tensor};

/// Scale and zero point inputs as parameters of a tensor of `dtype`. One scale means per tensor, otherwise `scheme`
/// says what the list is for. A missing zero point is 0.
pub(crate) fn from_tensors(
    scale: &Tensor,
    zero_point: Option<&Tensor>,
    dtype: DataType,
    scheme: Scheme,
) -> Result<QuantParams> {
    if !scale.dtype().is_float() {
        return Err(Error::invalid(format!("a scale of type {} must be a float", scale.dtype())));
    }
    let scales = scale.to_f32s()?;
    let zero_points = match zero_point {
        Some(z) if z.dtype() != dtype => {
            return Err(Error::invalid(format!(
                "the zero point is {}, its tensor {dtype}; they must agree",
                z.dtype()
            )));
        }
        Some(z) => zero_points(z, scales.len())?,
        None => vec![0; scales.len()],
    };
    let scheme = if scales.len() == 1 && scale.shape().len() <= 1 { Scheme::PerTensor } else { scheme };
    let params = QuantParams { scheme, scales, zero_points };
    params.check(dtype, None).map_err(Error::Invalid)?;
    Ok(params)
}

/// As many zero points as scales; one repeats.
fn zero_points(z: &Tensor, n: usize) -> Result<Vec<i32>> {
    let values: Vec<i32> = z.to_ints()?.into_iter().map(|v| v as i32).collect();
    match values[..] {
        [one] => Ok(vec![one; n]),
        _ if values.len() == n => Ok(values),
        _ => Err(Error::invalid(format!("{} zero points for {n} scales", values.len()))),
    }
}

/// Per-tensor parameters; a longer list is an error that names what it belongs to.
pub(crate) fn per_tensor(scale: &Tensor, zero_point: Option<&Tensor>, dtype: DataType) -> Result<QuantParams> {
    if scale.elements() != 1 {
        return Err(Error::unsupported(
            ottava_hal::Reason::QuantScheme,
            format!("{} scales where one scale per tensor is supported", scale.elements()),
        ));
    }
    from_tensors(&scale.reshaped(&[])?, zero_point, dtype, Scheme::PerTensor)
}

//! Tensors of a TFLite file as types and data of the graph.

use super::cx::Layout;
use super::flatbuffer::Budget;
use super::schema::{Quantization, TensorDef};
use crate::onnx::raw::Refusal;
use ottava_hal::{DataType, Dim, QuantParams, Scheme, Shape, Tensor, TensorType};

/// Names of the element types by their number in the schema.
const ELEMENTS: &[&str] = &[
    "FLOAT32",
    "FLOAT16",
    "INT32",
    "UINT8",
    "INT64",
    "STRING",
    "BOOL",
    "INT16",
    "COMPLEX64",
    "INT8",
    "FLOAT64",
    "COMPLEX128",
    "UINT64",
    "RESOURCE",
    "VARIANT",
    "UINT32",
    "UINT16",
    "INT4",
    "BFLOAT16",
    "INT2",
    "UINT4",
];

/// The element type of a number in the schema.
pub(crate) fn element(number: i8) -> Result<DataType, Refusal> {
    Ok(match number {
        0 => DataType::F32,
        1 => DataType::F16,
        2 => DataType::S32,
        3 => DataType::U8,
        4 => DataType::S64,
        6 => DataType::Bool,
        7 => DataType::S16,
        9 => DataType::S8,
        10 => DataType::F64,
        12 => DataType::U64,
        15 => DataType::U32,
        16 => DataType::U16,
        17 => DataType::S4,
        18 => DataType::BF16,
        20 => DataType::U4,
        _ => {
            let name = usize::try_from(number).ok().and_then(|i| ELEMENTS.get(i)).copied();
            let name = name.map_or_else(|| format!("number {number}"), str::to_owned);
            return Refusal::unsupported(format!(
                "the element type {name}; floats, booleans and integers of 4 to 64 bits are supported"
            ));
        }
    })
}

/// The extents of a tensor that is not open.
pub(crate) fn extents(def: &TensorDef<'_>) -> Result<Vec<usize>, Refusal> {
    let extent = |d: &i32| usize::try_from(*d).ok();
    let dims: Option<Vec<usize>> = def.shape.iter().map(extent).collect();
    dims.ok_or_else(|| Refusal::Invalid(format!("tensor `{}` has the shape {:?}", def.name, def.shape)))
}

/// The type of a tensor; `open` names an open extent by its axis.
pub(crate) fn ty(def: &TensorDef<'_>, open: Option<&dyn Fn(usize) -> String>) -> Result<TensorType, Refusal> {
    let dtype = element(def.element).map_err(|e| e.at(&format!("tensor `{}`", def.name)))?;
    let known = extents(def)?;
    let is_open = |axis: usize| def.signature.len() == known.len() && def.signature[axis] < 0;
    let dim = |(axis, n): (usize, usize)| match open {
        Some(name) if is_open(axis) => Dim::Sym(name(axis).into()),
        _ => Dim::Known(n),
    };
    let shape = Shape(known.iter().copied().enumerate().map(dim).collect());
    let ty = TensorType::new(dtype, shape);
    Ok(match params(def)? {
        Some(params) => ty.quantized(params),
        None => ty,
    })
}

/// The quantization of a tensor; `None` where its elements are numbers themselves.
pub(crate) fn params(def: &TensorDef<'_>) -> Result<Option<QuantParams>, Refusal> {
    let Some(quant) = &def.quant else { return Ok(None) };
    let dtype = element(def.element)?;
    if dtype.is_float() || dtype == DataType::Bool || dtype.bits() == 64 {
        return Ok(None);
    }
    let at = |what: String| format!("tensor `{}`: {what}", def.name);
    if quant.is_other {
        return Refusal::unsupported(at(
            "a quantization other than one scale per tensor or per index of an axis".into()
        ));
    }
    let params = from_file(quant).map_err(|what| Refusal::Invalid(at(what)))?;
    params.check(dtype, Some(&extents(def)?)).map_err(|what| Refusal::Invalid(at(what)))?;
    Ok(Some(params))
}

fn from_file(quant: &Quantization) -> Result<QuantParams, String> {
    let n = quant.scales.len();
    let zero = |z: &i64| i32::try_from(*z).map_err(|_| format!("the zero point {z} does not fit 32 bits"));
    let mut zero_points = quant.zero_points.iter().map(zero).collect::<Result<Vec<_>, _>>()?;
    match zero_points[..] {
        [] => zero_points = vec![0; n],
        [one] => zero_points = vec![one; n],
        _ => {}
    }
    let axis = usize::try_from(quant.axis).map_err(|_| format!("the quantized dimension is {}", quant.axis))?;
    let scheme = if n == 1 { Scheme::PerTensor } else { Scheme::PerAxis { axis } };
    Ok(QuantParams { scheme, scales: quant.scales.clone(), zero_points })
}

/// The data of a constant, checked against type and shape and charged to the budget.
pub(crate) fn data(def: &TensorDef<'_>, budget: &Budget) -> Result<Tensor, Refusal> {
    let place = |e: Refusal| e.at(&format!("constant `{}`", def.name));
    if def.is_sparse {
        return Refusal::unsupported(format!("constant `{}` is sparse; dense constants are supported", def.name));
    }
    if !budget.take(def.data.len()) {
        let what = "so many constants share one buffer that they take many times the size of the file";
        return Err(place(Refusal::Invalid(what.into())));
    }
    let (dtype, shape) = (element(def.element).map_err(place)?, extents(def)?);
    Tensor::from_bytes(dtype, &shape, def.data).map_err(|e| place(e.into()))
}

/// The axes of an image-like tensor in another layout.
pub(crate) fn permuted<T: Clone>(dims: &[T], layout: Layout) -> Vec<T> {
    match (layout, dims) {
        (Layout::Image, [n, h, w, c]) => vec![n.clone(), c.clone(), h.clone(), w.clone()],
        _ => dims.to_vec(),
    }
}

/// A tensor with its axes permuted; nibbles are widened on the way.
pub(crate) fn transpose(x: &Tensor, perm: &[usize]) -> Result<Tensor, Refusal> {
    if x.shape().len() != perm.len() {
        return Refusal::invalid(format!("a constant has the shape {:?}; {} axes are expected", x.shape(), perm.len()));
    }
    let shape: Vec<usize> = perm.iter().map(|&a| x.shape()[a]).collect();
    let steps: Vec<usize> = perm.iter().map(|&a| x.shape()[a + 1..].iter().product()).collect();
    let order = order(&shape, &steps, x.elements());
    if x.dtype().bits() < 8 {
        let from = x.to_ints()?;
        let moved: Vec<i64> = order.iter().map(|&i| from[i]).collect();
        return Ok(Tensor::from_ints(x.dtype(), &shape, &moved)?);
    }
    let width = x.dtype().bits() / 8;
    let mut y = Tensor::zeros(x.dtype(), &shape)?;
    for (to, &i) in y.bytes_mut().chunks_exact_mut(width).zip(&order) {
        to.copy_from_slice(&x.bytes()[i * width..][..width]);
    }
    Ok(y)
}

/// The index of the source element of every element of the result.
fn order(shape: &[usize], steps: &[usize], n: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    let mut order = Vec::with_capacity(n);
    for _ in 0..n {
        order.push(at);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= steps[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_no_image() {
        let e = transpose(&Tensor::scalar(1.0f32), &[0, 3, 1, 2]).unwrap_err();
        assert!(matches!(&e, Refusal::Invalid(what) if what.contains("4 axes are expected")), "{e:?}");
    }
}

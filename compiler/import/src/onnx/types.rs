//! Declared types of values (`ValueInfoProto`) as tensor types.
use super::elem::ElemType;
use super::proto::tensor_shape_proto::dimension::Value as DimValue;
use super::proto::type_proto::{Tensor as TensorProtoType, Value as Kind};
use super::proto::{TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto::Dimension};
use super::raw::Refusal;
use ottava_hal::{DataType, Dim, Shape, TensorType};

/// Dimensions that a declared shape may have.
const MAX_RANK: usize = 32;

/// The declared tensor type; `None` where the file declares none, or no shape. Types that are no dense tensors
/// are refused by name. An unnamed dimension of value `x` becomes the symbol that `unnamed` makes of its axis.
pub(crate) fn read(info: &ValueInfoProto, unnamed: impl Fn(usize) -> String) -> Result<Option<TensorType>, Refusal> {
    let Some(kind) = info.r#type.as_ref().and_then(|t| t.value.as_ref()) else { return Ok(None) };
    let Kind::TensorType(tensor) = kind else {
        return Refusal::unsupported(format!(
            "value `{}` is {}; only dense tensors are supported",
            info.name,
            what(kind)
        ));
    };
    let dtype = dtype(&info.name, tensor.elem_type)?;
    let Some(shape) = &tensor.shape else { return Ok(None) };
    if shape.dim.len() > MAX_RANK {
        let n = shape.dim.len();
        return Refusal::invalid(format!("value `{}` has {n} dimensions; at most {MAX_RANK} are supported", info.name));
    }
    let dims = shape.dim.iter().enumerate().map(|(axis, d)| dim(&info.name, axis, d, &unnamed));
    Ok(Some(TensorType::new(dtype, Shape(dims.collect::<Result<_, _>>()?))))
}

/// The declared element type, where there is one that the graph has.
pub(crate) fn element_type(info: &ValueInfoProto) -> Option<DataType> {
    match info.r#type.as_ref()?.value.as_ref()? {
        Kind::TensorType(tensor) => ElemType::from_code(tensor.elem_type)?.dtype(),
        _ => None,
    }
}

fn dtype(name: &str, code: i32) -> Result<DataType, Refusal> {
    let Some(elem) = ElemType::from_code(code) else {
        return Refusal::invalid(format!("value `{name}` has element type {code}; expected 1 (FLOAT) to 26 (INT2)"));
    };
    match elem.dtype() {
        Some(dtype) => Ok(dtype),
        None => {
            Refusal::unsupported(format!("value `{name}` has element type {}, which is not supported", elem.name()))
        }
    }
}

fn dim(name: &str, axis: usize, dim: &Dimension, unnamed: &impl Fn(usize) -> String) -> Result<Dim, Refusal> {
    match &dim.value {
        Some(DimValue::DimValue(n)) if *n >= 0 => match usize::try_from(*n) {
            Ok(n) => Ok(Dim::Known(n)),
            Err(_) => {
                Refusal::invalid(format!("dimension {axis} of value `{name}` is {n}, too large for this machine"))
            }
        },
        // Some exporters write -1 for a dimension that is open.
        Some(DimValue::DimValue(-1)) | None => Ok(Dim::Sym(unnamed(axis).into())),
        Some(DimValue::DimValue(n)) => {
            Refusal::invalid(format!("dimension {axis} of value `{name}` is {n}; expected 0 or more"))
        }
        // Some exporters write `?` on every open axis, whatever their sizes: only a name says that two are equal.
        Some(DimValue::DimParam(symbol)) if !is_name(symbol) => Ok(Dim::Sym(unnamed(axis).into())),
        Some(DimValue::DimParam(symbol)) => Ok(Dim::Sym(symbol.as_str().into())),
    }
}

/// Whether a symbol names a size: it has a letter or a digit (`N`, `batch_size`, `2*N`).
fn is_name(symbol: &str) -> bool {
    symbol.chars().any(char::is_alphanumeric)
}

fn what(kind: &Kind) -> &'static str {
    match kind {
        Kind::TensorType(_) => "a tensor",
        Kind::SequenceType(_) => "a sequence",
        Kind::MapType(_) => "a map",
        Kind::SparseTensorType(_) => "a sparse tensor",
        Kind::OptionalType(_) => "an optional value",
    }
}

/// The stored form; of an unknown rank without a shape. A symbol that inference made up (it has a `:`) is written as an unnamed dimension.
pub(crate) fn write(name: &str, ty: &TensorType) -> ValueInfoProto {
    let dim = |d: &Dim| {
        let value = match d {
            Dim::Known(n) => Some(DimValue::DimValue(i64::try_from(*n).unwrap_or(i64::MAX))),
            Dim::Sym(s) if s.contains(':') => None,
            Dim::Sym(s) => Some(DimValue::DimParam(s.to_string())),
        };
        Dimension { value, ..Default::default() }
    };
    let shape = (!ty.is_unranked()).then(|| TensorShapeProto { dim: ty.shape.0.iter().map(dim).collect() });
    let tensor = TensorProtoType { elem_type: ElemType::of(ty.dtype).code(), shape };
    let ty = TypeProto { value: Some(Kind::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: name.to_owned(), r#type: Some(ty), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::type_proto::Sequence;

    fn info(elem_type: i32, dims: Vec<Option<DimValue>>) -> ValueInfoProto {
        let dim = dims.into_iter().map(|value| Dimension { value, ..Default::default() }).collect();
        let tensor = TensorProtoType { elem_type, shape: Some(TensorShapeProto { dim }) };
        let ty = TypeProto { value: Some(Kind::TensorType(tensor)), ..Default::default() };
        ValueInfoProto { name: "x".into(), r#type: Some(ty), ..Default::default() }
    }

    fn run(info: &ValueInfoProto) -> Result<Option<String>, Refusal> {
        Ok(read(info, |axis| format!("x_dim{axis}"))?.map(|ty| ty.to_string()))
    }

    #[test]
    fn dimensions_are_numbers_names_or_open() {
        let dims =
            [DimValue::DimValue(3), DimValue::DimParam("N".into()), DimValue::DimValue(-1), DimValue::DimValue(0)];
        let mut dims: Vec<_> = dims.into_iter().map(Some).collect();
        dims.push(None);
        assert_eq!(run(&info(1, dims)), Ok(Some("f32[3,N,x_dim2,0,x_dim4]".into())));
        assert_eq!(run(&info(22, vec![])), Ok(Some("s4[]".into())));
        assert_eq!(run(&ValueInfoProto::default()), Ok(None));
    }

    #[test]
    fn a_symbol_without_a_name_is_a_size_of_its_own_on_each_axis() {
        let dims = ["", "?", "?", "*", "N", "N", "2*N"].map(|s| Some(DimValue::DimParam(s.into())));
        let shape = "f32[x_dim0,x_dim1,x_dim2,x_dim3,N,N,2*N]";
        assert_eq!(run(&info(1, dims.to_vec())), Ok(Some(shape.into())));
    }

    #[test]
    fn other_types_are_refused_by_name() {
        let text = |info: &ValueInfoProto| match run(info) {
            Err(Refusal::Invalid(t) | Refusal::Unsupported(t)) => t,
            Ok(ty) => panic!("{ty:?} should be refused"),
        };
        assert!(text(&info(8, vec![])).contains("STRING"));
        assert!(text(&info(0, vec![])).contains("element type 0"));
        assert!(text(&info(1, vec![Some(DimValue::DimValue(-5))])).contains("-5"));
        let mut sequence = info(1, vec![]);
        let kind = Kind::SequenceType(Box::<Sequence>::default());
        sequence.r#type = Some(TypeProto { value: Some(kind), ..Default::default() });
        assert!(text(&sequence).contains("a sequence"));
    }

    #[test]
    fn a_written_type_comes_back() {
        let ty = TensorType::new(DataType::U8, Shape(vec![Dim::Sym("N".into()), Dim::Known(4)]));
        assert_eq!(read(&write("x", &ty), |_| "?".into()), Ok(Some(ty)));
        let made_up = TensorType::new(DataType::F32, Shape(vec![Dim::Sym("n:0:1".into())]));
        assert_eq!(run(&write("x", &made_up)), Ok(Some("f32[x_dim0]".into())));
        assert_eq!(run(&write("x", &TensorType::unranked(DataType::F32))), Ok(None));
    }
}

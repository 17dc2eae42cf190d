//! The tables of a TFLite model (`schema.fbs` of TensorFlow Lite, version 3), as far as an import needs them.
//!
//! Field numbers are those of the schema. A model is read whole before anything is built, all subgraphs of it: an
//! operator may name another subgraph (`CALL_ONCE`).

use super::flatbuffer::{Field, Read, Source, Table};

/// A model.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub codes: Vec<OperatorCode>,
    pub subgraphs: Vec<SubGraph<'a>>,
}

/// The operator that an index stands for.
#[derive(Debug, Clone)]
pub(crate) struct OperatorCode {
    pub builtin: i32,
    /// Name of a custom operator.
    pub custom: String,
    pub version: i32,
}

/// A graph of operators over tensors.
#[derive(Debug)]
pub(crate) struct SubGraph<'a> {
    pub name: String,
    pub tensors: Vec<TensorDef<'a>>,
    pub inputs: Vec<i32>,
    pub outputs: Vec<i32>,
    pub operators: Vec<Operator<'a>>,
}

/// A tensor.
#[derive(Debug, Clone)]
pub(crate) struct TensorDef<'a> {
    pub name: String,
    pub shape: Vec<i32>,
    /// The shape with -1 where an extent is open; empty if none is.
    pub signature: Vec<i32>,
    pub element: i8,
    /// The data of a constant; empty for every other tensor.
    pub data: &'a [u8],
    pub quant: Option<Quantization>,
    /// State that an operator keeps between runs.
    pub is_variable: bool,
    pub is_sparse: bool,
}

/// Quantization parameters as the file has them.
#[derive(Debug, Clone)]
pub(crate) struct Quantization {
    pub scales: Vec<f32>,
    pub zero_points: Vec<i64>,
    pub axis: i32,
    /// Blockwise or of another kind that scales alone do not say.
    pub is_other: bool,
}

/// An operator of a subgraph. Inputs that are left out are -1.
#[derive(Debug)]
pub(crate) struct Operator<'a> {
    pub code: u32,
    pub inputs: Vec<i32>,
    pub outputs: Vec<i32>,
    /// Tensors that only the operator itself knows (integer LSTM).
    pub intermediates: Vec<i32>,
    /// The table of its attributes.
    pub options: Option<Table<'a>>,
}

impl<'a> Model<'a> {
    /// Reads the model of a file.
    pub fn read(source: Source<'a>) -> Read<Self> {
        let root = source.root()?;
        let buffers = root.tables(Field(4, "buffers"))?;
        let buffers: Vec<&[u8]> = buffers.iter().map(buffer).collect::<Read<_>>()?;
        let codes = root.tables(Field(1, "operator_codes"))?.iter().map(OperatorCode::read).collect::<Read<_>>()?;
        let subgraphs = root.tables(Field(2, "subgraphs"))?;
        let subgraphs = subgraphs.iter().map(|t| SubGraph::read(t, &buffers)).collect::<Read<_>>()?;
        Ok(Self { codes, subgraphs })
    }
}

/// The bytes of a buffer, in the table or (in files over 2 GiB) behind the FlatBuffer.
fn buffer<'a>(table: &Table<'a>) -> Read<&'a [u8]> {
    let (offset, size) = (table.u64(Field(1, "buffer.offset"), 0)?, table.u64(Field(2, "buffer.size"), 0)?);
    if offset > 1 { table.source().range(offset, size, "buffer.offset") } else { table.bytes(Field(0, "buffer.data")) }
}

impl OperatorCode {
    fn read(table: &Table<'_>) -> Read<Self> {
        // Codes above 126 do not fit the old field, which then holds 127.
        let old = table.i8(Field(0, "operator_code.deprecated_builtin_code"), 0)?;
        let new = table.i32(Field(3, "operator_code.builtin_code"), 0)?;
        let custom = table.text(Field(1, "operator_code.custom_code"))?;
        let version = table.i32(Field(2, "operator_code.version"), 1)?;
        Ok(Self { builtin: new.max(old.into()), custom, version })
    }
}

impl<'a> SubGraph<'a> {
    fn read(table: &Table<'a>, buffers: &[&'a [u8]]) -> Read<Self> {
        let tensors = table.tables(Field(0, "subgraph.tensors"))?;
        let operators = table.tables(Field(3, "subgraph.operators"))?;
        Ok(Self {
            name: table.text(Field(4, "subgraph.name"))?,
            tensors: tensors.iter().map(|t| TensorDef::read(t, buffers)).collect::<Read<_>>()?,
            inputs: table.i32s(Field(1, "subgraph.inputs"))?,
            outputs: table.i32s(Field(2, "subgraph.outputs"))?,
            operators: operators.iter().map(Operator::read).collect::<Read<_>>()?,
        })
    }
}

impl<'a> TensorDef<'a> {
    fn read(table: &Table<'a>, buffers: &[&'a [u8]]) -> Read<Self> {
        let buffer = table.u32(Field(2, "tensor.buffer"), 0)?;
        // Buffer 0 is the empty one by convention, and an index outside the list is none.
        let data = usize::try_from(buffer).ok().and_then(|i| buffers.get(i).copied()).unwrap_or(&[]);
        Ok(Self {
            name: table.text(Field(3, "tensor.name"))?,
            shape: table.i32s(Field(0, "tensor.shape"))?,
            signature: table.i32s(Field(7, "tensor.shape_signature"))?,
            element: table.i8(Field(1, "tensor.type"), 0)?,
            data,
            quant: table.table(Field(4, "tensor.quantization"))?.map(|t| Quantization::read(&t)).transpose()?.flatten(),
            is_variable: table.bool(Field(5, "tensor.is_variable"))?,
            is_sparse: table.table(Field(6, "tensor.sparsity"))?.is_some(),
        })
    }
}

impl Quantization {
    /// `None` for a table without scales, which converters write for float tensors.
    fn read(table: &Table<'_>) -> Read<Option<Self>> {
        /// The kinds of `details` from which on scales alone do not tell the quantization.
        const CUSTOM: u8 = 1;
        let is_other = table.u8(Field(4, "quantization.details_type"), 0)? >= CUSTOM;
        let scales = table.f32s(Field(2, "quantization.scale"))?;
        let zero_points = table.i64s(Field(3, "quantization.zero_point"))?;
        let axis = table.i32(Field(6, "quantization.quantized_dimension"), 0)?;
        Ok((is_other || !scales.is_empty()).then_some(Self { scales, zero_points, axis, is_other }))
    }
}

impl<'a> Operator<'a> {
    fn read(table: &Table<'a>) -> Read<Self> {
        Ok(Self {
            code: table.u32(Field(0, "operator.opcode_index"), 0)?,
            inputs: table.i32s(Field(1, "operator.inputs"))?,
            outputs: table.i32s(Field(2, "operator.outputs"))?,
            intermediates: table.i32s(Field(8, "operator.intermediates"))?,
            options: table.table(Field(4, "operator.builtin_options"))?,
        })
    }
}

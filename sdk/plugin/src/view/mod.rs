//! The program view becomes a [`Program`]: every index, offset, length and number of a foreign view is checked.
//!
//! The data of constants is copied, since the view is gone when the call returns. Names, scales and attributes may be
//! referred to many times, so that what is copied of them is counted: reading cannot allocate without bound.

mod attrs;

use crate::guard::{Items, bytes, read};
use ottava_abi::{AttrV1, ConstV1, NodeV1, ProgramV1, QuantV1, ValueV1, fused, index, layout, requant, scheme};
use ottava_hal::program::{Activation, Fused};
use ottava_hal::{
    Attr, Attrs, DataType, Dim, Error, Layout, Node, Program, QuantParams, Reason, RequantMode, Result, Scheme, Shape,
    Tensor, TensorType, Value, ValueId,
};
use std::cell::Cell;
use std::sync::Arc;

/// Version of the view that this kit reads.
const IR_VERSION: u32 = 1;
/// No operator has tensors of more axes.
const MAX_RANK: u32 = 64;

/// Bytes of names, scales and attributes that a program may have when every reference is written out.
const MAX_COPIED: usize = 256 << 20;

/// A view whose arrays are known to be arrays.
struct View<'a> {
    /// What is left of [`MAX_COPIED`].
    budget: Cell<usize>,
    head: ProgramV1,
    values: Items<'a, ValueV1>,
    quants: Items<'a, QuantV1>,
    attrs: Items<'a, AttrV1>,
    consts: Items<'a, ConstV1>,
    edges: Items<'a, u32>,
    dims: Items<'a, i64>,
    scales: Items<'a, f32>,
    zps: Items<'a, i32>,
    strings: &'a [u8],
}

/// Reads a program view.
///
/// # Safety
/// `program` is NULL or a program view whose arrays live and do not change until this returns.
pub(crate) unsafe fn program(program: *const ProgramV1) -> Result<Program> {
    // SAFETY: the caller's promise.
    let head = unsafe { read(program, "program")? };
    if head.ir_version != IR_VERSION {
        let what = format!("program view of version {}, this driver reads version {IR_VERSION}", head.ir_version);
        return Err(Error::unsupported(Reason::Other, what));
    }
    // SAFETY: the caller's promise, for each array.
    let (view, nodes, inputs, outputs) = unsafe {
        let view = View {
            budget: Cell::new(MAX_COPIED),
            head,
            values: Items::new(head.values, "values")?,
            quants: Items::new(head.quants, "quants")?,
            attrs: Items::new(head.attrs, "attrs")?,
            consts: Items::new(head.consts, "consts")?,
            edges: Items::new(head.edges, "edges")?,
            dims: Items::new(head.dims, "dims")?,
            scales: Items::new(head.scales, "scales")?,
            zps: Items::new(head.zps, "zps")?,
            strings: bytes(head.strings.ptr, head.strings.len, "strings")?,
        };
        (
            view,
            Items::new(head.nodes, "nodes")?,
            Items::new(head.inputs, "inputs")?,
            Items::new(head.outputs, "outputs")?,
        )
    };
    if view.strings.last().is_some_and(|b| *b != 0) {
        return Err(Error::invalid("the pool of names does not end with a zero byte"));
    }
    view.program(nodes, inputs, outputs)
}

impl View<'_> {
    fn program(&self, nodes: Items<NodeV1>, inputs: Items<u32>, outputs: Items<u32>) -> Result<Program> {
        let values = self.values.iter().enumerate().map(|(i, v)| self.value(i, &v)).collect::<Result<_>>()?;
        let mut program = Program { name: self.name(self.head.name)?, values, ..Program::default() };
        for node in nodes.iter() {
            program.nodes.push(self.node(&node, &program)?);
        }
        let ids = |items: Items<u32>| items.iter().map(|i| ValueId(i as usize)).collect();
        (program.inputs, program.outputs) = (ids(inputs), ids(outputs));
        program.check()?;
        Ok(program)
    }

    /// The name at an offset, up to its zero byte.
    fn name(&self, offset: u32) -> Result<String> {
        let outside =
            || Error::invalid(format!("name at {offset} is outside the pool of {} bytes", self.strings.len()));
        let rest = self.strings.get(offset as usize..).ok_or_else(outside)?;
        let end = rest.iter().position(|b| *b == 0).ok_or_else(outside)?;
        self.utf8(&rest[..end])
    }

    /// Counts elements that are about to be copied.
    fn charge(&self, n: usize, size: usize) -> Result<()> {
        let left = n.checked_mul(size).and_then(|bytes| self.budget.get().checked_sub(bytes));
        let too_many = || Error::invalid(format!("names, scales and attributes are more than {MAX_COPIED} bytes"));
        self.budget.set(left.ok_or_else(too_many)?);
        Ok(())
    }

    fn utf8(&self, bytes: &[u8]) -> Result<String> {
        self.charge(bytes.len(), 1)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::invalid("a name or text is not UTF-8"))
    }

    fn value(&self, i: usize, v: &ValueV1) -> Result<Value> {
        let name = self.name(v.name)?;
        let at = |e: Error| Error::invalid(format!("value {i} `{name}`: {e}"));
        let dtype = data_type(v.dtype).map_err(at)?;
        let ty = self.tensor_type(v, dtype).map_err(at)?;
        let constant = self.constant(i, v, &ty).map_err(at)?;
        Ok(Value { name, ty, constant })
    }

    fn tensor_type(&self, v: &ValueV1, dtype: DataType) -> Result<TensorType> {
        let mut ty = match v.rank {
            index::NONE => TensorType::unranked(dtype),
            _ => TensorType::new(dtype, self.shape(v)?),
        };
        ty.layout = match v.layout {
            layout::ROW_MAJOR | layout::NCHW => Layout::RowMajor,
            layout::NHWC => Layout::Nhwc,
            other => return Err(Error::unsupported(Reason::Layout, format!("layout {other}"))),
        };
        if v.quant != index::NONE {
            ty.quant = Some(Arc::new(self.quant(v.quant, dtype)?));
        }
        Ok(ty)
    }

    fn shape(&self, v: &ValueV1) -> Result<Shape> {
        let dims = (v.rank <= MAX_RANK).then(|| self.dims.range(v.dim_first, v.rank)).flatten();
        let dims =
            dims.ok_or_else(|| Error::invalid(format!("{} extents from {} are not there", v.rank, v.dim_first)))?;
        dims.map(|d| self.dim(d)).collect::<Result<_>>().map(Shape)
    }

    /// An extent, or a symbol: number `-1 - extent` of the program's attributes has its name.
    fn dim(&self, extent: i64) -> Result<Dim> {
        if let Ok(n) = usize::try_from(extent) {
            return Ok(Dim::Known(n));
        }
        let number = extent.checked_neg().and_then(|n| u32::try_from(n - 1).ok()).filter(|n| *n < self.head.attr_count);
        let attr = number.and_then(|n| self.attrs.get(self.head.attr_first as usize + n as usize));
        let attr = attr.ok_or_else(|| Error::invalid(format!("extent {extent} names no symbol of the program")))?;
        Ok(Dim::Sym(self.name(attr.name)?.into()))
    }

    fn quant(&self, i: u32, dtype: DataType) -> Result<QuantParams> {
        let q = self.quants.get(i as usize);
        let q = q.ok_or_else(|| Error::invalid(format!("quantization {i} is not there")))?;
        if q.storage != dtype as u32 {
            return Err(Error::invalid(format!("quantized storage {} of a tensor of {dtype}", q.storage)));
        }
        self.charge(q.scale_count as usize, 4)?;
        self.charge(q.zp_count as usize, 4)?;
        let (axis, block) = (q.axis as usize, q.block as usize);
        let scheme = match q.scheme {
            scheme::PER_TENSOR => Scheme::PerTensor,
            scheme::PER_AXIS => Scheme::PerAxis { axis },
            scheme::BLOCKED => Scheme::Blocked { axis, block },
            other => return Err(Error::unsupported(Reason::QuantScheme, format!("quantization scheme {other}"))),
        };
        let scales = self.scales.range(q.scale_first, q.scale_count);
        let zps = self.zps.range(q.zp_first, q.zp_count);
        let missing = || Error::invalid("scales or zero points are not there");
        let (scales, zero_points) = (scales.ok_or_else(missing)?.collect(), zps.ok_or_else(missing)?.collect());
        Ok(QuantParams { scheme, scales, zero_points })
    }

    fn constant(&self, i: usize, v: &ValueV1, ty: &TensorType) -> Result<Option<Tensor>> {
        if v.const_idx == index::NONE {
            return Ok(None);
        }
        let c = self.consts.get(v.const_idx as usize).filter(|c| c.value as usize == i);
        let c = c.ok_or_else(|| Error::invalid(format!("constant {} is not there or another value's", v.const_idx)))?;
        if c.ptr.is_null() && c.len > 0 {
            return Err(Error::unsupported(Reason::Memory, "constant data that is only in a file"));
        }
        let shape = ty.shape.known().ok_or_else(|| Error::invalid("a constant needs a fixed shape"))?;
        // SAFETY: constants are arrays of the view, which live until the reading is done.
        let data = unsafe { bytes(c.ptr, c.len, "constant data")? };
        Tensor::from_bytes(ty.dtype, &shape, data).map(Some)
    }

    fn node(&self, n: &NodeV1, program: &Program) -> Result<Node> {
        let name = self.name(n.name)?;
        let at = |e: Error| match e {
            Error::Unsupported { reason, what } => Error::unsupported(reason, format!("node `{name}`: {what}")),
            e => Error::invalid(format!("node `{name}`: {e}")),
        };
        self.charge(n.in_count as usize, 16)?;
        self.charge(n.out_count as usize, 8)?;
        let edges = |first, count| {
            let missing = || Error::invalid(format!("node `{name}`: {count} edges from {first} are not there"));
            self.edges.range(first, count).ok_or_else(missing)
        };
        let input = |e: u32| (e != index::NONE).then_some(ValueId(e as usize));
        let inputs = edges(n.in_first, n.in_count)?.map(input).collect();
        let outputs = edges(n.out_first, n.out_count)?.map(|e| ValueId(e as usize)).collect();
        let mut attrs = self.attrs(n.attr_first, n.attr_count, program).map_err(at)?;
        let fused = fusions(n.flags, &mut attrs).map_err(at)?;
        let requant = requant_mode(n.requant_mode).map_err(at)?;
        let (op, domain) = (self.name(n.op)?, self.name(n.domain)?);
        Ok(Node { name, op, domain, version: n.op_version, inputs, outputs, attrs, requant, fused })
    }
}

fn data_type(number: u32) -> Result<DataType> {
    DataType::from_u32(number).ok_or_else(|| Error::unsupported(Reason::Dtype, format!("element type {number}")))
}

fn requant_mode(number: u32) -> Result<Option<RequantMode>> {
    if number == requant::NONE {
        return Ok(None);
    }
    let unknown = || Error::unsupported(Reason::RequantMode, format!("requantization mode {number}"));
    RequantMode::from_u32(number).map(Some).ok_or_else(unknown)
}

/// What is fused into a node; the attributes that describe it are taken out of the node's own.
fn fusions(flags: u64, attrs: &mut Attrs) -> Result<Fused> {
    const KNOWN: u64 = fused::ZP_BEFORE_ROUND | fused::CLAMP | fused::RESIDUAL | fused::ACT;
    if flags & !KNOWN != 0 {
        let what = format!("fusions {:#x} are not known to this driver", flags & !KNOWN);
        return Err(Error::unsupported(Reason::FusionRequired, what));
    }
    let has = |bit| flags & bit != 0;
    let mut fused =
        Fused { zp_before_round: has(fused::ZP_BEFORE_ROUND), residual: has(fused::RESIDUAL), ..Fused::default() };
    if has(fused::CLAMP) {
        let mut bound = |name: &str| match attrs.0.remove(name) {
            Some(Attr::Int(v)) => i32::try_from(v).map_err(|_| Error::invalid(format!("`{name}` is {v}"))),
            _ => Err(Error::invalid(format!("a fused clamp without integer `{name}`"))),
        };
        fused.clamp = Some((bound("clamp_lo")?, bound("clamp_hi")?));
    }
    if has(fused::ACT) {
        fused.act = Some(activation(attrs)?);
    }
    Ok(fused)
}

fn activation(attrs: &mut Attrs) -> Result<Activation> {
    let Some(Attr::Str(act)) = attrs.0.remove("act") else {
        return Err(Error::invalid("a fused activation without its name in `act`"));
    };
    let mut bound = |name: &str| match attrs.0.remove(name) {
        Some(Attr::Float(v)) => Ok(v),
        _ => Err(Error::invalid(format!("a fused Clip without `{name}`"))),
    };
    match act.as_str() {
        "Relu" => Ok(Activation::Relu),
        "Clip" => Ok(Activation::Clip { lo: bound("act_lo")?, hi: bound("act_hi")? }),
        other => Err(Error::unsupported(Reason::FusionRequired, format!("fused activation `{other}`"))),
    }
}

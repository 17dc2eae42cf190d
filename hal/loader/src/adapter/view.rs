//! A program as the plain arrays that a driver reads (abi.md section 5, the program view).
//!
//! The arrays are built once per call and live until it returns; the data of constants is borrowed from the program. The
//! rules of the pools stand in `ottava_abi::program`; in short: a name is an offset into `strings`, where it ends with a
//! zero; extents are in `dims`, a symbol number k is -1-k and the program's attribute k has its name and bounds.

use ottava_abi::{
    AttrV1, ConstV1, NodeV1, ProgramV1, QuantV1, Slice, Str, ValueV1, attr_type, fused, index, layout, quant_flag,
    scheme,
};
use ottava_hal::program::Activation;
use ottava_hal::{
    Attr, DataType, Dim, Error, Layout, Node, Program, QuantParams, Reason, Result, Scheme, Tensor, TensorType,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Version of the view.
const IR_VERSION: u32 = 1;

/// The arrays of one program.
#[derive(Default)]
pub(crate) struct View<'a> {
    nodes: Vec<NodeV1>,
    values: Vec<ValueV1>,
    quants: Vec<QuantV1>,
    attrs: Vec<AttrV1>,
    consts: Vec<ConstV1>,
    edges: Vec<u32>,
    dims: Vec<i64>,
    scales: Vec<f32>,
    zps: Vec<i32>,
    strings: Vec<u8>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    head: Head,
    /// Offset of each name that is in `strings`.
    names: HashMap<&'a str, u32>,
    /// Negative number of each symbol.
    symbols: HashMap<Arc<str>, i64>,
    /// Names of the symbols in the order of their numbers.
    symbol_names: Vec<Arc<str>>,
}

/// Offsets of the program itself.
#[derive(Clone, Copy, Default)]
struct Head {
    name: u32,
    attr_first: u32,
    attr_count: u32,
}

/// An index or count of a pool.
fn small(n: usize) -> Result<u32> {
    let fits = u32::try_from(n).ok().filter(|&n| n != index::NONE);
    fits.ok_or_else(|| Error::invalid("the program is too large for a driver: a pool has more than 2^32 - 2 entries"))
}

impl<'a> View<'a> {
    /// Lays out a program.
    pub fn new(program: &'a Program) -> Result<Self> {
        let mut view = Self::default();
        view.head.name = view.text(&program.name)?;
        for value in &program.values {
            view.value(&value.name, &value.ty, value.constant.as_ref())?;
        }
        for (i, node) in program.nodes.iter().enumerate() {
            let node = view.node(i, node)?;
            view.nodes.push(node);
        }
        view.inputs = program.inputs.iter().map(|v| small(v.0)).collect::<Result<_>>()?;
        view.outputs = program.outputs.iter().map(|v| small(v.0)).collect::<Result<_>>()?;
        view.symbol_attrs()?;
        Ok(view)
    }

    /// The struct for the driver. It points into `self`.
    pub fn as_abi(&self) -> ProgramV1 {
        ProgramV1 {
            ir_version: IR_VERSION,
            name: self.head.name,
            attr_first: self.head.attr_first,
            attr_count: self.head.attr_count,
            nodes: Slice::borrowed(&self.nodes),
            values: Slice::borrowed(&self.values),
            quants: Slice::borrowed(&self.quants),
            attrs: Slice::borrowed(&self.attrs),
            consts: Slice::borrowed(&self.consts),
            edges: Slice::borrowed(&self.edges),
            dims: Slice::borrowed(&self.dims),
            scales: Slice::borrowed(&self.scales),
            zps: Slice::borrowed(&self.zps),
            strings: Str { ptr: self.strings.as_ptr(), len: self.strings.len() as u64 },
            inputs: Slice::borrowed(&self.inputs),
            outputs: Slice::borrowed(&self.outputs),
            ..ProgramV1::blank()
        }
    }

    /// Offset of a name; equal names are stored once.
    fn text(&mut self, text: &'a str) -> Result<u32> {
        if let Some(&offset) = self.names.get(text) {
            return Ok(offset);
        }
        let offset = self.append(text)?;
        self.names.insert(text, offset);
        Ok(offset)
    }

    /// Adds a text with its final zero.
    fn append(&mut self, text: &str) -> Result<u32> {
        if text.contains('\0') {
            return Err(Error::invalid(format!("the name {text:?} contains a zero byte, which no driver can read")));
        }
        let offset = small(self.strings.len())?;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        Ok(offset)
    }

    /// Adds a value; its index.
    fn value(&mut self, name: &'a str, ty: &TensorType, constant: Option<&Tensor>) -> Result<u32> {
        let i = small(self.values.len())?;
        let (rank, dim_first) = self.shape(ty)?;
        let value = ValueV1 {
            name: self.text(name)?,
            dtype: ty.dtype as u32,
            layout: match ty.layout {
                Layout::RowMajor => layout::ROW_MAJOR,
                Layout::Nhwc => layout::NHWC,
            },
            rank,
            dim_first,
            quant: ty.quant.as_ref().map_or(Ok(index::NONE), |q| self.quant(q, ty.dtype))?,
            const_idx: constant.map_or(Ok(index::NONE), |t| self.constant(i, t))?,
            ..ValueV1::blank()
        };
        self.values.push(value);
        Ok(i)
    }

    /// Rank and first extent.
    fn shape(&mut self, ty: &TensorType) -> Result<(u32, u32)> {
        let first = small(self.dims.len())?;
        if ty.is_unranked() {
            return Ok((index::NONE, first));
        }
        for dim in &ty.shape.0 {
            let extent = match dim {
                Dim::Known(n) => {
                    i64::try_from(*n).map_err(|_| Error::invalid(format!("the extent {n} is too large")))?
                }
                Dim::Sym(name) => self.symbol(name),
            };
            self.dims.push(extent);
        }
        Ok((small(ty.shape.rank())?, first))
    }

    /// The negative number of a symbol.
    fn symbol(&mut self, name: &Arc<str>) -> i64 {
        if let Some(&number) = self.symbols.get(name) {
            return number;
        }
        let number = -1 - self.symbol_names.len() as i64;
        self.symbols.insert(name.clone(), number);
        self.symbol_names.push(name.clone());
        number
    }

    /// The program's attributes: name and bounds of each symbol, in the order of their numbers.
    fn symbol_attrs(&mut self) -> Result<()> {
        self.head.attr_first = small(self.attrs.len())?;
        self.head.attr_count = small(self.symbol_names.len())?;
        for name in std::mem::take(&mut self.symbol_names) {
            let (name, first) = (self.append(&name)?, small(self.dims.len())?);
            self.dims.extend([0, i64::MAX]);
            self.attrs.push(AttrV1 { name, attr_type: attr_type::I64S, first, count: 2, value: 0 });
        }
        Ok(())
    }

    fn quant(&mut self, q: &QuantParams, storage: DataType) -> Result<u32> {
        let (scheme, axis, block) = match q.scheme {
            Scheme::PerTensor => (scheme::PER_TENSOR, 0, 0),
            Scheme::PerAxis { axis } => (scheme::PER_AXIS, axis, 0),
            Scheme::Blocked { axis, block } => (scheme::BLOCKED, axis, block),
        };
        let quant = QuantV1 {
            scheme,
            axis: small(axis)?,
            block: small(block)?,
            storage: storage as u32,
            scale_first: small(self.scales.len())?,
            scale_count: small(q.scales.len())?,
            zp_first: small(self.zps.len())?,
            zp_count: small(q.zero_points.len())?,
            flags: if q.is_symmetric(storage) { quant_flag::SYMMETRIC } else { 0 },
        };
        self.scales.extend_from_slice(&q.scales);
        self.zps.extend_from_slice(&q.zero_points);
        self.quants.push(quant);
        small(self.quants.len() - 1)
    }

    fn constant(&mut self, value: u32, tensor: &Tensor) -> Result<u32> {
        let bytes = tensor.bytes();
        self.consts.push(ConstV1 { value, fd: -1, ptr: bytes.as_ptr(), len: bytes.len() as u64, fd_offset: 0 });
        small(self.consts.len() - 1)
    }

    fn node(&mut self, id: usize, node: &'a Node) -> Result<NodeV1> {
        let in_first = small(self.edges.len())?;
        for input in &node.inputs {
            self.edges.push(input.map_or(Ok(index::NONE), |v| small(v.0))?);
        }
        let out_first = small(self.edges.len())?;
        for output in &node.outputs {
            self.edges.push(small(output.0)?);
        }
        let attr_first = small(self.attrs.len())?;
        for (name, attr) in &node.attrs.0 {
            let attr = self.attr(name, attr)?;
            self.attrs.push(attr);
        }
        let flags = self.fused(node)?;
        Ok(NodeV1 {
            op: self.text(&node.op)?,
            domain: self.text(&node.domain)?,
            name: self.text(&node.name)?,
            op_version: node.version,
            id: small(id)?,
            in_first,
            in_count: small(node.inputs.len())?,
            out_first,
            out_count: small(node.outputs.len())?,
            attr_first,
            attr_count: small(self.attrs.len())? - attr_first,
            requant_mode: node.requant.map_or(0, |m| m.as_u32()),
            flags,
        })
    }

    /// The flags of what is fused; bounds and activation become attributes behind the node's own.
    fn fused(&mut self, node: &Node) -> Result<u64> {
        let f = &node.fused;
        let mut flags = 0;
        flags |= if f.zp_before_round { fused::ZP_BEFORE_ROUND } else { 0 };
        flags |= if f.residual { fused::RESIDUAL } else { 0 };
        if let Some((lo, hi)) = f.clamp {
            flags |= fused::CLAMP;
            self.push_attr("clamp_lo", attr_type::I64, i64::from(lo))?;
            self.push_attr("clamp_hi", attr_type::I64, i64::from(hi))?;
        }
        if let Some(act) = f.act {
            flags |= fused::ACT;
            let name = if matches!(act, Activation::Relu) { "Relu" } else { "Clip" };
            let (first, count) = (self.text(name)?, name.len() as u32);
            let attr = AttrV1 { name: self.text("act")?, attr_type: attr_type::STR, first, count, value: 0 };
            self.attrs.push(attr);
            if let Activation::Clip { lo, hi } = act {
                self.push_attr("act_lo", attr_type::F32, i64::from(lo.to_bits()))?;
                self.push_attr("act_hi", attr_type::F32, i64::from(hi.to_bits()))?;
            }
        }
        Ok(flags)
    }

    fn push_attr(&mut self, name: &'static str, attr_type: u32, value: i64) -> Result<()> {
        let name = self.text(name)?;
        self.attrs.push(AttrV1 { name, attr_type, first: 0, count: 1, value });
        Ok(())
    }

    fn attr(&mut self, name: &'a str, attr: &'a Attr) -> Result<AttrV1> {
        let (attr_type, first, count, value) = match attr {
            Attr::Int(v) => (attr_type::I64, 0, 1, *v),
            Attr::Float(v) => (attr_type::F32, 0, 1, i64::from(v.to_bits())),
            Attr::Str(text) => (attr_type::STR, self.blob(text)?, small(text.len())?, 0),
            Attr::Ints(v) => {
                let first = small(self.dims.len())?;
                self.dims.extend_from_slice(v);
                (attr_type::I64S, first, small(v.len())?, 0)
            }
            Attr::Floats(v) => {
                let first = small(self.scales.len())?;
                self.scales.extend_from_slice(v);
                (attr_type::F32S, first, small(v.len())?, 0)
            }
            Attr::Strs(texts) => {
                let pairs = texts.iter().map(|t| Ok([self.blob(t)?, small(t.len())?])).collect::<Result<Vec<_>>>()?;
                let first = small(self.edges.len())?;
                self.edges.extend(pairs.into_iter().flatten());
                (attr_type::STRS, first, small(texts.len())?, 0)
            }
            Attr::Program(_) => {
                let what = format!("attribute `{name}` is a program, which the driver interface does not carry");
                return Err(Error::unsupported(Reason::AttrValue, what));
            }
            Attr::Tensor(t) => (attr_type::TENSOR, 0, 1, i64::from(self.value(name, &t.ty(), Some(t))?)),
        };
        Ok(AttrV1 { name: self.text(name)?, attr_type, first, count, value })
    }

    /// A text with its own length, which may contain zero bytes.
    fn blob(&mut self, text: &str) -> Result<u32> {
        let offset = small(self.strings.len())?;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        Ok(offset)
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;

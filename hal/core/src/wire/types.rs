//! Tensor types, tensors and attributes as bytes.

use super::{Load, Reader, Store, Writer, corrupt};
use crate::{Attr, Attrs, DataType, Dim, Layout, QuantParams, Result, Scheme, Shape, Tensor, TensorType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest list of extents; no operator has more.
const MAX_RANK: usize = 64;

impl Writer {
    /// An element type, by its ABI number.
    pub fn dtype(&mut self, dtype: DataType) {
        self.u8(dtype as u32 as u8);
    }

    /// A tensor type.
    pub fn tensor_type(&mut self, ty: &TensorType) {
        self.dtype(ty.dtype);
        self.u8(match ty.layout {
            Layout::RowMajor => 0,
            Layout::Nhwc => 1,
        });
        self.list(&ty.shape.0, |w, dim| match dim {
            Dim::Known(n) => {
                w.u8(0);
                w.size(*n);
            }
            Dim::Sym(name) => {
                w.u8(1);
                w.str(name);
            }
        });
        self.bool(ty.quant.is_some());
        if let Some(quant) = &ty.quant {
            self.quant(quant);
        }
    }

    /// Quantization parameters.
    pub fn quant(&mut self, quant: &QuantParams) {
        match quant.scheme {
            Scheme::PerTensor => self.u8(0),
            Scheme::PerAxis { axis } => {
                self.u8(1);
                self.size(axis);
            }
            Scheme::Blocked { axis, block } => {
                self.u8(2);
                self.size(axis);
                self.size(block);
            }
        }
        self.list(&quant.scales, |w, s| w.f32(*s));
        self.list(&quant.zero_points, |w, z| w.i32(*z));
    }

    /// A tensor, its data by `store`.
    pub fn tensor(&mut self, tensor: &Tensor, store: &mut dyn Store) -> Result<()> {
        self.dtype(tensor.dtype());
        self.list(tensor.shape(), |w, n| w.size(*n));
        match store.store(tensor)? {
            None => {
                self.u8(0);
                self.block(tensor.bytes());
            }
            Some(number) => {
                self.u8(1);
                self.u64(number);
            }
        }
        Ok(())
    }

    /// Attributes, sorted by name.
    pub fn attrs(&mut self, attrs: &Attrs, store: &mut dyn Store) -> Result<()> {
        self.size(attrs.0.len());
        for (name, attr) in &attrs.0 {
            self.str(name);
            self.attr(attr, store)?;
        }
        Ok(())
    }

    fn attr(&mut self, attr: &Attr, store: &mut dyn Store) -> Result<()> {
        match attr {
            Attr::Int(v) => {
                self.u8(0);
                self.i64(*v);
            }
            Attr::Float(v) => {
                self.u8(1);
                self.f32(*v);
            }
            Attr::Str(v) => {
                self.u8(2);
                self.str(v);
            }
            Attr::Ints(v) => {
                self.u8(3);
                self.list(v, |w, v| w.i64(*v));
            }
            Attr::Floats(v) => {
                self.u8(4);
                self.list(v, |w, v| w.f32(*v));
            }
            Attr::Strs(v) => {
                self.u8(5);
                self.list(v, |w, v| w.str(v));
            }
            Attr::Tensor(v) => {
                self.u8(6);
                self.tensor(v, store)?;
            }
            Attr::Program(v) => {
                self.u8(7);
                super::encode(v, store, self)?;
            }
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// An element type.
    pub fn dtype(&mut self) -> Result<DataType> {
        let number = self.u8()?;
        DataType::from_u32(number.into()).ok_or_else(|| corrupt(format!("{number} is no element type")))
    }

    /// A tensor type.
    pub fn tensor_type(&mut self) -> Result<TensorType> {
        let dtype = self.dtype()?;
        let layout = match self.u8()? {
            0 => Layout::RowMajor,
            1 => Layout::Nhwc,
            other => return Err(corrupt(format!("{other} is no memory layout"))),
        };
        let dims = self.list(9, |r| match r.u8()? {
            0 => r.size().map(Dim::Known),
            1 => r.str().map(|name| Dim::Sym(name.into())),
            other => Err(corrupt(format!("{other} is no kind of extent"))),
        })?;
        check_rank(dims.len())?;
        let quant = if self.bool()? { Some(Arc::new(self.quant()?)) } else { None };
        Ok(TensorType { dtype, shape: Shape(dims), layout, quant })
    }

    /// Quantization parameters; whether they fit a type is for [`QuantParams::check`].
    pub fn quant(&mut self) -> Result<QuantParams> {
        let scheme = match self.u8()? {
            0 => Scheme::PerTensor,
            1 => Scheme::PerAxis { axis: self.size()? },
            2 => Scheme::Blocked { axis: self.size()?, block: self.size()? },
            other => return Err(corrupt(format!("{other} is no quantization scheme"))),
        };
        let scales = self.list(4, Self::f32)?;
        Ok(QuantParams { scheme, scales, zero_points: self.list(4, Self::i32)? })
    }

    /// A tensor, its data by `load`.
    pub fn tensor(&mut self, load: &mut dyn Load) -> Result<Tensor> {
        let dtype = self.dtype()?;
        let shape = self.list(8, Self::size)?;
        check_rank(shape.len())?;
        match self.u8()? {
            0 => {
                let tensor = Tensor::from_bytes(dtype, &shape, self.block()?);
                tensor.map_err(|e| corrupt(format!("a constant has the wrong size: {e}")))
            }
            1 => {
                let tensor = load.load(self.u64()?, dtype, &shape)?;
                match tensor.dtype() == dtype && tensor.shape() == shape {
                    true => Ok(tensor),
                    false => Err(corrupt(format!("a constant is {}, expected {dtype}{shape:?}", tensor.ty()))),
                }
            }
            other => Err(corrupt(format!("{other} is no place of a constant"))),
        }
    }

    /// Attributes, sorted by name, each once.
    pub fn attrs(&mut self, load: &mut dyn Load) -> Result<Attrs> {
        let mut attrs = BTreeMap::new();
        for _ in 0..self.count(9)? {
            let name = self.str()?;
            if attrs.last_key_value().is_some_and(|(last, _): (&String, _)| last.as_str() >= name) {
                return Err(corrupt(format!("attribute `{name}` is out of order")));
            }
            attrs.insert(name.to_owned(), self.attr(load)?);
        }
        Ok(Attrs(attrs))
    }

    fn attr(&mut self, load: &mut dyn Load) -> Result<Attr> {
        Ok(match self.u8()? {
            0 => Attr::Int(self.i64()?),
            1 => Attr::Float(self.f32()?),
            2 => Attr::Str(self.str()?.to_owned()),
            3 => Attr::Ints(self.list(8, Self::i64)?),
            4 => Attr::Floats(self.list(4, Self::f32)?),
            5 => Attr::Strs(self.list(8, |r| r.str().map(str::to_owned))?),
            6 => Attr::Tensor(self.tensor(load)?),
            7 => Attr::Program(Arc::new(self.nested(|r| super::decode(r, load))?)),
            other => return Err(corrupt(format!("{other} is no kind of attribute"))),
        })
    }
}

fn check_rank(rank: usize) -> Result<()> {
    if rank <= MAX_RANK {
        Ok(())
    } else {
        Err(corrupt(format!("a tensor of {rank} dimensions, at most {MAX_RANK} are")))
    }
}

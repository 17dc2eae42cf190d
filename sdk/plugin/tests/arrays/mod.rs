//! A program as a view, for the tests of the kit.

use ottava_abi::*;
use ottava_hal::program::Activation;
use ottava_hal::{Attr, Layout, Program, Scheme};

/// A program as plain arrays. The view points into the other fields.
#[derive(Default)]
pub struct Arrays {
    pub nodes: Vec<NodeV1>,
    pub values: Vec<ValueV1>,
    pub quants: Vec<QuantV1>,
    pub attrs: Vec<AttrV1>,
    pub consts: Vec<ConstV1>,
    pub edges: Vec<u32>,
    pub dims: Vec<i64>,
    pub scales: Vec<f32>,
    pub zps: Vec<i32>,
    pub strings: Vec<u8>,
    pub inputs: Vec<u32>,
    pub outputs: Vec<u32>,
    pub name: u32,
}

impl Arrays {
    /// The arrays of a program of fixed shapes, which must outlive them (constants are borrowed).
    pub fn of(program: &Program) -> Self {
        let mut a = Self::default();
        a.name = a.text(&program.name);
        for (i, v) in program.values.iter().enumerate() {
            let value = a.value(i as u32, v);
            a.values.push(value);
        }
        for (i, n) in program.nodes.iter().enumerate() {
            let node = a.node(i as u32, n);
            a.nodes.push(node);
        }
        a.inputs = program.inputs.iter().map(|id| id.0 as u32).collect();
        a.outputs = program.outputs.iter().map(|id| id.0 as u32).collect();
        a
    }

    pub fn view(&self) -> ProgramV1 {
        ProgramV1 {
            ir_version: 1,
            name: self.name,
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

    fn text(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn value(&mut self, i: u32, v: &ottava_hal::Value) -> ValueV1 {
        let dim_first = self.dims.len() as u32;
        let dims = v.ty.shape.known().expect("tests use fixed shapes");
        self.dims.extend(dims.iter().map(|&d| d as i64));
        let quant = v.ty.quant.as_ref().map_or(index::NONE, |q| {
            let (scheme, axis, block) = match q.scheme {
                Scheme::PerTensor => (scheme::PER_TENSOR, 0, 0),
                Scheme::PerAxis { axis } => (scheme::PER_AXIS, axis as u32, 0),
                Scheme::Blocked { axis, block } => (scheme::BLOCKED, axis as u32, block as u32),
            };
            self.quants.push(QuantV1 {
                scheme,
                axis,
                block,
                storage: v.ty.dtype as u32,
                scale_first: self.scales.len() as u32,
                scale_count: q.scales.len() as u32,
                zp_first: self.zps.len() as u32,
                zp_count: q.zero_points.len() as u32,
                flags: 0,
            });
            self.scales.extend(&q.scales);
            self.zps.extend(&q.zero_points);
            self.quants.len() as u32 - 1
        });
        let const_idx = v.constant.as_ref().map_or(index::NONE, |t| {
            let (ptr, len) = (t.bytes().as_ptr(), t.bytes().len() as u64);
            self.consts.push(ConstV1 { value: i, fd: -1, ptr, len, fd_offset: 0 });
            self.consts.len() as u32 - 1
        });
        let layout = if v.ty.layout == Layout::Nhwc { layout::NHWC } else { layout::ROW_MAJOR };
        let (name, rank) = (self.text(&v.name), dims.len() as u32);
        ValueV1 { name, dtype: v.ty.dtype as u32, layout, rank, dim_first, quant, const_idx, ..ValueV1::blank() }
    }

    fn attr(&mut self, name: &str, attr: &Attr) {
        let name = self.text(name);
        let mut a = AttrV1 { name, ..AttrV1::blank() };
        match attr {
            Attr::Int(v) => (a.attr_type, a.value) = (attr_type::I64, *v),
            Attr::Float(v) => (a.attr_type, a.value) = (attr_type::F32, v.to_bits().into()),
            Attr::Str(s) => {
                (a.attr_type, a.first, a.count) = (attr_type::STR, self.strings.len() as u32, s.len() as u32);
                self.text(s);
            }
            Attr::Ints(v) => {
                (a.attr_type, a.first, a.count) = (attr_type::I64S, self.dims.len() as u32, v.len() as u32);
                self.dims.extend(v);
            }
            Attr::Floats(v) => {
                (a.attr_type, a.first, a.count) = (attr_type::F32S, self.scales.len() as u32, v.len() as u32);
                self.scales.extend(v);
            }
            Attr::Strs(list) => {
                let pairs: Vec<u32> = list.iter().flat_map(|s| [self.text(s), s.len() as u32]).collect();
                (a.attr_type, a.first, a.count) = (attr_type::STRS, self.edges.len() as u32, list.len() as u32);
                self.edges.extend(pairs);
            }
            Attr::Tensor(_) | Attr::Program(_) => panic!("tests have no tensor attributes"),
        }
        self.attrs.push(a);
    }

    fn node(&mut self, id: u32, n: &ottava_hal::Node) -> NodeV1 {
        let attr_first = self.attrs.len() as u32;
        n.attrs.0.iter().for_each(|(name, attr)| self.attr(name, attr));
        let mut flags = 0;
        if let Some((lo, hi)) = n.fused.clamp {
            flags |= fused::CLAMP;
            self.attr("clamp_lo", &Attr::Int(lo.into()));
            self.attr("clamp_hi", &Attr::Int(hi.into()));
        }
        if let Some(act) = n.fused.act {
            flags |= fused::ACT;
            match act {
                Activation::Relu => self.attr("act", &Attr::Str("Relu".into())),
                Activation::Clip { lo, hi } => {
                    self.attr("act", &Attr::Str("Clip".into()));
                    self.attr("act_lo", &Attr::Float(lo));
                    self.attr("act_hi", &Attr::Float(hi));
                }
            }
        }
        flags |= if n.fused.residual { fused::RESIDUAL } else { 0 };
        flags |= if n.fused.zp_before_round { fused::ZP_BEFORE_ROUND } else { 0 };
        let in_first = self.edges.len() as u32;
        self.edges.extend(n.inputs.iter().map(|i| i.map_or(index::NONE, |v| v.0 as u32)));
        let out_first = self.edges.len() as u32;
        self.edges.extend(n.outputs.iter().map(|v| v.0 as u32));
        NodeV1 {
            op: self.text(&n.op),
            domain: self.text(&n.domain),
            name: self.text(&n.name),
            op_version: n.version,
            id,
            in_first,
            in_count: n.inputs.len() as u32,
            out_first,
            out_count: n.outputs.len() as u32,
            attr_first,
            attr_count: self.attrs.len() as u32 - attr_first,
            requant_mode: n.requant.map_or(0, |m| m.as_u32()),
            flags,
        }
    }
}

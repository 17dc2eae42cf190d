//! Tests of the program view: every field of a program can be found again by the rules of the pools.

use super::*;
use ottava_hal::{RequantMode, Shape, Value, ValueId};

/// Reads a view as a driver does, by indices into the arrays.
struct Reader(ProgramV1);

impl Reader {
    fn all<T: ottava_abi::Plain>(&self, slice: Slice<T>) -> Vec<T> {
        crate::foreign::elements(slice, u64::MAX).unwrap()
    }

    fn strings(&self) -> Vec<u8> {
        // SAFETY: the view under test is alive, and its pool has as many bytes.
        unsafe { std::slice::from_raw_parts(self.0.strings.ptr, self.0.strings.len as usize) }.to_vec()
    }

    fn name(&self, offset: u32) -> String {
        let bytes = self.strings();
        let text = bytes[offset as usize..].split(|&b| b == 0).next().unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    fn attr(&self, node: &NodeV1, name: &str) -> AttrV1 {
        let attrs = self.all(self.0.attrs);
        let own = &attrs[node.attr_first as usize..][..node.attr_count as usize];
        *own.iter().find(|a| self.name(a.name) == name).unwrap_or_else(|| panic!("no attribute {name}"))
    }
}

fn program() -> Program {
    let value = |name: &str, ty| Value { name: name.into(), ty, constant: None };
    let x = TensorType::new(DataType::U8, Shape(vec![Dim::Sym("batch".into()), Dim::Known(4)]));
    let weights = Tensor::from_slice(&[4, 2], &[1i8, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let per_axis = QuantParams::per_axis_symmetric(1, vec![0.25, 0.5]);
    let mut w = value("w", weights.ty().quantized(per_axis));
    w.constant = Some(weights);
    let y = TensorType { layout: Layout::Nhwc, ..x.clone() };
    let mut node = Node::new("fc", "MatMulInteger", 10);
    node.domain = "com.microsoft".into();
    (node.inputs, node.outputs) = (vec![Some(ValueId(0)), Some(ValueId(1)), None], vec![ValueId(2)]);
    node.requant = Some(RequantMode::Q31Single);
    node.fused.clamp = Some((-3, 7));
    node.fused.residual = true;
    node.fused.act = Some(Activation::Clip { lo: -1.5, hi: 6.0 });
    node.attrs.set("i", Attr::Int(-9));
    node.attrs.set("f", Attr::Float(0.5));
    node.attrs.set("s", Attr::Str("a\0b".into()));
    node.attrs.set("is", Attr::Ints(vec![4, -5]));
    node.attrs.set("fs", Attr::Floats(vec![1.0, 2.0]));
    node.attrs.set("ss", Attr::Strs(vec!["one".into(), String::new(), "three".into()]));
    node.attrs.set("t", Attr::Tensor(Tensor::scalar(7i32)));
    Program {
        name: "net".into(),
        values: vec![
            value("x", x.quantized(QuantParams::per_tensor(0.1, 128))),
            w,
            value("y", y),
            value("unknown", TensorType::unranked(DataType::F32)),
        ],
        nodes: vec![node],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(2)],
    }
}

#[test]
fn nodes_and_edges() {
    let program = program();
    let view = View::new(&program).unwrap();
    let r = Reader(view.as_abi());
    let node = r.all(r.0.nodes)[0];
    assert_eq!(
        (r.name(node.op), r.name(node.domain), r.name(node.name)),
        ("MatMulInteger".into(), "com.microsoft".into(), "fc".into())
    );
    let edges = r.all(r.0.edges);
    assert_eq!(edges[node.in_first as usize..][..node.in_count as usize], [0, 1, index::NONE]);
    assert_eq!(edges[node.out_first as usize..][..node.out_count as usize], [2]);
    assert_eq!((node.op_version, node.id, node.requant_mode), (10, 0, ottava_abi::requant::Q31_SINGLE));
    assert_eq!(node.flags, fused::CLAMP | fused::RESIDUAL | fused::ACT);
    assert_eq!((r.all(r.0.inputs), r.all(r.0.outputs)), (vec![0], vec![2]));
    assert_eq!((r.name(r.0.name), r.0.ir_version), ("net".into(), 1));
    assert_eq!(r.strings().last(), Some(&0));
}

#[test]
fn attributes_of_every_type() {
    let program = program();
    let view = View::new(&program).unwrap();
    let r = Reader(view.as_abi());
    let node = r.all(r.0.nodes)[0];
    let attr = |name: &str| r.attr(&node, name);
    let (strings, edges) = (r.strings(), r.all(r.0.edges));
    let bytes =
        |first: u32, count: u32| String::from_utf8(strings[first as usize..][..count as usize].to_vec()).unwrap();
    assert_eq!((attr("i").attr_type, attr("i").value), (attr_type::I64, -9));
    assert_eq!((attr("f").attr_type, f32::from_bits(attr("f").value as u32)), (attr_type::F32, 0.5));
    assert_eq!(bytes(attr("s").first, attr("s").count), "a\0b");
    assert_eq!(r.all(r.0.dims)[attr("is").first as usize..][..2], [4, -5]);
    assert_eq!(r.all(r.0.scales)[attr("fs").first as usize..][..2], [1.0, 2.0]);
    let ss = attr("ss");
    let pairs = &edges[ss.first as usize..][..2 * ss.count as usize];
    let texts: Vec<String> = pairs.chunks(2).map(|p| bytes(p[0], p[1])).collect();
    assert_eq!(texts, ["one", "", "three"]);
    let tensor = r.all(r.0.values)[attr("t").value as usize];
    let data = r.all(r.0.consts)[tensor.const_idx as usize];
    // SAFETY: the constant is alive and has as many bytes.
    assert_eq!(unsafe { std::slice::from_raw_parts(data.ptr, data.len as usize) }, 7i32.to_le_bytes());
    assert_eq!((attr("clamp_lo").value, attr("clamp_hi").value), (-3, 7));
    assert_eq!(bytes(attr("act").first, attr("act").count), "Clip");
    assert_eq!(f32::from_bits(attr("act_lo").value as u32), -1.5);
    assert_eq!(f32::from_bits(attr("act_hi").value as u32), 6.0);
}

#[test]
fn values_shapes_and_quantization() {
    let program = program();
    let view = View::new(&program).unwrap();
    let r = Reader(view.as_abi());
    let (values, dims) = (r.all(r.0.values), r.all(r.0.dims));
    let (x, w, y, unknown) = (values[0], values[1], values[2], values[3]);
    assert_eq!(dims[x.dim_first as usize..][..2], [-1, 4]);
    assert_eq!(dims[y.dim_first as usize..][..2], [-1, 4]);
    assert_eq!((y.layout, y.quant, y.const_idx), (layout::NHWC, index::NONE, index::NONE));
    assert_eq!((unknown.rank, r.name(unknown.name).as_str()), (index::NONE, "unknown"));
    let symbol = r.all(r.0.attrs)[r.0.attr_first as usize];
    assert_eq!((r.0.attr_count, r.name(symbol.name).as_str()), (1, "batch"));
    assert_eq!(dims[symbol.first as usize..][..2], [0, i64::MAX]);
    let quants = r.all(r.0.quants);
    let (qx, qw) = (quants[x.quant as usize], quants[w.quant as usize]);
    assert_eq!((qx.scheme, qx.storage, qx.flags), (scheme::PER_TENSOR, DataType::U8 as u32, quant_flag::SYMMETRIC));
    assert_eq!(r.all(r.0.zps)[qx.zp_first as usize], 128);
    assert_eq!((qw.scheme, qw.axis), (scheme::PER_AXIS, 1));
    assert_eq!(r.all(r.0.scales)[qw.scale_first as usize..][..2], [0.25, 0.5]);
    let data = r.all(r.0.consts)[w.const_idx as usize];
    assert_eq!((data.value, data.len, data.fd), (1, 8, -1));
    assert!(std::ptr::eq(data.ptr, program.values[1].constant.as_ref().unwrap().bytes().as_ptr()));
}

#[test]
fn names_that_cannot_be_ended_are_refused() {
    let mut program = program();
    program.nodes[0].name = "a\0b".into();
    assert!(View::new(&program).err().unwrap().to_string().contains("zero byte"));
}

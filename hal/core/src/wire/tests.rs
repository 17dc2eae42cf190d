//! Round trips, and what strangers may send.

use super::{Inline, Load, Reader, Store, Writer, decode, encode};
use crate::program::Activation;
use crate::{
    Attr, Attrs, DataType, Dim, Fused, Layout, Node, Program, QuantParams, RequantMode, Result, Scheme, Shape, Tensor,
    TensorType, Value, ValueId,
};

fn value(name: &str, ty: TensorType) -> Value {
    Value { name: name.into(), ty, constant: None }
}

/// A program that has one of everything.
fn everything() -> Program {
    let weights = Tensor::from_ints(DataType::S8, &[2, 3], &[1, -2, 3, -128, 127, 0]).unwrap();
    let w = TensorType::fixed(DataType::S8, &[2, 3]).quantized(QuantParams::per_axis_symmetric(0, vec![0.5, 0.25]));
    let nibbles = Tensor::from_ints(DataType::U4, &[3], &[1, 2, 15]).unwrap();
    let blocked =
        QuantParams { scheme: Scheme::Blocked { axis: 0, block: 2 }, scales: vec![1.0; 2], zero_points: vec![3, 4] };
    let symbolic = TensorType::new(DataType::F32, Shape(vec![Dim::Sym("batch".into()), Dim::Known(3)]));
    let images = TensorType { layout: Layout::Nhwc, ..TensorType::fixed(DataType::U8, &[1, 2, 3, 4]) };
    let attrs = Attrs::default()
        .with("axis", Attr::Int(-1))
        .with("alpha", Attr::Float(f32::NAN))
        .with("mode", Attr::Str("ä".into()))
        .with("pads", Attr::Ints(vec![0, i64::MIN]))
        .with("scales", Attr::Floats(vec![-0.0]))
        .with("names", Attr::Strs(vec!["a".into(), String::new()]))
        .with("body", Attr::Program(Program::default().into()))
        .with("value", Attr::Tensor(Tensor::scalar(7i64)));
    let fused = Fused {
        zp_before_round: true,
        residual: true,
        act: Some(Activation::Clip { lo: -1.0, hi: 6.0 }),
        clamp: Some((-128, 127)),
    };
    let node = Node {
        domain: "com.microsoft".into(),
        inputs: vec![Some(ValueId(0)), None, Some(ValueId(1))],
        outputs: vec![ValueId(4)],
        attrs,
        requant: Some(RequantMode::Q31Single),
        fused,
        ..Node::new("n", "QLinearThing", 13)
    };
    let second = Node {
        inputs: vec![Some(ValueId(4)), Some(ValueId(2))],
        outputs: vec![ValueId(3)],
        fused: Fused { act: Some(Activation::Relu), ..Fused::default() },
        ..Node::new("m", "Add", 14)
    };
    Program {
        name: "all".into(),
        values: vec![
            value("x", symbolic.clone()),
            Value { constant: Some(weights), ..value("w", w) },
            Value { constant: Some(nibbles), ..value("b", TensorType::fixed(DataType::U4, &[3]).quantized(blocked)) },
            value("y", images),
            value("t", symbolic),
        ],
        nodes: vec![node, second],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(3), ValueId(3)],
    }
}

fn bytes_of(program: &Program) -> Vec<u8> {
    let mut w = Writer::default();
    encode(program, &mut Inline, &mut w).unwrap();
    w.into_bytes()
}

fn read(bytes: &[u8]) -> Result<Program> {
    let mut r = Reader::new(bytes);
    let program = decode(&mut r, &mut Inline)?;
    r.end().map(|()| program)
}

#[test]
fn everything_comes_back_bit_for_bit() {
    let program = everything();
    let bytes = bytes_of(&program);
    let back = read(&bytes).unwrap();
    assert_eq!(bytes_of(&back), bytes);
    // NaN is unequal to itself; the bytes above have compared its bits.
    assert_eq!(format!("{back:?}"), format!("{program:?}"));
    assert_eq!(bytes[..4], [1, 0, 0, 0]);
}

/// Keeps data under the number of its arrival.
#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Store for Kept {
    fn store(&mut self, tensor: &Tensor) -> Result<Option<u64>> {
        self.0.push(tensor.bytes().to_vec());
        Ok(Some(self.0.len() as u64 - 1))
    }
}

impl Load for Kept {
    fn load(&mut self, number: u64, dtype: DataType, shape: &[usize]) -> Result<Tensor> {
        let data = usize::try_from(number).ok().and_then(|i| self.0.get(i)).ok_or_else(|| super::corrupt("unknown"))?;
        Tensor::from_bytes(dtype, shape, data)
    }
}

#[test]
fn data_may_live_elsewhere() {
    let program = everything();
    let (mut kept, mut w) = (Kept::default(), Writer::default());
    encode(&program, &mut kept, &mut w).unwrap();
    assert_eq!(kept.0.len(), 3);
    let back = decode(&mut Reader::new(w.bytes()), &mut kept).unwrap();
    assert_eq!(bytes_of(&back), bytes_of(&program));
    let e = decode(&mut Reader::new(w.bytes()), &mut Inline).unwrap_err().to_string();
    assert!(e.contains("no such place"), "{e}");
}

#[test]
fn every_cut_is_an_error() {
    let bytes = bytes_of(&everything());
    for n in 0..bytes.len() {
        assert!(read(&bytes[..n]).is_err(), "the first {n} of {} bytes", bytes.len());
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(read(&longer).unwrap_err().to_string().contains("1 bytes too many"));
}

/// What is read from changed bytes is exactly what they say, or an error.
#[test]
fn changed_bytes_are_read_as_written_or_refused() {
    let bytes = bytes_of(&everything());
    let mut state = 7u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        for _ in 0..1 + random(3) {
            let at = random(changed.len());
            changed[at] = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
        }
        if let Ok(program) = read(&changed) {
            program.check().unwrap();
            assert_eq!(bytes_of(&program), changed);
        }
    }
}

#[test]
fn absurd_counts_are_refused_before_memory_is_asked_for() {
    let mut w = Writer::default();
    w.u32(super::VERSION);
    w.str("p");
    w.u64(1 << 60);
    let e = read(w.bytes()).unwrap_err().to_string();
    assert!(e.contains("longer than the data"), "{e}");
    let mut other = bytes_of(&everything());
    other[0] = 9;
    assert!(read(&other).unwrap_err().to_string().contains("encoding 9"));
}

//! The text form of a graph: what `--emit text` prints, what golden tests compare, and it parses back.
//!
//! ```text
//! ottava-graph 1
//! graph "lenet" canonical
//! opset "" 13
//! input %x : f32[N,1,8,8]
//! const %w : s8[2,1,3,3] per_axis(0, [0.5, 0.25], [0, 0]) = hex "01ff.."
//! %y : u8[N,2,6,6] per_tensor(0.1, 3) = "conv" Conv.22(%x, %w, _) {strides = [1, 1]} requant fp32_rne clamp(3, 255)
//! output %y
//! state "h" 1 1 = [0, 0]
//! ```
//! A state names its places among the inputs and outputs, counted from 0, and its first value.
//! Names that are no plain words are quoted. Constants of up to 16 elements are written as numbers, larger ones as the
//! hexadecimal bytes of their little-endian elements, so nothing is lost either way.

mod lex;
mod parse;
mod print;

pub use parse::parse;
pub use print::print;

/// First line of every text.
const HEADER: &str = "ottava-graph 1";
/// Constants up to this number of elements are written as numbers.
const MAX_LISTED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Graph, Phase};
    use ottava_hal::{Attr, DataType, Dim, Node, QuantParams, RequantMode, Shape, Tensor, TensorType};

    fn sample() -> Graph {
        let mut g = Graph::new("a \"quoted\" name\n");
        g.phase = Phase::Quantized;
        g.opsets.insert(String::new(), 13);
        let x_ty = TensorType::new(DataType::U8, Shape(vec![Dim::Sym("N".into()), Dim::Known(2)]));
        let x = g.add_input("x", x_ty.clone().quantized(QuantParams::per_tensor(0.1, 3)));
        let h = g.add_value("h", TensorType::fixed(DataType::S16, &[2]));
        let w = g.add_const(
            "weird name, with (brackets)",
            Tensor::from_ints(DataType::S8, &[2, 2], &[1, -2, 3, -128]).unwrap(),
        );
        g.values[w.0].ty = g.values[w.0].ty.clone().quantized(QuantParams::per_axis_symmetric(0, vec![0.5, 1e-7]));
        let big =
            g.add_const("big", Tensor::from_slice(&[20], &[f32::NAN, -0.0, f32::INFINITY, 1.5e-40].repeat(5)).unwrap());
        let y = g.add_value("y", x_ty.quantized(QuantParams::per_tensor(1.0 / 3.0, 128)));
        let mut node = Node::new("gemm/1", "Gemm", 13);
        node.inputs = vec![Some(x), Some(w), None, Some(x)];
        node.outputs = vec![y];
        node.requant = Some(RequantMode::Q31Double);
        node.fused.residual = true;
        node.fused.zp_before_round = true;
        node.fused.clamp = Some((0, 200));
        node.fused.act = Some(Activation::Clip { lo: -1.0, hi: f32::INFINITY });
        node.attrs.set("alpha", Attr::Float(1.0));
        node.attrs.set("transB", Attr::Int(-1));
        node.attrs.set("list", Attr::Ints(vec![]));
        node.attrs.set("floats", Attr::Floats(vec![1.0, f32::NEG_INFINITY]));
        node.attrs.set("names", Attr::Strs(vec!["a\\b".into(), "ü".into()]));
        node.attrs.set("text", Attr::Str("line\nbreak".into()));
        node.attrs.set("data", Attr::Tensor(Tensor::from_bools(&[2], &[true, false]).unwrap()));
        g.nodes.push(node);
        let z = g.add_value("z", g.ty(big).clone());
        let mut relu = Node::new("r", "Relu", 14);
        relu.domain = "my.domain".into();
        relu.inputs = vec![Some(big)];
        relu.outputs = vec![z];
        g.nodes.push(relu);
        g.outputs = vec![y, z, y];
        g.add_state("h state", h, h, Tensor::from_ints(DataType::S16, &[2], &[0, -7]).unwrap());
        g
    }

    #[test]
    fn text_parses_back_to_the_same_text() {
        let text = print(&sample());
        let again = parse(&text).unwrap();
        assert_eq!(print(&again), text);
        assert_eq!(again.nodes, sample().nodes);
        assert_eq!(again.name, sample().name);
        assert_eq!((again.inputs, again.outputs), (sample().inputs, sample().outputs));
        assert_eq!(again.states, sample().states);
    }

    #[test]
    fn errors_name_line_and_expectation() {
        let broken = |from: &str, to: &str| parse(&print(&sample()).replace(from, to)).unwrap_err().to_string();
        assert!(broken("ottava-graph 1", "ottava-graph 2").contains("line 1"));
        assert!(broken("requant q31_double", "requant half_up").contains("half_up"));
        assert!(broken("u8[N,2]", "u9[N,2]").contains("u9"));
        assert!(broken("output %y", "output %nowhere").contains("nowhere"));
        assert!(broken("(%x, ", "(%later, ").contains("later"));
        assert!(broken("hex \"", "hex \"0g").contains("hex"));
        assert!(broken("state \"h state\" 1 3", "state \"h state\" 1 4").contains("places"));
    }

    #[test]
    fn any_truncation_is_an_error_or_a_graph() {
        let text = print(&sample());
        for end in (0..text.len()).filter(|i| text.is_char_boundary(*i)) {
            let _ = parse(&text[..end]);
        }
    }
}

//! Add, Sub, Mul, Div and PRelu, with broadcasting.
//!
//! * (C1) floats: one IEEE operation. (C2) integers wrap; Div truncates, and a divisor of 0 is an error.
//! * (C3) quantized: dequantize both, one f32 operation, quantize (numerics.md section 4).
//! * (C4) with `zp_before_round` Add and Mul add the zero point before rounding, as com.microsoft QLinearAdd and QLinearMul do.
//! * (C5) in a Q31 mode Add, Sub, Mul and PRelu have the fixed-point forms of TFLite.

use super::binary::{Binary, BinaryFn, spec2};
use super::number::Compute;
use super::sample::{case, f32s, ints, quant_case};
use crate::quant::fixed_binary::Fixed;
use crate::quant::qlinear_binary;
use crate::{Case, OpSpec};
use ottava_hal::{DataType, Node, RequantMode};

/// `a + b`.
pub static ADD: Binary<Add> = Binary(Add);
/// `a - b`.
pub static SUB: Binary<Sub> = Binary(Sub);
/// `a * b`.
pub static MUL: Binary<Mul> = Binary(Mul);
/// `a / b`.
pub static DIV: Binary<Div> = Binary(Div);
/// `x < 0 ? slope * x : x`.
pub static PRELU: Binary<PRelu> = Binary(PRelu);

/// See [`ADD`].
pub struct Add;
/// See [`SUB`].
pub struct Sub;
/// See [`MUL`].
pub struct Mul;
/// See [`DIV`].
pub struct Div;
/// See [`PRELU`].
pub struct PRelu;

impl BinaryFn for Add {
    const SPEC: &'static OpSpec = &spec2("Add", 7);
    const BEFORE_ROUND: Option<qlinear_binary::Binary> = Some(qlinear_binary::Binary::Add);
    const FIXED: Option<Fixed> = Some(Fixed::Add);

    fn apply<C: Compute>(a: C, b: C) -> C {
        a.add(b)
    }

    fn cases() -> Vec<Case> {
        let x = f32s(&[2, 1], &[1.0, 2.0]);
        let q = |v: &[i64]| ints(DataType::U8, &[3], v);
        // 0.5*(q - 10) + 0.25*q in steps of 1 with zero point 1: -4.75, 2.5, 185 before rounding.
        let quantized = quant_case(
            "c3_quantized",
            Node::new("add", "Add", 14),
            &[(q(&[0, 12, 255]), 0.5, 10), (q(&[1, 6, 250]), 0.25, 0)],
            (q(&[0, 3, 186]), 1.0, 1),
        );
        vec![
            case("c1_broadcast", node("Add"), &[x, f32s(&[2], &[10.0, 20.0])], &[f32s(&[2, 2], &[11., 21., 12., 22.])]),
            case("c2_wraps", node("Add"), &[u8s(&[200, 1]), u8s(&[100, 1])], &[u8s(&[44, 2])]),
            quantized,
            zp_before_round(),
            // (9 - 1) / 2 + (6 - 2) / 4 = 5; 1/2 + 1/4 at scale 1/2 is 1.5 steps, which round away from zero.
            fixed("Add", &[10, 2]),
        ]
    }
}

/// Worked example 1 of numerics.md section 3, third row: half the accumulator, zero point 1 added before rounding.
fn zp_before_round() -> Case {
    let mut node = Node::new("add", "Add", 14);
    node.fused.zp_before_round = true;
    let s8 = |v: &[i64]| ints(DataType::S8, &[17], v);
    let acc: Vec<i64> = (-8..=8).collect();
    let expected = [-3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5];
    quant_case(
        "c4_zero_point_before_rounding",
        node,
        &[(s8(&acc), 0.5, 0), (s8(&[0; 17]), 1.0, 0)],
        (s8(&expected), 1.0, 1),
    )
}

impl BinaryFn for Sub {
    const SPEC: &'static OpSpec = &spec2("Sub", 7);
    const FIXED: Option<Fixed> = Some(Fixed::Sub);

    fn apply<C: Compute>(a: C, b: C) -> C {
        a.sub(b)
    }

    fn cases() -> Vec<Case> {
        vec![
            case("c1_floats", node("Sub"), &[f32s(&[2], &[1.0, 2.0]), f32s(&[], &[3.0])], &[f32s(&[2], &[-2.0, -1.0])]),
            fixed("Sub", &[6, 1]),
            case("c2_wraps", node("Sub"), &[u8s(&[1, 5]), u8s(&[2, 5])], &[u8s(&[255, 0])]),
        ]
    }
}

impl BinaryFn for Mul {
    const SPEC: &'static OpSpec = &spec2("Mul", 7);
    const BEFORE_ROUND: Option<qlinear_binary::Binary> = Some(qlinear_binary::Binary::Mul);
    const FIXED: Option<Fixed> = Some(Fixed::Mul);

    fn apply<C: Compute>(a: C, b: C) -> C {
        a.mul(b)
    }

    fn cases() -> Vec<Case> {
        vec![
            case("c1_floats", node("Mul"), &[f32s(&[2], &[1.5, 2.0]), f32s(&[1], &[3.0])], &[f32s(&[2], &[4.5, 6.0])]),
            fixed("Mul", &[8, 1]),
            case("c2_wraps", node("Mul"), &[u8s(&[16, 3]), u8s(&[17, 2])], &[u8s(&[16, 6])]),
        ]
    }
}

impl BinaryFn for Div {
    const SPEC: &'static OpSpec = &spec2("Div", 7);
    const DIVIDES: bool = true;

    fn apply<C: Compute>(a: C, b: C) -> C {
        a.div(b)
    }

    fn cases() -> Vec<Case> {
        let s32 = |v: &[i64]| ints(DataType::S32, &[3], v);
        vec![
            case(
                "c1_floats",
                node("Div"),
                &[f32s(&[2], &[3.0, 1.0]), f32s(&[2], &[4.0, 3.0])],
                &[f32s(&[2], &[0.75, 0.333_333_34])],
            ),
            case("c2_truncates", node("Div"), &[s32(&[7, -7, 6]), s32(&[2, 2, -3])], &[s32(&[3, -3, -2])]),
        ]
    }
}

impl BinaryFn for PRelu {
    const SPEC: &'static OpSpec = &spec2("PRelu", 7);
    const FIXED: Option<Fixed> = Some(Fixed::PRelu);

    fn apply<C: Compute>(x: C, slope: C) -> C {
        if x < C::ZERO { x.mul(slope) } else { x }
    }

    fn cases() -> Vec<Case> {
        let (x, slope) = (f32s(&[2, 2], &[-1.0, 2.0, -3.0, -4.0]), f32s(&[2], &[0.5, 0.25]));
        vec![
            case("per_channel", node("PRelu"), &[x, slope], &[f32s(&[2, 2], &[-0.5, 2.0, -1.5, -1.0])]),
            // 8 * 0.5; 1 * 0.5: the differences to the zero point are not negative.
            fixed("PRelu", &[8, 1]),
        ]
    }
}

/// (9, 2) at scale 1/2 and zero point 1 with (6, 3) at 1/4 and 2, the result at scale 1/2.
fn fixed(op: &str, expected: &[i64]) -> Case {
    let mut node = node(op);
    node.requant = Some(RequantMode::Q31Double);
    let s8 = |v: &[i64]| ints(DataType::S8, &[2], v);
    quant_case("c5_fixed_point", node, &[(s8(&[9, 2]), 0.5, 1), (s8(&[6, 3]), 0.25, 2)], (s8(expected), 0.5, 0))
}

fn node(op: &str) -> Node {
    Node::new("arithmetic", op, 14)
}

fn u8s(values: &[i64]) -> ottava_hal::Tensor {
    ints(DataType::U8, &[values.len()], values)
}

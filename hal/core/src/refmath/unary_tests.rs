//! Tests of [`super`]: published values, limits at infinity, and agreement of the f32 forms with f64.

use super::*;

const NAMES: [&str; 40] = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "GeluTanh",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Silu",
    "Swish",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

fn f(name: &str) -> fn(f64) -> f64 {
    unary_f64(name).expect("a known operator")
}

#[test]
fn c1_known_values() {
    let cases = [
        ("Sigmoid", 1.0, 0.731_058_578_630_004_9),
        ("Gelu", 1.0, 0.841_344_746_068_542_9),
        ("Gelu", -1.0, -0.158_655_253_931_457_05),
        ("GeluTanh", 1.0, 0.841_191_990_608_276_8),
        ("Silu", 1.0, 0.731_058_578_630_004_9),
        ("Softplus", 0.0, core::f64::consts::LN_2),
        ("Mish", 1.0, 0.865_098_388_267_310_3),
        ("HardSwish", 1.0, 2.0 / 3.0),
        ("HardSigmoid", 0.0, 0.5),
        ("Elu", -1.0, -0.632_120_558_828_557_7),
        ("Celu", -1.0, -0.632_120_558_828_557_7),
        ("Selu", 1.0, 1.050_700_987_355_480_5),
        ("LeakyRelu", -1.0, -0.01),
        ("Softsign", 3.0, 0.75),
        ("ThresholdedRelu", 1.0, 0.0),
        ("Round", 2.5, 2.0),
        ("Sign", -7.0, -1.0),
        ("Reciprocal", 4.0, 0.25),
    ];
    for (name, x, expect) in cases {
        // 1e-6 where a default attribute is an f32, far less elsewhere.
        let tolerance = if ["LeakyRelu", "Selu"].contains(&name) { 1e-7 } else { 1e-15 };
        assert!((f(name)(x) - expect).abs() <= tolerance, "{name}({x}) = {}", f(name)(x));
    }
}

#[test]
fn c1_limits_and_nan() {
    let inf = f64::INFINITY;
    for name in ["Gelu", "GeluTanh", "Silu", "Mish", "HardSwish", "Softplus", "Sigmoid", "HardSigmoid", "Relu"] {
        assert_eq!(f(name)(-inf), 0.0, "{name}");
    }
    for name in ["Gelu", "GeluTanh", "Silu", "Mish", "HardSwish", "Softplus", "Elu", "Selu", "Celu", "Relu"] {
        assert_eq!(f(name)(inf), inf, "{name}");
    }
    assert_eq!([f("Softsign")(-inf), f("Elu")(-inf), f("Sigmoid")(inf)], [-1.0, -1.0, 1.0]);
    for name in NAMES {
        assert!(f(name)(f64::NAN).is_nan(), "{name}");
        let y = unary_f32(name, f32::NAN).expect("a known operator");
        assert!(y.is_nan(), "{name}");
    }
    assert!(unary_f64("Conv").is_none() && unary_f32("Conv", 1.0).is_none());
}

#[test]
fn c2_f32_follows_f64() {
    for name in NAMES {
        for i in -400..=400 {
            let x = i as f32 / 32.0;
            let (got, exact) = (unary_f32(name, x).expect("known"), f(name)(x.into()));
            if exact.is_nan() || exact.is_infinite() {
                assert!(got.is_nan() == exact.is_nan(), "{name}({x}) = {got}, expected {exact}");
                continue;
            }
            // The composed sequences lose relative accuracy where their terms cancel, never more than this.
            let tolerance = 4e-7 * exact.abs().max(f64::from(x.abs())).max(1.0);
            assert!((f64::from(got) - exact).abs() <= tolerance, "{name}({x}) = {got}, expected {exact}");
        }
    }
}

#[test]
fn c3_parameters() {
    assert_eq!(elu_f64(-2.0, 0.0), 0.0);
    assert_eq!(hard_sigmoid_f64(10.0, 0.2, 0.5), 1.0);
    assert_eq!(hard_sigmoid_f64(-10.0, 0.2, 0.5), 0.0);
    assert_eq!(celu_f64(-2.0, 2.0), 2.0 * libm::expm1(-1.0));
    assert_eq!(swish_f64(2.0, 0.0), 1.0);
    assert_eq!(clip_f64(5.0, 3.0, 1.0), 1.0, "the upper bound wins");
    assert_eq!(clip(5.0, 3.0, 1.0), 1.0);
    assert_eq!(thresholded_relu_f64(0.6, 0.5), 0.6);
    assert_eq!(leaky_relu_f64(-4.0, 0.25), -1.0);
}

#[test]
fn pow_rounds_once() {
    assert_eq!([pow(2.0, 10.0), pow(9.0, 0.5), pow(2.0, -1.0), pow(0.0, 0.0)], [1024.0, 3.0, 0.5, 1.0]);
    assert!(pow(-2.0, 0.5).is_nan());
    assert_eq!(pow(10.0, 39.0), f32::INFINITY);
    assert_eq!(pow(0.1, 2.0), (f64::from(0.1_f32) * f64::from(0.1_f32)) as f32);
}

//! Operators on integers give the numbers of LiteRT's reference kernels: values here are those that it computed.
mod flat;

use flat::*;
use ottava_graph::Graph;
use ottava_hal::{RequantMode, Tensor};
use ottava_import::{TfliteOptions, import_tflite_bytes};

const HALF: f32 = 1.0 / 32768.0;

/// One operator from one quantization to another, over a list of values.
struct Unary {
    code: i32,
    element: i8,
    from: (f32, i64),
    to: (f32, i64),
    options: Option<Table>,
}

impl Unary {
    fn s16(code: i32, from: f32, to: f32) -> Self {
        Self { code, element: INT16, from: (from, 0), to: (to, 0), options: None }
    }

    fn s8(code: i32, from: (f32, i64), to: (f32, i64)) -> Self {
        Self { code, element: INT8, from, to, options: None }
    }

    fn model(&self, n: usize) -> Model {
        let mut m = Model::new();
        let tensor = |m: &mut Model, name, (scale, zero): (f32, i64)| {
            m.tensor(name, self.element, &[1, n as i32], Some((&[scale], zero, 0)))
        };
        let (x, y) = (tensor(&mut m, "x", self.from), tensor(&mut m, "y", self.to));
        m.op(self.code, &[x], &[y], self.options.clone());
        (m.inputs, m.outputs) = (vec![x], vec![y]);
        m
    }

    fn of(&self, values: &[i64]) -> Vec<i64> {
        let graph = import(&self.model(values.len())).expect("imports").0;
        run(&graph, &[ints(self.element, &[1, values.len()], values)]).remove(0)
    }
}

fn ints(element: i8, shape: &[usize], values: &[i64]) -> Tensor {
    let dtype = match element {
        INT16 => ottava_hal::DataType::S16,
        INT32 => ottava_hal::DataType::S32,
        INT64 => ottava_hal::DataType::S64,
        BOOL => ottava_hal::DataType::Bool,
        _ => ottava_hal::DataType::S8,
    };
    Tensor::from_ints(dtype, shape, values).expect("a tensor")
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Vec<i64>> {
    let found = execute(graph, inputs).expect("runs");
    found.iter().map(|t| t.to_ints().expect("integers")).collect()
}

#[test]
fn sixteen_bits_have_formulas_and_tables() {
    let pixels = [-22555, 4349, 24700, 5975, 31096, -372];
    assert_eq!(Unary::s16(14, 8.0 * HALF, HALF).of(&pixels), [133, 24347, 32690, 26587, 32752, 15640]);
    let pixels = [-27954, -30936, 336, 8803, 2524, -8705];
    assert_eq!(Unary::s16(28, 8.0 * HALF, HALF).of(&pixels), [-32767, -32767, 2683, 31890, 17972, -31846]);
    let pixels = [1285, 23935, -27741, 31066, 26179, 7112];
    assert_eq!(Unary::s16(47, 1e-4, 1e-3).of(&pixels), [1138, 10950, 63, 22342, 13706, 2037]);
    let pixels = [18035, 10635, 16312, 18843, 23135, 23620, 0, -5];
    let logs = [589, 61, 490, 633, 838, 859, -32768, -32768];
    assert_eq!(Unary::s16(73, 1e-4, 1e-3).of(&pixels)[..6], logs[..6]);
    assert_eq!(Unary::s16(150, 1e-3, 1e-3).of(&[30366, 9181, 17401, -491, 4722]), [30365, 9180, 17400, -154, 4721]);
    let leaky = Unary { options: Some(Table::default().with(0, f32(0.3))), ..Unary::s16(98, 1e-3, 7e-4) };
    assert_eq!(leaky.of(&[-27380, -26127, -7337, -26538, -2404, -28367]), [-11735, -11198, -3145, -11374, -1031, -12158]);
}

#[test]
fn sixteen_bits_of_other_modes_are_floats_between_their_scales() {
    let model = Unary::s16(14, 8.0 * HALF, HALF).model(1);
    let options = TfliteOptions { requant: RequantMode::Fp32Rne };
    let (graph, notes) = import_tflite_bytes(&model.bytes(), "test", &options).expect("imports");
    assert_eq!((graph.nodes[0].op.as_str(), graph.nodes[0].requant), ("Sigmoid", None));
    assert!(notes.is_empty(), "nothing is rescaled: {notes:?}");
    let (graph, notes) = import_tflite_bytes(&network().bytes(), "test", &options).expect("imports");
    assert!(graph.nodes.iter().filter_map(|n| n.requant).all(|mode| mode == RequantMode::Fp32Rne));
    assert!(notes.iter().any(|n| n.code == "Q0407" && n.message.contains("fp32_rne")), "{notes:?}");
}

/// Tables of functions that have no value, or an infinite one, saturate.
#[test]
fn tables_saturate() {
    let exp = Unary::s8(47, (1.0, 3), (0.1, -5));
    assert_eq!(exp.of(&[-128, 3, 4, 5, 6, 127]), [-5, 5, 22, 69, 127, 127]);
    let log = Unary::s8(73, (0.03, -128), (0.5, -5));
    assert_eq!(log.of(&[-128, -127, -95, 127]), [-128, -12, -5, -1], "the logarithm of 0");
    let log = Unary::s8(73, (0.03, 0), (0.5, -5));
    assert_eq!(log.of(&[-128, -1, 0]), [-128, -128, -128], "of negative numbers");
}

#[test]
fn roots_are_cut_and_slopes_are_integers() {
    let root = Unary::s8(75, (0.1, -128), (0.05, -5));
    assert_eq!(root.of(&[16, 102, -45, 73, -82, -96, -128]), [70, 90, 52, 84, 37, 30, -5]);
    let mut m = Model::new();
    let (x, y) = (m.s8("x", &[1, 3], 0.1, 3), m.s8("y", &[1, 3], 0.08, 5));
    let slope = m.s8("slope", &[3], 0.01, -7);
    m.data(slope, &[10, 20, 30]);
    m.op(54, &[x, slope], &[y], None);
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let graph = import(&m).expect("imports").0;
    assert_eq!(graph.nodes[0].requant, Some(RequantMode::Q31Double));
    // 50 * 1.25 = 62.5 rounds away from zero; -20 * 27 * 0.0125 = -6.75; -40 * 37 * 0.0125 = -18.5.
    assert_eq!(run(&graph, &[ints(INT8, &[1, 3], &[53, -17, -37])]), [[68, -2, -14]]);
}

/// An accumulator of 64 bits is multiplied by all 31 bits of the multiplier, and rounded once.
#[test]
fn fully_connected_of_sixteen_bits_rounds_once() {
    let mut m = Model::new();
    let x = m.tensor("x", INT16, &[1, 2], Some((&[0.001], 0, 0)));
    let w = m.s8("w", &[1, 2], 0.0123, 0);
    m.data(w, &[127, 101]);
    let y = m.tensor("y", INT16, &[1, 1], Some((&[0.0041], 0, 0)));
    m.op(9, &[x, w, -1], &[y], Some(Table::default()));
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    let graph = import(&m).expect("imports").0;
    let real = 0.001f32 as f64 * 0.0123f32 as f64 / 0.0041f32 as f64;
    for (a, b) in [(32767i64, 32767i64), (-32768, 12345), (20001, -30000), (-1, 4)] {
        let exact = ((127 * a + 101 * b) as f64 * real + 0.5).floor() as i64;
        assert_eq!(run(&graph, &[ints(INT16, &[1, 2], &[a, b])]), [[exact]], "{a} {b}");
    }
}

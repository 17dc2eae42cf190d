//! How programs of each family of operators are made. A family is one file and its lines in [`FAMILIES`].

mod bridge;
mod conv;
mod matrix;
mod movement;
mod pointwise;
mod pool;
mod reduce;
mod resize;
mod rows;

pub(super) use conv::{ConvPlan, conv};

use super::build::Sample;
use super::draw::Draw;
use ottava_hal::{DataType, Node, OpRow, RequantMode};

/// What the programs of a case have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    /// Domain of the operator.
    pub domain: &'static str,
    /// Name of the operator.
    pub op: &'static str,
    /// Element type of the first input.
    pub dtype: DataType,
    /// One scale per output channel, for products.
    pub per_axis: bool,
    /// Requantization mode, where there is one.
    pub mode: Option<RequantMode>,
}

impl Form {
    /// A node of the operator in the mode.
    pub(super) fn node(&self) -> Node {
        let version = if self.domain.is_empty() { 22 } else { 1 };
        let mut node = Node { domain: self.domain.into(), ..Node::new("n", self.op, version) };
        node.requant = self.mode;
        node
    }

    /// The part of the case's name behind `num.`: `Conv.s8.per_axis.fp32_rne`.
    pub(super) fn name(&self) -> String {
        let scheme = if self.per_axis { ".per_axis" } else { "" };
        let mode = self.mode.map(|m| format!(".{}", m.name())).unwrap_or_default();
        format!("{}.{}{scheme}{mode}", self.op, self.dtype.name())
    }
}

/// Makes a program of a form; `None` where the choices do not fit together.
pub(super) type Make = fn(&Form, &mut Draw) -> Option<Sample>;

/// Operators that are made alike.
pub(super) struct Family {
    /// Domain of the operators.
    pub domain: &'static str,
    /// Names of the operators.
    pub ops: &'static [&'static str],
    /// Element types.
    pub dtypes: &'static [DataType],
    /// Weights may have one scale per channel.
    pub per_axis: bool,
    /// Modes of the quantized forms; empty where results are not requantized.
    pub modes: &'static [RequantMode],
    /// Makes a program.
    pub make: Make,
}

const MODES: &[RequantMode] = &[RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];
const ALL: &[DataType] = &[DataType::S8, DataType::U8, DataType::S16, DataType::F32];
const BYTES: &[DataType] = &[DataType::S8, DataType::U8, DataType::F32];

const fn family(ops: &'static [&'static str], dtypes: &'static [DataType], make: Make) -> Family {
    Family { domain: "", ops, dtypes, per_axis: false, modes: &[], make }
}

/// Every family.
pub(super) static FAMILIES: &[Family] = &[
    Family { per_axis: true, modes: MODES, ..family(&["Conv", "ConvTranspose"], ALL, conv::make) },
    Family { per_axis: true, modes: MODES, ..family(&["Gemm", "MatMul"], ALL, matrix::make) },
    Family { modes: MODES, ..family(&["AveragePool", "GlobalAveragePool"], ALL, pool::make) },
    family(&["MaxPool", "GlobalMaxPool"], ALL, pool::make),
    Family { modes: MODES, ..family(&["ReduceMean", "ReduceSum"], ALL, reduce::make) },
    family(&["ReduceMax", "ReduceMin"], ALL, reduce::make),
    Family { modes: MODES, ..family(&["Add", "PRelu", "Sub", "Mul"], ALL, pointwise::binary) },
    family(&["Div", "Max", "Min"], ALL, pointwise::binary),
    family(&["Relu", "Clip", "Identity"], ALL, pointwise::unary),
    family(pointwise::FUNCTIONS, BYTES, pointwise::unary),
    family(movement::OPS, ALL, movement::make),
    family(&["Resize"], ALL, resize::make),
    Family { modes: MODES, ..family(&["Softmax"], BYTES, rows::make) },
    family(&["LayerNormalization", "RMSNormalization"], ALL, rows::make),
    family(&["LogSoftmax"], BYTES, rows::make),
    Family {
        domain: "ottava",
        modes: MODES,
        ..family(&["Requantize"], &[DataType::S8, DataType::U8, DataType::S16], bridge::make)
    },
    Family { domain: "ottava", ..family(&["Quantize"], &[DataType::F32], bridge::make) },
    Family {
        domain: "ottava",
        ..family(&["Dequantize", "Lut"], &[DataType::S8, DataType::U8, DataType::S16], bridge::make)
    },
];

/// The forms of an operator that its rows claim, with the maker of their programs.
pub(super) fn forms(domain: &str, op: &str, rows: &[OpRow]) -> Vec<(Form, Make)> {
    let found = FAMILIES.iter().find_map(|f| Some((f, f.ops.iter().find(|o| f.domain == domain && **o == op)?)));
    let Some((family, op)) = found else { return Vec::new() };
    let mut forms = Vec::new();
    for &dtype in family.dtypes.iter().filter(|t| rows.iter().any(|row| takes(row, **t))) {
        let plain = Form { domain: family.domain, op, dtype, per_axis: false, mode: None };
        if dtype.is_float() || family.modes.is_empty() {
            forms.push(plain);
            continue;
        }
        let claimed = |m: &&RequantMode| rows.iter().any(|row| takes(row, dtype) && row.requant.contains(m));
        for &mode in family.modes.iter().filter(claimed) {
            forms.push(Form { mode: Some(mode), ..plain });
            if family.per_axis {
                forms.push(Form { mode: Some(mode), per_axis: true, ..plain });
            }
        }
    }
    forms.into_iter().map(|form| (form, family.make)).collect()
}

/// Whether a row accepts an element type as its first input.
fn takes(row: &OpRow, dtype: DataType) -> bool {
    row.inputs.first().is_none_or(|input| input.dtypes.is_empty() || input.dtypes.contains(&dtype))
}

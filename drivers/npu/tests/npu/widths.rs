//! Every operator between elements of 8 and of 16 bits, in both directions: it has the reference's bytes, or the device
//! says why it does not run it. Sizes and places of a result follow from the result's type.

use crate::cases::program;
use crate::common::{CHIPS, Rng, data, describe, npu, reference, run};
use ottava_hal::{CompileOptions, DataType, Device, Program, Reason, RequantMode, Tensor, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;

/// From what to what.
const WIDTHS: [(DataType, DataType); 8] = [
    (DataType::U8, DataType::S16),
    (DataType::S8, DataType::S16),
    (DataType::S16, DataType::U8),
    (DataType::S16, DataType::S8),
    (DataType::S16, DataType::S16),
    (DataType::U8, DataType::S8),
    (DataType::U8, DataType::F32),
    (DataType::S16, DataType::F32),
];

/// Every operator of the device, some in several shapes, which the word behind them says.
const OPERATORS: [&str; 47] = [
    "Conv",
    "Conv 1x1",
    "Conv 1d",
    "Conv grouped",
    "Conv residual",
    "Conv depthwise",
    "Conv depthwise-1x1",
    "Conv depthwise-stride",
    "Conv depthwise-1d",
    "Conv depthwise-multiplier",
    "Conv depthwise-large",
    "Conv depthwise-residual",
    "Gemm",
    "MatMul",
    "MatMul computed",
    "Add",
    "Add row",
    "Add mixed",
    "Sub",
    "Mul",
    "Max",
    "Min",
    "MaxPool",
    "GlobalMaxPool",
    "AveragePool",
    "AveragePool padded",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceMean channels",
    "ReduceSum",
    "Gather",
    "Resize",
    "Pad",
    "Concat",
    "Concat mixed",
    "Slice",
    "Split",
    "Relu",
    "Clip",
    "Softmax",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Requantize",
];

/// In turn alone and with a node behind.
const MODES: [RequantMode; 4] =
    [RequantMode::Fp32Rne, RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];

/// Sums go through the requantizer, elements through the vector unit: both take every width.
const WIDE: [&str; 16] = [
    "Conv",
    "Gemm",
    "MatMul",
    "Add",
    "Sub",
    "Mul",
    "Concat mixed",
    "Relu",
    "Clip",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Requantize",
    "Add row",
];

#[test]
fn results_of_another_width_equal_the_reference_or_are_refused_with_a_reason() {
    let chips: Vec<_> = CHIPS.iter().map(|text| npu(text)).collect();
    let (mut runs, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (i, operator) in OPERATORS.iter().enumerate() {
        for (j, &(from, to)) in WIDTHS.iter().enumerate() {
            for (k, mode) in MODES.into_iter().enumerate() {
                let mut rng = Rng::new((i * 100 + j * 10 + k) as u64);
                let program = program(&mut rng, operator, (from, to), k % 2 == 1, mode);
                let inputs = data(&program, &mut rng);
                for device in &chips {
                    match on(device, &program, &inputs) {
                        None => runs.insert((*operator, from, to)),
                        Some(reason) => refused.insert((*operator, from, to, reason.code())),
                    };
                }
            }
        }
    }
    println!("{} of {} run; {} refusals", runs.len(), OPERATORS.len() * WIDTHS.len(), refused.len());
    for operator in OPERATORS.iter().filter(|o| WIDE.contains(o) || o.starts_with("Conv")) {
        for &(from, to) in WIDTHS.iter().filter(|w| w.1 != DataType::F32) {
            assert!(runs.contains(&(*operator, from, to)), "{operator} {from} -> {to} runs nowhere");
        }
    }
}

/// Runs the program where the chip takes it, and compares; else the reason.
fn on(device: &Arc<ottava_driver_npu::NpuDevice>, program: &Program, inputs: &[Tensor]) -> Option<Reason> {
    let verdicts = device.assess(program).unwrap();
    let rejected = verdicts.iter().find_map(|v| match v {
        Verdict::Rejected { reason, detail } => Some((*reason, detail)),
        Verdict::Supported { .. } => None,
    });
    if let Some((reason, detail)) = rejected {
        assert!(!detail.is_empty() && reason != Reason::Other, "{}: {reason:?} {detail}", describe(program));
        return Some(reason);
    }
    let exe = device.compile(program, &CompileOptions::default());
    let exe = exe.unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
    let found = run(device.as_ref(), &exe, inputs).unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
    assert_eq!(found, reference(program, inputs), "{}: {:?}", describe(program), exe.kernels());
    None
}

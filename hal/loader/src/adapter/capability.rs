//! The operator table of a device as a [`Capability`].
//!
//! The table prunes and documents; the driver's `assess` decides. So a row that says more than this version understands
//! may be read as accepting more than it does (an unknown comparison is dropped), never as accepting less.

use super::error::broken;
use crate::foreign;
use ottava_abi::{OpRowV1, OperandV1, PredicateV1, Slice, Str, cmp, fused, layout, operand_flag, scheme};
use ottava_hal::capability::{Compare, FusedSupport, Limit, Operand, QuantKind, Subject};
use ottava_hal::{Capability, DataType, OpRow, RequantMode, Result};

/// Limits of what is read.
const MAX_ROWS: u64 = 65_536;
const MAX_OPERANDS: u64 = 256;
const MAX_PREDICATES: u64 = 1024;

/// Reads a device's operator table.
pub(crate) fn read(device: &str, rows: Slice<OpRowV1>) -> Result<Capability> {
    let bad = |e: String| broken(device, "op_table", e);
    let mut capability = Capability::default();
    for raw in foreign::elements(rows, MAX_ROWS).map_err(bad)? {
        match row(&raw).map_err(bad)? {
            Some(row) => capability.rows.push(row),
            None => tracing::debug!("`{device}`: a row of {} is for values unknown here", foreign::lossy(raw.op)),
        }
    }
    Ok(capability)
}

/// One row; `None` if it accepts only what this version cannot express.
fn row(raw: &OpRowV1) -> Result<Option<OpRow>, String> {
    let operands = |slice: Slice<OperandV1>| -> Result<Option<Vec<Operand>>, String> {
        Ok(foreign::elements(slice, MAX_OPERANDS)?.iter().map(operand).collect())
    };
    let (inputs, outputs) = (operands(raw.inputs)?, operands(raw.outputs)?);
    let plain_layouts = 1 << layout::ROW_MAJOR | 1 << layout::NCHW;
    let layout_fits = raw.layouts == 0 || raw.layouts & plain_layouts != 0;
    let (Some(inputs), Some(outputs), true) = (inputs, outputs, layout_fits) else { return Ok(None) };
    let op = foreign::text(raw.op)?;
    if op.is_empty() {
        return Err("a row has no operator".into());
    }
    let mut limits = Vec::new();
    for predicate in foreign::elements(raw.predicates, MAX_PREDICATES)? {
        limits.extend(limit(&predicate)?);
    }
    let can = |bit| raw.fused & bit != 0;
    Ok(Some(OpRow {
        op: op.into(),
        domain: foreign::text(raw.domain)?.into(),
        versions: (raw.version_min, raw.version_max),
        inputs,
        outputs,
        requant: RequantMode::ALL.into_iter().filter(|m| has(raw.requant_modes, m.as_u32())).collect(),
        ranks: (raw.rank_min as usize, if raw.rank_max == u32::MAX { usize::MAX } else { raw.rank_max as usize }),
        fused: FusedSupport {
            clamp: can(fused::CLAMP),
            residual: can(fused::RESIDUAL),
            act: can(fused::ACT),
            zp_before_round: can(fused::ZP_BEFORE_ROUND),
        },
        limits,
        predicates: Vec::new(),
        exact: raw.exact != 0,
    }))
}

fn has(mask: u64, bit: u32) -> bool {
    mask.checked_shr(bit).is_some_and(|m| m & 1 == 1)
}

/// One operand; `None` if it accepts only types or schemes that this version does not know.
fn operand(raw: &OperandV1) -> Option<Operand> {
    const KINDS: [(u32, QuantKind); 4] = [
        (scheme::PLAIN, QuantKind::Plain),
        (scheme::PER_TENSOR, QuantKind::PerTensor),
        (scheme::PER_AXIS, QuantKind::PerAxis),
        (scheme::BLOCKED, QuantKind::Blocked),
    ];
    let dtypes: Vec<DataType> = DataType::ALL.into_iter().filter(|t| has(raw.dtypes, *t as u32)).collect();
    let quant: Vec<QuantKind> = KINDS.into_iter().filter(|(n, _)| has(raw.schemes, *n)).map(|(_, k)| k).collect();
    if (raw.dtypes != 0 && dtypes.is_empty()) || (raw.schemes != 0 && quant.is_empty()) {
        return None;
    }
    let flag = |bit| raw.flags & bit != 0;
    Some(Operand { dtypes, quant, constant: flag(operand_flag::CONSTANT), optional: flag(operand_flag::OPTIONAL) })
}

/// One condition; `None` if it cannot be expressed here.
fn limit(raw: &PredicateV1) -> Result<Option<Limit>, String> {
    let subject = subject(raw.subject)?;
    let compare = match raw.cmp {
        cmp::EQ => Compare::Eq(raw.lo),
        cmp::LE => Compare::Le(raw.hi),
        cmp::GE => Compare::Ge(raw.lo),
        cmp::IN_RANGE => Compare::InRange(raw.lo, raw.hi),
        cmp::MULTIPLE_OF => Compare::MultipleOf(raw.lo),
        _ => return Ok(None),
    };
    Ok(subject.map(|subject| Limit { subject, compare }))
}

/// An attribute's name or `dim:<operand>:<axis>`; `None` for an axis that is counted from the end.
fn subject(text: Str) -> Result<Option<Subject>, String> {
    let text = foreign::text(text)?;
    let Some(dim) = text.strip_prefix("dim:") else {
        return if text.is_empty() {
            Err("a predicate has no subject".into())
        } else {
            Ok(Some(Subject::Attr(text.into())))
        };
    };
    let bad = || format!("the predicate `{text}` is not of the form dim:<operand>:<axis>");
    let (operand, axis) = dim.split_once(':').ok_or_else(bad)?;
    let operand: usize = operand.parse().map_err(|_| bad())?;
    let axis: i64 = axis.parse().map_err(|_| bad())?;
    Ok(usize::try_from(axis).ok().map(|axis| Subject::Dim { operand, axis }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{Node, Program, Reason, TensorType, Value, ValueId, Verdict};

    fn raw(predicates: &[PredicateV1], inputs: &[OperandV1]) -> OpRowV1 {
        OpRowV1 {
            op: Str::new("MaxPool"),
            domain: Str::new(""),
            version_min: 1,
            version_max: 22,
            inputs: Slice::borrowed(inputs),
            outputs: Slice::borrowed(inputs),
            rank_max: u32::MAX,
            predicates: Slice::borrowed(predicates),
            exact: 1,
            ..OpRowV1::blank()
        }
    }

    fn assess(rows: &[OpRowV1], strides: i64) -> Verdict {
        let value = |n: &str| Value { name: n.into(), ty: TensorType::fixed(DataType::U8, &[1, 8]), constant: None };
        let mut node = Node::new("n", "MaxPool", 12);
        (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
        node.attrs.set("strides", ottava_hal::Attr::Ints(vec![strides]));
        let program = Program {
            name: "p".into(),
            values: vec![value("x"), value("y")],
            nodes: vec![node],
            inputs: vec![ValueId(0)],
            outputs: vec![ValueId(1)],
        };
        read("npu0", Slice::borrowed(rows)).unwrap().assess(&program).remove(0)
    }

    fn predicate(subject: &'static str, compare: u32, lo: i64, hi: i64) -> PredicateV1 {
        PredicateV1 { subject: Str::new(subject), cmp: compare, lo, hi, ..PredicateV1::blank() }
    }

    #[test]
    fn rows_answer_as_the_driver_meant_them() {
        let u8s = [OperandV1 { dtypes: 1 << DataType::U8 as u32, ..OperandV1::blank() }];
        let limits = [predicate("strides", cmp::IN_RANGE, 1, 2), predicate("dim:0:1", cmp::LE, 0, 8)];
        let rows = [raw(&limits, &u8s)];
        assert_eq!(assess(&rows, 2), Verdict::Supported { exact: true });
        let Verdict::Rejected { reason, detail } = assess(&rows, 3) else { panic!("accepted") };
        assert_eq!(reason, Reason::AttrValue);
        assert!(detail.contains("strides") && detail.contains("1 to 2"), "{detail}");
        let s8s = [OperandV1 { dtypes: 1 << DataType::S8 as u32, ..OperandV1::blank() }];
        assert!(matches!(assess(&[raw(&[], &s8s)], 1), Verdict::Rejected { reason: Reason::Dtype, .. }));
    }

    #[test]
    fn what_is_unknown_never_accepts_less() {
        let limits = [predicate("strides", 99, 0, 0), predicate("dim:0:-1", cmp::EQ, 0, 0)];
        assert!(assess(&[raw(&limits, &[OperandV1::blank()])], 1).is_supported());
        let future = [OperandV1 { dtypes: 1 << 40, ..OperandV1::blank() }];
        assert!(read("npu0", Slice::borrowed(&[raw(&[], &future)])).unwrap().rows.is_empty());
        let nhwc_only = OpRowV1 { layouts: 1 << layout::NHWC, ..raw(&[], &[]) };
        assert!(read("npu0", Slice::borrowed(&[nhwc_only])).unwrap().rows.is_empty());
    }

    #[test]
    fn broken_tables_are_errors() {
        let error = |row: OpRowV1| read("npu0", Slice::borrowed(&[row])).unwrap_err().to_string();
        assert!(error(OpRowV1 { op: Str::new(""), ..raw(&[], &[]) }).contains("no operator"));
        assert!(error(raw(&[predicate("dim:x", cmp::EQ, 0, 0)], &[])).contains("dim:x"));
        assert!(error(raw(&[predicate("", cmp::EQ, 0, 0)], &[])).contains("no subject"));
        let endless = Slice { ptr: std::ptr::dangling(), len: u64::MAX, stride: 200, pad: 0 };
        assert!(read("npu0", endless).unwrap_err().to_string().contains("at most"));
    }
}

//! The operator table as plain arrays: rows of a [`Capability`] and the memory they point into.

use ottava_abi::{OpRowV1, OperandV1, PredicateV1, Slice, Str, cmp, fused, operand_flag, row_flag};
use ottava_hal::capability::{Compare, FusedSupport, Limit, Operand, Subject};
use ottava_hal::{Capability, OpRow, Reason};

/// Rows for the host. The rows point into the other fields, whose memory does not move or change as long as this lives.
pub(crate) struct RowTable {
    rows: Vec<OpRowV1>,
    _texts: Vec<String>,
    _operands: Vec<Vec<OperandV1>>,
    _predicates: Vec<Vec<PredicateV1>>,
}

// SAFETY: the raw pointers point into memory that the table owns and nobody writes after `new`.
unsafe impl Send for RowTable {}
// SAFETY: as above.
unsafe impl Sync for RowTable {}

impl RowTable {
    /// The table of a capability.
    pub(crate) fn new(capability: &Capability) -> Self {
        let mut table = Self { rows: vec![], _texts: vec![], _operands: vec![], _predicates: vec![] };
        for row in &capability.rows {
            let row = table.row(row, capability.dynamic_shapes);
            table.rows.push(row);
        }
        table
    }

    /// The rows; valid as long as the table lives.
    pub(crate) fn rows(&self) -> Slice<OpRowV1> {
        Slice::borrowed(&self.rows)
    }

    fn row(&mut self, row: &OpRow, dynamic_shapes: bool) -> OpRowV1 {
        let mut flags = if dynamic_shapes { row_flag::DYNAMIC_SHAPES } else { 0 };
        if !row.predicates.is_empty() {
            flags |= row_flag::ASK_ASSESS;
        }
        let predicates = row.limits.iter().map(|l| self.predicate(l)).collect();
        OpRowV1 {
            op: self.text(&row.op),
            domain: self.text(&row.domain),
            version_min: row.versions.0,
            version_max: row.versions.1,
            inputs: self.operands(&row.inputs),
            outputs: self.operands(&row.outputs),
            requant_modes: row.requant.iter().fold(0, |mask, m| mask | 1 << m.as_u32()),
            rank_min: rank(row.ranks.0),
            rank_max: rank(row.ranks.1),
            predicates: keep(&mut self._predicates, predicates),
            fused: fusions(row.fused),
            exact: row.exact.into(),
            flags,
            ..OpRowV1::blank()
        }
    }

    fn text(&mut self, text: &str) -> Str {
        self._texts.push(text.to_owned());
        self._texts.last().map_or(Str::new(""), |t| Str::borrowed(t))
    }

    fn operands(&mut self, operands: &[Operand]) -> Slice<OperandV1> {
        keep(&mut self._operands, operands.iter().map(operand).collect())
    }

    fn predicate(&mut self, limit: &Limit) -> PredicateV1 {
        let (subject, reason) = match &limit.subject {
            Subject::Attr(name) => (name.to_string(), Reason::AttrValue),
            Subject::Dim { operand, axis } => (format!("dim:{operand}:{axis}"), Reason::ShapeLimit),
        };
        let (cmp, lo, hi) = match limit.compare {
            Compare::Eq(v) => (cmp::EQ, v, v),
            Compare::Le(v) => (cmp::LE, 0, v),
            Compare::Ge(v) => (cmp::GE, v, 0),
            Compare::InRange(lo, hi) => (cmp::IN_RANGE, lo, hi),
            Compare::MultipleOf(v) => (cmp::MULTIPLE_OF, v, 0),
        };
        let words = format!("{}: {}", limit.subject, limit.compare);
        PredicateV1 { subject: self.text(&subject), cmp, reason: reason as u32, lo, hi, text: self.text(&words) }
    }
}

/// Keeps an array and returns a view of it; the array's memory does not move with the list.
fn keep<T: Copy>(list: &mut Vec<Vec<T>>, array: Vec<T>) -> Slice<T> {
    let view = Slice::borrowed(&array);
    list.push(array);
    view
}

fn operand(o: &Operand) -> OperandV1 {
    let flag = |set, bit| if set { bit } else { 0 };
    OperandV1 {
        dtypes: o.dtypes.iter().fold(0, |mask, t| mask | 1 << (*t as u32)),
        // The numbers of the schemes are the order of the kinds: plain, per tensor, per axis, blocked.
        schemes: o.quant.iter().fold(0, |mask, q| mask | 1 << (*q as u32)),
        flags: flag(o.constant, operand_flag::CONSTANT) | flag(o.optional, operand_flag::OPTIONAL),
    }
}

fn fusions(f: FusedSupport) -> u64 {
    let bits = [
        (f.zp_before_round, fused::ZP_BEFORE_ROUND),
        (f.clamp, fused::CLAMP),
        (f.residual, fused::RESIDUAL),
        (f.act, fused::ACT),
    ];
    bits.into_iter().filter(|(set, _)| *set).fold(0, |mask, (_, bit)| mask | bit)
}

fn rank(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Items, text};
    use ottava_abi::{dtype, scheme};
    use ottava_hal::capability::{Predicate, QuantKind};
    use ottava_hal::{DataType, RequantMode};

    #[test]
    fn a_row_says_the_same_in_numbers() {
        let row = OpRow {
            inputs: vec![Operand {
                dtypes: vec![DataType::S8, DataType::U8],
                quant: vec![QuantKind::PerTensor],
                ..Operand::default()
            }],
            requant: vec![RequantMode::Fp32Rne],
            ranks: (2, usize::MAX),
            fused: FusedSupport { clamp: true, ..FusedSupport::default() },
            limits: vec![Limit::dim(0, 1, Compare::Le(64))],
            ..OpRow::any("MaxPool")
        };
        let asking = OpRow {
            predicates: vec![Predicate { text: "never", reason: Reason::Other, holds: |_, _| false }],
            ..row.clone()
        };
        let table = RowTable::new(&Capability { rows: vec![row, asking], dynamic_shapes: false });
        // SAFETY: the table lives during the test, and so does everything that its rows point to.
        unsafe {
            let rows = Items::new(table.rows(), "rows").unwrap();
            let (row, asking) = (rows.get(0).unwrap(), rows.get(1).unwrap());
            assert_eq!(text(row.op, "op"), Ok("MaxPool"));
            assert_eq!((row.requant_modes, row.rank_min, row.rank_max), (0b10, 2, u32::MAX));
            assert_eq!((row.fused, row.exact, row.flags), (fused::CLAMP, 1, 0));
            assert_eq!(asking.flags, row_flag::ASK_ASSESS);
            let operand = Items::new(row.inputs, "inputs").unwrap().get(0).unwrap();
            assert_eq!(operand.dtypes, 1 << dtype::S8 | 1 << dtype::U8);
            assert_eq!(operand.schemes, 1 << scheme::PER_TENSOR);
            let p = Items::new(row.predicates, "predicates").unwrap().get(0).unwrap();
            assert_eq!((text(p.subject, "subject"), p.cmp, p.hi), (Ok("dim:0:1"), cmp::LE, 64));
            assert_eq!(text(p.text, "text"), Ok("axis 1 of input 0: at most 64"));
        }
    }
}

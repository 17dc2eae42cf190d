//! How a device says what it can run, and why it cannot run the rest.
//!
//! A capability is a list of [`OpRow`]s; rows are alternatives, a node is supported if one row accepts it. A refusal
//! always carries a [`Reason`] and words. When no row accepts, the reason is that of the row that came closest.

use crate::{Attr, DataType, Node, Program, RequantMode, Scheme, TensorType, ValueId};
use std::borrow::Cow;
use std::fmt;

/// Why a node is not accepted. The numbers are those of the plugin ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs)] // The names are those of abi.md section 5 and say it all.
pub enum Reason {
    OpUnknown = 1,
    OpVersion = 2,
    Dtype = 3,
    QuantScheme = 4,
    QuantAxis = 5,
    RequantMode = 6,
    Layout = 7,
    Rank = 8,
    ShapeLimit = 9,
    DynamicShape = 10,
    AttrValue = 11,
    ConstRequired = 12,
    FusionRequired = 13,
    Memory = 14,
    AccOverflow = 15,
    Precision = 16,
    Policy = 17,
    Other = 18,
}

impl Reason {
    /// The stable code in reports: `DTYPE`, `ACC_OVERFLOW`, ...
    pub fn code(self) -> &'static str {
        use Reason::*;
        match self {
            OpUnknown => "OP_UNKNOWN",
            OpVersion => "OP_VERSION",
            Dtype => "DTYPE",
            QuantScheme => "QUANT_SCHEME",
            QuantAxis => "QUANT_AXIS",
            RequantMode => "REQUANT_MODE",
            Layout => "LAYOUT",
            Rank => "RANK",
            ShapeLimit => "SHAPE_LIMIT",
            DynamicShape => "DYNAMIC_SHAPE",
            AttrValue => "ATTR_VALUE",
            ConstRequired => "CONST_REQUIRED",
            FusionRequired => "FUSION_REQUIRED",
            Memory => "MEMORY",
            AccOverflow => "ACC_OVERFLOW",
            Precision => "PRECISION",
            Policy => "POLICY",
            Other => "OTHER",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A device's answer for one node.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The device runs the node, bit-exactly if `exact`.
    Supported {
        /// Integer results equal the reference bit for bit.
        exact: bool,
    },
    /// The device does not run the node.
    Rejected {
        /// Machine-readable reason.
        reason: Reason,
        /// The same in words, with what was found and what is supported.
        detail: String,
    },
}

impl Verdict {
    /// A refusal.
    pub fn rejected(reason: Reason, detail: impl Into<String>) -> Self {
        Self::Rejected { reason, detail: detail.into() }
    }

    /// Whether the device runs the node.
    pub fn is_supported(&self) -> bool {
        matches!(self, Self::Supported { .. })
    }
}

/// Which quantization an operand may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuantKind {
    /// Not quantized.
    Plain,
    /// One scale.
    PerTensor,
    /// One scale per index of an axis.
    PerAxis,
    /// One scale per block.
    Blocked,
}

impl QuantKind {
    /// The kind of a type.
    pub fn of(ty: &TensorType) -> Self {
        match ty.quant.as_ref().map(|q| q.scheme) {
            None => Self::Plain,
            Some(Scheme::PerTensor) => Self::PerTensor,
            Some(Scheme::PerAxis { .. }) => Self::PerAxis,
            Some(Scheme::Blocked { .. }) => Self::Blocked,
        }
    }
}

/// What a row accepts for one operand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Operand {
    /// Accepted element types; empty accepts all.
    pub dtypes: Vec<DataType>,
    /// Accepted quantization kinds; empty accepts all.
    pub quant: Vec<QuantKind>,
    /// The operand must be a constant.
    pub constant: bool,
    /// The operand may be absent.
    pub optional: bool,
}

/// Which fusions a row accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FusedSupport {
    /// Integer bounds of a quantized result.
    pub clamp: bool,
    /// Residual operand.
    pub residual: bool,
    /// Float activation.
    pub act: bool,
    /// Zero point added before rounding.
    pub zp_before_round: bool,
}

/// A further condition on a node: a sentence for people and a function that checks it.
#[derive(Clone, Copy)]
pub struct Predicate {
    /// What must hold, in words ("group divides channels").
    pub text: &'static str,
    /// Reason reported when it does not.
    pub reason: Reason,
    /// The check.
    pub holds: fn(&Program, &Node) -> bool,
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Predicate({})", self.text)
    }
}

/// What a [`Limit`] looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// An integer attribute, or every element of an integer list. A node without the attribute is accepted: the
    /// operator's default is within every limit.
    Attr(Cow<'static, str>),
    /// An extent of an input. An input that is absent or has no such axis is accepted.
    Dim {
        /// Index of the input.
        operand: usize,
        /// Index of the axis.
        axis: usize,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attr(name) => write!(f, "attribute `{name}`"),
            Self::Dim { operand, axis } => write!(f, "axis {axis} of input {operand}"),
        }
    }
}

/// What a [`Limit`] asks of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Equal.
    Eq(i64),
    /// At most.
    Le(i64),
    /// At least.
    Ge(i64),
    /// From the first to the second, both included.
    InRange(i64, i64),
    /// A multiple.
    MultipleOf(i64),
}

impl Compare {
    /// Whether a number is accepted.
    pub fn accepts(self, n: i64) -> bool {
        match self {
            Self::Eq(v) => n == v,
            Self::Le(v) => n <= v,
            Self::Ge(v) => n >= v,
            Self::InRange(lo, hi) => (lo..=hi).contains(&n),
            Self::MultipleOf(v) => v != 0 && n.checked_rem(v) == Some(0),
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eq(v) => write!(f, "exactly {v}"),
            Self::Le(v) => write!(f, "at most {v}"),
            Self::Ge(v) => write!(f, "at least {v}"),
            Self::InRange(lo, hi) => write!(f, "{lo} to {hi}"),
            Self::MultipleOf(v) => write!(f, "multiples of {v}"),
        }
    }
}

/// A condition on a number of a node that crosses the plugin boundary as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What is looked at.
    pub subject: Subject,
    /// What is asked of it.
    pub compare: Compare,
}

impl Limit {
    /// A limit of an attribute.
    pub fn attr(name: impl Into<Cow<'static, str>>, compare: Compare) -> Self {
        Self { subject: Subject::Attr(name.into()), compare }
    }

    /// A limit of an extent of an input.
    pub fn dim(operand: usize, axis: usize, compare: Compare) -> Self {
        Self { subject: Subject::Dim { operand, axis }, compare }
    }

    fn check(&self, program: &Program, node: &Node) -> Result<(), (Reason, String)> {
        let bad = |n: i64| format!("{} is {n}, supported: {}", self.subject, self.compare);
        match &self.subject {
            Subject::Attr(name) => {
                let values: &[i64] = match node.attrs.get(name) {
                    Some(Attr::Int(v)) => std::slice::from_ref(v),
                    Some(Attr::Ints(v)) => v,
                    _ => &[],
                };
                let miss = values.iter().find(|v| !self.compare.accepts(**v));
                miss.map_or(Ok(()), |n| Err((Reason::AttrValue, bad(*n))))
            }
            Subject::Dim { operand, axis } => {
                let dim = node.input(*operand).and_then(|id| program.ty(id).shape.0.get(*axis));
                match dim.map(|d| d.known()) {
                    None => Ok(()),
                    Some(None) => Err((Reason::DynamicShape, format!("{} is only known at run time", self.subject))),
                    Some(Some(n)) => {
                        let n = i64::try_from(n).unwrap_or(i64::MAX);
                        if self.compare.accepts(n) { Ok(()) } else { Err((Reason::ShapeLimit, bad(n))) }
                    }
                }
            }
        }
    }
}

/// One supported form of an operator.
#[derive(Debug, Clone)]
pub struct OpRow {
    /// Operator name.
    pub op: Cow<'static, str>,
    /// Operator domain.
    pub domain: Cow<'static, str>,
    /// First and last accepted operator version.
    pub versions: (u32, u32),
    /// Operands; the last one repeats for operators with any number of inputs.
    pub inputs: Vec<Operand>,
    /// Results; the last one repeats.
    pub outputs: Vec<Operand>,
    /// Accepted requantization modes; a node without one is always accepted.
    pub requant: Vec<RequantMode>,
    /// Smallest and largest rank of the first input.
    pub ranks: (usize, usize),
    /// Fusions.
    pub fused: FusedSupport,
    /// Conditions on attributes and extents.
    pub limits: Vec<Limit>,
    /// Further conditions; they do not cross the plugin boundary as data.
    pub predicates: Vec<Predicate>,
    /// Integer results equal the reference bit for bit.
    pub exact: bool,
}

impl OpRow {
    /// A row for an ONNX operator of any version, rank and type; narrow it with struct update syntax.
    pub fn any(op: impl Into<Cow<'static, str>>) -> Self {
        Self {
            op: op.into(),
            domain: Cow::Borrowed(""),
            versions: (1, u32::MAX),
            inputs: vec![Operand { optional: true, ..Operand::default() }],
            outputs: vec![Operand::default()],
            requant: vec![RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single],
            ranks: (0, usize::MAX),
            fused: FusedSupport::default(),
            limits: vec![],
            predicates: vec![],
            exact: true,
        }
    }

    /// Whether the row accepts a node; otherwise the first thing that does not fit, with the number of checks passed.
    fn accepts(&self, program: &Program, node: &Node) -> Result<(), (u32, Reason, String)> {
        let fail = |depth, reason, detail| Err((depth, reason, detail));
        if node.version < self.versions.0 || node.version > self.versions.1 {
            let (lo, hi) = self.versions;
            return fail(1, Reason::OpVersion, format!("version {} is outside {lo}..{hi}", node.version));
        }
        for (i, input) in node.inputs.iter().enumerate() {
            check_operand(&self.inputs, i, *input, program).or_else(|(r, d)| fail(2, r, format!("input {i}: {d}")))?;
        }
        for (i, output) in node.outputs.iter().enumerate() {
            check_operand(&self.outputs, i, Some(*output), program)
                .or_else(|(r, d)| fail(3, r, format!("output {i}: {d}")))?;
        }
        if let Some(rank) = node.input(0).map(|v| program.ty(v).shape.rank())
            && (rank < self.ranks.0 || rank > self.ranks.1)
        {
            return fail(4, Reason::Rank, format!("rank {rank} is outside {}..{}", self.ranks.0, self.ranks.1));
        }
        if let Some(mode) = node.requant.filter(|m| !self.requant.contains(m)) {
            return fail(5, Reason::RequantMode, format!("requantization mode {}", mode.name()));
        }
        if let Some(what) = unsupported_fusion(node, self.fused) {
            return fail(6, Reason::FusionRequired, format!("fused {what} is not available"));
        }
        if let Some((r, d)) = self.limits.iter().find_map(|l| l.check(program, node).err()) {
            return fail(7, r, d);
        }
        match self.predicates.iter().find(|p| !(p.holds)(program, node)) {
            Some(p) => fail(8, p.reason, format!("needs: {}", p.text)),
            None => Ok(()),
        }
    }
}

fn check_operand(rows: &[Operand], i: usize, id: Option<ValueId>, program: &Program) -> Result<(), (Reason, String)> {
    let Some(row) = rows.get(i).or(rows.last()) else {
        return Err((Reason::Other, "no such operand".into()));
    };
    let Some(id) = id else {
        let missing = || Err((Reason::Other, "must be present".into()));
        return if row.optional { Ok(()) } else { missing() };
    };
    let value = program.value(id);
    if !row.dtypes.is_empty() && !row.dtypes.contains(&value.ty.dtype) {
        let list: Vec<_> = row.dtypes.iter().map(|t| t.name()).collect();
        return Err((Reason::Dtype, format!("is {}, supported: {}", value.ty.dtype, list.join(" "))));
    }
    let kind = QuantKind::of(&value.ty);
    if !row.quant.is_empty() && !row.quant.contains(&kind) {
        return Err((Reason::QuantScheme, format!("quantization {kind:?}, supported: {:?}", row.quant)));
    }
    if row.constant && value.constant.is_none() {
        return Err((Reason::ConstRequired, "must be constant".into()));
    }
    Ok(())
}

fn unsupported_fusion(node: &Node, can: FusedSupport) -> Option<&'static str> {
    let f = &node.fused;
    let wants = [
        (f.clamp.is_some() && !can.clamp, "clamp"),
        (f.residual && !can.residual, "residual"),
        (f.act.is_some() && !can.act, "activation"),
        (f.zp_before_round && !can.zp_before_round, "zero point before rounding"),
    ];
    wants.into_iter().find(|(bad, _)| *bad).map(|(_, what)| what)
}

/// Everything that a device can run.
#[derive(Debug, Clone, Default)]
pub struct Capability {
    /// Supported forms.
    pub rows: Vec<OpRow>,
    /// Programs may hold symbolic or data-dependent shapes.
    pub dynamic_shapes: bool,
}

impl Capability {
    /// One verdict per node.
    pub fn assess(&self, program: &Program) -> Vec<Verdict> {
        program.nodes.iter().map(|n| self.assess_node(program, n)).collect()
    }

    /// The verdict for one node.
    pub fn assess_node(&self, program: &Program, node: &Node) -> Verdict {
        let mut closest: Option<(u32, Reason, String)> = None;
        for row in self.rows.iter().filter(|r| r.op == node.op && r.domain == node.domain) {
            match row.accepts(program, node) {
                Ok(()) if !self.dynamic_shapes && has_dynamic_shape(program, node) => {
                    return Verdict::rejected(Reason::DynamicShape, "a shape is only known at run time");
                }
                Ok(()) => return Verdict::Supported { exact: row.exact },
                Err(miss) if closest.as_ref().is_none_or(|c| miss.0 > c.0) => closest = Some(miss),
                Err(_) => {}
            }
        }
        match closest {
            Some((_, reason, detail)) => Verdict::Rejected { reason, detail },
            None => Verdict::rejected(Reason::OpUnknown, format!("no kernel for {}", node.full_op())),
        }
    }
}

fn has_dynamic_shape(program: &Program, node: &Node) -> bool {
    let ids = node.inputs.iter().flatten().chain(&node.outputs);
    ids.into_iter().any(|id| program.ty(*id).shape.elements().is_none())
}

/// Where the figures of a [`Cost`] come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u32)]
pub enum Confidence {
    /// Computed from peak figures.
    #[default]
    Datasheet = 1,
    /// Computed by a simulator.
    Simulated = 2,
    /// Measured on the device.
    Measured = 3,
}

/// What a device expects a program to cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Execution time of one inference, nanoseconds, without the cost of a submission ([`crate::device::Link`]).
    pub time_ns: u64,
    /// Energy of one inference, picojoules; 0 if unknown.
    pub energy_pj: u64,
    /// Working memory of one inference, bytes.
    pub workspace_bytes: u64,
    /// Bytes of packed constants.
    pub weight_bytes: u64,
    /// Where the figures come from.
    pub confidence: Confidence,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn program(dims: &[usize], strides: &[i64]) -> Program {
        let value = |name: &str| Value { name: name.into(), ty: TensorType::fixed(DataType::U8, dims), constant: None };
        let mut node = Node::new("n", "MaxPool", 12);
        node.inputs = vec![Some(ValueId(0))];
        node.outputs = vec![ValueId(1)];
        node.attrs.set("strides", Attr::Ints(strides.to_vec()));
        let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(1)]);
        Program { name: "p".into(), values: vec![value("x"), value("y")], nodes: vec![node], inputs, outputs }
    }

    #[test]
    fn limits_say_what_was_found_and_what_is_supported() {
        let limits = vec![
            Limit::attr("strides", Compare::InRange(1, 2)),
            Limit::dim(0, 1, Compare::Le(64)),
            Limit::dim(0, 9, Compare::Eq(0)),
        ];
        let capability = Capability { rows: vec![OpRow { limits, ..OpRow::any("MaxPool") }], dynamic_shapes: false };
        let verdict = |dims: &[usize], strides: &[i64]| capability.assess(&program(dims, strides)).remove(0);
        assert!(verdict(&[1, 64, 8, 8], &[2, 1]).is_supported());
        let text = |v| format!("{v:?}");
        assert!(text(verdict(&[1, 64, 8, 8], &[1, 3])).contains("attribute `strides` is 3, supported: 1 to 2"));
        assert!(text(verdict(&[1, 65, 8, 8], &[1, 1])).contains("axis 1 of input 0 is 65, supported: at most 64"));
    }

    #[test]
    fn comparisons_are_safe_at_the_ends() {
        assert!(!Compare::MultipleOf(0).accepts(3) && !Compare::MultipleOf(-1).accepts(i64::MIN));
        assert!(Compare::MultipleOf(4).accepts(8) && !Compare::MultipleOf(4).accepts(6));
    }
}

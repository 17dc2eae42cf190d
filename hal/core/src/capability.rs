//! How a device says what it can run, and why it cannot run the rest.
//!
//! A capability is a list of [`OpRow`]s; rows are alternatives, a node is supported if one row accepts it. A refusal
//! always carries a [`Reason`] and words. When no row accepts, the reason is that of the row that came closest.

use crate::{DataType, Node, Program, RequantMode, Scheme, TensorType, ValueId};
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

/// One supported form of an operator.
#[derive(Debug, Clone)]
pub struct OpRow {
    /// Operator name.
    pub op: &'static str,
    /// Operator domain.
    pub domain: &'static str,
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
    /// Further conditions.
    pub predicates: Vec<Predicate>,
    /// Integer results equal the reference bit for bit.
    pub exact: bool,
}

impl OpRow {
    /// A row for an ONNX operator of any version, rank and type; narrow it with struct update syntax.
    pub fn any(op: &'static str) -> Self {
        Self {
            op,
            domain: "",
            versions: (1, u32::MAX),
            inputs: vec![Operand { optional: true, ..Operand::default() }],
            outputs: vec![Operand::default()],
            requant: vec![RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single],
            ranks: (0, usize::MAX),
            fused: FusedSupport::default(),
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
        match self.predicates.iter().find(|p| !(p.holds)(program, node)) {
            Some(p) => fail(7, p.reason, format!("needs: {}", p.text)),
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

/// What a device expects a program to cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Execution time of one inference, nanoseconds.
    pub exec_ns: u64,
    /// Fixed cost of one submission, nanoseconds.
    pub submit_ns: u64,
    /// Peak device memory, bytes.
    pub bytes: u64,
}

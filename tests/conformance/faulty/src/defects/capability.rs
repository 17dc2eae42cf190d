//! Groups E.1 to E.4: the table, verdicts, reasons, costs.

use super::Defect;
use crate::{Behaviour, Compiled, Core, driver, executable};
use ottava_hal::capability::{Compare, Limit, Predicate};
use ottava_hal::{Capability, Cost, Error, OpRow, Program, Reason, Result, Status, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("table_empty", "E.1", "cap.op_table.operators", "no rows", |b| b.capability = Capability::default),
    Defect::new("operator_unknown", "E.1", "cap.op_table.operators", "does not exist", |b| {
        b.capability = || with_row(OpRow::any("Convolve"));
    }),
    Defect::new("ranks_reversed", "E.1", "cap.op_table.ranges", "none", |b| {
        b.capability = || with_row(OpRow { ranks: (5, 2), ..OpRow::any("Add") });
    }),
    Defect::new("versions_reversed", "E.1", "cap.op_table.ranges", "none", |b| {
        b.capability = || with_row(OpRow { versions: (9, 7), ..OpRow::any("Add") });
    }),
    Defect::new("attribute_unknown", "E.1", "cap.op_table.limits", "does not have", |b| {
        b.capability = || limited("Conv", Limit::attr("stride", Compare::Le(3)));
    }),
    Defect::new("limit_nothing_meets", "E.1", "cap.op_table.limits", "a multiple of 0", |b| {
        b.capability = || limited("Add", Limit::dim(0, 1, Compare::MultipleOf(0)));
    }),
    Defect::new("operand_out_of_range", "E.1", "cap.op_table.limits", "at most 2", |b| {
        b.capability = || limited("Add", Limit::dim(7, 0, Compare::Le(8)));
    }),
    Defect::new("condition_without_words", "E.1", "cap.op_table.limits", "without words", |b| {
        b.capability = || with_row(OpRow { predicates: vec![MUTE], ..OpRow::any("Add") });
    }),
    Defect::new("exact_contradicts", "E.1", "cap.op_table.contradictions", "accept the same", |b| {
        b.capability = || {
            let mut all = driver::capability();
            let twin = all.rows[0].clone();
            all.rows.push(OpRow { exact: !twin.exact, ..twin });
            all
        };
    }),
    Defect::new("table_differs_by_opening", "E.1", "cap.op_table.constant", "another table", |b| {
        b.capability = || {
            let mut all = driver::capability();
            all.rows.truncate(all.rows.len() - CALLS.fetch_add(1, Ordering::Relaxed).min(3) as usize);
            all
        };
    }),
    Defect::new("claimed_not_compiled", "E.2", "cap.honest.cases", "does not compile", |b| b.compile = no_concat),
    Defect::new("claimed_not_run", "E.2", "cap.honest.cases", "does not run", |b| b.node = no_transpose),
    Defect::new("claimed_exact_is_not", "E.2", "cap.honest.cases", "not what it claims", |b| b.node = near_enough),
    Defect::new("denied_but_compiles", "E.2", "cap.honest.cases", "and it compiles", |b| b.assess = denies_softmax),
    Defect::new("assess_exceeds_table", "E.2", "cap.honest.unknown", "what the table denies", |b| {
        b.assess = |_, program| Ok(vec![Verdict::Supported { exact: true }; program.nodes.len()]);
    }),
    Defect::new("verdicts_missing", "E.2", "cap.honest.cases", "0 verdicts", |b| b.assess = |_, _| Ok(Vec::new())),
    Defect::new("mode_claimed_not_run", "E.2", "cap.honest.modes", "not what it claims", |b| b.node = one_mode),
    Defect::new("clamp_claimed_not_run", "E.2", "cap.honest.modes", "with a clamp", |b| b.node = no_clamp),
    Defect::new("constant_needed_in_secret", "E.2", "cap.honest.constants", "does not compile", |b| {
        b.compile = fixed_weights
    }),
    Defect::new("reason_without_words", "E.3", "cap.reasons.words", "without a word", |b| b.assess = wordless),
    Defect::new("reason_changes", "E.3", "cap.reasons.stable", "changes", |b| b.assess = moody),
    Defect::new("reason_is_other", "E.3", "cap.reasons.unknown_operator", "expected OP_UNKNOWN", |b| {
        b.assess = |c, p| Ok(recoded(c.assess(p)));
    }),
    Defect::new("compile_has_other_reason", "E.3", "cap.reasons.compile", "compile says POLICY", |b| {
        b.compile = policy
    }),
    Defect::new("compile_refusal_is_internal", "E.3", "cap.reasons.compile", "compile gives Internal", |b| {
        b.compile =
            |core, c, p| executable::compile(core, c, p).map_err(|e| Error::failed(Status::Internal, e.to_string()));
    }),
    Defect::new("cost_zero", "E.4", "cap.cost.positive", "take no time", |b| b.estimate = |_| Ok(Cost::default())),
    Defect::new("cost_1_ns", "E.4", "cap.cost.grows", "cost the same", |b| {
        b.estimate = |_| Ok(Cost { time_ns: 1, ..Cost::default() });
    }),
    Defect::new("cost_unstable", "E.4", "cap.cost.stable", "changes", |b| {
        b.estimate = |p| {
            let right = (Behaviour::right().estimate)(p)?;
            Ok(Cost { time_ns: right.time_ns + CALLS.fetch_add(1, Ordering::Relaxed), ..right })
        };
    }),
    Defect::new("cost_falls", "E.4", "cap.cost.grows", "cost less", |b| {
        b.estimate = |p| {
            let right = (Behaviour::right().estimate)(p)?;
            Ok(Cost { time_ns: 1 + 1_000_000_000_000 / right.time_ns.max(1), ..right })
        };
    }),
];

const MUTE: Predicate = Predicate { text: "", reason: Reason::Other, holds: |_, _| true };

fn with_row(row: OpRow) -> Capability {
    let mut all = driver::capability();
    all.rows.push(row);
    all
}

fn limited(op: &'static str, limit: Limit) -> Capability {
    with_row(OpRow { limits: vec![limit], ..OpRow::any(op) })
}

fn unless(core: &Arc<Core>, c: &Capability, p: &Program, bad: bool, why: Error) -> Result<Compiled> {
    if bad { Err(why) } else { executable::compile(core, c, p) }
}

/// A concatenation is in the table and not in the compiler.
fn no_concat(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let why = Error::unsupported(Reason::OpUnknown, "no kernel for Concat");
    unless(core, c, p, p.nodes.iter().any(|n| n.op == "Concat"), why)
}

/// Weights must be constant, and the table does not say it.
fn fixed_weights(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    let late = |n: &ottava_hal::Node| n.op == "Conv" && n.input(1).is_some_and(|v| p.value(v).constant.is_none());
    let why = Error::unsupported(Reason::ConstRequired, "weights must be constant");
    unless(core, c, p, p.nodes.iter().any(late), why)
}

fn no_transpose(cx: &ottava_ops::EvalCx) -> Result<Vec<ottava_hal::Tensor>> {
    if cx.node.op == "Transpose" {
        return Err(Error::failed(Status::Internal, "the kernel is not there"));
    }
    ottava_ops::evaluate(cx)
}

/// The last bit of every integer is left to chance.
fn near_enough(cx: &ottava_ops::EvalCx) -> Result<Vec<ottava_hal::Tensor>> {
    let mut outputs = ottava_ops::evaluate(cx)?;
    for y in outputs.iter_mut().filter(|y| cx.node.requant.is_some() && !y.dtype().is_float()) {
        y.bytes_mut().iter_mut().for_each(|b| *b ^= 1);
    }
    Ok(outputs)
}

/// Whatever mode is asked for, it is the first one.
fn one_mode(cx: &ottava_ops::EvalCx) -> Result<Vec<ottava_hal::Tensor>> {
    let mut node = cx.node.clone();
    node.requant = node.requant.map(|_| ottava_hal::RequantMode::Fp32Rne);
    ottava_ops::evaluate(&ottava_ops::EvalCx { node: &node, ..*cx })
}

fn no_clamp(cx: &ottava_ops::EvalCx) -> Result<Vec<ottava_hal::Tensor>> {
    let mut node = cx.node.clone();
    node.fused.clamp = None;
    ottava_ops::evaluate(&ottava_ops::EvalCx { node: &node, ..*cx })
}

fn denies_softmax(c: &Capability, p: &Program) -> Result<Vec<Verdict>> {
    let mut all = c.assess(p);
    for (verdict, node) in all.iter_mut().zip(&p.nodes).filter(|(_, n)| n.op == "Softmax") {
        *verdict = Verdict::rejected(Reason::OpUnknown, format!("no kernel for {}", node.op));
    }
    Ok(all)
}

fn wordless(c: &Capability, p: &Program) -> Result<Vec<Verdict>> {
    let one = |v: Verdict| match v {
        Verdict::Rejected { reason, .. } => Verdict::rejected(reason, ""),
        fine => fine,
    };
    Ok(c.assess(p).into_iter().map(one).collect())
}

/// What is refused now may be refused for another reason in a moment.
fn moody(c: &Capability, p: &Program) -> Result<Vec<Verdict>> {
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let one = |v: Verdict| match v {
        Verdict::Rejected { reason, detail } => Verdict::rejected(reason, format!("{detail} (call {call})")),
        fine => fine,
    };
    Ok(c.assess(p).into_iter().map(one).collect())
}

fn recoded(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let one = |v: Verdict| match v {
        Verdict::Rejected { detail, .. } => Verdict::rejected(Reason::Other, detail),
        fine => fine,
    };
    verdicts.into_iter().map(one).collect()
}

fn policy(core: &Arc<Core>, c: &Capability, p: &Program) -> Result<Compiled> {
    executable::compile(core, c, p).map_err(|e| match e {
        Error::Unsupported { what, .. } => Error::unsupported(Reason::Policy, what),
        other => other,
    })
}

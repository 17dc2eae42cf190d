//! E.1: the table of what a device runs.

use super::Group;
use crate::kit::Work;
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::OpRow;
use ottava_hal::capability::{Compare, Subject as Looks};
use ottava_ops::OpSpec;

pub(super) const GROUP: Group = Group {
    id: "E.1",
    name: "cap.op_table",
    about: "rows name operators and attributes that exist, can match something, do not contradict each other, never change",
    cases: |_| {
        vec![
            Case::new("E.1", "cap.op_table.operators", operators),
            Case::new("E.1", "cap.op_table.ranges", ranges),
            Case::new("E.1", "cap.op_table.limits", limits),
            Case::new("E.1", "cap.op_table.contradictions", contradictions),
            Case::new("E.1", "cap.op_table.constant", constant),
        ]
    },
};

/// The rows of a device with their names in messages.
fn each(subject: &Subject, check: impl Fn(&OpRow, &str) -> Check) -> Check {
    let device = subject.open()?;
    let rows = &device.capability().rows;
    ensure!(!rows.is_empty(), "the table has no rows");
    rows.iter().enumerate().try_for_each(|(i, row)| check(row, &format!("row {i} ({}{})", domain(row), row.op)))
}

fn domain(row: &OpRow) -> String {
    if row.domain.is_empty() { String::new() } else { format!("{}::", row.domain) }
}

/// The operator of a row; none where the domain is the vendor's own.
fn spec(row: &OpRow) -> Result<Option<&'static OpSpec>, Stop> {
    let ours = ["", ottava_ops::OTTAVA, ottava_ops::MICROSOFT].contains(&&*row.domain);
    match ottava_ops::lookup(&row.domain, &row.op) {
        Ok(op) => Ok(Some(op.spec())),
        Err(e) if ours => Err(Stop::failed(format!("the table claims an operator that does not exist: {e}"))),
        Err(_) => Ok(None),
    }
}

fn operators(subject: &Subject) -> Check {
    each(subject, |row, name| {
        let Some(spec) = spec(row)? else { return Ok(()) };
        // A residual comes behind the operator's own inputs, and the last operand repeats.
        let (most, must) = (spec.inputs.1, row.inputs.iter().filter(|o| !o.optional).count());
        ensure!(must <= most, "{name} asks for {must} inputs, the operator has at most {most}");
        ensure!(!row.outputs.is_empty(), "{name} has no outputs");
        Ok(())
    })
}

fn ranges(subject: &Subject) -> Check {
    each(subject, |row, name| {
        let ((v0, v1), (r0, r1)) = (row.versions, row.ranks);
        ensure!(v0 <= v1, "{name} accepts versions from {v0} to {v1}: none");
        ensure!(r0 <= r1, "{name} accepts ranks from {r0} to {r1}: none");
        for operand in row.inputs.iter().chain(&row.outputs) {
            let mut dtypes = operand.dtypes.clone();
            dtypes.sort_unstable_by_key(|d| d.name());
            dtypes.dedup();
            ensure!(dtypes.len() == operand.dtypes.len(), "{name} lists a type twice: {:?}", operand.dtypes);
        }
        Ok(())
    })
}

fn limits(subject: &Subject) -> Check {
    each(subject, |row, name| {
        for predicate in &row.predicates {
            ensure!(!predicate.text.is_empty(), "{name} has a condition without words");
        }
        let spec = spec(row)?;
        for limit in &row.limits {
            match limit.compare {
                Compare::InRange(lo, hi) => ensure!(lo <= hi, "{name}: {} from {lo} to {hi}: none", limit.subject),
                Compare::MultipleOf(n) => ensure!(n > 0, "{name}: {} a multiple of {n}: none", limit.subject),
                Compare::Eq(_) | Compare::Le(_) | Compare::Ge(_) => {}
            }
            let Some(spec) = spec else { continue };
            match &limit.subject {
                Looks::Attr(attr) => {
                    let known = spec.attrs.iter().any(|a| a.name == attr);
                    ensure!(known, "{name} limits the attribute `{attr}`, which the operator does not have");
                }
                Looks::Dim { operand, .. } => {
                    let most = spec.inputs.1;
                    ensure!(*operand < most, "{name} limits input {operand}, the operator has at most {most}");
                }
            }
        }
        Ok(())
    })
}

/// Two rows that accept the same must promise the same.
fn contradictions(subject: &Subject) -> Check {
    let device = subject.open()?;
    let rows = &device.capability().rows;
    let accepts = |row: &OpRow| format!("{:?}", OpRow { exact: true, ..row.clone() });
    for (i, row) in rows.iter().enumerate() {
        for (j, other) in rows.iter().enumerate().skip(i + 1).filter(|(_, o)| o.op == row.op && o.exact != row.exact) {
            let same = accepts(row) == accepts(other);
            ensure!(!same, "rows {i} and {j} ({}) accept the same, and only one says that it is exact", row.op);
        }
    }
    Ok(())
}

fn constant(subject: &Subject) -> Check {
    let device = subject.open()?;
    let shown = || format!("{:?}", device.capability());
    let first = shown();
    ensure!(first == shown(), "the table is another one when it is asked again");
    match Work::small(&*device, subject.seed).and_then(|w| w.run(&*device)) {
        Ok(()) | Err(Stop::Unsupported(_)) => {}
        Err(other) => return Err(other),
    }
    ensure!(first == shown(), "the table is another one after a run");
    ensure!(first == format!("{:?}", subject.open()?.capability()), "another opening has another table");
    Ok(())
}

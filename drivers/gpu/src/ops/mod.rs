//! The operator table: one line per operator. What a device can run and how it runs it both follow from it.

mod bridge;
mod rows;

use crate::builder::Builder;
use crate::{Recipe, Target};
use ottava_hal::{Capability, Error, Node, OpRow, Program, Reason, Result, ValueId, Verdict};

/// How one operator is described and lowered.
struct Entry {
    domain: &'static str,
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
}

/// An ONNX operator.
const fn onnx(
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "", op, rows, lower }
}

/// One of Ottava's own.
const fn ottava(
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "ottava", ..onnx(op, rows, lower) }
}

/// Every operator.
static TABLE: &[Entry] = &[
    ottava("Dequantize", bridge::dequantize_rows, bridge::lower),
    ottava("Quantize", bridge::quantize_rows, bridge::lower),
    ottava("Requantize", bridge::requantize_rows, bridge::lower),
];

/// What a device can run, as far as rows can say it.
pub(crate) fn capability(target: &Target) -> Capability {
    let rows = TABLE.iter().flat_map(|e| {
        (e.rows)(target).into_iter().map(|row| OpRow { op: e.op.into(), domain: e.domain.into(), ..row })
    });
    Capability { rows: rows.collect(), dynamic_shapes: false }
}

fn lower_node(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let entry = TABLE.iter().find(|e| e.op == node.op && e.domain == node.domain);
    let unknown = || Error::unsupported(Reason::OpUnknown, format!("no kernel for {}", node.full_op()));
    (entry.ok_or_else(unknown)?.lower)(builder, node)
}

/// The verdict on one node: the rows', then that of lowering it by itself.
pub(crate) fn assess(capability: &Capability, target: &Target, program: &Program, index: usize) -> Verdict {
    let node = &program.nodes[index];
    let verdict = capability.assess_node(program, node);
    if !verdict.is_supported() {
        return verdict;
    }
    let tried = Builder::trial(program, target, index).and_then(|mut builder| lower_node(&mut builder, node));
    match tried {
        Ok(()) => verdict,
        Err(Error::Unsupported { reason, what }) => Verdict::rejected(reason, what),
        Err(other) => Verdict::rejected(Reason::Other, other.to_string()),
    }
}

/// The recipe of a program.
pub(crate) fn lower(program: &Program, target: &Target) -> Result<Recipe> {
    let capability = capability(target);
    let mut builder = Builder::new(program, target)?;
    for (i, node) in program.nodes.iter().enumerate() {
        let at_node = |e| match e {
            Error::Unsupported { reason, what } => {
                let what = format!("node `{}` ({}) on device `{}`: {what}", node.name, node.full_op(), target.device);
                Error::Unsupported { reason, what }
            }
            other => other,
        };
        if let Verdict::Rejected { reason, detail } = capability.assess_node(program, node) {
            return Err(at_node(Error::Unsupported { reason, what: detail }));
        }
        builder.begin(i);
        lower_node(&mut builder, node).map_err(at_node)?;
    }
    builder.finish()
}

/// An input that the rows have seen to be there.
fn input(node: &Node, i: usize) -> Result<ValueId> {
    node.input(i).ok_or_else(|| Error::invalid(format!("node `{}` has no input {i}", node.name)))
}

/// The first output.
fn output(node: &Node) -> Result<ValueId> {
    node.outputs.first().copied().ok_or_else(|| Error::invalid(format!("node `{}` has no output", node.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_listed_once() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|b| (b.op, b.domain) != (a.op, a.domain)), "{} twice", a.op);
        }
    }
}

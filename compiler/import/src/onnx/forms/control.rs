//! If, Loop and Scan, whose bodies have been imported (`bodies`): Ottava's operators of the same names, which read
//! nothing from outside.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_ops::OTTAVA;

/// If: both branches take the same captured values, and nothing else.
pub(super) fn branch(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    node.attrs.0.remove("captures");
    for name in ["then_branch", "else_branch"] {
        let (found, taken) = (node.attrs.program(name)?.inputs.len(), node.inputs.len().saturating_sub(1));
        if found != taken {
            return Refusal::invalid(format!("attribute `{name}`: the branch of an If has no inputs"));
        }
        outputs(&node, name, 0)?;
    }
    own(cx, node)
}

/// Loop: the body takes the number of the pass and the condition, and returns the next condition.
pub(super) fn repeat(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    let captures = node.inputs.len().min(captures(&node)?);
    // Without states, the two optional inputs may be left out in front of the captured ones.
    while node.inputs.len() < 2 + captures {
        node.inputs.insert(node.inputs.len() - captures, None);
    }
    inputs(&node, node.inputs.len())?;
    outputs(&node, "body", 1)?;
    own(cx, node)
}

/// Scan: since 9 without a batch axis.
pub(super) fn scan(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    if node.version < 9 {
        return Refusal::unsupported(
            "the form with a batch axis is not supported; export with operator set 9 or later",
        );
    }
    inputs(&node, node.inputs.len())?;
    outputs(&node, "body", 0)?;
    own(cx, node)
}

fn captures(node: &RawNode) -> Result<usize, Refusal> {
    Ok(usize::try_from(node.attrs.int("captures", 0)?).unwrap_or(0))
}

fn inputs(node: &RawNode, taken: usize) -> Result<(), Refusal> {
    let found = node.attrs.program("body")?.inputs.len();
    let captures = captures(node)?;
    if found == taken {
        return Ok(());
    }
    let (found, taken) = (found.saturating_sub(captures), taken.saturating_sub(captures));
    Refusal::invalid(format!("the body has {found} inputs; the node gives it {taken}"))
}

/// A body returns `extra` values more than its node has outputs; trailing ones may be left out there.
fn outputs(node: &RawNode, name: &str, extra: usize) -> Result<(), Refusal> {
    let found = node.attrs.program(name)?.outputs.len();
    if found < node.outputs.len() + extra {
        let n = node.outputs.len();
        return Refusal::invalid(format!("attribute `{name}`: {found} outputs for the {n} of the node"));
    }
    Ok(())
}

fn own(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    node.domain = OTTAVA.to_owned();
    cx.emit(node, BASE_OPSET)
}

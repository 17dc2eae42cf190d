//! Status codes and error structs of a driver as errors of the contract. Nothing that the driver said is lost: code,
//! message, node, the vendor's own number.

use ottava_abi::{ErrorV1, error_flag, index, status};
use ottava_hal::{Error, Program, Reason, Status};

/// The reasons in the order of their numbers, which begin at 1.
const REASONS: [Reason; 18] = [
    Reason::OpUnknown,
    Reason::OpVersion,
    Reason::Dtype,
    Reason::QuantScheme,
    Reason::QuantAxis,
    Reason::RequantMode,
    Reason::Layout,
    Reason::Rank,
    Reason::ShapeLimit,
    Reason::DynamicShape,
    Reason::AttrValue,
    Reason::ConstRequired,
    Reason::FusionRequired,
    Reason::Memory,
    Reason::AccOverflow,
    Reason::Precision,
    Reason::Policy,
    Reason::Other,
];

/// The reason of a number; `None` for 0 and for numbers that this version does not know.
pub(crate) fn reason_of(number: u32) -> Option<Reason> {
    REASONS.into_iter().find(|r| *r as u32 == number)
}

/// An error struct for a driver to fill. No node is concerned until it says so.
pub(crate) fn blank() -> ErrorV1 {
    ErrorV1 { node: index::NONE, ..ErrorV1::blank() }
}

/// An error from a code and words alone.
pub(crate) fn of_code(code: i32, reason: Option<Reason>, what: String, transient: bool) -> Error {
    match Status::ALL.into_iter().find(|s| *s as i32 == code) {
        Some(Status::InvalidArgument) => Error::Invalid(what),
        Some(Status::Unsupported) => Error::Unsupported { reason: reason.unwrap_or(Reason::Other), what },
        Some(status) => Error::Failed { status, what, transient },
        None => {
            let what = format!("{what} (the driver returned the unknown status {code})");
            Error::Failed { status: Status::Internal, what, transient }
        }
    }
}

/// The error of a call: `who` is the driver or device, `function` what was called.
pub(crate) fn of_call(code: i32, err: &ErrorV1, who: &str, function: &str, program: Option<&Program>) -> Error {
    let text = err.text();
    let name = status::name(code).unwrap_or("unknown status");
    let message = if text.trim().is_empty() {
        let text = format!("`{who}` returns {name} ({code}) from `{function}` without a message, which it must not");
        crate::once::warn(who, &text);
        format!("{name}, and the driver says nothing about it")
    } else {
        text
    };
    let mut what = format!("`{who}`, {function}: {message}");
    if err.flags & error_flag::TRUNCATED != 0 {
        what.push_str("...");
    }
    if err.node != index::NONE {
        let node = program.and_then(|p| p.nodes.get(err.node as usize));
        what.push_str(&node.map_or_else(|| format!(", node {}", err.node), |n| format!(", node `{}`", n.name)));
    }
    if err.vendor_code != 0 {
        what.push_str(&format!(", vendor code {}", err.vendor_code));
    }
    of_code(code, reason_of(err.reason), what, err.flags & error_flag::TRANSIENT != 0)
}

/// A driver that breaks the contract in what it returns.
pub(crate) fn broken(who: &str, function: &str, what: impl std::fmt::Display) -> Error {
    Error::failed(Status::Internal, format!("`{who}`, {function}: the driver breaks its contract: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Node;

    fn err(message: &str) -> ErrorV1 {
        let mut e = blank();
        e.set(0, message);
        e
    }

    #[test]
    fn numbers_of_reasons_are_those_of_the_contract() {
        for (i, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, i + 1);
            let name = ottava_abi::reason::name(i as u32 + 1);
            assert_eq!(name, Some(reason.code()));
        }
        assert_eq!((reason_of(0), reason_of(19)), (None, None));
    }

    #[test]
    fn every_status_keeps_its_code_and_words() {
        for s in Status::ALL {
            let e = of_call(s as i32, &err("out of luck"), "npu0", "submit", None);
            assert_eq!(e.status(), s);
            assert!(e.to_string().contains("`npu0`, submit: out of luck"), "{e}");
        }
        let e = of_call(77, &err("?!"), "npu0", "submit", None);
        assert_eq!(e.status(), Status::Internal);
        assert!(e.to_string().contains("unknown status 77"), "{e}");
    }

    #[test]
    fn node_vendor_code_and_transience_are_kept() {
        let mut e = err("no room");
        (e.node, e.vendor_code, e.flags) = (1, -7, error_flag::TRANSIENT);
        let nodes = vec![Node::new("a", "Relu", 1), Node::new("b", "Relu", 1)];
        let program = Program { nodes, ..Program::default() };
        let e = of_call(status::OUT_OF_DEVICE_MEMORY, &e, "npu0", "compile", Some(&program));
        assert!(e.to_string().contains("no room, node `b`, vendor code -7"), "{e}");
        assert!(matches!(e, Error::Failed { transient: true, .. }));
    }

    #[test]
    fn silence_is_filled_in() {
        let e = of_call(status::BUSY, &err(""), "npu0", "alloc", None);
        assert!(e.to_string().contains("BUSY, and the driver says nothing"), "{e}");
    }
}

//! Verdicts of a driver, and the lint that keeps refusals from being silent: a rejection has a reason and words, or the log
//! names the driver and the adapter fills in what is missing.

use super::error::{broken, reason_of};
use crate::once;
use ottava_abi::{VerdictV1, state, text_of, verdict_flag};
use ottava_hal::{Program, Reason, Result, Verdict};

/// An array for the driver to fill: one verdict per node, rejected without a reason until it says otherwise.
pub(crate) fn blank(program: &Program) -> Vec<VerdictV1> {
    let one = |i: usize| VerdictV1 { node: i as u32, ..VerdictV1::blank() };
    (0..program.nodes.len()).map(one).collect()
}

/// The driver's verdicts for the host.
pub(crate) fn read(device: &str, program: &Program, raw: &[VerdictV1]) -> Result<Vec<Verdict>> {
    let one = |(i, v): (usize, &VerdictV1)| {
        if v.node as usize != i {
            return Err(broken(device, "assess", format_args!("verdict {i} speaks of node {}", v.node)));
        }
        Ok(read_one(device, program, i, raw))
    };
    raw.iter().enumerate().map(one).collect()
}

fn read_one(device: &str, program: &Program, i: usize, all: &[VerdictV1]) -> Verdict {
    let v = &all[i];
    match v.state {
        state::SUPPORTED => Verdict::Supported { exact: v.flags & verdict_flag::EXACT != 0 },
        state::REJECTED => rejection(device, &program.nodes[i].name, v),
        state::ONLY_IN_GROUP => {
            let mates = program.nodes.iter().zip(all).filter(|(_, w)| v.group != 0 && w.group == v.group);
            let mates: Vec<String> = mates.map(|(n, _)| format!("`{}`", n.name)).collect();
            let text = format!("runs only together with its group {} ({})", v.group, mates.join(", "));
            Verdict::rejected(Reason::FusionRequired, text)
        }
        other => Verdict::rejected(Reason::Other, format!("the driver answers with the unknown state {other}")),
    }
}

fn rejection(device: &str, node: &str, v: &VerdictV1) -> Verdict {
    let (reason, mut detail) = (reason_of(v.reason), text_of(&v.detail));
    if reason.is_none() || detail.trim().is_empty() {
        let how =
            if reason.is_none() { format!("with the unknown reason {}", v.reason) } else { "without words".into() };
        once::warn(device, &format!("`{device}` rejects node `{node}` {how}, which a driver must not"));
    }
    if detail.trim().is_empty() {
        detail = match (reason, v.limit, v.actual) {
            (_, limit, actual) if limit != 0 || actual != 0 => format!("the limit is {limit}, found {actual}"),
            (Some(reason), ..) => format!("the driver says {reason} and nothing more"),
            (None, ..) => "the driver gives no reason".to_owned(),
        };
    }
    Verdict::Rejected { reason: reason.unwrap_or(Reason::Other), detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::{copy_text, reason};
    use ottava_hal::Node;

    fn program() -> Program {
        let nodes = ["a", "b", "c"].map(|n| Node::new(n, "Relu", 14)).into();
        Program { nodes, ..Program::default() }
    }

    fn read_with(change: impl FnOnce(&mut [VerdictV1])) -> Result<Vec<Verdict>> {
        let program = program();
        let mut raw = blank(&program);
        change(&mut raw);
        read("npu0", &program, &raw)
    }

    fn detail(v: &Verdict) -> &str {
        let Verdict::Rejected { detail, .. } = v else { panic!("{v:?}") };
        detail
    }

    #[test]
    fn answers_are_kept() {
        let verdicts = read_with(|raw| {
            (raw[0].state, raw[0].flags) = (state::SUPPORTED, verdict_flag::EXACT);
            raw[1].state = state::SUPPORTED;
            raw[2].reason = reason::DTYPE;
            copy_text(&mut raw[2].detail, "f64 is not supported");
        });
        let rejected = Verdict::rejected(Reason::Dtype, "f64 is not supported");
        assert_eq!(
            verdicts.unwrap(),
            [Verdict::Supported { exact: true }, Verdict::Supported { exact: false }, rejected]
        );
    }

    #[test]
    fn silent_refusals_get_words() {
        let verdicts = read_with(|raw| {
            raw[1].reason = reason::RANK;
            (raw[2].reason, raw[2].limit, raw[2].actual) = (reason::SHAPE_LIMIT, 4, 5);
        });
        let verdicts = verdicts.unwrap();
        assert_eq!(detail(&verdicts[0]), "the driver gives no reason");
        assert_eq!(detail(&verdicts[1]), "the driver says RANK and nothing more");
        assert_eq!(detail(&verdicts[2]), "the limit is 4, found 5");
    }

    #[test]
    fn groups_and_unknown_states_are_refusals_that_say_why() {
        let verdicts = read_with(|raw| {
            (raw[0].state, raw[0].group) = (state::ONLY_IN_GROUP, 3);
            (raw[1].state, raw[1].group) = (state::ONLY_IN_GROUP, 3);
            raw[2].state = 9;
        });
        let verdicts = verdicts.unwrap();
        assert!(detail(&verdicts[0]).contains("group 3 (`a`, `b`)"));
        assert!(detail(&verdicts[2]).contains("unknown state 9"));
    }

    #[test]
    fn verdicts_out_of_order_are_an_error() {
        let e = read_with(|raw| raw[1].node = 2).unwrap_err();
        assert!(e.to_string().contains("verdict 1 speaks of node 2"), "{e}");
    }
}

//! Names of the nodes that a profile speaks of.
//!
//! A record has room for 95 bytes of a name. What was cut there is found again: by the record's node id, by the only node
//! whose name begins so, or, where several do and there is a record for each of them, by their order.

use ottava_abi::{ProfileRecordV1, index, text_of};

/// A label of at least so many bytes may have been cut: 95 fit, a character has up to 4.
const CUT_FROM: usize = 92;

/// The name of each record's node; `nodes` are the names by id, as far as they are known.
pub(crate) fn node_names(records: &[&ProfileRecordV1], nodes: &[String]) -> Vec<String> {
    let labels: Vec<String> = records.iter().map(|r| text_of(&r.label)).collect();
    (0..records.len()).map(|i| name(i, records, &labels, nodes)).collect()
}

fn name(i: usize, records: &[&ProfileRecordV1], labels: &[String], nodes: &[String]) -> String {
    let (id, label) = (records[i].node, &labels[i]);
    let own = nodes.get(id as usize);
    if label.is_empty() {
        return own.cloned().unwrap_or_else(|| format!("node {id}"));
    }
    if label.len() < CUT_FROM {
        return label.clone();
    }
    if let Some(own) = own.filter(|n| n.starts_with(label.as_str())) {
        return own.clone();
    }
    let alike: Vec<&String> = nodes.iter().filter(|n| n.starts_with(label.as_str())).collect();
    if let [only] = alike[..] {
        return only.clone();
    }
    let same = || labels.iter().enumerate().filter(|(_, other)| *other == label);
    let turn = same().take_while(|(k, _)| *k < i).count();
    match alike.get(turn).filter(|_| alike.len() == same().count()) {
        Some(name) => (*name).clone(),
        None if id != index::NONE => format!("{label}... (node {id})"),
        None => label.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_abi::copy_text;

    fn record(node: u32, name: &str) -> ProfileRecordV1 {
        let mut record = ProfileRecordV1 { node, ..ProfileRecordV1::blank() };
        copy_text(&mut record.label, name);
        record
    }

    fn named(records: &[ProfileRecordV1], nodes: &[String]) -> Vec<String> {
        node_names(&records.iter().collect::<Vec<_>>(), nodes)
    }

    /// Two names that are equal where a record ends, and one that is not.
    fn nodes() -> Vec<String> {
        vec!["n".repeat(100) + "/a", "n".repeat(100) + "/b", "ö".repeat(60), "n".into()]
    }

    #[test]
    fn ids_tell_equal_beginnings_apart() {
        let nodes = nodes();
        let records: Vec<_> = [1, 0, 2, 3].map(|i| record(i, &nodes[i as usize])).into();
        assert_eq!(named(&records, &nodes), [1, 0, 2, 3].map(|i: usize| nodes[i].clone()));
    }

    #[test]
    fn without_ids_beginnings_and_order_decide() {
        let nodes = nodes();
        let records: Vec<_> = [0, 1, 2, 3].map(|i: usize| record(index::NONE, &nodes[i])).into();
        assert_eq!(named(&records, &nodes), nodes);
    }

    #[test]
    fn what_cannot_be_known_stays_as_it_was_said() {
        let nodes = nodes();
        let cut = "n".repeat(95);
        assert_eq!(named(&[record(index::NONE, &nodes[0])], &nodes), std::slice::from_ref(&cut));
        assert_eq!(
            named(&[record(7, &nodes[0]), record(8, &nodes[1])], &[]),
            [7, 8].map(|i| format!("{cut}... (node {i})"))
        );
        assert_eq!(
            named(&[record(0, "conv+relu"), record(9, ""), record(3, "")], &nodes),
            ["conv+relu", "node 9", "n"]
        );
    }
}

//! Times of nodes that were measured on the devices of this machine.
//!
//! A time belongs to a device and a *signature*: what the cost of a node depends on (operator, attributes, types of its
//! operands), so nodes that are alike share it. It is the time of the node within a program that runs on the device, so a
//! program of measured nodes costs the sum of their times; what was not measured keeps its share of the estimate.

use super::costs::signature;
use super::twin::solo;
use ottava_graph::Graph;
use std::collections::BTreeMap;

/// Measured times by device and signature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured(BTreeMap<String, BTreeMap<String, u64>>);

impl Measured {
    /// Keeps the time of one run of the nodes of a signature on a device, nanoseconds.
    pub fn insert(&mut self, device: &str, signature: &str, ns: u64) {
        self.0.entry(device.to_owned()).or_default().insert(signature.to_owned(), ns);
    }

    /// The time, if it was measured.
    pub fn ns(&self, device: &str, signature: &str) -> Option<u64> {
        self.0.get(device)?.get(signature).copied()
    }

    /// Nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A node and what its cost depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSignature {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// 16 hexadecimal digits.
    pub signature: String,
}

/// The signature of each node of a quantized graph, in its order.
pub fn signatures(graph: &Graph) -> Vec<NodeSignature> {
    let of = |node: &ottava_hal::Node| {
        let text = signature(&solo(graph, node, &BTreeMap::new()));
        let signature = format!("{:016x}", fnv1a(text.as_bytes()));
        NodeSignature { node: node.name.clone(), op: node.full_op(), signature }
    };
    graph.nodes.iter().map(of).collect()
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// `value * by / over`, rounded down; `by` where `over` is 0.
pub(super) fn scale(value: u64, by: u64, over: u64) -> u64 {
    let product = u128::from(value) * u128::from(by);
    product.checked_div(u128::from(over)).map_or(by, |n| u64::try_from(n).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_hold_at_the_ends_of_the_range() {
        assert_eq!(scale(10, 3, 2), 15);
        assert_eq!(scale(7, 3, 0), 3);
        assert_eq!(scale(u64::MAX, u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn times_are_found_by_device_and_signature() {
        let mut measured = Measured::default();
        assert!(measured.is_empty());
        measured.insert("npu", "a", 5);
        measured.insert("npu", "a", 7);
        assert_eq!((measured.ns("npu", "a"), measured.ns("cpu", "a"), measured.ns("npu", "b")), (Some(7), None, None));
    }
}

//! A node as a product of matrices, for the columns that tables of layers have.

use ottava::{Node, Plan};
use ottava_npu::isa::Queue;
use ottava_npu::program::Work;
use ottava_npu::timing::Timed;

/// A node's product and how the chip runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// `conv`, `dw`, `gemm`; the operator's name where nothing is multiplied.
    pub kind: String,
    /// M, N, K of one group; zeros where nothing is multiplied.
    pub mnk: [u64; 3],
    /// Groups; channels of a depthwise convolution.
    pub channels: u64,
    /// `array`, `vector`, or neither.
    pub mapping: &'static str,
}

/// The product of a node with `macs` multiply-accumulates and this output shape, batch and channels first.
fn product(node: &Node, output: &[u64], macs: u64) -> Option<(&'static str, [u64; 3], u64)> {
    let elements: u64 = output.iter().product();
    let k = (macs > 0).then(|| macs.checked_div(elements)).flatten().filter(|k| *k > 0)?;
    if !node.op.contains("Conv") {
        let n = *output.last()?;
        return Some(("gemm", [elements.checked_div(n)?, n, k], 1));
    }
    let groups = u64::try_from(node.attrs.int("group", 1).ok()?).ok()?;
    let channels = *output.get(1)?;
    let n = channels.checked_div(groups)?;
    let m = elements.checked_div(channels)?;
    let kind = if groups > 1 && n == 1 { "dw" } else { "conv" };
    Some((kind, [m, n, k], groups))
}

/// The shapes of a partition's nodes.
pub fn shapes(plan: &Plan, partition: usize, timed: &Timed, macs: &[u64]) -> Vec<Shape> {
    let program = &plan.partitions[partition].program;
    let mut mapping = vec![""; program.nodes.len()];
    for step in &timed.steps {
        let unit = match (&step.work, step.queue) {
            (Work::Dwconv(_), Queue::Vec) => "vector",
            (Work::Dwconv(_) | Work::Gemm(_), _) => "array",
            _ => continue,
        };
        if let Some(slot) = step.node.and_then(|n| mapping.get_mut(n as usize)) {
            *slot = unit;
        }
    }
    let one = |(i, node): (usize, &Node)| {
        let dims = node.outputs.first().and_then(|id| program.ty(*id).shape.known());
        let dims: Vec<u64> = dims.unwrap_or_default().iter().map(|d| *d as u64).collect();
        let found = product(node, &dims, macs.get(i).copied().unwrap_or(0));
        let (kind, mnk, channels) = found.map_or((node.op.as_str(), [0; 3], 0), |(kind, mnk, n)| (kind, mnk, n));
        Shape { kind: kind.to_owned(), mnk, channels, mapping: mapping[i] }
    };
    program.nodes.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_the_products_of_lists() {
        let conv = Node::new("c", "Conv", 11);
        assert_eq!(product(&conv, &[1, 8, 10, 10], 8 * 100 * 27), Some(("conv", [100, 8, 27], 1)));
        let gemm = Node::new("g", "Gemm", 13);
        assert_eq!(product(&gemm, &[4, 5], 4 * 5 * 6), Some(("gemm", [4, 5, 6], 1)));
        assert_eq!(product(&gemm, &[4, 5], 0), None);
        assert_eq!(product(&gemm, &[], 7), None);
    }
}

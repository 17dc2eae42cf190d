//! The order in which tensors leave 8 bits.

use std::collections::BTreeSet;

use super::{Precision, Unit};

/// Moving an element between integers and float costs about as much as so many multiply-accumulates in 8 bits.
const MACS_PER_ELEMENT: u64 = 16;

/// A gain below this share of the whole noise is not worth an exception, unless a target must be reached.
pub const MIN_GAIN: f64 = 0.002;

/// A tensor with what was measured on it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The tensor.
    pub unit: &'a Unit,
    /// How it leaves 8 bits.
    pub precision: Precision,
    /// Relative noise of the output with this tensor alone in that form.
    pub noise: f64,
}

/// Indices of the candidates in the order in which to take them: most noise removed per cost first, leaving out those
/// that remove less than the share `min_gain` and those that would exceed `max_macs` multiply-accumulates outside 8 bits
/// together.
///
/// `base` is the output's relative noise with everything quantized. Nodes that several tensors share count once.
pub fn ranking(
    candidates: &[Candidate<'_>],
    (base, min_gain): (f64, f64),
    macs_of: impl Fn(&str) -> u64,
    max_macs: u64,
) -> Vec<usize> {
    let worth = |c: &Candidate<'_>| {
        let macs = c.unit.macs.saturating_mul(c.precision.mac_cost() - 1);
        let cost = macs.saturating_add(c.unit.elements.saturating_mul(MACS_PER_ELEMENT)).max(1);
        (base - c.noise) / cost as f64
    };
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|&i| base - candidates[i].noise > min_gain * base).collect();
    order.sort_by(|&a, &b| worth(&candidates[b]).total_cmp(&worth(&candidates[a])).then(a.cmp(&b)));
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut spent = 0u64;
    order.retain(|&i| {
        let new = candidates[i].unit.nodes.iter().map(String::as_str).filter(|n| !taken.contains(n));
        let more = new.map(&macs_of).fold(0, u64::saturating_add);
        let fits = spent.saturating_add(more) <= max_macs;
        if fits {
            spent += more;
            taken.extend(candidates[i].unit.nodes.iter().map(String::as_str));
        }
        fits
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(value: &str, nodes: &[&str], macs: u64) -> Unit {
        Unit {
            value: value.into(),
            writer: None,
            nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
            macs,
            elements: 0,
        }
    }

    #[test]
    fn cheap_gains_come_first_and_the_limit_holds() {
        let units = [unit("a", &["n1"], 100), unit("b", &["n2"], 10), unit("c", &["n2", "n3"], 20), unit("d", &[], 1)];
        let noise = [0.5, 0.9, 0.7, 0.9999];
        let candidates: Vec<_> = units
            .iter()
            .zip(noise)
            .map(|(unit, noise)| Candidate { unit, precision: Precision::Float, noise })
            .collect();
        let macs_of = |n: &str| match n {
            "n1" => 100,
            _ => 10,
        };
        // c removes 0.3 for 20, b 0.1 for 10, a 0.5 for 100; d removes next to nothing.
        assert_eq!(ranking(&candidates, (1.0, MIN_GAIN), macs_of, 1000), [2, 1, 0]);
        // b shares its node with c and is free beside it; a no longer fits.
        assert_eq!(ranking(&candidates, (1.0, MIN_GAIN), macs_of, 20), [2, 1]);
        assert_eq!(ranking(&candidates, (1.0, MIN_GAIN), macs_of, 0), Vec::<usize>::new());
    }

    #[test]
    fn ties_go_to_the_earlier_tensor() {
        let units = [unit("a", &["n1"], 10), unit("b", &["n2"], 10)];
        let candidates: Vec<_> =
            units.iter().map(|unit| Candidate { unit, precision: Precision::Float, noise: 0.5 }).collect();
        assert_eq!(ranking(&candidates, (1.0, MIN_GAIN), |_| 10, 100), [0, 1]);
    }
}

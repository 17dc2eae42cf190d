//! Accuracy and agreement, over rows of real values.
//!
//! A row is one sample's output, flattened. Ties go to the lower index, so a metric does not depend on the device.

/// Index of the largest value; NaN never wins; `None` for an empty row.
pub fn argmax(row: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (i, &v) in row.iter().enumerate() {
        if best.is_none_or(|(_, b)| v > b || (b.is_nan() && !v.is_nan())) {
            best = Some((i, v));
        }
    }
    best.map(|(i, _)| i)
}

/// Whether `label` is among the `k` largest values.
pub fn in_top_k(row: &[f32], label: usize, k: usize) -> bool {
    let Some(&own) = row.get(label) else { return false };
    if own.is_nan() {
        return false;
    }
    let ahead = |&(i, v): &(usize, &f32)| *v > own || (*v == own && i < label);
    row.iter().enumerate().filter(ahead).count() < k
}

pub use ottava_validate::Sums;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lower_index_and_nan_never_wins() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(argmax(&[f32::NAN, 0.0]), Some(1));
        assert_eq!(argmax(&[]), None);
        assert!(in_top_k(&[1.0, 1.0, 1.0], 1, 2));
        assert!(!in_top_k(&[1.0, 1.0, 1.0], 2, 2));
        assert!(!in_top_k(&[1.0], 5, 1));
    }
}

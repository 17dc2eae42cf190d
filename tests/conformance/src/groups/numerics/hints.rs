//! Where and how results differ, in words. What the cause may be is [`crate::diagnose`]'s matter.

use ottava_hal::Tensor;

/// Sentences about the elements of an output that differ; empty if there is nothing to say.
pub(super) fn hint(want: &Tensor, got: &Tensor, differing: &[usize]) -> String {
    let all = [place(want, differing), manner(want, got, differing)];
    all.into_iter().flatten().map(|words| format!("; {words}")).collect()
}

/// Where the elements lie.
fn place(want: &Tensor, differing: &[usize]) -> Option<&'static str> {
    let (shape, n) = (want.shape(), want.elements());
    let all = |holds: &dyn Fn(usize) -> bool| !differing.is_empty() && differing.iter().all(|i| holds(*i));
    let first_axis = n / shape.first().copied().unwrap_or(1).max(1);
    let border = |i: usize| {
        let mut rest = i;
        shape.iter().rev().take(shape.len().saturating_sub(2)).any(|d| {
            let at = rest % d.max(&1);
            rest /= d.max(&1);
            at == 0 || at + 1 == *d
        })
    };
    if n > 1 && all(&|i| i + 1 == n) {
        Some("only the last element, the tail")
    } else if shape.len() > 1 && shape[0] > 1 && all(&|i| i >= first_axis) {
        Some("only behind the first sample of the batch")
    } else if shape.len() > 2 && differing.len() < n && all(&border) {
        Some("only at the border, where the padding is")
    } else {
        None
    }
}

/// How the values differ.
fn manner(want: &Tensor, got: &Tensor, differing: &[usize]) -> Option<&'static str> {
    if want.dtype() != got.dtype() {
        return Some("the element type is another one");
    }
    let (lo, hi) = want.dtype().storage_range().map(|(lo, hi)| (i64::from(lo), i64::from(hi)))?;
    let (e, a) = (want.to_ints().ok()?, got.to_ints().ok()?);
    let all = |holds: &dyn Fn(i64, i64) -> bool| differing.iter().all(|i| holds(e[*i], a[*i]));
    if all(&|e, a| e.abs_diff(a) == 1) {
        Some("all by one: a matter of rounding")
    } else if all(&|e, _| e == lo || e == hi) {
        Some("only where results saturate")
    } else if all(&|_, a| a == lo || a == hi) {
        Some("the device saturates too early")
    } else {
        None
    }
}

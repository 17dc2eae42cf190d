//! Defects in which elements are written, and where.

use super::Hypothesis;
use crate::Repro;
use ottava_hal::Tensor;

/// Widths of vectors whose tails are forgotten.
const TAILS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Every defect of this file, with its outputs.
pub(super) fn hypotheses(repro: &Repro) -> impl Iterator<Item = Hypothesis> {
    let mut list = Vec::new();
    let mut add = |words: String, change: &dyn Fn(&Tensor, &Tensor) -> Option<Tensor>| {
        let outputs: Option<Vec<Tensor>> =
            repro.expected.iter().zip(&repro.actual).map(|(e, a)| change(e, a)).collect();
        list.extend(outputs.map(|outputs| Hypothesis { words: words.clone(), outputs }));
    };
    for value in [0u8, 0xff] {
        add(format!("the last element is not written (it holds {value:#04x})"), &|e, a| last_kept(e, a, 1, value));
        add(format!("nothing is written (all bytes are {value:#04x})"), &|e, _| filled(e, value));
    }
    for width in TAILS {
        add(format!("what is left behind the last full vector of {width} is not written"), &|e, a| {
            tail_kept(e, a, width)
        });
        add(format!("the last {width} elements are not written"), &|e, a| last_as_found(e, a, width));
    }
    add("every batch element is that of batch element 0".to_owned(), &|e, _| first_repeated(e));
    add("the integers are read with the other signedness".to_owned(), &|e, _| other_sign(e));
    add("the last two axes are swapped".to_owned(), &|e, _| transposed(e));
    add("the elements are one place too far".to_owned(), &|e, a| shifted(e, a));
    list.into_iter()
}

fn width_of(t: &Tensor) -> Option<usize> {
    (t.dtype().bits() >= 8).then_some(t.dtype().bits() / 8)
}

/// The expected bytes with those of the actual tensor from element `from`.
fn from_element(e: &Tensor, a: &Tensor, from: usize) -> Option<Tensor> {
    let at = from.checked_mul(width_of(e)?)?;
    let mut out = e.clone();
    out.bytes_mut().get_mut(at..)?.copy_from_slice(a.bytes().get(at..)?);
    Some(out)
}

/// The last `n` elements hold a byte, as they do in the actual tensor.
fn last_kept(e: &Tensor, a: &Tensor, n: usize, value: u8) -> Option<Tensor> {
    let out = last_as_found(e, a, n)?;
    let at = e.elements().checked_sub(n)?.checked_mul(width_of(e)?)?;
    out.bytes().get(at..)?.iter().all(|b| *b == value).then_some(out)
}

/// The last `n` elements are whatever they were before.
fn last_as_found(e: &Tensor, a: &Tensor, n: usize) -> Option<Tensor> {
    from_element(e, a, e.elements().checked_sub(n)?).filter(|_| n < e.elements())
}

/// The elements behind the last multiple of `width` are whatever they were before.
fn tail_kept(e: &Tensor, a: &Tensor, width: usize) -> Option<Tensor> {
    let whole = e.elements() / width.max(1) * width;
    (whole > 0 && whole < e.elements()).then(|| from_element(e, a, whole)).flatten()
}

fn filled(e: &Tensor, value: u8) -> Option<Tensor> {
    let mut out = e.clone();
    out.bytes_mut().fill(value);
    Some(out)
}

fn first_repeated(e: &Tensor) -> Option<Tensor> {
    let batch = e.shape().first().copied().filter(|n| *n > 1)?;
    let one = e.bytes().len() / batch;
    let mut out = e.clone();
    let first = e.bytes().get(..one)?;
    out.bytes_mut().chunks_exact_mut(one.max(1)).for_each(|part| part.copy_from_slice(first));
    Some(out)
}

fn other_sign(e: &Tensor) -> Option<Tensor> {
    let width = width_of(e).filter(|_| e.dtype().is_integer())?;
    let mut out = e.clone();
    out.bytes_mut().chunks_exact_mut(width).filter_map(<[u8]>::last_mut).for_each(|b| *b ^= 0x80);
    Some(out)
}

fn transposed(e: &Tensor) -> Option<Tensor> {
    let width = width_of(e)?;
    let [.., rows, cols] = *e.shape() else { return None };
    let mut out = e.clone();
    let plane = rows.checked_mul(cols)?.checked_mul(width)?.max(1);
    for (to, from) in out.bytes_mut().chunks_exact_mut(plane).zip(e.bytes().chunks_exact(plane)) {
        for (i, element) in from.chunks_exact(width).enumerate() {
            let at = ((i % cols) * rows + i / cols) * width;
            to.get_mut(at..at + width)?.copy_from_slice(element);
        }
    }
    Some(out)
}

fn shifted(e: &Tensor, a: &Tensor) -> Option<Tensor> {
    let width = width_of(e)?;
    let mut out = e.clone();
    let keep = e.bytes().len().checked_sub(width).filter(|n| *n > 0)?;
    out.bytes_mut().get_mut(width..)?.copy_from_slice(e.bytes().get(..keep)?);
    out.bytes_mut().get_mut(..width)?.copy_from_slice(a.bytes().get(..width)?);
    Some(out)
}

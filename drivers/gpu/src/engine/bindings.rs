//! Checks of bindings that need nothing of the device: numbers, sizes, ranges, alignment, overlaps.

use ottava_hal::{Binding, Error, Result, TensorType};
use std::sync::Arc;

/// A binding lies inside its buffer.
pub fn check_range(binding: &Binding) -> Result<()> {
    let (offset, len, has) = (binding.offset, binding.len, binding.buffer.len());
    if offset.checked_add(len).is_some_and(|end| end <= has) {
        return Ok(());
    }
    Err(Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {has}")))
}

/// One binding per type, of its size, inside its buffer, and at a multiple of `alignment`.
pub fn check_bindings(bindings: &[Binding], types: &[TensorType], what: &str, alignment: usize) -> Result<()> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    for (i, (b, ty)) in bindings.iter().zip(types).enumerate() {
        if ty.byte_len() != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {:?}", b.len, ty.byte_len())));
        }
        if !b.offset.is_multiple_of(alignment) {
            let what = format!("{what} {i}: offset {} is not a multiple of the device's {alignment}", b.offset);
            return Err(Error::invalid(what));
        }
        check_range(b).map_err(|e| Error::invalid(format!("{what} {i}: {e}")))?;
    }
    Ok(())
}

/// An output does not overlap anything else that is bound. All ranges are inside their buffers.
pub fn check_distinct(ins: &[Binding], outs: &[Binding]) -> Result<()> {
    for (i, out) in outs.iter().enumerate() {
        if outs[i + 1..].iter().chain(ins).any(|other| overlap(other, out)) {
            return Err(Error::invalid(format!("the memory of output {i} is bound twice; give it bytes of its own")));
        }
    }
    Ok(())
}

fn overlap(a: &Binding, b: &Binding) -> bool {
    let same = std::ptr::addr_eq(Arc::as_ptr(&a.buffer), Arc::as_ptr(&b.buffer));
    same && a.offset < b.offset + b.len && b.offset < a.offset + a.len
}

/// The two sides of a copy: of one length, inside, and apart.
pub fn check_copy(from: &Binding, to: &Binding) -> Result<()> {
    if from.len != to.len {
        return Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)));
    }
    check_range(from)?;
    check_range(to)?;
    if overlap(from, to) {
        return Err(Error::invalid("a copy between bytes that overlap"));
    }
    Ok(())
}

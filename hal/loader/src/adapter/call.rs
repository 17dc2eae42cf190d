//! Functions that are called twice: once for the number of elements, once for the elements.

use super::error::broken;
use ottava_abi::Plain;
use ottava_hal::{Error, Result, Status, Tensor};

/// Tries when the number grows between the calls.
const TRIES: usize = 4;

/// Calls `f(capacity, out, count)` until the array is large enough. `blank` is what each element holds before the call.
pub(crate) fn two_call<T: Plain>(
    who: &str,
    function: &str,
    max: u64,
    blank: T,
    mut f: impl FnMut(u64, *mut T, &mut u64) -> Result<()>,
) -> Result<Vec<T>> {
    let mut count = 0;
    accept_small(f(0, std::ptr::null_mut(), &mut count))?;
    for _ in 0..TRIES {
        if count > max {
            return Err(broken(who, function, format_args!("{count} elements, at most {max} are read")));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let capacity = count;
        let mut elements = Tensor::buffer(capacity as usize)?;
        elements.resize(capacity as usize, blank);
        let result = f(capacity, elements.as_mut_ptr(), &mut count);
        match result {
            Ok(()) if count <= capacity => {
                elements.truncate(count as usize);
                return Ok(elements);
            }
            other => accept_small(other)?,
        }
    }
    Err(broken(who, function, "the number of elements grows with each call"))
}

/// BUFFER_TOO_SMALL is an answer here.
fn accept_small(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Failed { status: Status::BufferTooSmall, .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(max: u64, counts: &[u64]) -> Result<Vec<u32>> {
        let mut counts = counts.iter().copied();
        let small = || Error::failed(Status::BufferTooSmall, "small");
        two_call("d", "f", max, 7u32, |capacity, out, count| {
            *count = counts.next().unwrap_or(*count);
            if capacity < *count {
                return Err(small());
            }
            // SAFETY: the caller passes an array of `capacity` elements.
            (0..*count as usize).for_each(|i| unsafe { *out.add(i) += i as u32 });
            Ok(())
        })
    }

    #[test]
    fn growing_and_shrinking_counts_are_followed() {
        assert_eq!(run(9, &[2, 2]), Ok(vec![7, 8]));
        assert_eq!(run(9, &[2, 3, 3]), Ok(vec![7, 8, 9]));
        assert_eq!(run(9, &[3, 1]), Ok(vec![7]));
        assert_eq!(run(9, &[0]), Ok(vec![]));
        assert!(run(9, &[10]).unwrap_err().to_string().contains("at most 9"));
        assert!(run(99, &[1, 2, 3, 4, 5, 6, 7]).unwrap_err().to_string().contains("grows"));
    }
}

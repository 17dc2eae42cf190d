//! Sharing the elements of a result among the threads of the pool, without `unsafe`.

use crate::relayout::failed;
use ottava_hal::Result;
use ottava_kernels::Exec;
use parking_lot::Mutex;

/// Cuts `out` into chunks and calls `f(index, chunk)` for each, once, on whichever thread is free. The lock around the
/// list of chunks is held only to take the next one.
pub(crate) fn for_chunks<T: Send>(
    exec: Exec<'_>,
    out: &mut [T],
    chunk: usize,
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<()> {
    let chunk = chunk.max(1);
    let n = out.len().div_ceil(chunk);
    let chunks = out.chunks_mut(chunk).enumerate();
    if n <= 1 || exec.pool.threads() == 1 {
        chunks.for_each(|(i, part)| f(i, part));
        return Ok(());
    }
    let chunks = Mutex::new(chunks);
    let task = |_| {
        let next = chunks.lock().next();
        if let Some((i, part)) = next {
            f(i, part);
        }
    };
    exec.pool.parallel_for(n, &task).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_kernels::{Isa, ThreadPool};

    #[test]
    fn every_element_is_visited_once() {
        for threads in [1, 3] {
            let pool = ThreadPool::new(threads).unwrap();
            let exec = Exec { isa: Isa::portable(), pool: &pool };
            for len in [0, 1, 10, 1001] {
                let mut out = vec![0u32; len];
                let add = |i: usize, part: &mut [u32]| {
                    part.iter_mut().enumerate().for_each(|(j, v)| *v += (i * 10 + j) as u32 + 1);
                };
                for_chunks(exec, &mut out, 10, &add).unwrap();
                assert!(out.iter().enumerate().all(|(i, v)| *v == i as u32 + 1));
            }
        }
    }
}

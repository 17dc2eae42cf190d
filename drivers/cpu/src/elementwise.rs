//! Steps whose result may take the place of an operand: element `i` of it depends on element `i` of each operand alone.
//!
//! Where the memory plan lets the result replace an operand, the operand's bytes are found in the result. They are copied
//! block by block to the stack, which stays in the first-level cache, so that kernels see disjoint slices as always.

use crate::arena::Io;
use crate::builder::Run;
use crate::parallel::for_chunks;
use bytemuck::Zeroable;
use ottava_hal::{Error, Result, Status};
use ottava_kernels::Exec;
use parking_lot::Mutex;

/// Bytes that are on the stack at a time.
const BLOCK: usize = 1 << 12;
/// Bytes of a task of the pool.
const TASK: usize = 1 << 16;

/// Computes the result from one or two operands of as many elements (the second is empty if there is one operand).
pub(crate) type Function = Box<dyn Fn(Exec<'_>, [&[u8]; 2], &mut [u8]) -> Result<()> + Send + Sync>;

/// Stack memory that is aligned for every kernel's loads.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Block([u8; BLOCK]);

/// The step of a function over `n_operands` (1 or 2) operands whose elements are as wide as those of the result.
pub(crate) fn step(n_operands: usize, f: Function) -> Run {
    Box::new(move |exec, io| match (0..n_operands).find(|i| io.held_at(*i) == Some(0)) {
        None => {
            let second = if n_operands > 1 { io.bytes(1)? } else { &[] };
            f(exec, [io.bytes(0)?, second], io.out)
        }
        Some(held) => in_place(exec, io, n_operands, held, &f),
    })
}

fn in_place(exec: Exec<'_>, io: Io<'_>, n_operands: usize, held: usize, f: &Function) -> Result<()> {
    let other = if n_operands > 1 { io.bytes(1 - held)? } else { &[] };
    if n_operands > 1 && other.len() != io.out.len() {
        return Err(Error::failed(Status::Internal, "an elementwise step replaces an operand of another size"));
    }
    let failure = Mutex::new(None);
    for_chunks(exec, io.out, TASK, &|task, part| {
        let mut own = Block::zeroed();
        for (i, out) in part.chunks_mut(BLOCK).enumerate() {
            let own = &mut own.0[..out.len()];
            own.copy_from_slice(out);
            let at = task * TASK + i * BLOCK;
            let other = other.get(at..at + out.len()).unwrap_or_default();
            let operands = if held == 0 { [&*own, other] } else { [other, &*own] };
            if let Err(e) = f(exec, operands, out) {
                failure.lock().get_or_insert(e);
            }
        }
    })?;
    failure.into_inner().map_or(Ok(()), Err)
}

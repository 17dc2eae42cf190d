//! Byte functions that differ from column to column, as tables of 256 bytes per column.

use super::BLOCK;
use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
use crate::shared_out::SharedOut;

/// Columns whose tables fit the first-level cache.
const COLUMNS: usize = BLOCK / 4;

/// `out[row][column] = tables[column][x[row][column]]`.
///
/// # Errors
/// When `x` and `out` are not rows of as many columns as there are tables, or a task panicked.
pub fn lut_rows(exec: Exec<'_>, x: &[u8], tables: &[[u8; 256]], out: &mut [u8]) -> Result<()> {
    let width = tables.len();
    check_len("the output", out.len(), x.len())?;
    if width == 0 || !x.len().is_multiple_of(width) {
        return Err(KernelError::Length { what: "the input", found: x.len(), expected: width });
    }
    let bands = width.div_ceil(COLUMNS);
    let (parts, out) = (exec.parts(x.len().saturating_mul(8), usize::MAX), SharedOut::new(out));
    exec.split(bands, 1, parts, &|from, to| {
        for first in (from..to).map(|band| band * COLUMNS) {
            let tables = &tables[first..(first + COLUMNS).min(width)];
            for (row, x) in x.chunks_exact(width).enumerate() {
                // SAFETY: bands are disjoint columns and `split` gives each to one task.
                let out = unsafe { out.part(row * width + first, tables.len()) };
                for ((y, x), table) in out.iter_mut().zip(&x[first..]).zip(tables) {
                    *y = table[usize::from(*x)];
                }
            }
        }
    })
}

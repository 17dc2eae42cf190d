//! Layout changes between NCHW and NHWC: a transposition of `[c][h * w]` per image, in square blocks that fit the first-level cache.

use crate::error::{Result, check_len, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;

/// Edge of a block.
const BLOCK: usize = 32;

/// `[n][c][hw]` to `[n][hw][c]`.
pub fn nchw_to_nhwc<T: Copy + Send + Sync>(
    exec: Exec<'_>,
    [n, c, hw]: [usize; 3],
    x: &[T],
    out: &mut [T],
) -> Result<()> {
    transpose(exec, [n, c, hw], x, out)
}

/// `[n][hw][c]` to `[n][c][hw]`; the shape is given as `[n, c, hw]`.
pub fn nhwc_to_nchw<T: Copy + Send + Sync>(
    exec: Exec<'_>,
    [n, c, hw]: [usize; 3],
    x: &[T],
    out: &mut [T],
) -> Result<()> {
    transpose(exec, [n, hw, c], x, out)
}

/// `[n][rows][cols]` to `[n][cols][rows]`. A task owns bands of `BLOCK` output rows of an image.
fn transpose<T: Copy + Send + Sync>(exec: Exec<'_>, [n, rows, cols]: [usize; 3], x: &[T], out: &mut [T]) -> Result<()> {
    let image = product("the image", &[rows, cols])?;
    let total = product("the tensor", &[n, image])?;
    check_len("the input", x.len(), total)?;
    check_len("the output", out.len(), total)?;
    if total == 0 {
        return Ok(());
    }
    let bands = cols.div_ceil(BLOCK);
    let parts = exec.parts(total.saturating_mul(size_of::<T>() * 4), n * bands);
    let shared = SharedOut::new(out);
    exec.split(n * bands, 1, parts, &|from, to| {
        for band in from..to {
            let (i, first) = (band / bands, band % bands * BLOCK);
            let width = BLOCK.min(cols - first);
            // SAFETY: bands are disjoint runs of output rows and `split` gives each to one task.
            let to = unsafe { shared.part(i * image + first * rows, width * rows) };
            transpose_band(&x[i * image..][..image], cols, first, to, rows);
        }
    })
}

/// Input columns `first ..` become the output rows of `out`, each `rows` long.
fn transpose_band<T: Copy>(x: &[T], cols: usize, first: usize, out: &mut [T], rows: usize) {
    for from in (0..rows).step_by(BLOCK) {
        let height = BLOCK.min(rows - from);
        for (c, line) in out.chunks_exact_mut(rows).enumerate() {
            let column = x[from * cols + first + c..].iter().step_by(cols);
            for (to, value) in line[from..from + height].iter_mut().zip(column) {
                *to = *value;
            }
        }
    }
}

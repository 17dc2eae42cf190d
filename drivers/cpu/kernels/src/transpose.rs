//! Layout changes between NCHW and NHWC: a transposition of `[c][h * w]` per image, in square blocks that fit the first-level cache.
//! Few planes, such as those of a picture, are interleaved instead, a loop that compilers vectorise.

use crate::error::{Result, check_len, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Edge of a block.
const BLOCK: usize = 32;
/// Elements of a plane that a task takes at once when it interleaves.
const UNIT: usize = 256;

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
    match (rows, cols) {
        (1, _) | (_, 1) => return interleave::<T, 1>(exec, total, x, out),
        (2, _) => return interleave::<T, 2>(exec, cols, x, out),
        (3, _) => return interleave::<T, 3>(exec, cols, x, out),
        (4, _) => return interleave::<T, 4>(exec, cols, x, out),
        _ => (),
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

/// `[n][N][plane]` to `[n][plane][N]`, nothing empty.
fn interleave<T: Copy + Send + Sync, const N: usize>(
    exec: Exec<'_>,
    plane: usize,
    x: &[T],
    out: &mut [T],
) -> Result<()> {
    let parts = exec.parts(out.len().saturating_mul(size_of::<T>() * 4), usize::MAX);
    for (image, out) in x.chunks_exact(N * plane).zip(out.chunks_exact_mut(N * plane)) {
        let shared = SharedOut::new(out);
        exec.split(plane, UNIT, parts, &|from, to| {
            let mut planes = [&image[..0]; N];
            for (k, part) in planes.iter_mut().enumerate() {
                *part = &image[k * plane..][from..to];
            }
            // SAFETY: `split` hands out disjoint ranges of pixels.
            let out = unsafe { shared.part(from * N, (to - from) * N) };
            exec.isa.run(Interleave { planes, out });
        })?;
    }
    Ok(())
}

/// Equally long planes and their pixels.
struct Interleave<'a, T, const N: usize> {
    planes: [&'a [T]; N],
    out: &'a mut [T],
}

impl<T: Copy, const N: usize> Vectorize for Interleave<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pixels = self.out.as_chunks_mut::<N>().0;
        let mut planes = self.planes;
        for plane in &mut planes {
            *plane = &plane[..pixels.len()];
        }
        for (i, pixel) in pixels.iter_mut().enumerate() {
            for k in 0..N {
                pixel[k] = planes[k][i];
            }
        }
    }
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

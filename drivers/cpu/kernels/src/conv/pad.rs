//! Copying an image into a frame of zero points, so that kernels need no border cases.
//!
//! Kernels read activations at `pixel + tap offset`; a frame makes that valid for every pixel and tap. Filled with the zero point, it
//! contributes nothing after the zero-point correction, as the numeric contract demands of padding.

use crate::error::{Result, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;

/// Geometry of a framed copy. Source rows and columns that no tap reads are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) in_h: usize,
    pub(crate) in_w: usize,
    pub(crate) in_c: usize,
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) h: usize,
    pub(crate) w: usize,
    /// Bytes per pixel in the frame; channels beyond `in_c` hold the fill value.
    pub(crate) c: usize,
}

impl Frame {
    /// Bytes of the frame.
    pub(crate) fn len(&self) -> Result<usize> {
        product("the padded image", &[self.h, self.w, self.c])
    }

    /// Fills `dst[..h * w * c]` from `src`.
    pub(crate) fn copy(&self, exec: Exec<'_>, src: &[u8], fill: u8, dst: &mut [u8]) -> Result<()> {
        let line = self.w * self.c;
        let out = SharedOut::new(&mut dst[..self.h * line]);
        let parts = exec.parts(self.h * line * 4, self.h);
        exec.split(self.h, 1, parts, &|from, to| {
            for y in from..to {
                // SAFETY: rows of the frame are disjoint and `split` gives each row to one task.
                self.copy_line(src, y, fill, unsafe { out.part(y * line, line) });
            }
        })
    }

    fn copy_line(&self, src: &[u8], y: usize, fill: u8, line: &mut [u8]) {
        let Some(y) = y.checked_sub(self.top).filter(|y| *y < self.in_h) else {
            return line.fill(fill);
        };
        let n = self.in_w.min(self.w.saturating_sub(self.left));
        let (before, rest) = line.split_at_mut(self.left.min(self.w) * self.c);
        let (middle, after) = rest.split_at_mut(n * self.c);
        let row = &src[y * self.in_w * self.in_c..][..n * self.in_c];
        before.fill(fill);
        after.fill(fill);
        if self.c == self.in_c {
            middle.copy_from_slice(row);
            return;
        }
        for (to, from) in middle.chunks_exact_mut(self.c).zip(row.chunks_exact(self.in_c)) {
            to[..self.in_c].copy_from_slice(from);
            to[self.in_c..].fill(fill);
        }
    }
}

//! [`MatMulF32`]: a batch of f32 matrix products whose right-hand sides are known only at run time.

use alloc::format;
use alloc::vec::Vec;

use super::dense_f32::Dense;
use super::finish_f32::FinishPlan;
use super::shape::{ConvShape, Geometry};
use super::tiles_f32::Chart;
use crate::error::{KernelError, Result, check_len, product};
use crate::exec::Exec;
use crate::float::{LineF32, Panels, ROWS};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

/// Products `[m][k] x [k][n]`, one per pair of matrices; bits as those of [`crate::ConvF32`].
pub struct MatMulF32 {
    shape: ConvShape,
    geometry: Geometry,
    chart: Chart,
    finish: FinishPlan,
    m: usize,
    /// Left and right matrix of each product.
    pairs: Vec<[usize; 2]>,
    /// Matrices on the left and on the right.
    n_matrices: [usize; 2],
}

impl MatMulF32 {
    /// Plans `pairs.len()` products; product `i` takes the matrices of the indices `pairs[i]`.
    ///
    /// # Errors
    /// When an extent is 0 or the sizes overflow.
    pub fn new([m, k, n]: [usize; 3], pairs: Vec<[usize; 2]>) -> Result<Self> {
        let shape = ConvShape::gemm(k, n);
        let geometry = shape.geometry()?;
        let n_matrices = [0, 1].map(|side| pairs.iter().map(|p| p[side] + 1).max().unwrap_or(0));
        if m == 0 || pairs.is_empty() {
            return Err(KernelError::Shape { what: format!("{} products of {m} rows", pairs.len()) });
        }
        product("the left matrices", &[n_matrices[0], m, k])?;
        product("the packed matrices", &[n_matrices[1], k, n.next_multiple_of(COLS), size_of::<f32>()])?;
        product("the output", &[pairs.len(), m, n])?;
        let chart = Chart::new(&shape, &geometry)?;
        let finish = FinishPlan::new(None, f32::NEG_INFINITY, f32::INFINITY);
        Ok(Self { shape, geometry, chart, finish, m, pairs, n_matrices })
    }

    /// Lines of a packed matrix.
    fn lines(&self) -> usize {
        self.shape.out_c.div_ceil(COLS) * self.shape.in_c
    }

    /// Bytes of scratch that [`MatMulF32::run`] asks for.
    pub fn scratch_len(&self) -> usize {
        self.n_matrices[1] * self.lines() * size_of::<LineF32>() + align_of::<LineF32>()
    }

    /// Computes all products.
    ///
    /// # Errors
    /// When a slice has the wrong length, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, a: &[f32], b: &[f32], out: &mut [f32], scratch: &mut [u8]) -> Result<()> {
        let (s, m) = (&self.shape, self.m);
        check_len("the left matrices", a.len(), self.n_matrices[0] * m * s.in_c)?;
        check_len("the right matrices", b.len(), self.n_matrices[1] * s.in_c * s.out_c)?;
        check_len("the output", out.len(), self.pairs.len() * m * s.out_c)?;
        let packed = LineF32::in_bytes(scratch);
        let n_lines = self.n_matrices[1] * self.lines();
        let packed = packed.get_mut(..n_lines).ok_or(KernelError::Length {
            what: "the scratch space",
            found: 0,
            expected: n_lines * size_of::<LineF32>(),
        })?;
        self.pack(exec, b, packed)?;
        self.products(exec, a, packed, out)
    }

    /// Tasks are panels.
    fn pack(&self, exec: Exec<'_>, b: &[f32], packed: &mut [LineF32]) -> Result<()> {
        let (k, n) = (self.shape.in_c, self.shape.out_c);
        let (per_matrix, n_panels) = (n.div_ceil(COLS), packed.len() / k);
        let packed = SharedOut::new(packed);
        exec.split(n_panels, 1, exec.parts(b.len().saturating_mul(16), n_panels), &|from, to| {
            for panel in from..to {
                let (matrix, first) = (panel / per_matrix, panel % per_matrix * COLS);
                // SAFETY: panels are disjoint and `split` gives each to one task.
                let lines = unsafe { packed.part(panel * k, k) };
                for (line, row) in lines.iter_mut().zip(b[matrix * k * n..].chunks_exact(n)) {
                    *line = LineF32::of(&row[first..]);
                }
            }
        })
    }

    /// Tasks are runs of tiles.
    fn products(&self, exec: Exec<'_>, a: &[f32], packed: &[LineF32], out: &mut [f32]) -> Result<()> {
        let (s, m, lines) = (&self.shape, self.m, self.lines());
        let per_product = m.div_ceil(ROWS);
        let macs = self.pairs.len().saturating_mul(m).saturating_mul(self.geometry.macs);
        let (n_tiles, out) = (self.pairs.len() * per_product, SharedOut::new(out));
        exec.split(n_tiles, 1, exec.parts(macs, n_tiles), &|from, to| {
            let mut at = from;
            while at < to {
                let (i, first) = (at / per_product, at % per_product);
                let n = (per_product - first).min(to - at);
                let [left, right] = self.pairs[i];
                let view = Panels { lines: &packed[right * lines..][..lines], k: s.in_c };
                let dense = Dense {
                    shape: s,
                    geometry: &self.geometry,
                    chart: &self.chart,
                    finish: &self.finish,
                    exec,
                    panels: &|_| view,
                    x: &a[left * m * s.in_c..][..m * s.in_c],
                    residual: None,
                    out: &out,
                    pixels: m,
                    first: i * m * s.out_c,
                };
                dense.task(first..first + n, 0..s.out_c.div_ceil(COLS));
                at += n;
            }
        })
    }
}

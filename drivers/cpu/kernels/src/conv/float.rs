//! [`ConvF32`]: deterministic f32 convolution and matrix product.

use alloc::vec::Vec;

use super::dense_f32::Dense;
use super::depthwise_f32::DepthwiseF32;
use super::filter_f32::{FilterF32, FloatWeights};
use super::finish_f32::FinishPlan;
use super::shape::{ConvShape, Geometry};
use super::tiles_f32::Chart;
use super::weights::WeightLayout;
use crate::elements::PackedBytes;
use crate::error::{Result, check_len, product};
use crate::exec::Exec;
use crate::float::{Line, Packed};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::stored::Stored;

/// A convolution or matrix product in f32 whose bits do not depend on instruction set, threads or batch.
pub struct ConvF32 {
    shape: ConvShape,
    geometry: Geometry,
    chart: Chart,
    filter: FilterF32,
    finish: FinishPlan,
}

impl ConvF32 {
    /// Packs f32 weights, stored in the smallest of f32, f16 and bf16 that holds all of them exactly; `lo` and `hi` clip the result (`-inf` and `inf` for none).
    ///
    /// # Errors
    /// When shape and lengths do not fit together.
    pub fn new(
        shape: ConvShape,
        weights: &[f32],
        layout: WeightLayout,
        bias: Option<&[f32]>,
        lo: f32,
        hi: f32,
    ) -> Result<Self> {
        Self::with_weights(shape, FloatWeights::F32(weights), layout, bias, lo, hi)
    }

    /// Packs weights in the type in which they are stored; the arithmetic is that of their f32 values.
    ///
    /// # Errors
    /// As [`ConvF32::new`].
    pub fn with_weights(
        shape: ConvShape,
        weights: FloatWeights<'_>,
        layout: WeightLayout,
        bias: Option<&[f32]>,
        lo: f32,
        hi: f32,
    ) -> Result<Self> {
        let geometry = shape.geometry()?;
        check_len("the weights", weights.len(), geometry.n_weights)?;
        let filter = FilterF32::pack(&shape, &geometry, weights, layout)?;
        Self::assemble(shape, geometry, filter, bias, lo, hi)
    }

    /// The packed weights as bytes: the plan of equal shape comes back from them by [`ConvF32::from_packed`].
    pub fn to_packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.packed_bytes() + 4);
        self.filter.save(&mut out);
        out
    }

    /// The plan of [`ConvF32::to_packed`] with this bias and these bounds; nothing is packed again, and shared memory
    /// ([`PackedBytes::shared`]) is used in place.
    ///
    /// # Errors
    /// When the bytes are not those of a plan of this shape, or the bias does not fit it.
    pub fn from_packed<'a>(
        shape: ConvShape,
        packed: impl Into<PackedBytes<'a>>,
        bias: Option<&[f32]>,
        lo: f32,
        hi: f32,
    ) -> Result<Self> {
        let geometry = shape.geometry()?;
        let mut packed = Stored::new(packed.into());
        let filter = FilterF32::restore(&shape, &geometry, &mut packed)?;
        packed.end()?;
        Self::assemble(shape, geometry, filter, bias, lo, hi)
    }

    fn assemble(
        shape: ConvShape,
        geometry: Geometry,
        filter: FilterF32,
        bias: Option<&[f32]>,
        lo: f32,
        hi: f32,
    ) -> Result<Self> {
        bias.map_or(Ok(()), |b| check_len("the bias", b.len(), shape.out_c))?;
        let chart = if shape.is_depthwise() { Chart::none() } else { Chart::new(&shape, &geometry)? };
        Ok(Self { shape, geometry, chart, filter, finish: FinishPlan::new(bias, lo, hi) })
    }

    /// The shape this plan was built for.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Multiply-adds per image (per row of a matrix product).
    pub fn macs(&self) -> usize {
        self.geometry.macs
    }

    /// Bytes of packed weights.
    pub fn packed_bytes(&self) -> usize {
        self.filter.bytes()
    }

    /// Computes a batch: `x` holds any number of images, `out` as many output images.
    ///
    /// # Errors
    /// When a slice has the wrong length, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, x: &[f32], out: &mut [f32]) -> Result<()> {
        self.run_add(exec, x, None, out)
    }

    /// As [`ConvF32::run`]; adds `residual`, laid out as the output, after the bias and before the bounds.
    ///
    /// # Errors
    /// When a slice has the wrong length, or a task panicked.
    pub fn run_add(&self, exec: Exec<'_>, x: &[f32], residual: Option<&[f32]>, out: &mut [f32]) -> Result<()> {
        let batch = self.geometry.batch(x.len())?;
        let n_out = product("the output", &[batch, self.geometry.out_image])?;
        check_len("the output", out.len(), n_out)?;
        residual.map_or(Ok(()), |r| check_len("the residual", r.len(), n_out))?;
        match &self.filter {
            FilterF32::Depthwise(filter) => self.depthwise(exec, filter, x, residual, out),
            FilterF32::F32(groups) => self.dense(exec, groups, x, residual, out),
            FilterF32::F16(groups) => self.dense(exec, groups, x, residual, out),
            FilterF32::Bf16(groups) => self.dense(exec, groups, x, residual, out),
        }
    }

    fn depthwise(
        &self,
        exec: Exec<'_>,
        filter: &DepthwiseF32,
        x: &[f32],
        residual: Option<&[f32]>,
        out: &mut [f32],
    ) -> Result<()> {
        let g = &self.geometry;
        filter.run(exec, &self.shape, [g.out_h, g.out_w], (&self.finish, residual), x, out)
    }

    /// Tasks are rectangles of tiles and channel panels.
    fn dense<L: Line>(
        &self,
        exec: Exec<'_>,
        groups: &[Packed<L>],
        x: &[f32],
        residual: Option<&[f32]>,
        out: &mut [f32],
    ) -> Result<()> {
        let (s, g) = (&self.shape, &self.geometry);
        let pixels = out.len() / s.out_c;
        let n_tiles = self.chart.count(pixels, g.out_h * g.out_w);
        let n_panels = groups.len() * (s.out_c / s.groups).div_ceil(COLS);
        let macs = (x.len() / g.image).saturating_mul(g.macs);
        let [tile_step, panel_step] = self.steps(exec.parts(macs, usize::MAX), n_tiles, n_panels, x.len());
        let (rows, cols) = (n_tiles.div_ceil(tile_step), n_panels.div_ceil(panel_step));
        let finish = &self.finish;
        let panels = &|group: usize| groups[group].view();
        let out = &SharedOut::new(out);
        let dense = Dense {
            shape: s,
            geometry: g,
            chart: &self.chart,
            finish,
            exec,
            panels,
            x,
            residual,
            out,
            pixels,
            first: 0,
        };
        exec.pool.parallel_for(rows * cols, &|t| {
            let (y, p) = (t / cols * tile_step, t % cols * panel_step);
            dense.task(y..(y + tile_step).min(n_tiles), p..(p + panel_step).min(n_panels));
        })
    }

    /// Tiles and panels of a task: what is larger, activations or weights, is cut first, so that it is not read by all threads.
    fn steps(&self, parts: usize, n_tiles: usize, n_panels: usize, n_x: usize) -> [usize; 2] {
        let cut = |n: usize, parts: usize| n.div_ceil(n.div_ceil(parts.max(1)).max(1)).max(1);
        let (tile_parts, panel_parts) = if self.filter.bytes() / size_of::<f32>() > n_x {
            let panel_parts = cut(n_panels, parts);
            (parts.div_ceil(panel_parts), panel_parts)
        } else {
            let tile_parts = cut(n_tiles, parts);
            (tile_parts, parts.div_ceil(tile_parts))
        };
        [n_tiles.div_ceil(tile_parts).max(1), n_panels.div_ceil(panel_parts).max(1)]
    }
}

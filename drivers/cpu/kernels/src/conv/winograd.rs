//! Exact 3 x 3 convolution by Winograd's F(2 x 2, 3 x 3) in integers: 16 products where the sum has 36.
//!
//! Four outputs of a 2 x 2 tile come from 4 x 4 activations `d` and the 3 x 3 weights `g` (Lavin and Gray, "Fast Algorithms for
//! Convolutional Neural Networks", 2015, section 4.1):
//!
//! ```text
//! Y = A' [ (G g G') . (B' d B) ] A
//! B' = 1  0 -1  0     G = 1    0   0        A' = 1  1  1  0
//!      0  1  1  0         1/2  1/2 1/2           0  1 -1 -1
//!      0 -1  1  0         1/2 -1/2 1/2
//!      0  1  0 -1         0    0   1
//! ```
//! With `2 G` everything is integer and `Y` four times the sum. Transformed activations stay within 4 * 255, transformed weights within
//! 9 * 255, so both are 16-bit words and `vpmaddwd` multiplies them exactly. Sums wrap in 32 bits; the end result is right because
//! four times the true sum fits ([`MAX_CHANNELS`]).
//!
//! A task takes blocks of tile rows: it transforms their activations to `[position][tile][channel]`, and for each panel of sixteen
//! output channels and each few tiles multiplies sixteen small matrices, transforms back, and stores.

use alloc::vec::Vec;
use core::ops::Range;

use super::pad::Frame;
use super::shape::{ConvShape, Geometry};
use super::weights::Weights;
use crate::elements::{Elements, Plain};
use crate::epilogue::Prepared;
use crate::error::{Result, product};
use crate::exec::Exec;
use crate::finish::{Finish, Out, Place};
use crate::gemm::COLS;
use crate::isa::Isa;
use crate::matmul::words::{bytes_for, words};
use crate::shared_out::SharedOut;
use crate::stored::{Stored, put_elements};
use crate::tile::{GemmRows, GemmTile, STRIP_ROWS, Strip, WORD_ROWS};
use crate::vectorize::Vectorize;

/// Positions of a transformed tile.
const POSITIONS: usize = 16;
/// Channels that a transformation takes at a time.
const LANES: usize = 16;
/// Up to so many input channels, four times a sum of nine products of 255 * 255 per channel fits i32.
const MAX_CHANNELS: usize = 896;
/// With fewer channels the transformations cost more than they save (measured: 32 channels lose, 64 gain 10 to 17 %).
const MIN_CHANNELS: usize = 64;
/// Fewer tiles do not pay: the work per tile must cover reading its share of the weights, ...
const MIN_TILES: usize = 16;
/// ... and weights beyond a half of a second-level cache must be used more often, since they are 32 bytes per pair of channels.
const MIN_TILES_LARGE: usize = 36;
const LARGE: usize = 256 << 10;
/// Transformed activations of a block, in bytes: a third of a second-level cache.
const BLOCK: usize = 160 << 10;
/// Tasks at most: the scratch is sized before the number of threads is known.
const MAX_TASKS: usize = 8;

/// How an image is cut into tiles and blocks.
pub(super) struct Tiles {
    frame: Frame,
    /// Tile rows and columns.
    n: [usize; 2],
    /// Tile rows of a block.
    block_rows: usize,
    channels: usize,
}

impl Tiles {
    /// The tiles of a convolution for which this way pays; `None` for others.
    pub(super) fn new(s: &ConvShape, g: &Geometry) -> Option<Self> {
        let plain = s.kernel == [3, 3] && s.stride == [1, 1] && s.dilation == [1, 1] && s.groups == 1;
        let n = [g.out_h.div_ceil(2), g.out_w.div_ceil(2)];
        let fits = s.in_c.is_multiple_of(LANES) && (MIN_CHANNELS..=MAX_CHANNELS).contains(&s.in_c);
        let weights = s.in_c.saturating_mul(s.out_c).saturating_mul(POSITIONS * size_of::<i16>());
        let least = if weights > LARGE { MIN_TILES_LARGE } else { MIN_TILES };
        if !plain || !fits || s.out_c < MIN_CHANNELS || n[0].checked_mul(n[1])? < least {
            return None;
        }
        let [h, w] = n.map(|tiles| 2 * tiles + 2);
        let frame =
            Frame { in_h: s.in_h, in_w: s.in_w, in_c: s.in_c, top: s.pads[0], left: s.pads[1], h, w, c: s.in_c };
        let row = n[1].checked_mul(POSITIONS * size_of::<i16>())?.checked_mul(s.in_c)?;
        Some(Self { frame, n, block_rows: (BLOCK / row).clamp(1, n[0]), channels: s.in_c })
    }

    fn n_blocks(&self) -> usize {
        self.n[0].div_ceil(self.block_rows)
    }

    /// Words of the transformed activations of a block.
    fn block_words(&self) -> Result<usize> {
        product("the transformed activations", &[self.block_rows, self.n[1], POSITIONS, self.channels])
    }

    /// Bytes of scratch.
    pub(super) fn scratch(&self) -> Result<usize> {
        let all = product("the transformed activations", &[self.block_words()?, self.n_blocks().min(MAX_TASKS)])?;
        let bytes = bytes_for::<i16>(all).and_then(|bytes| bytes.checked_add(self.frame.len().ok()?));
        bytes.ok_or(crate::error::KernelError::Overflow { what: "the transformed activations" })
    }
}

/// Two k of sixteen columns.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct WordStep([i16; 2 * COLS]);

// SAFETY: an array of numbers that fills the type, which any bytes are.
unsafe impl Plain for WordStep {
    fn from_stored(bytes: &[u8]) -> Self {
        let mut step = Self([0; 2 * COLS]);
        step.0.iter_mut().zip(bytes.as_chunks::<2>().0).for_each(|(to, from)| *to = i16::from_le_bytes(*from));
        step
    }

    fn store(steps: &[Self], out: &mut Vec<u8>) {
        out.extend(steps.iter().flat_map(|s| s.0).flat_map(i16::to_le_bytes));
    }
}

/// Transformed weights: `[position][panel][k / 2]` steps.
pub(crate) struct WinogradB {
    steps: Elements<WordStep>,
    n_panels: usize,
    per_panel: usize,
}

impl WinogradB {
    pub(super) fn pack(s: &ConvShape, w: &Weights<'_>) -> Self {
        let (n_panels, per_panel) = (s.out_c.div_ceil(COLS), s.in_c / 2);
        let mut steps = alloc::vec![WordStep([0; 2 * COLS]); POSITIONS * n_panels * per_panel];
        let index = w.layout.index(s);
        for (co, ci) in (0..s.out_c).flat_map(|co| (0..s.in_c).map(move |ci| (co, ci))) {
            let tap = |t: usize| w.get(index.of(t * s.in_c + ci, co), co);
            for (position, u) in transformed_weights(&core::array::from_fn(tap)).into_iter().enumerate() {
                let at = (position * n_panels + co / COLS) * per_panel + ci / 2;
                steps[at].0[co % COLS * 2 + ci % 2] = u;
            }
        }
        Self { steps: steps.into(), n_panels, per_panel }
    }

    pub(super) fn save(&self, out: &mut Vec<u8>) {
        put_elements(out, &self.steps);
    }

    pub(super) fn restore(s: &ConvShape, from: &mut Stored<'_>) -> Result<Self> {
        let (n_panels, per_panel) = (s.out_c.div_ceil(COLS), s.in_c / 2);
        let n = product("the packed weights", &[POSITIONS, n_panels, per_panel])?;
        Ok(Self { steps: from.elements(n)?, n_panels, per_panel })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val::<[WordStep]>(&self.steps)
    }

    /// The words of one position and panel.
    fn panel(&self, position: usize, panel: usize) -> &[i16] {
        let steps = &self.steps[(position * self.n_panels + panel) * self.per_panel..][..self.per_panel];
        // SAFETY: a step is `2 * COLS` words without gaps.
        unsafe { core::slice::from_raw_parts(steps.as_ptr().cast(), steps.len() * 2 * COLS) }
    }
}

/// `(2 G) g (2 G)'`.
fn transformed_weights(g: &[i16; 9]) -> [i16; POSITIONS] {
    let line = |[a, b, c]: [i16; 3]| [2 * a, a + b + c, a - b + c, 2 * c];
    let rows: [[i16; 4]; 3] = core::array::from_fn(|y| line([g[3 * y], g[3 * y + 1], g[3 * y + 2]]));
    let columns: [[i16; 4]; 4] = core::array::from_fn(|x| line([rows[0][x], rows[1][x], rows[2][x]]));
    core::array::from_fn(|i| columns[i % 4][i / 4])
}

/// One call of `run`, lengths checked.
pub(super) struct Winograd<'a> {
    pub(super) shape: &'a ConvShape,
    pub(super) geometry: &'a Geometry,
    pub(super) tiles: &'a Tiles,
    pub(super) filter: &'a WinogradB,
    pub(super) epilogue: &'a Prepared,
    /// Zero point of the activations.
    pub(super) fill: u8,
    pub(super) residual: &'a [u8],
    pub(super) out: &'a Out<'a>,
}

impl Winograd<'_> {
    /// One image; `index` is its place in the batch.
    pub(super) fn image(&self, exec: Exec<'_>, x: &[u8], index: usize, scratch: &mut [u8]) -> Result<()> {
        let tiles = self.tiles;
        let (framed, rest) = scratch.split_at_mut(tiles.frame.len()?);
        tiles.frame.copy(exec, x, self.fill, framed)?;
        let (framed, n_blocks, n_words) = (&*framed, tiles.n_blocks(), tiles.block_words()?);
        let words = SharedOut::new(words::<i16>(rest));
        let parts = exec.parts(self.geometry.macs, n_blocks.min(MAX_TASKS)).max(1);
        let step = n_blocks.div_ceil(parts).max(1);
        exec.pool.parallel_for(n_blocks.div_ceil(step), &|task| {
            // SAFETY: each task has words of its own; there are at most `min(blocks, MAX_TASKS)` tasks.
            let v = unsafe { words.part(task * n_words, n_words) };
            for block in task * step..((task + 1) * step).min(n_blocks) {
                self.block(exec.isa, framed, index, block, v);
            }
        })
    }

    /// Transforms, multiplies and stores one block, and so all channels of its output rows.
    fn block(&self, isa: Isa, framed: &[u8], index: usize, block: usize, v: &mut [i16]) {
        let tiles = self.tiles;
        let first = block * tiles.block_rows;
        let rows = first..(first + tiles.block_rows).min(tiles.n[0]);
        let n_tiles = rows.len() * tiles.n[1];
        isa.run(Forward { framed, tiles, rows: rows.clone(), v });
        let mut work = Work { products: [GemmTile::ZERO; POSITIONS], lines: [Strip::ZERO; 2] };
        for panel in 0..self.filter.n_panels {
            let mut from = 0;
            while from < n_tiles {
                let n = (n_tiles - from).min(WORD_ROWS);
                self.multiply(isa, v, n_tiles, from..from + n, panel, &mut work.products);
                self.store(isa, &mut work, index, first * tiles.n[1] + from, n, panel);
                from += n;
            }
        }
    }

    /// The products of some tiles with one panel.
    fn multiply(&self, isa: Isa, v: &[i16], n_tiles: usize, mine: Range<usize>, panel: usize, products: &mut Products) {
        let n = mine.len();
        for (position, tile) in products.iter_mut().enumerate() {
            let row = |r: usize| (position * n_tiles + mine.start + r.min(n - 1)) * self.tiles.channels;
            let rows = GemmRows { at: core::array::from_fn(row), n };
            isa.gemm_s16(v, &rows, self.filter.panel(position, panel), tile);
        }
    }

    /// Transforms tiles `first ..` of the image back and stores them, tile row by tile row.
    fn store(&self, isa: Isa, work: &mut Work, index: usize, first: usize, n: usize, panel: usize) {
        let (wide, [out_h, out_w]) = (self.tiles.n[1], [self.geometry.out_h, self.geometry.out_w]);
        let (channel, stride) = (panel * COLS, self.shape.out_c);
        let mut done = 0;
        while done < n {
            let (ty, tx) = ((first + done) / wide, (first + done) % wide);
            let mine = done..n.min(done + wide - tx);
            isa.run(Backward { products: &work.products, mine: mine.clone(), lines: &mut work.lines });
            for (line, strip) in work.lines.iter().enumerate().filter(|(line, _)| 2 * ty + line < out_h) {
                let (y, x, rows) = (index * out_h + 2 * ty + line, 2 * tx, (2 * mine.len()).min(out_w - 2 * tx));
                let at = (y * out_w + x) * stride + channel;
                let place = Place { at, stride, rows, cols: (stride - channel).min(COLS), channel };
                let (epilogue, tile) = (self.epilogue, &strip.0[..rows]);
                isa.finish(Finish { epilogue, tile, place, residual: self.residual, out: self.out });
            }
            done = mine.end;
        }
    }
}

/// Accumulators `[position][tile][channel]`.
type Products = [GemmTile; POSITIONS];

/// What a task works in, cleared once.
struct Work {
    products: Products,
    /// Pixels of two output lines.
    lines: [Strip; 2],
}

/// `B' d B` of the tiles of some tile rows, to `[position][tile][channel]`.
struct Forward<'a> {
    framed: &'a [u8],
    tiles: &'a Tiles,
    rows: Range<usize>,
    v: &'a mut [i16],
}

type Lanes = [i16; LANES];

#[inline(always)]
fn add(a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = [0; LANES];
    for i in 0..LANES {
        out[i] = a[i].wrapping_add(b[i]);
    }
    out
}

#[inline(always)]
fn sub(a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = [0; LANES];
    for i in 0..LANES {
        out[i] = a[i].wrapping_sub(b[i]);
    }
    out
}

/// `B'` times a column.
#[inline(always)]
fn forward([a, b, c, d]: [&Lanes; 4]) -> [Lanes; 4] {
    [sub(a, c), add(b, c), sub(c, b), sub(b, d)]
}

impl Vectorize for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (c, wide, line) = (self.tiles.channels, self.tiles.n[1], self.tiles.frame.w * self.tiles.channels);
        let plane = self.rows.len() * wide * c;
        // One check for all: a tile reads four rows of four pixels, and writes its channels at sixteen positions.
        let end = (2 * self.rows.end + 1) * line + (2 * wide + 2) * c;
        assert!(c.is_multiple_of(LANES) && end <= self.framed.len() && POSITIONS * plane <= self.v.len());
        let (mut tile, v) = (0, self.v.as_mut_ptr());
        for ty in self.rows {
            for tx in 0..wide {
                for ci in (0..c).step_by(LANES) {
                    let corner = 2 * ty * line + 2 * tx * c + ci;
                    // SAFETY: `ty` and `tx` are tiles of the frame and `ci + LANES <= c`, so the reads end by `end` and the writes
                    // by `POSITIONS * plane`, both checked above.
                    unsafe { tile_forward(self.framed.as_ptr().add(corner), [line, c], v.add(tile * c + ci), plane) };
                }
                tile += 1;
            }
        }
    }
}

/// Sixteen channels of one tile.
///
/// # Safety
/// `LANES` bytes may be read at four rows of four pixels, `line` and `pixel` apart, and `LANES` words written at sixteen positions, `plane`
/// apart.
#[inline(always)]
unsafe fn tile_forward(from: *const u8, [line, pixel]: [usize; 2], to: *mut i16, plane: usize) {
    let mut rows = [[[0i16; LANES]; 4]; 4];
    for x in 0..4 {
        let mut d = [[0i16; LANES]; 4];
        for (y, d) in d.iter_mut().enumerate() {
            // SAFETY: passed on to the caller.
            let bytes = unsafe { from.add(y * line + x * pixel).cast::<[u8; LANES]>().read() };
            for i in 0..LANES {
                d[i] = i16::from(bytes[i]);
            }
        }
        let column = forward([&d[0], &d[1], &d[2], &d[3]]);
        for (row, lanes) in rows.iter_mut().zip(column) {
            row[x] = lanes;
        }
    }
    for (y, row) in rows.iter().enumerate() {
        for (x, lanes) in forward([&row[0], &row[1], &row[2], &row[3]]).iter().enumerate() {
            // SAFETY: passed on to the caller.
            unsafe { to.add((4 * y + x) * plane).cast::<Lanes>().write(*lanes) };
        }
    }
}

/// A quarter of `A' m A` of tiles `mine`: two neighbouring pixels of two output lines per tile.
struct Backward<'a> {
    products: &'a Products,
    mine: Range<usize>,
    lines: &'a mut [Strip; 2],
}

type Sums = [i32; COLS];

/// `A'` times a column.
#[inline(always)]
fn backward([a, b, c, d]: [&Sums; 4]) -> [Sums; 2] {
    let mut out = [[0; COLS]; 2];
    for i in 0..COLS {
        out[0][i] = a[i].wrapping_add(b[i]).wrapping_add(c[i]);
        out[1][i] = b[i].wrapping_sub(c[i]).wrapping_sub(d[i]);
    }
    out
}

impl Vectorize for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, tile) in self.mine.enumerate() {
            let m = |y: usize, x: usize| &self.products[4 * y + x].0[tile];
            let mut columns = [[[0; COLS]; 2]; 4];
            for (x, column) in columns.iter_mut().enumerate() {
                *column = backward([m(0, x), m(1, x), m(2, x), m(3, x)]);
            }
            for (y, line) in self.lines.iter_mut().enumerate() {
                let pixels = backward([&columns[0][y], &columns[1][y], &columns[2][y], &columns[3][y]]);
                for (x, pixel) in pixels.iter().enumerate() {
                    for (to, sum) in line.0[2 * i + x].iter_mut().zip(pixel) {
                        *to = sum >> 2;
                    }
                }
            }
        }
    }
}

const _: () = assert!(2 * WORD_ROWS <= STRIP_ROWS);

//! Types of the deterministic f32 products: stored weights, packed panels, runs of taps, tiles.
//!
//! Contract (numerics, section 7): one accumulator per output element, starting at +0, ascending k = (kh, kw, cin), one fused
//! multiply-add per step. Kernels vectorise over output channels, never over k, so every instruction set gives the same bits. A block
//! of k ends by storing the accumulators and the next one begins by loading them, which changes no bit. Taps in the padding are
//! skipped, not multiplied by zero: a tile holds pixels that see the same window of taps.
//!
//! Weights may be stored as f16 or bf16. They are widened to f32, which is exact, when a kernel loads them; the arithmetic is f32.

use alloc::vec::Vec;

use crate::conv::{FinishF32, OutF32};
use crate::elements::{Elements, Plain};
use crate::error::{Result, product};
use crate::gemm::COLS;
use crate::half::{bf16_to_f32, f16_to_f32};
use crate::isa::Isa;
use crate::stored::{Stored, put_elements};
use crate::table::GemmF32Fn;

/// Most pixels of a tile.
pub(crate) const ROWS: usize = 6;

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightType {
    F32,
    F16,
    Bf16,
}

/// Sixteen columns of one k, as stored: 64 or 32 bytes, aligned to their size.
pub(crate) trait Line: Plain + Send + Sync + 'static {
    /// A weight, as stored.
    type Weight: Copy + Default;
    /// How weights are stored.
    const TYPE: WeightType;
    /// The instruction set's product kernel for such weights.
    fn kernel(isa: Isa) -> GemmF32Fn<Self>;
    /// A line of weights.
    fn new(weights: [Self::Weight; COLS]) -> Self;
    /// The weights as f32.
    fn widen(&self) -> [f32; COLS];
}

/// A line of f32, one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct LineF32(pub(crate) [f32; COLS]);

/// A line of f16 bit patterns.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct LineF16(pub(crate) [u16; COLS]);

/// A line of bf16 bit patterns.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct LineBf16(pub(crate) [u16; COLS]);

impl LineF32 {
    /// The first sixteen values; zeros behind the last.
    #[inline]
    pub(crate) fn of(values: &[f32]) -> Self {
        if let Some(whole) = values.first_chunk() {
            return Self(*whole);
        }
        let mut line = Self([0.0; COLS]);
        line.0.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
        line
    }

    /// The lines that fit into some bytes.
    pub(crate) fn in_bytes(bytes: &mut [u8]) -> &mut [Self] {
        // SAFETY: a line is 64 bytes of floats without gaps; every bit pattern is a line, and every line is bytes.
        unsafe { bytes.align_to_mut::<Self>().1 }
    }
}

impl Line for LineF32 {
    type Weight = f32;
    const TYPE: WeightType = WeightType::F32;

    fn kernel(isa: Isa) -> GemmF32Fn<Self> {
        isa.gemm_f32
    }

    fn new(weights: [f32; COLS]) -> Self {
        Self(weights)
    }

    #[inline(always)]
    fn widen(&self) -> [f32; COLS] {
        self.0
    }
}

impl Line for LineF16 {
    type Weight = u16;
    const TYPE: WeightType = WeightType::F16;

    fn kernel(isa: Isa) -> GemmF32Fn<Self> {
        isa.gemm_f16
    }

    fn new(weights: [u16; COLS]) -> Self {
        Self(weights)
    }

    #[inline(always)]
    fn widen(&self) -> [f32; COLS] {
        self.0.map(f16_to_f32)
    }
}

impl Line for LineBf16 {
    type Weight = u16;
    const TYPE: WeightType = WeightType::Bf16;

    fn kernel(isa: Isa) -> GemmF32Fn<Self> {
        isa.gemm_bf16
    }

    fn new(weights: [u16; COLS]) -> Self {
        Self(weights)
    }

    #[inline(always)]
    fn widen(&self) -> [f32; COLS] {
        self.0.map(bf16_to_f32)
    }
}

/// Lines are arrays of little-endian numbers that fill the type.
macro_rules! plain_line {
    ($line:ident, $weight:ty) => {
        // SAFETY: an array of numbers that fills the type, which any bytes are.
        unsafe impl Plain for $line {
            fn from_stored(bytes: &[u8]) -> Self {
                let mut line = Self([<$weight>::default(); COLS]);
                let (weights, _) = bytes.as_chunks::<{ size_of::<$weight>() }>();
                line.0.iter_mut().zip(weights).for_each(|(to, from)| *to = <$weight>::from_le_bytes(*from));
                line
            }

            fn store(lines: &[Self], out: &mut Vec<u8>) {
                out.extend(lines.iter().flat_map(|line| line.0).flat_map(<$weight>::to_le_bytes));
            }
        }
    };
}

plain_line!(LineF32, f32);
plain_line!(LineF16, u16);
plain_line!(LineBf16, u16);

/// Weights as `[panel][k][16]`; columns beyond `n` are zero.
pub(crate) struct Packed<L: Line> {
    lines: Elements<L>,
    k: usize,
}

impl<L: Line> Packed<L> {
    pub(crate) fn pack(k: usize, n: usize, weight: &dyn Fn(usize, usize) -> L::Weight) -> Result<Self> {
        let panels = n.div_ceil(COLS);
        let mut lines = Vec::with_capacity(product("the packed weights", &[panels, k])?);
        for first in (0..n).step_by(COLS) {
            let get = |k, c| if first + c < n { weight(k, first + c) } else { L::Weight::default() };
            lines.extend((0..k).map(|k| L::new(core::array::from_fn(|c| get(k, c)))));
        }
        Ok(Self { lines: lines.into(), k })
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_elements(out, &self.lines);
    }

    /// Reads the weights of `n` columns back.
    pub(crate) fn restore(k: usize, n: usize, from: &mut Stored<'_>) -> Result<Self> {
        Ok(Self { lines: from.elements(product("the packed weights", &[n.div_ceil(COLS), k])?)?, k })
    }

    /// The panels.
    pub(crate) fn view(&self) -> Panels<'_, L> {
        Panels { lines: &self.lines, k: self.k }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[L]>(&self.lines)
    }
}

/// Panels `[panel][k]` of lines.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a, L> {
    pub(crate) lines: &'a [L],
    pub(crate) k: usize,
}

impl<'a, L> Panels<'a, L> {
    /// The lines of a panel; none behind the last panel.
    pub(crate) fn panel(&self, index: usize) -> &'a [L] {
        self.lines.get(index * self.k..).map_or(&[], |from| &from[..self.k.min(from.len())])
    }
}

/// The k's of a window, or a block of them, as `n_outer x n_inner` runs of `len` contiguous activations and weight lines. Activation
/// offsets count from the first of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) n_outer: usize,
    pub(crate) n_inner: usize,
    pub(crate) len: usize,
    /// Where the first activation is, relative to a pixel's row.
    pub(crate) a: usize,
    /// How far the next runs are.
    pub(crate) a_outer: usize,
    pub(crate) a_inner: usize,
    /// The same for weight lines.
    pub(crate) b: usize,
    pub(crate) b_outer: usize,
    pub(crate) b_inner: usize,
}

impl Runs {
    /// `k` activations and weight lines in a row.
    #[cfg(test)]
    pub(crate) fn once(k: usize) -> Self {
        Self { n_outer: 1, n_inner: 1, len: k, ..Self::default() }
    }

    /// Calls `f(activation offset, weight line)` for the start of each run, in ascending k.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        for y in 0..self.n_outer {
            for x in 0..self.n_inner {
                f(self.a + y * self.a_outer + x * self.a_inner, self.b + y * self.b_outer + x * self.b_inner);
            }
        }
    }

    /// Whether the window holds no tap.
    pub(crate) fn is_empty(&self) -> bool {
        self.n_outer == 0 || self.n_inner == 0 || self.len == 0
    }

    /// How many activations, from a pixel's row on, and how many weight lines the runs reach; nothing if that overflows.
    #[inline]
    pub(crate) fn reach(&self) -> Option<[usize; 2]> {
        if self.is_empty() {
            return Some([0; 2]);
        }
        let end = |first: usize, outer: usize, inner: usize| {
            let y = (self.n_outer - 1).checked_mul(outer)?;
            let x = (self.n_inner - 1).checked_mul(inner)?;
            first.checked_add(y)?.checked_add(x)?.checked_add(self.len)
        };
        Some([end(self.a, self.a_outer, self.a_inner)?, end(self.b, self.b_outer, self.b_inner)?])
    }
}

/// Pixels of one window. Those past `n` repeat the last one, so that a kernel may compute them harmlessly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TileRows {
    /// Where each pixel's first activation is.
    pub(crate) at: [u32; ROWS],
    /// Output pixels.
    pub(crate) out: [u32; ROWS],
    /// How many, 1 to 6.
    pub(crate) n: u32,
    /// Which window they see.
    pub(crate) window: u32,
}

impl TileRows {
    /// Drops the pixels from the `n`-th on.
    pub(crate) fn truncate(&mut self, n: usize) {
        let n = n.clamp(1, ROWS);
        let (at, out) = (self.at[n - 1], self.out[n - 1]);
        self.at[n..].fill(at);
        self.out[n..].fill(out);
        self.n = n as u32;
    }
}

/// Rows of a tile, for kernels that compute it in memory. Rows past `n` repeat the last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsF32 {
    pub(crate) at: [usize; ROWS],
    pub(crate) n: usize,
}

/// Accumulators `[pixel][channel]` in memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct TileF32(pub(crate) [[f32; COLS]; ROWS]);

impl TileF32 {
    /// All +0.
    pub(crate) const ZERO: Self = Self([[0.0; COLS]; ROWS]);
}

/// One call of a product kernel: some tiles times a block of k of one panel.
pub(crate) struct GemmF32<'a, L> {
    /// Activations.
    pub(crate) a: &'a [f32],
    pub(crate) tiles: &'a [TileRows],
    /// What each window sees of this block of k.
    pub(crate) windows: &'a [Runs],
    /// The panel.
    pub(crate) b: &'a [L],
    /// The panel that comes next, to be fetched into the cache; may be empty.
    pub(crate) next: &'a [L],
    /// Whether accumulators start at +0; otherwise they continue from the output.
    pub(crate) begin: bool,
    /// What is done with the sums; `None` if the next block of k continues them.
    pub(crate) finish: Option<FinishF32<'a>>,
    pub(crate) out: OutF32<'a>,
}

impl<L> GemmF32<'_, L> {
    /// The runs of a tile. Panics unless all of them lie inside activations and panel: the check that unsafe loads rest on.
    #[inline(always)]
    pub(crate) fn runs(&self, tile: &TileRows) -> &Runs {
        let runs = &self.windows[tile.window as usize];
        let last = tile.at.iter().fold(0, |last, at| last.max(*at)) as usize;
        let inside = runs.reach().is_some_and(|[a, b]| {
            a <= self.a.len() && last <= self.a.len() - a && b <= self.b.len() && (1..=ROWS as u32).contains(&tile.n)
        });
        assert!(inside, "a tile's runs leave the activations or the panel");
        runs
    }
}

//! Products through four-way dot product instructions: one tiling for all instruction sets that have them.
//!
//! ```text
//! acc[chain][row] = 0                     sixteen columns each
//! for each step, chains in turn:
//!     w <- weights of the step            [16 columns][4 k]
//!     for each row: acc[chain][row] += four-way dot of (4 bytes at row + offset, in every column) and w
//! tile[row] = sum of its chains
//! ```
//! A dot product instruction takes several clocks to deliver its sum, so few rows run in several chains. Sums wrap in 32 bits, so the
//! order of steps and the number of chains do not matter to the result.
//!
//! An instruction set implements [`Dot`], one instruction per method. `model` implements it in plain Rust and so runs this tiling, its
//! tails and its chains on any machine.

use crate::gemm::{Block, COLS, Form, Panel, Run};
use crate::tile::{GEMM_ROWS, GemmRows, GemmTile};

/// Blocks of sixteen columns of 32 bits.
pub(crate) const COLS_BLOCKS: usize = 2;

/// The value of each four-bit number: what a shuffle by bytes turns it into.
pub(crate) const S4: [i8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1];

/// The instructions. A value of the type proves that the CPU has them; methods must be `#[inline(always)]`, since it is the caller's
/// `#[target_feature]` that they are compiled for.
pub(crate) trait Dot: Copy {
    /// Sixteen columns of 32 bits.
    type Cols: Copy;
    /// Four activation bytes, in each 32-bit lane of a register.
    type Group: Copy;

    /// All zero.
    fn zero(self) -> Self::Cols;
    /// Weights of sixteen columns.
    fn weights(self, from: &[Block; COLS_BLOCKS]) -> Self::Cols;
    /// The four bytes at `from`.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn group(self, from: *const u8) -> Self::Group;
    /// The low half of each byte, sign-extended from four bits.
    fn low(self, w: Self::Cols) -> Self::Cols;
    /// The high half of each byte, sign-extended from four bits.
    fn high(self, w: Self::Cols) -> Self::Cols;
    /// Per column: `acc` plus the sum of four u8 times s8 products.
    fn dot4(self, acc: Self::Cols, x: Self::Group, w: Self::Cols) -> Self::Cols;
    /// Bytes 0 and 2 of each lane as 16-bit numbers.
    fn even(self, x: Self::Group) -> Self::Group;
    /// Bytes 1 and 3 of each lane as 16-bit numbers.
    fn odd(self, x: Self::Group) -> Self::Group;
    /// Per column: `acc` plus the sum of two s16 times s16 products.
    fn dot2(self, acc: Self::Cols, x: Self::Group, w: Self::Cols) -> Self::Cols;
    /// The wrapping sum.
    fn add(self, a: Self::Cols, b: Self::Cols) -> Self::Cols;
    /// Writes the columns.
    fn store(self, from: Self::Cols, to: &mut [i32; COLS]);
}

/// See [`crate::generic::gemm_u8::tile`]. At most `TALL` rows run at once, in `CHAINS` chains each: together they fill the registers.
/// The panel's
/// content is [`Content::Dot`](crate::gemm::Content::Dot).
#[inline(always)]
pub(crate) fn tile<D: Dot, const TALL: usize, const CHAINS: usize>(
    d: D,
    a: &[u8],
    rows: &GemmRows,
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) {
    rows.check(a.len(), panel.reach, 0);
    const { assert!(GEMM_ROWS.is_multiple_of(TALL) && TALL >= 4) }
    let mut done = 0;
    while done < rows.n {
        let part = Part { a, rows, first: done, panel };
        // SAFETY: the check above proves every read.
        done += unsafe {
            match rows.n - done {
                1 => part.run::<D, 1, 4>(d, tile),
                2 => part.run::<D, 2, 2>(d, tile),
                3 | 4 if TALL > 4 => part.run::<D, 4, 2>(d, tile),
                _ => part.run::<D, TALL, CHAINS>(d, tile),
            }
        };
    }
}

/// Rows `first ..` of a tile.
#[derive(Clone, Copy)]
struct Part<'a> {
    a: &'a [u8],
    rows: &'a GemmRows,
    first: usize,
    panel: &'a Panel<'a>,
}

/// Accumulators of one chain.
type Acc<D, const R: usize> = [<D as Dot>::Cols; R];

impl Part<'_> {
    /// Computes `R` rows and returns their number.
    ///
    /// # Safety
    /// `rows.check(a.len(), panel.reach, 0)` passed.
    #[inline(always)]
    unsafe fn run<D: Dot, const R: usize, const CHAINS: usize>(self, d: D, tile: &mut GemmTile) -> usize {
        // SAFETY: the rows lie within `a`, as checked by the caller.
        let rows = core::array::from_fn(|r| unsafe { self.a.as_ptr().add(self.rows.at[self.first + r]) });
        let x = Reader::<R>(rows);
        let mut acc: [Acc<D, R>; CHAINS] = [[d.zero(); R]; CHAINS];
        x.dot(d, self.panel.run(Form::Dot), &mut acc);
        x.nibbles(d, self.panel.run(Form::Nibbles), &mut acc);
        x.wide(d, self.panel.run(Form::Wide), &mut acc[0]);
        for (r, to) in tile.0[self.first..self.first + R].iter_mut().enumerate() {
            let sum = acc[1..].iter().fold(acc[0][r], |sum, chain| d.add(sum, chain[r]));
            d.store(sum, to);
        }
        R
    }
}

/// Base addresses of `R` activation rows.
///
/// Invariant: `rows.check` passed for the slice they point into, so each step of the panel may be read at any row.
#[derive(Clone, Copy)]
struct Reader<const R: usize>([*const u8; R]);

impl<const R: usize> Reader<R> {
    #[inline(always)]
    fn group<D: Dot>(self, d: D, row: usize, offset: u32) -> D::Group {
        // SAFETY: the invariant of the type; offsets come from the panel that was checked.
        unsafe { d.group(self.0[row].add(offset as usize)) }
    }

    #[inline(always)]
    fn dot<D: Dot, const CHAINS: usize>(self, d: D, run: Run<'_>, acc: &mut [Acc<D, R>; CHAINS]) {
        let blocks = run.blocks.as_chunks::<COLS_BLOCKS>().0;
        let ((steps, last), (offsets, last_offsets)) =
            (blocks.as_chunks::<CHAINS>(), run.offsets.as_chunks::<CHAINS>());
        for (steps, offsets) in steps.iter().zip(offsets) {
            for ((w, at), acc) in steps.iter().zip(offsets).zip(acc.iter_mut()) {
                self.step(d, w, *at, acc);
            }
        }
        for (w, at) in last.iter().zip(last_offsets) {
            self.step(d, w, *at, &mut acc[0]);
        }
    }

    #[inline(always)]
    fn step<D: Dot>(self, d: D, w: &[Block; COLS_BLOCKS], at: u32, acc: &mut Acc<D, R>) {
        let w = d.weights(w);
        for (r, acc) in acc.iter_mut().enumerate() {
            *acc = d.dot4(*acc, self.group(d, r, at), w);
        }
    }

    /// A step is one of `Dot` for each half of its bytes, each half in a chain of its own.
    #[inline(always)]
    fn nibbles<D: Dot, const CHAINS: usize>(self, d: D, run: Run<'_>, acc: &mut [Acc<D, R>; CHAINS]) {
        for (w, at) in run.blocks.as_chunks::<COLS_BLOCKS>().0.iter().zip(run.offsets) {
            let w = d.weights(w);
            let (low, high) = (d.low(w), d.high(w));
            for (r, acc) in acc[0].iter_mut().enumerate() {
                *acc = d.dot4(*acc, self.group(d, r, *at), low);
            }
            for (r, acc) in acc[CHAINS - 1].iter_mut().enumerate() {
                *acc = d.dot4(*acc, self.group(d, r, *at + 4), high);
            }
        }
    }

    #[inline(always)]
    fn wide<D: Dot>(self, d: D, run: Run<'_>, acc: &mut Acc<D, R>) {
        let steps = run.blocks.as_chunks::<COLS_BLOCKS>().0.as_chunks::<2>().0;
        for ([even, odd], at) in steps.iter().zip(run.offsets) {
            let (even, odd) = (d.weights(even), d.weights(odd));
            for (r, acc) in acc.iter_mut().enumerate() {
                let x = self.group(d, r, *at);
                *acc = d.dot2(d.dot2(*acc, d.even(x), even), d.odd(x), odd);
            }
        }
    }
}

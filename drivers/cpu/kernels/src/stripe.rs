//! [`Stripe`]: neighbouring pixels of one panel, multiplied and requantized in one call.
//!
//! Where k is small the time of a tile is that of entering kernels and of moving accumulators through memory. Pixels of a matrix lie
//! equally far apart, so a kernel can step through them by itself and store what its registers hold.

use crate::epilogue::{Scales, Store};
use crate::gemm::{COLS, Panel};
use crate::shared_out::SharedOut;
use crate::tile::GEMM_ROWS;

/// `tiles * GEMM_ROWS` pixels by sixteen channels, requantized. Built by a task that owns these elements of `out` alone.
pub(crate) struct Stripe<'a> {
    /// Activations.
    pub(crate) a: &'a [u8],
    /// Byte at which the first pixel's activations begin.
    pub(crate) first: usize,
    /// Bytes from one pixel's activations to the next.
    pub(crate) step: usize,
    /// Tiles of [`GEMM_ROWS`] pixels.
    pub(crate) tiles: usize,
    pub(crate) panel: &'a Panel<'a>,
    pub(crate) bias: &'a [i32; COLS],
    pub(crate) scales: Scales<'a>,
    /// The first of the sixteen channels.
    pub(crate) channel: usize,
    pub(crate) store: &'a Store,
    pub(crate) out: &'a SharedOut<'a, u8>,
    /// Output element of the first pixel and channel.
    pub(crate) to: usize,
    /// Output elements from one pixel to the next.
    pub(crate) stride: usize,
}

impl Stripe<'_> {
    /// First activation and first output, every access proved.
    ///
    /// # Panics
    /// When a read within the panel's reach leaves the activations, or a row of sixteen bytes the output.
    pub(crate) fn check(&self) -> (*const u8, *mut u8) {
        let last = self.tiles.checked_mul(GEMM_ROWS).and_then(|n| n.checked_sub(1));
        let end = |first: usize, step: usize, n: usize| {
            let rows = last.and_then(|last| last.checked_mul(step));
            rows.and_then(|rows| rows.checked_add(first)?.checked_add(n))
        };
        let reads = end(self.first, self.step, self.panel.reach);
        assert!(reads.is_some_and(|end| end <= self.a.len()), "{:?} leaves {} bytes", reads, self.a.len());
        let writes = end(0, self.stride, COLS).expect("the output of a stripe is longer than memory");
        (self.a[self.first..].as_ptr(), self.out.address(self.to, writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epilogue::OutQ;
    use crate::gemm::{Packing, Span, pack};

    /// Checks a stripe of two tiles, rows four bytes apart in both operands.
    fn check(n_in: usize, n_out: usize) {
        let spans = [Span { offset: 0, k: 0, len: 4 }];
        let packed = pack(&spans, 4, COLS, Packing::Windows, &|_, to| to.fill([1; COLS])).unwrap();
        let (a, mut out, store) = (alloc::vec![0; n_in], alloc::vec![0; n_out], Store::new(OutQ::u8(0)).unwrap());
        let (panel, out) = (packed.panel(0), SharedOut::new(&mut out));
        let (panel, store, out, scales) = (&panel, &store, &out, Scales::Float(&[1.0; COLS]));
        let (bias, channel) = (&[0; COLS], 0);
        Stripe { a: &a, first: 1, step: 4, tiles: 2, panel, bias, scales, channel, store, out, to: 2, stride: 20 }
            .check();
    }

    #[test]
    fn a_stripe_that_just_fits_is_accepted() {
        check(1 + 15 * 4 + 16, 2 + 15 * 20 + COLS);
    }

    #[test]
    #[should_panic(expected = "leaves 76 bytes")]
    fn a_read_beyond_the_activations_is_refused() {
        check(15 * 4 + 16, 2 + 15 * 20 + COLS);
    }

    #[test]
    #[should_panic(expected = "leaves a matrix")]
    fn a_row_beyond_the_output_is_refused() {
        check(1 + 15 * 4 + 16, 1 + 15 * 20 + COLS);
    }
}

//! Loads, stores and im2col.

use super::Exec;
use super::requant::Table;
use crate::error::Fault;
use crate::isa::Space;
use crate::program::{DramTile, Im2col, Requantize, Tile};

type Result<T> = std::result::Result<T, Fault>;

impl Exec<'_, '_> {
    pub(super) fn load(&mut self, from: &DramTile, to: &Tile, accumulate: bool) -> Result<()> {
        for i in 0..to.rows {
            let source = self.memory.row(from, i.into())?;
            if to.space != Space::Acc {
                self.chip.row_mut(to, i).copy_from_slice(source);
                continue;
            }
            let (words, _) = source.as_chunks::<4>();
            for (acc, word) in self.chip.acc_row_mut(to, i).iter_mut().zip(words) {
                let base = if accumulate { *acc } else { 0 };
                *acc = base.wrapping_add(i32::from_le_bytes(*word));
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, from: &Tile, to: &DramTile, requant: Option<&Requantize>) -> Result<()> {
        if let Some(requant) = requant {
            let table = Table::read(&self.chip, requant, from.len as usize / requant.sums.accumulators() as usize)?;
            for i in 0..from.rows {
                let out = self.memory.row_mut(to, i.into())?;
                table.row(self.chip.acc_row(from, i), out, &mut self.dynamic);
            }
            return Ok(());
        }
        for i in 0..from.rows {
            let out = self.memory.row_mut(to, i.into())?;
            if from.space == Space::Acc {
                let words = self.chip.acc_row(from, i).iter().flat_map(|v| v.to_le_bytes());
                out.iter_mut().zip(words).for_each(|(o, b)| *o = b);
            } else {
                out.copy_from_slice(self.chip.row(from, i));
            }
        }
        Ok(())
    }

    pub(super) fn im2col(&mut self, w: &Im2col) -> Result<()> {
        let window = &w.window;
        let (pixels, image) = (window.pixels_out(), u64::from(window.ih) * u64::from(window.iw));
        let channels = w.image.len as usize;
        for i in 0..w.to.rows {
            let m = u64::from(w.first) + u64::from(i);
            let (n, at) = (m / pixels, m % pixels);
            // Below 2^24 each, because `resolve` bounds OH and OW.
            let (oh, ow) = ((at / u64::from(window.ow)) as u32, (at % u64::from(window.ow)) as u32);
            let (rows, columns) = window.taps_inside(oh, ow);
            let out = self.chip.row_mut(&w.to, i);
            out.fill(w.pad);
            for kh in rows {
                for kw in columns.clone() {
                    let pixel = n * image + u64::from(window.pixel(oh, ow, kh, kw));
                    let source = self.memory.row(&w.image, pixel)?;
                    let tap = (kh as usize * window.kw as usize + kw as usize) * channels;
                    out[tap..tap + channels].copy_from_slice(source);
                }
            }
        }
        Ok(())
    }
}

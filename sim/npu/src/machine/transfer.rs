//! Loads, stores and im2col; their outer end is memory, or a scratchpad in a move.

use super::memory::outside;
use super::requant::Table;
use super::{Chip, Exec, Memory};
use crate::error::Fault;
use crate::isa::Space;
use crate::program::{DramTile, Im2col, Requantize, Tile};

type Result<T> = std::result::Result<T, Fault>;

impl Exec<'_, '_> {
    pub(super) fn load(&mut self, from: &DramTile, to: &Tile, accumulate: bool) -> Result<()> {
        let mut kept = Vec::new();
        for i in 0..to.rows {
            let source = outer_row(&self.chip, self.memory, from, i.into(), &mut kept)?;
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
            let mut kept = vec![0; if to.region.space().is_some() { to.len as usize } else { 0 }];
            let table = Table::read(&self.chip, requant, from.len as usize / requant.sums.accumulators() as usize)?;
            for i in 0..from.rows {
                let out = if kept.is_empty() { self.memory.row_mut(to, i.into())? } else { &mut kept[..] };
                table.row(self.chip.acc_row(from, i), out, &mut self.dynamic);
                if let Some(pad) = to.local() {
                    self.chip.row_mut(&pad, i).copy_from_slice(&kept);
                }
            }
            return Ok(());
        }
        if let Some(pad) = to.local() {
            self.put_on_chip(from, &pad);
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

    /// Rows that stay on the chip as they are.
    fn put_on_chip(&mut self, from: &Tile, to: &Tile) {
        for i in 0..from.rows {
            let row: Vec<u8> = match from.space {
                Space::Acc => self.chip.acc_row(from, i).iter().flat_map(|v| v.to_le_bytes()).collect(),
                _ => self.chip.row(from, i).to_vec(),
            };
            self.chip.row_mut(to, i).copy_from_slice(&row);
        }
    }

    pub(super) fn im2col(&mut self, w: &Im2col) -> Result<()> {
        let window = &w.window;
        let (pixels, image) = (window.pixels_out(), u64::from(window.ih) * u64::from(window.iw));
        let channels = w.image.len as usize;
        let (mut out, mut kept) = (vec![0; w.to.len as usize], Vec::new());
        for i in 0..w.to.rows {
            let m = u64::from(w.first) + u64::from(i);
            let (n, at) = (m / pixels, m % pixels);
            // Below 2^24 each, because `resolve` bounds OH and OW.
            let (oh, ow) = ((at / u64::from(window.ow)) as u32, (at % u64::from(window.ow)) as u32);
            let (rows, columns) = window.taps_inside(oh, ow);
            out.fill(w.pad);
            for kh in rows {
                for kw in columns.clone() {
                    let pixel = n * image + u64::from(window.pixel(oh, ow, kh, kw));
                    let source = outer_row(&self.chip, self.memory, &w.image, pixel, &mut kept)?;
                    let tap = (kh as usize * window.kw as usize + kw as usize) * channels;
                    out[tap..tap + channels].copy_from_slice(source);
                }
            }
            self.chip.row_mut(&w.to, i).copy_from_slice(&out);
        }
        Ok(())
    }
}

/// Row `i` of the outer end; one of the chip is copied to `kept`, because the chip is what the transfer writes.
fn outer_row<'r>(
    chip: &Chip,
    memory: &'r Memory<'_>,
    tile: &DramTile,
    i: u64,
    kept: &'r mut Vec<u8>,
) -> Result<&'r [u8]> {
    let Some(space) = tile.region.space() else { return memory.row(tile, i) };
    let bytes = chip.bytes(space).get(tile.row(i)).ok_or_else(|| outside(tile))?;
    kept.clear();
    kept.extend_from_slice(bytes);
    Ok(kept)
}

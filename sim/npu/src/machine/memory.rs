//! The memories: DRAM regions bound by the host, and the on-chip memories of one run.

use crate::NpuConfig;
use crate::error::{Fault, NpuError};
use crate::isa::{Dtype, Region, Space};
use crate::program::{DramTile, Tile};

/// The host's memory for one run, by region.
#[derive(Debug, Default)]
pub struct Memory<'a> {
    /// Region 0.
    pub input: &'a [u8],
    /// Region 1.
    pub output: &'a mut [u8],
    /// Region 2.
    pub scratch: &'a mut [u8],
    /// Region 3; empty: the constants of the stream.
    pub constants: &'a [u8],
}

impl Memory<'_> {
    /// Whether every region has the bytes that the stream may address.
    pub(super) fn check(&self, regions: &[u64; 4]) -> Result<(), NpuError> {
        for region in Region::ALL {
            let (found, expected) = (self.read(region).len() as u64, regions[region.index()]);
            if found < expected {
                return Err(NpuError::Memory { region: region.name(), found, expected });
            }
        }
        Ok(())
    }

    /// The bytes of a region.
    pub(super) fn read(&self, region: Region) -> &[u8] {
        match region {
            Region::Input => self.input,
            Region::Output => self.output,
            Region::Scratch => self.scratch,
            Region::Const => self.constants,
            // No bytes of the host.
            Region::A | Region::W => &[],
        }
    }

    /// Row `i` of a tile.
    pub(super) fn row(&self, tile: &DramTile, i: u64) -> Result<&[u8], Fault> {
        self.read(tile.region).get(tile.row(i)).ok_or_else(|| outside(tile))
    }

    /// Row `i` of a tile to be written.
    pub(super) fn row_mut(&mut self, tile: &DramTile, i: u64) -> Result<&mut [u8], Fault> {
        let bytes: &mut [u8] = match tile.region {
            Region::Output => self.output,
            Region::Scratch => self.scratch,
            Region::Input | Region::Const | Region::A | Region::W => return Err(Fault::ReadOnly(tile.region.name())),
        };
        bytes.get_mut(tile.row(i)).ok_or_else(|| outside(tile))
    }
}

pub(super) fn outside(tile: &DramTile) -> Fault {
    Fault::Bounds { what: "a transfer", space: tile.region.name(), end: tile.end(), limit: 0 }
}

/// The on-chip memories. Tiles lie inside them, which `resolve` has checked against the same configuration.
#[derive(Clone, Debug)]
pub(crate) struct Chip {
    a: Vec<u8>,
    w: Vec<u8>,
    pub acc: Vec<i32>,
}

impl Chip {
    pub fn new(config: &NpuConfig) -> Self {
        let sram = &config.sram;
        Self {
            a: vec![0; sram.a.bytes as usize],
            w: vec![0; sram.w.bytes as usize],
            acc: vec![0; config.acc_elements() as usize],
        }
    }

    /// A scratchpad; the accumulators have no bytes.
    pub fn bytes(&self, space: Space) -> &[u8] {
        match space {
            Space::A => &self.a,
            Space::W => &self.w,
            Space::Acc => &[],
        }
    }

    pub fn bytes_mut(&mut self, space: Space) -> &mut [u8] {
        match space {
            Space::A => &mut self.a,
            Space::W => &mut self.w,
            Space::Acc => &mut [],
        }
    }

    pub fn row(&self, tile: &Tile, i: u32) -> &[u8] {
        &self.bytes(tile.space)[tile.row(i)]
    }

    pub fn row_mut(&mut self, tile: &Tile, i: u32) -> &mut [u8] {
        &mut self.bytes_mut(tile.space)[tile.row(i)]
    }

    /// A copy of a tile's rows, one behind the other: what an instruction reads before it writes anything.
    pub fn gather(&self, tile: &Tile) -> Vec<u8> {
        let mut out = Vec::with_capacity(tile.units() as usize);
        (0..tile.rows).for_each(|i| out.extend_from_slice(self.row(tile, i)));
        out
    }

    /// The values of a tile of 8- or 16-bit integers.
    pub fn values(&self, tile: &Tile, dtype: Dtype) -> Vec<i32> {
        let mut out = Vec::with_capacity(tile.units() as usize);
        for row in (0..tile.rows).map(|i| self.row(tile, i)) {
            match dtype {
                Dtype::U8 => out.extend(row.iter().map(|&b| i32::from(b))),
                Dtype::S16 => out.extend(row.as_chunks().0.iter().map(|b| i32::from(i16::from_le_bytes(*b)))),
                _ => out.extend(row.iter().map(|&b| i32::from(b as i8))),
            }
        }
        out
    }

    /// Accumulators of row `i`.
    pub fn acc_row(&self, tile: &Tile, i: u32) -> &[i32] {
        &self.acc[tile.row(i)]
    }

    /// Accumulators of row `i`, to be written.
    pub fn acc_row_mut(&mut self, tile: &Tile, i: u32) -> &mut [i32] {
        &mut self.acc[tile.row(i)]
    }
}

/// Writes element `i` of a row of 8- or 16-bit integers.
#[inline]
pub(super) fn put(row: &mut [u8], i: usize, v: i32, dtype: Dtype) {
    if dtype != Dtype::S16 {
        row[i] = v as u8;
        return;
    }
    row[2 * i..2 * i + 2].copy_from_slice(&(v as i16).to_le_bytes());
}

/// The value of a byte: signed for s8, unsigned for u8.
#[inline]
pub(super) fn value(byte: u8, dtype: Dtype) -> i32 {
    if dtype == Dtype::U8 { byte.into() } else { (byte as i8).into() }
}

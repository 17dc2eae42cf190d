//! Transfers and products to work.

use super::resolve::{Cx, accumulates, dense, positive, product};
use super::{Dwconv, Factor, Gemm, Im2col, Tile, Work};
use crate::error::Fault;
use crate::isa::{Dtype, Inst, Local, Reg, Space, flags};

type Result<T> = std::result::Result<T, Fault>;

impl Cx<'_> {
    pub(super) fn load(&self, inst: &Inst) -> Result<Work> {
        let (rows, len) = (u64::from(self.reg(Reg::Rows)), u64::from(self.reg(Reg::Rowb)));
        let pitch = if inst.flags & flags::BCAST != 0 { 0 } else { dense(self.reg(Reg::Dstride), len) };
        let from = self.dram("the load's source", inst.a, rows, len, pitch)?;
        let to = self.transfer_tile("the load's destination", inst.b, rows, len, true)?;
        Self::apart("the load's source", from.local(), &to)?;
        let accumulate = Local::from_bits(inst.b).is_some_and(|l| l.accumulate);
        Ok(Work::Load { from, to, accumulate })
    }

    /// The local side of a transfer of `len` bytes per row; `wide` accumulators move four bytes each.
    fn transfer_tile(&self, what: &'static str, at: u32, rows: u64, len: u64, wide: bool) -> Result<Tile> {
        let is_acc = Local::from_bits(at).is_some_and(|l| l.space == Space::Acc);
        if !is_acc || !wide {
            return self.tile(what, at, rows, len, Reg::Lstride);
        }
        if !len.is_multiple_of(4) {
            return Err(Fault::Value { what, found: len as i64, expected: "a multiple of 4 bytes per row" });
        }
        self.tile(what, at, rows, len / 4, Reg::Lstride)
    }

    pub(super) fn store(&self, inst: &Inst) -> Result<Work> {
        let what = "the store's destination";
        let (rows, len) = (u64::from(self.reg(Reg::Rows)), u64::from(self.reg(Reg::Rowb)));
        let to = self.dram(what, inst.b, rows, len, dense(self.reg(Reg::Dstride), len))?;
        if to.pitch < len && rows > 1 {
            return Err(Fault::Overlap { what, len, pitch: to.pitch });
        }
        if !to.region.is_writable() {
            return Err(Fault::ReadOnly(to.region.name()));
        }
        let local = Local::from_bits(inst.a).ok_or(Fault::Place { what, expected: "a local address" })?;
        if local.space != Space::Acc || local.full_width {
            let from = self.transfer_tile("the store's source", inst.a, rows, len, local.full_width)?;
            Self::apart(what, to.local(), &from)?;
            return Ok(Work::Store { from, to, requant: None });
        }
        let size = Dtype::from_code(self.reg(Reg::DtypeO)).map_or(1, Dtype::bytes);
        if !len.is_multiple_of(size) {
            return Err(Fault::Value { what: "ROWB", found: len as i64, expected: "whole elements of DTYPE_O" });
        }
        let requant = self.requantize(len / size, inst.flags)?;
        let from = (len / size).saturating_mul(requant.sums.accumulators());
        let from = self.tile("the store's source", inst.a, rows, from, Reg::Lstride)?;
        Ok(Work::Store { from, to, requant: Some(requant) })
    }

    pub(super) fn im2col(&self, inst: &Inst) -> Result<Work> {
        let window = self.window()?;
        let channels = u64::from(self.reg(Reg::Ic));
        let pitch = dense(self.reg(Reg::Dstride), channels);
        let rows = u64::from(self.reg(Reg::Rows));
        positive("ROWS", rows)?;
        let len = product(&[window.kh.into(), window.kw.into(), channels]);
        let to = self.bytes("the rows of taps", inst.b, rows, len, Reg::Lstride)?;
        let per_image = window.pixels_out();
        let images = (u64::from(inst.c) + rows).div_ceil(per_image);
        let pixels = product(&[images, window.ih.into(), window.iw.into()]);
        let image = self.dram("the image", inst.a, pixels, channels, pitch)?;
        if pitch < channels && pixels > 1 {
            return Err(Fault::Overlap { what: "the image", len: channels, pitch });
        }
        Self::apart("the image", image.local(), &to)?;
        Ok(Work::Im2col(Im2col { image, window, first: inst.c, to, pad: self.reg(Reg::Padv) as u8 }))
    }

    pub(super) fn preload(&mut self, inst: &Inst) -> Result<Work> {
        let (k, n) = (self.reg(Reg::K), self.reg(Reg::N));
        let dtype = self.dtype(Reg::DtypeW, "the weights", &[Dtype::S8, Dtype::U8, Dtype::S4])?;
        let len = if dtype == Dtype::S4 { u64::from(n).div_ceil(2) } else { n.into() };
        let tile = self.bytes("the preloaded operand", inst.a, k.into(), len, Reg::PitchW)?;
        let zp = self.zero_point(Reg::Zw, dtype)?;
        self.factor = Some(Factor { tile, k, n, dtype, zp });
        Ok(Work::Preload)
    }

    pub(super) fn gemm(&self, inst: &Inst) -> Result<Work> {
        let w = self.factor.ok_or(Fault::NoPreload)?;
        let m = u64::from(self.reg(Reg::M));
        let input = self.element(Reg::DtypeA, Reg::Sa, Reg::Za)?;
        let a = self.bytes("the rows", inst.a, m, product(&[w.k.into(), input.dtype.bytes()]), Reg::PitchA)?;
        let wide = if input.dtype == Dtype::S16 { 2 } else { 1 };
        let acc = self.acc("the accumulators", inst.b, m, product(&[w.n.into(), wide]), Reg::PitchO)?;
        Ok(Work::Gemm(Gemm { a, input, w, acc, accumulate: accumulates(inst.flags, inst.b) }))
    }

    pub(super) fn dwconv(&self, inst: &Inst) -> Result<Work> {
        let window = self.window()?;
        let (channels, n) = (self.reg(Reg::Groups), self.reg(Reg::N));
        positive("GROUPS", channels.into())?;
        if n == 0 || !n.is_multiple_of(channels) {
            return Err(Fault::Value { what: "N", found: n.into(), expected: "a positive multiple of GROUPS" });
        }
        let pixels = product(&[window.ih.into(), window.iw.into()]);
        let taps = product(&[window.kh.into(), window.kw.into()]);
        let weight_dtype = self.dtype(Reg::DtypeW, "the weights", &[Dtype::S8, Dtype::U8])?;
        Ok(Work::Dwconv(Dwconv {
            image: self.bytes("the image", inst.a, pixels, channels.into(), Reg::PitchA)?,
            input: self.operand(Reg::DtypeA, Reg::Sa, Reg::Za)?,
            weights: self.bytes("the weights", inst.b, taps, n.into(), Reg::PitchW)?,
            weight_dtype,
            zw: self.zero_point(Reg::Zw, weight_dtype)?,
            window,
            multiplier: n / channels,
            acc: self.acc("the accumulators", inst.c, window.pixels_out(), n.into(), Reg::PitchO)?,
            accumulate: accumulates(inst.flags, inst.c),
        }))
    }
}

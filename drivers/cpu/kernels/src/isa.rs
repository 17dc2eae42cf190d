//! Instruction sets: which exist, which this machine has, and the kernels that each uses.
//!
//! Invariant: an [`Isa`] is only made after its [`IsaEntry::detect`] said yes, so whoever holds one may run its kernels. It carries the
//! kernels themselves: choosing happens once, calling is one indirect call.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use crate::error::{KernelError, Result};
use crate::float::{LineBf16, LineF16, LineF32};
use crate::gemm::Packing;
use crate::table::{
    BinaryU8Fn, DepthwiseF32Fn, DepthwiseU8Fn, DepthwiseU8LinesFn, FinishU8Fn, GemmF32Fn, GemmS16Fn, GemmU8Fn, ISAS,
    KERNELS, LutU8Fn, Run, StripeU8Fn,
};
use crate::vectorize::Loops;

/// Up to so many rows a product takes as long as reading its weights does.
const FEW_ROWS: usize = 4;

/// One line of [`ISAS`].
pub(crate) struct IsaEntry {
    /// The name that [`Isa::parse`] accepts.
    pub(crate) name: &'static str,
    /// Whether this machine has it.
    pub(crate) detect: fn() -> bool,
    /// Whether it is the better choice on this machine than the lines before it; asked only after `detect`.
    pub(crate) pays: fn() -> bool,
    /// Instruction sets whose kernels it uses where it has none of its own, best first.
    pub(crate) falls_back: &'static [&'static str],
    /// The layout of weights that its integer product likes best for many rows.
    pub(crate) packing: Packing,
    /// Which instance of the plain loops it runs.
    pub(crate) loops: Loops,
    /// Multiply-adds per nanosecond and thread that a cost model may assume: of bytes, of floats.
    pub(crate) speed: [u32; 2],
}

/// An instruction set that may be used on this machine. All of them give the same bits.
#[derive(Clone, Copy)]
pub struct Isa {
    entry: &'static IsaEntry,
    pub(crate) gemm_u8: GemmU8Fn,
    pub(crate) finish_u8: Option<FinishU8Fn>,
    pub(crate) stripe_u8: Option<StripeU8Fn>,
    pub(crate) depthwise_u8: DepthwiseU8Fn,
    pub(crate) depthwise_u8_lines: Option<DepthwiseU8LinesFn>,
    pub(crate) gemm_f32: GemmF32Fn<LineF32>,
    pub(crate) gemm_f16: GemmF32Fn<LineF16>,
    pub(crate) gemm_bf16: GemmF32Fn<LineBf16>,
    pub(crate) depthwise_f32: DepthwiseF32Fn,
    pub(crate) gemm_s16: GemmS16Fn,
    pub(crate) lut_u8: LutU8Fn,
    pub(crate) binary_u8: Option<BinaryU8Fn>,
}

impl Isa {
    /// Plain Rust; runs everywhere.
    pub fn portable() -> Self {
        Self::of(&ISAS[0])
    }

    /// The fastest instruction set of this machine.
    pub fn detect() -> Self {
        ISAS.iter().rev().find(|e| (e.detect)() && (e.pays)()).map_or_else(Self::portable, Self::of)
    }

    /// Every instruction set of this machine, slowest first.
    pub fn available() -> Vec<Self> {
        ISAS.iter().filter(|e| (e.detect)()).map(Self::of).collect()
    }

    /// The names of all instruction sets that this build knows for its architecture, slowest first.
    pub fn known() -> impl Iterator<Item = &'static str> {
        ISAS.iter().map(|e| e.name)
    }

    /// The instruction set called `name`, if this machine has it.
    ///
    /// # Errors
    /// [`KernelError::Isa`] with the names of those that it has.
    pub fn parse(name: &str) -> Result<Self> {
        let all = Self::available();
        all.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| KernelError::Isa {
            name: name.to_owned(),
            available: all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The name that [`Isa::parse`] accepts.
    pub fn name(self) -> &'static str {
        self.entry.name
    }

    /// Multiply-adds per nanosecond and thread that a cost model may assume: of bytes, of floats.
    pub fn speed(self) -> [u32; 2] {
        self.entry.speed
    }

    /// The layout of weights with which a product of so many rows (pixels, all images) is fastest here. `four_bits` says that most
    /// weights fit in four bits.
    pub fn packing(self, rows: usize, four_bits: bool) -> Packing {
        match rows {
            0..=FEW_ROWS if four_bits => Packing::Nibbles,
            0..=FEW_ROWS => Packing::Dot,
            _ => self.entry.packing,
        }
    }

    /// Which instance of the plain loops to run.
    pub(crate) fn loops(self) -> Loops {
        self.entry.loops
    }

    /// The kernels of an entry. The caller has asked `detect`.
    fn of(entry: &'static IsaEntry) -> Self {
        let mut isa = Self {
            entry,
            gemm_u8: crate::generic::gemm_u8::tile,
            finish_u8: None,
            stripe_u8: None,
            depthwise_u8: crate::generic::depthwise_u8::tile,
            depthwise_u8_lines: None,
            gemm_f32: crate::generic::gemm_f32::run,
            gemm_f16: crate::generic::gemm_f32::run,
            gemm_bf16: crate::generic::gemm_f32::run,
            depthwise_f32: crate::generic::depthwise_f32::run,
            gemm_s16: crate::generic::gemm_s16::tile,
            lut_u8: crate::generic::lut_u8::run,
            binary_u8: None,
        };
        let best_last = entry.falls_back.iter().rev().copied().chain([entry.name]);
        for kernel in best_last.flat_map(|name| KERNELS.iter().filter(move |k| k.isa == name)) {
            isa = isa.with(kernel.run);
        }
        isa
    }

    /// The same with another kernel of one kind. The caller knows that the kernel runs here.
    pub(crate) fn with(mut self, kernel: Run) -> Self {
        match kernel {
            Run::GemmU8(f) => self.gemm_u8 = f,
            Run::FinishU8(f) => self.finish_u8 = Some(f),
            Run::StripeU8(f) => self.stripe_u8 = Some(f),
            Run::DepthwiseU8(f) => self.depthwise_u8 = f,
            Run::DepthwiseU8Lines(f) => self.depthwise_u8_lines = Some(f),
            Run::GemmF32(f) => self.gemm_f32 = f,
            Run::GemmS16(f) => self.gemm_s16 = f,
            Run::LutU8(f) => self.lut_u8 = f,
            Run::BinaryU8(f) => self.binary_u8 = Some(f),
            Run::GemmF16(f) => self.gemm_f16 = f,
            Run::GemmBf16(f) => self.gemm_bf16 = f,
            Run::DepthwiseF32(f) => self.depthwise_f32 = f,
        }
        self
    }
}

impl PartialEq for Isa {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Isa {}

impl core::fmt::Debug for Isa {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_isa_parses_back() {
        for isa in Isa::available() {
            assert_eq!(Isa::parse(isa.name()), Ok(isa));
        }
        assert!(Isa::available().contains(&Isa::detect()));
        assert_eq!(Isa::available().first(), Some(&Isa::portable()));
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let text = Isa::parse("sse9").unwrap_err().to_string();
        assert!(text.contains("sse9") && text.contains("portable"), "{text}");
    }

    #[test]
    fn an_instruction_set_falls_back_on_earlier_lines() {
        for (i, entry) in ISAS.iter().enumerate() {
            assert!(entry.falls_back.iter().all(|name| ISAS[..i].iter().any(|e| e.name == *name)), "{}", entry.name);
        }
    }
}

//! Instruction sets: which exist, which this machine has, and the token that proves it.
//!
//! Invariant: an [`Avx2`] value can only come from [`Avx2::detect`], so whoever holds one may run AVX2, FMA and F16C code.

use crate::error::{KernelError, Result};

/// Proof that AVX2, FMA and F16C are available on this machine; no CPU has the first without the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// A token, if this CPU has AVX2, FMA and F16C.
    pub fn detect() -> Option<Self> {
        detect_avx2().then_some(Self(()))
    }
}

#[cfg(target_arch = "x86_64")]
fn detect_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") 
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c")
}

#[cfg(not(target_arch = "x86_64"))]
fn detect_avx2() -> bool {
    false
}

/// An instruction set that may be used on this machine. All of them give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust; runs everywhere.
    Portable,
    /// 256-bit integer and FMA vectors.
    Avx2(Avx2),
}

impl Isa {
    /// The fastest instruction set of this machine.
    pub fn detect() -> Self {
        Avx2::detect().map_or(Self::Portable, Self::Avx2)
    }

    /// Every instruction set of this machine, slowest first.
    pub fn available() -> Vec<Self> {
        core::iter::once(Self::Portable).chain(Avx2::detect().map(Self::Avx2)).collect()
    }

    /// The instruction set called `name` (`portable`, `avx2`), if this machine has it.
    pub fn parse(name: &str) -> Result<Self> {
        let all = Self::available();
        all.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| KernelError::Isa {
            name: name.to_owned(),
            available: all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The name that [`Isa::parse`] accepts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2(_) => "avx2",
        }
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
        assert_eq!(Isa::available().last(), Some(&Isa::detect()));
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let text = Isa::parse("sse9").unwrap_err().to_string();
        assert!(text.contains("sse9") && text.contains("portable"), "{text}");
    }
}

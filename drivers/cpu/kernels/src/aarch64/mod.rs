//! AArch64 kernels, one folder per instruction set.
//!
//! The tiling code of a kernel is generic over the instructions it uses ([`simd`]). On AArch64 it is compiled with the real ones, on
//! every host it is tested with a plain model of each (`model`), so that splitting into rows, runs and tails is checked everywhere and
//! only the one-line instruction itself needs the machine or its emulation.

/// Whether the CPU has a feature: asked of the operating system, or, without the standard library, of the compiler's target.
#[cfg(target_arch = "aarch64")]
macro_rules! has {
    ($feature:tt) => {{
        #[cfg(feature = "std")]
        let has = std::arch::is_aarch64_feature_detected!($feature);
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = $feature);
        has
    }};
}

pub(crate) mod dotprod;
pub(crate) mod i8mm;
#[cfg(test)]
mod model;
pub(crate) mod neon;
mod reader;
mod simd;
pub(crate) mod sve;

#[cfg(test)]
pub(crate) use model::KERNELS as MODELS;

//! Float weights: as the caller holds them, and packed.

use alloc::format;
use alloc::vec::Vec;

use super::depthwise_f32::DepthwiseF32;
use super::shape::{ConvShape, Geometry};
use super::weights::WeightLayout;
use crate::error::Result;
use crate::float::{Line, LineBf16, LineF16, LineF32, Packed};
use crate::half::{bf16_to_f32, exact_bf16, exact_f16, f16_to_f32};
use crate::stored::{Stored, damaged, put_u32s};

/// A tensor of float weights.
#[derive(Clone, Copy, Debug)]
pub enum FloatWeights<'a> {
    /// 32-bit.
    F32(&'a [f32]),
    /// Bit patterns of IEEE half precision.
    F16(&'a [u16]),
    /// Bit patterns of bfloat16.
    Bf16(&'a [u16]),
}

impl FloatWeights<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(w) => w.len(),
            Self::F16(w) | Self::Bf16(w) => w.len(),
        }
    }

    /// The value at an index.
    fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(w) => w[index],
            Self::F16(w) => f16_to_f32(w[index]),
            Self::Bf16(w) => bf16_to_f32(w[index]),
        }
    }
}

/// The packed weights of a plan: one matrix per group, or a depthwise filter, which is small and always f32.
pub(crate) enum FilterF32 {
    F32(Vec<Packed<LineF32>>),
    F16(Vec<Packed<LineF16>>),
    Bf16(Vec<Packed<LineBf16>>),
    Depthwise(DepthwiseF32),
}

impl FilterF32 {
    pub(crate) fn pack(s: &ConvShape, g: &Geometry, weights: FloatWeights<'_>, layout: WeightLayout) -> Result<Self> {
        let index = layout.index(s);
        if s.is_depthwise() {
            return Ok(Self::Depthwise(DepthwiseF32::pack(g.k, s.in_c, &|k, c| weights.get(index.of(k, c)))));
        }
        Ok(match weights {
            FloatWeights::F32(w) => Self::smallest(s, g, &|k, co| w[index.of(k, co)])?,
            FloatWeights::F16(w) => Self::F16(groups(s, g, &|k, co| w[index.of(k, co)])?),
            FloatWeights::Bf16(w) => Self::Bf16(groups(s, g, &|k, co| w[index.of(k, co)])?),
        })
    }

    /// Stores f32 weights in the smallest type that holds all of them exactly.
    fn smallest(s: &ConvShape, g: &Geometry, weight: &dyn Fn(usize, usize) -> f32) -> Result<Self> {
        let all = |fits: fn(f32) -> bool| (0..s.out_c).all(|co| (0..g.k).all(|k| fits(weight(k, co))));
        if all(|w| exact_f16(w).is_some()) {
            return Ok(Self::F16(groups(s, g, &|k, co| exact_f16(weight(k, co)).unwrap_or_default())?));
        }
        if all(|w| exact_bf16(w).is_some()) {
            return Ok(Self::Bf16(groups(s, g, &|k, co| exact_bf16(weight(k, co)).unwrap_or_default())?));
        }
        Ok(Self::F32(groups(s, g, weight)?))
    }

    /// Says in front how the weights are stored.
    fn tag(&self) -> u32 {
        match self {
            Self::F32(_) => 0,
            Self::F16(_) => 1,
            Self::Bf16(_) => 2,
            Self::Depthwise(_) => 3,
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_u32s(out, &[self.tag()]);
        match self {
            Self::F32(groups) => groups.iter().for_each(|g| g.save(out)),
            Self::F16(groups) => groups.iter().for_each(|g| g.save(out)),
            Self::Bf16(groups) => groups.iter().for_each(|g| g.save(out)),
            Self::Depthwise(filter) => filter.save(out),
        }
    }

    pub(crate) fn restore(s: &ConvShape, g: &Geometry, from: &mut Stored<'_>) -> Result<Self> {
        match (from.u32s(1)?[0], s.is_depthwise()) {
            (3, true) => Ok(Self::Depthwise(DepthwiseF32::restore(g.k, s.in_c, from)?)),
            (0, false) => Ok(Self::F32(restored(s, g, from)?)),
            (1, false) => Ok(Self::F16(restored(s, g, from)?)),
            (2, false) => Ok(Self::Bf16(restored(s, g, from)?)),
            (tag, _) => Err(damaged(format!("float weights of kind {tag}"))),
        }
    }

    /// Bytes of packed weights.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::F32(groups) => groups.iter().map(Packed::bytes).sum(),
            Self::F16(groups) => groups.iter().map(Packed::bytes).sum(),
            Self::Bf16(groups) => groups.iter().map(Packed::bytes).sum(),
            Self::Depthwise(filter) => filter.bytes(),
        }
    }
}

fn groups<L: Line>(s: &ConvShape, g: &Geometry, weight: &dyn Fn(usize, usize) -> L::Weight) -> Result<Vec<Packed<L>>> {
    let n_out = s.out_c / s.groups;
    (0..s.groups).map(|group| Packed::pack(g.k, n_out, &|k, c| weight(k, group * n_out + c))).collect()
}

fn restored<L: Line>(s: &ConvShape, g: &Geometry, from: &mut Stored<'_>) -> Result<Vec<Packed<L>>> {
    (0..s.groups).map(|_| Packed::restore(g.k, s.out_c / s.groups, from)).collect()
}

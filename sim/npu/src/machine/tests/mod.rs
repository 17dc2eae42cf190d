//! The machine against direct loops over `refmath`, and the laws of section 6 of its specification.

mod conv;
mod elementwise;
mod faults;
mod hostile;
mod laws;
mod moves;
mod overlap;
mod pools;

use crate::isa::{Dtype, Reg};
use crate::testing::signed;
use ottava_hal::refmath::{Multiplier, Requant, RequantMode, Target};

/// One channel of a requantizer table, for all modes from one real multiplier.
fn entry(mode: RequantMode, real: f32, bias: i32) -> ([u8; 12], Multiplier) {
    let multiplier = Multiplier::from_scales(mode, real, 1.0, 1.0).unwrap();
    let (bits, shift) = match multiplier {
        Multiplier::Fp32(m) => (m.to_bits(), 0),
        Multiplier::Q31(q) => (q.multiplier.cast_unsigned(), q.shift),
    };
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&bias.to_le_bytes());
    bytes[4..8].copy_from_slice(&bits.to_le_bytes());
    bytes[8..].copy_from_slice(&shift.to_le_bytes());
    (bytes, multiplier)
}

fn requant(mode: RequantMode, multiplier: Multiplier, target: Target) -> Requant {
    Requant { mode, multiplier, zp: target.zp, lo: target.lo, hi: target.hi }
}

/// The registers of an output.
fn target_registers(dtype: Dtype, target: Target) -> Vec<(Reg, u32)> {
    vec![
        (Reg::DtypeO, dtype as u32),
        (Reg::So, target.scale.to_bits()),
        (Reg::Zo, signed(target.zp)),
        (Reg::ClampLo, signed(target.lo)),
        (Reg::ClampHi, signed(target.hi)),
    ]
}

fn value(byte: u8, dtype: Dtype) -> i32 {
    if dtype == Dtype::U8 { byte.into() } else { (byte as i8).into() }
}

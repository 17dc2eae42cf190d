//! Pools against direct loops.

use super::conv::dram;
use super::{target_registers, value};
use crate::NpuConfig;
use crate::isa::{Dtype, Inst, Local, Opcode, Reg, Region, flags};
use crate::testing::{Builder, Rng, run, signed};
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::tflite::tflite_average;
use ottava_hal::refmath::{Affine, Multiplier, Q31, Requant, RequantMode, Target};

const SIZE: [u32; 2] = [7, 5];
const CHANNELS: u32 = 6;
const X: Affine = Affine { scale: 0.05, zp: 4 };

/// Runs a pool of 3 x 3, step 2, one row and column of padding on each side, over s8.
fn pool(bits: u16, mode: RequantMode, target: Target, x: &[u8]) -> Vec<u8> {
    let config = NpuConfig::default();
    let [oh, ow] = SIZE.map(|s| (s + 2 - 3) / 2 + 1);
    let out_bytes = oh * ow * CHANNELS;
    let mut b = Builder::new(x.len(), out_bytes as usize, 0, vec![]);
    b.set(&[(Reg::Rowb, x.len() as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
    let threes = [Reg::Kh, Reg::Kw].map(|r| (r, 3));
    let twos = [Reg::Sh, Reg::Sw].map(|r| (r, 2));
    let ones = [Reg::Pt, Reg::Pl, Reg::Pb, Reg::Pr].map(|r| (r, 1));
    b.set(&threes).set(&twos).set(&ones).set(&target_registers(Dtype::S8, target));
    b.set(&[(Reg::Ih, SIZE[0]), (Reg::Iw, SIZE[1]), (Reg::Ic, CHANNELS), (Reg::Oh, oh), (Reg::Ow, ow)]);
    b.set(&[(Reg::Sa, X.scale.to_bits()), (Reg::Za, signed(X.zp)), (Reg::RqMode, mode.as_u32())]);
    b.push(Inst::new(Opcode::Pool, Local::a(0).bits(), Local::a(1000).bits(), 0).with(bits));
    b.set(&[(Reg::Rowb, out_bytes)]);
    b.push(Inst::new(Opcode::St2d, Local::a(1000).bits(), dram(Region::Output, 0), 0));
    run(&config, b.finish(&config), x).unwrap().0
}

/// Per output: the values of the taps inside.
fn taps(x: &[u8]) -> Vec<Vec<i32>> {
    let [h, w] = SIZE.map(i64::from);
    let [oh, ow] = SIZE.map(|s| i64::from((s + 2 - 3) / 2 + 1));
    let mut all = Vec::new();
    for y in 0..oh {
        for z in 0..ow {
            for c in 0..i64::from(CHANNELS) {
                let positions = (0..3).flat_map(|i| (0..3).map(move |j| (2 * y - 1 + i, 2 * z - 1 + j)));
                let inside = positions.filter(|(i, j)| (0..h).contains(i) && (0..w).contains(j));
                let at = |(i, j): (i64, i64)| value(x[((i * w + j) * i64::from(CHANNELS) + c) as usize], Dtype::S8);
                all.push(inside.map(at).collect());
            }
        }
    }
    all
}

#[test]
fn maximum_takes_taps_inside() {
    let x = Rng::new(21).bytes((SIZE[0] * SIZE[1] * CHANNELS) as usize);
    let target = Target { scale: 1.0, zp: 0, lo: -128, hi: 100 };
    let expected: Vec<u8> = taps(&x).iter().map(|t| (*t.iter().max().unwrap()).min(100) as u8).collect();
    assert_eq!(pool(0, RequantMode::Fp32Rne, target, &x), expected);
}

#[test]
fn averages_in_all_modes_with_and_without_padding() {
    let x = Rng::new(22).bytes((SIZE[0] * SIZE[1] * CHANNELS) as usize);
    let target = Target { scale: 0.03, zp: -2, lo: -128, hi: 127 };
    for mode in RequantMode::ALL {
        for pad in [false, true] {
            let bits = flags::AVG | if pad { flags::PAD } else { 0 };
            let expected = taps(&x).into_iter().map(|t| {
                let n = if pad { 9 } else { t.len() as u32 };
                let multiplier = if mode == RequantMode::Fp32Rne {
                    Multiplier::Fp32(average_multiplier(X.scale, target.scale, n))
                } else {
                    let real = f64::from(X.scale) / (f64::from(target.scale) * f64::from(n));
                    Multiplier::Q31(Q31::from_real(real, mode).unwrap())
                };
                let requant = Requant { mode, multiplier, zp: target.zp, lo: target.lo, hi: target.hi };
                requant.apply(t.iter().map(|v| v - X.zp).sum()) as u8
            });
            assert_eq!(pool(bits, mode, target, &x), expected.collect::<Vec<_>>(), "{mode}, padding {pad}");
        }
    }
}

#[test]
fn raw_average_is_that_of_tflite() {
    let x = Rng::new(23).bytes((SIZE[0] * SIZE[1] * CHANNELS) as usize);
    let target = Target { scale: X.scale, zp: X.zp, lo: -128, hi: 127 };
    let average = |t: &Vec<i32>| tflite_average(t.iter().sum(), t.len() as u32, -128, 127) as u8;
    let expected: Vec<u8> = taps(&x).iter().map(average).collect();
    assert_eq!(pool(flags::AVG | flags::RAW, RequantMode::Q31Double, target, &x), expected);
}

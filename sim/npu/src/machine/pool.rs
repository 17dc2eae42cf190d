//! Maximum and average pools.

use super::Exec;
use super::requant::apply;
use crate::error::Fault;
use crate::isa::flags;
use crate::program::Pool;
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::requant::check_fp32_multiplier;
use ottava_hal::refmath::tflite::{tflite_average, tflite_mean_multiplier};
use ottava_hal::refmath::{Multiplier, Requant, RequantMode};
use std::collections::BTreeMap;

impl Exec<'_, '_> {
    pub(super) fn pool(&mut self, p: &Pool) -> Result<(), Fault> {
        let x = self.chip.values(&p.image, p.input.dtype);
        let channels = p.image.len as usize;
        let average = p.flags & flags::AVG != 0;
        let mut means = Means { pool: p, by_divisor: BTreeMap::new() };
        let mut window = vec![0_i32; channels];
        for pixel in 0..p.to.rows {
            let (oh, ow) = (pixel / p.window.ow, pixel % p.window.ow);
            let (rows, columns) = p.window.taps_inside(oh, ow);
            let inside = rows.len() as u64 * columns.len() as u64;
            window.fill(if average { 0 } else { i32::MIN });
            for kh in rows {
                for kw in columns.clone() {
                    let at = p.window.pixel(oh, ow, kh, kw) as usize * channels;
                    let taps = window.iter_mut().zip(&x[at..at + channels]);
                    taps.for_each(|(w, &v)| *w = if average { w.wrapping_add(means.centred(v)) } else { v.max(*w) });
                }
            }
            let n = if p.flags & flags::PAD != 0 { p.window.taps_padded(oh, ow) } else { inside };
            for (&w, c) in window.iter().zip(0..) {
                let y =
                    if average { means.value(w, n, &mut self.dynamic)? } else { w.max(p.target.lo).min(p.target.hi) };
                self.chip.row_mut(&p.to, pixel)[c] = y as u8;
            }
        }
        Ok(())
    }
}

/// Averages; the multiplier of each number of taps is computed once.
struct Means<'a> {
    pool: &'a Pool,
    by_divisor: BTreeMap<u64, Requant>,
}

impl Means<'_> {
    /// The summand of a tap: the raw value for TFLite's average, else the value minus the zero point.
    fn centred(&self, v: i32) -> i32 {
        if self.pool.flags & flags::RAW != 0 { v } else { v - self.pool.input.affine.zp }
    }

    fn value(&mut self, sum: i32, n: u64, counters: &mut super::Counters) -> Result<i32, Fault> {
        let n = n.max(1);
        let target = self.pool.target;
        if self.pool.flags & flags::RAW != 0 {
            return Ok(tflite_average(sum, u32::try_from(n).unwrap_or(u32::MAX), target.lo, target.hi));
        }
        let requant = match self.by_divisor.get(&n) {
            Some(requant) => *requant,
            None => {
                let requant = self.requant(n).map_err(|e| Fault::Constants(e.to_string()))?;
                self.by_divisor.insert(n, requant);
                requant
            }
        };
        Ok(apply(&requant, sum, counters))
    }

    fn requant(&self, n: u64) -> Result<Requant, ottava_hal::refmath::RefmathError> {
        let Pool { input, target, mode, .. } = self.pool;
        let divisor = u32::try_from(n).unwrap_or(u32::MAX);
        let multiplier = if *mode == RequantMode::Fp32Rne {
            let m = average_multiplier(input.affine.scale, target.scale, divisor);
            check_fp32_multiplier(m)?;
            Multiplier::Fp32(m)
        } else {
            Multiplier::Q31(tflite_mean_multiplier(input.affine.scale, target.scale, divisor, *mode)?)
        };
        Ok(Requant { mode: *mode, multiplier, zp: target.zp, lo: target.lo, hi: target.hi })
    }
}

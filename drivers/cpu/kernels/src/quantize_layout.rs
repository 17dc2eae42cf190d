//! Quantization of images on their way from channels-first to channels-last: one pass over the floats instead of two over
//! everything. Each element is quantized as by [`crate::quantize`]; only its place differs.

use crate::arith::rne_clamped;
use crate::epilogue::{OutQ, Store, check_scale};
use crate::error::{Result, check_len, product};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Pixels of a band: what is quantized before it is interleaved.
const BAND: usize = 256;
/// Channels that are interleaved together.
const GROUP: usize = 16;

/// Quantized pixels of some channels, channel by channel.
type Planes = [[u8; BAND]; GROUP];

/// `[n][c][hw]` of f32 to `[n][hw][c]` of bytes: `sat(rne(fl32(x / scale)) + zp)`; NaN gives the lower bound.
pub fn quantize_nchw_to_nhwc(
    exec: Exec<'_>,
    [n, c, hw]: [usize; 3],
    x: &[f32],
    scale: f32,
    out_q: OutQ,
    out: &mut [u8],
) -> Result<()> {
    check_scale("scale", scale)?;
    let image = product("the image", &[c, hw])?;
    let total = product("the tensor", &[n, image])?;
    check_len("the input", x.len(), total)?;
    check_len("the output", out.len(), total)?;
    if total == 0 {
        return Ok(());
    }
    let (store, bands) = (Store::new(out_q)?, hw.div_ceil(BAND));
    let parts = exec.parts(total.saturating_mul(size_of::<f32>()), n * bands);
    let shared = SharedOut::new(out);
    exec.split(n * bands, 1, parts, &|from, to| {
        for band in from..to {
            let (i, first) = (band / bands, band % bands * BAND);
            let width = BAND.min(hw - first);
            // SAFETY: bands are disjoint runs of pixels and `split` gives each to one task.
            let out = unsafe { shared.part(i * image + first * c, width * c) };
            exec.isa.run(Band { x: &x[i * image..][..image], hw, first, scale, store, out, channels: c });
        }
    })
}

/// One band of an image.
struct Band<'a> {
    x: &'a [f32],
    hw: usize,
    first: usize,
    scale: f32,
    store: Store,
    out: &'a mut [u8],
    channels: usize,
}

impl Vectorize for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (store, mut planes) = (self.store, [[0; BAND]; GROUP]);
        let width = self.out.len() / self.channels;
        for first in (0..self.channels).step_by(GROUP) {
            let n = GROUP.min(self.channels - first);
            for (plane, channel) in planes[..n].iter_mut().zip(first..) {
                let pixels = &self.x[channel * self.hw + self.first..][..width];
                for (to, x) in plane.iter_mut().zip(pixels) {
                    *to = (rne_clamped(*x / self.scale, store.lo, store.hi) + store.zp) as u8 ^ store.flip;
                }
            }
            match self.channels {
                3 => interleave_3(&planes, self.out),
                4 => interleave_4(&planes, self.out),
                c => interleave(&planes[..n], c, &mut self.out[first..]),
            }
        }
    }
}

#[inline(always)]
fn interleave_3([a, b, c, ..]: &Planes, out: &mut [u8]) {
    for (((pixel, a), b), c) in out.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c) {
        *pixel = [*a, *b, *c];
    }
}

#[inline(always)]
fn interleave_4([a, b, c, d, ..]: &Planes, out: &mut [u8]) {
    for ((((pixel, a), b), c), d) in out.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *pixel = [*a, *b, *c, *d];
    }
}

/// Some channels of pixels that have `channels` bytes each; `out` begins at the first of them.
#[inline(always)]
fn interleave(planes: &[[u8; BAND]], channels: usize, out: &mut [u8]) {
    for (p, pixel) in out.chunks_mut(channels).enumerate().take(BAND) {
        for (to, plane) in pixel.iter_mut().zip(planes) {
            *to = plane[p];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, ThreadPool, nchw_to_nhwc, quantize};

    #[test]
    fn it_is_quantization_and_then_transposition() {
        let pool = ThreadPool::new(2).unwrap();
        let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.5, -1.5, 1e9, -1e9, 1e-40];
        for dims in [[1, 3, 1000], [2, 3, 257], [1, 4, 640], [3, 1, 70], [1, 17, 300], [2, 40, 9], [1, 2, 0], [0, 3, 5]]
        {
            let n: usize = dims.iter().product();
            let x: Vec<f32> = (0..n).map(|i| specials.get(i % 23).copied().unwrap_or(i as f32 * 0.37 - 90.0)).collect();
            for out_q in [OutQ::u8(77), OutQ { zero_point: -3, lo: -100, hi: 90, signed: true }] {
                for isa in Isa::available() {
                    let exec = Exec { isa, pool: &pool };
                    let (mut flat, mut expect, mut found) = (vec![0; n], vec![0; n], vec![0; n]);
                    quantize(exec, &x, 0.75, out_q, &mut flat).unwrap();
                    nchw_to_nhwc(exec, dims, &flat, &mut expect).unwrap();
                    quantize_nchw_to_nhwc(exec, dims, &x, 0.75, out_q, &mut found).unwrap();
                    assert!(found == expect, "{dims:?} on {}", isa.name());
                }
            }
        }
    }

    #[test]
    fn lengths_and_parameters_are_checked() {
        let pool = ThreadPool::new(1).unwrap();
        let exec = Exec { isa: Isa::portable(), pool: &pool };
        let mut out = [0; 6];
        assert!(quantize_nchw_to_nhwc(exec, [1, 2, 3], &[0.0; 5], 1.0, OutQ::u8(0), &mut out).is_err());
        assert!(quantize_nchw_to_nhwc(exec, [1, 2, 3], &[0.0; 6], 1.0, OutQ::u8(0), &mut out[..5]).is_err());
        assert!(quantize_nchw_to_nhwc(exec, [1, 2, 3], &[0.0; 6], f32::NAN, OutQ::u8(0), &mut out).is_err());
        assert!(quantize_nchw_to_nhwc(exec, [1, usize::MAX, 3], &[], 1.0, OutQ::u8(0), &mut []).is_err());
    }
}

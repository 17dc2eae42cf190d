//! Pooling against the definition, for every instruction set and thread count.

mod common;

use common::{Rng, bytes, for_each_exec};
use ottava_kernels::{OtherQ, OutQ, PoolShape, average_pool_f32, average_pool_u8, max_pool, max_pool_f32};

fn shapes() -> Vec<PoolShape> {
    let shape = |v: [usize; 13], ceil| PoolShape {
        in_h: v[0],
        in_w: v[1],
        channels: v[2],
        kernel: [v[3], v[4]],
        stride: [v[5], v[6]],
        dilation: [v[7], v[8]],
        pads: [v[9], v[10], v[11], v[12]],
        ceil,
    };
    vec![
        shape([6, 6, 40, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0], false),
        shape([7, 5, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1], false),
        shape([7, 8, 33, 3, 2, 2, 3, 1, 1, 0, 1, 1, 0], true),
        shape([9, 9, 1, 2, 3, 1, 2, 3, 2, 1, 2, 0, 1], true),
        PoolShape::global(7, 7, 70),
    ]
}

/// For each output element: the input indices of its taps, and how many taps lie in the padded image.
fn windows(s: &PoolShape, batch: usize) -> Vec<(Vec<usize>, usize)> {
    let [oh, ow] = s.out_hw().unwrap();
    let mut all = Vec::new();
    for o in 0..batch * oh * ow * s.channels {
        let (c, x, y) = (o % s.channels, o / s.channels % ow, o / s.channels / ow % oh);
        let image = o / s.channels / ow / oh * s.in_h * s.in_w;
        let (mut taps, mut padded) = (Vec::new(), 0);
        for k in 0..s.kernel[0] * s.kernel[1] {
            let (py, px) =
                (y * s.stride[0] + k / s.kernel[1] * s.dilation[0], x * s.stride[1] + k % s.kernel[1] * s.dilation[1]);
            let inside = py < s.in_h + s.pads[0] + s.pads[2] && px < s.in_w + s.pads[1] + s.pads[3];
            padded += usize::from(inside);
            let (iy, ix) = (py.wrapping_sub(s.pads[0]), px.wrapping_sub(s.pads[1]));
            if iy < s.in_h && ix < s.in_w {
                taps.push((image + iy * s.in_w + ix) * s.channels + c);
            }
        }
        all.push((taps, padded));
    }
    all
}

#[test]
fn max_of_bytes() {
    let mut rng = Rng(1);
    for s in shapes() {
        let (w, x) = (windows(&s, 2), bytes(3, 2 * s.in_h * s.in_w * s.channels, &mut rng));
        for signed in [false, true] {
            let key = |i: &usize| if signed { i16::from(x[*i] as i8) } else { i16::from(x[*i]) };
            let want: Vec<u8> = w.iter().map(|(taps, _)| taps.iter().map(key).max().unwrap() as u8).collect();
            for_each_exec(|exec, name| {
                let mut out = vec![9; want.len()];
                max_pool(exec, &s, signed, &x, &mut out).unwrap();
                assert_eq!(out, want, "{name} {s:?}");
            });
        }
    }
}

#[test]
fn floats() {
    let mut rng = Rng(2);
    for s in shapes() {
        let x: Vec<f32> = (0..2 * s.in_h * s.in_w * s.channels).map(|_| rng.float(-9.0, 9.0)).collect();
        let w = windows(&s, 2);
        for_each_exec(|exec, name| {
            let mut out = vec![0.0; w.len()];
            max_pool_f32(exec, &s, &x, &mut out).unwrap();
            let want: Vec<f32> =
                w.iter().map(|(t, _)| t.iter().map(|i| x[*i]).fold(f32::NEG_INFINITY, f32::max)).collect();
            assert_eq!(out, want, "{name} {s:?}");
            for all in [false, true] {
                average_pool_f32(exec, &s, all, &x, &mut out).unwrap();
                let sum = |t: &[usize]| t.iter().fold(0.0f32, |a, i| a + x[*i]);
                let want: Vec<f32> =
                    w.iter().map(|(t, padded)| sum(t) / if all { *padded } else { t.len() } as f32).collect();
                assert_eq!(out, want, "{name} {s:?} {all}");
            }
        });
    }
}

#[test]
fn max_of_floats_keeps_nan() {
    let s = PoolShape::global(1, 3, 1);
    for_each_exec(|exec, name| {
        for x in [[f32::NAN, 1.0, 2.0], [1.0, f32::NAN, 2.0], [1.0, 2.0, f32::NAN]] {
            let mut out = [0.0];
            max_pool_f32(exec, &s, &x, &mut out).unwrap();
            assert!(out[0].is_nan(), "{name}");
        }
    });
}

#[test]
fn max_of_floats_keeps_the_first_zero() {
    let s = PoolShape::global(1, 2, 9);
    for_each_exec(|exec, name| {
        for (x, want) in [([0.0f32, -0.0], 0.0f32), ([-0.0, 0.0], -0.0)] {
            let pixels: Vec<f32> = x.iter().flat_map(|v| [*v; 9]).collect();
            let mut out = [1.0f32; 9];
            max_pool_f32(exec, &s, &pixels, &mut out).unwrap();
            assert!(out.iter().all(|y| y.to_bits() == want.to_bits()), "{name} {out:?}");
        }
    });
}

#[test]
fn average_of_bytes() {
    let mut rng = Rng(3);
    for s in shapes() {
        let (w, x) = (windows(&s, 2), bytes(3, 2 * s.in_h * s.in_w * s.channels, &mut rng));
        for (signed, all) in [(false, false), (true, true), (true, false), (false, true)] {
            let zp = if signed { -9 } else { 77 };
            let (input, y_scale) = (OtherQ { scale: 0.02, zero_point: zp, signed }, 0.013f32);
            let output = if signed { OutQ::s8(3) } else { OutQ::u8(100) };
            let value = |i: &usize| if signed { i32::from(x[*i] as i8) } else { i32::from(x[*i]) } - zp;
            let average = |taps: &[usize], padded: usize| {
                let n = if all { padded } else { taps.len() } as f32;
                let t = taps.iter().map(value).sum::<i32>() as f32 * (0.02f32 / (y_scale * n));
                (t.round_ties_even() as i32 + output.zero_point).clamp(output.lo, output.hi) as u8
            };
            let want: Vec<u8> = w.iter().map(|(taps, padded)| average(taps, *padded)).collect();
            for_each_exec(|exec, name| {
                let mut out = vec![9; want.len()];
                average_pool_u8(exec, &s, all, input, y_scale, output, &x, &mut out).unwrap();
                assert_eq!(out, want, "{name} {s:?}");
            });
        }
    }
}

#[test]
fn wrong_lengths_are_errors() {
    let s = PoolShape::global(2, 2, 3);
    for_each_exec(|exec, _| {
        assert!(max_pool(exec, &s, false, &[0; 11], &mut [0; 3]).is_err());
        assert!(max_pool(exec, &s, false, &[0; 12], &mut [0; 4]).is_err());
        let empty = PoolShape { channels: 0, ..s };
        assert!(max_pool(exec, &empty, false, &[], &mut []).is_err());
    });
}

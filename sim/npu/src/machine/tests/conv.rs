//! Convolutions, depthwise convolutions and products.

use super::{entry, requant, target_registers, value};
use crate::isa::{DramAddr, Dtype, Inst, Local, Opcode, Queue, Reg, Region, flags};
use crate::testing::{Builder, Rng, run, signed};
use crate::{NpuConfig, Stream};
use ottava_hal::refmath::{RequantMode, Target};

/// A convolution layer with random data.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    pub size: [u32; 2],
    pub channels: [u32; 2],
    pub kernel: u32,
    pub stride: u32,
    pub pad: u32,
    pub dilation: u32,
    pub x: (Dtype, i32),
    pub mode: RequantMode,
    pub batch: u32,
}

impl Conv {
    pub fn small(mode: RequantMode) -> Self {
        Self {
            size: [7, 6],
            channels: [5, 9],
            kernel: 3,
            stride: 2,
            pad: 1,
            dilation: 1,
            x: (Dtype::U8, 117),
            mode,
            batch: 2,
        }
    }

    fn output(&self) -> [u32; 2] {
        self.size.map(|s| (s + 2 * self.pad - self.dilation * (self.kernel - 1) - 1) / self.stride + 1)
    }

    fn k(&self) -> u32 {
        self.kernel * self.kernel * self.channels[0]
    }

    pub fn input_bytes(&self) -> usize {
        (self.batch * self.size[0] * self.size[1] * self.channels[0]) as usize
    }

    fn pixels(&self) -> u32 {
        let [oh, ow] = self.output();
        self.batch * oh * ow
    }

    pub fn output_bytes(&self) -> usize {
        (self.pixels() * self.channels[1]) as usize
    }

    fn target(&self) -> Target {
        Target { scale: 1.0, zp: -3, lo: -100, hi: 127 }
    }

    /// Weights `[K][N]`, then the table: per channel a bias and a multiplier.
    pub fn constants(&self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = rng.bytes((self.k() * self.channels[1]) as usize);
        for n in 0..self.channels[1] {
            let bias = rng.below(20_000) as i32 - 10_000;
            bytes.extend(entry(self.mode, 0.000_7 + n as f32 * 0.000_13, bias).0);
        }
        bytes
    }

    /// The output by direct loops.
    pub fn expected(&self, input: &[u8], constants: &[u8]) -> Vec<u8> {
        let [h, w] = self.size.map(i64::from);
        let ([ci, co], [oh, ow]) = (self.channels, self.output());
        let mut out = Vec::new();
        for pixel in 0..self.pixels() {
            let (b, y, x) = (pixel / (oh * ow), pixel % (oh * ow) / ow, pixel % ow);
            for n in 0..co {
                let mut acc = 0;
                for (i, j, c) in itertools(self.kernel, self.kernel, ci) {
                    let at = |o: u32, t: u32| i64::from(o * self.stride + t * self.dilation) - i64::from(self.pad);
                    let (iy, ix) = (at(y, i), at(x, j));
                    if !(0..h).contains(&iy) || !(0..w).contains(&ix) {
                        continue;
                    }
                    let p = ((i64::from(b) * h + iy) * w + ix) as usize * ci as usize + c as usize;
                    let k = ((i * self.kernel + j) * ci + c) * co + n;
                    acc += (value(input[p], self.x.0) - self.x.1) * i32::from(constants[k as usize] as i8);
                }
                let at = (self.k() * co + 12 * n) as usize;
                let bias = i32::from_le_bytes(constants[at..at + 4].try_into().unwrap());
                let multiplier = entry(self.mode, 0.000_7 + n as f32 * 0.000_13, bias).1;
                out.push(requant(self.mode, multiplier, self.target()).apply(acc + bias) as u8);
            }
        }
        out
    }

    fn window(&self) -> Vec<(Reg, u32)> {
        let ([h, w], [oh, ow]) = (self.size, self.output());
        let square = [
            ([Reg::Kh, Reg::Kw], self.kernel),
            ([Reg::Sh, Reg::Sw], self.stride),
            ([Reg::Dh, Reg::Dw], self.dilation),
            ([Reg::Pt, Reg::Pl], self.pad),
        ];
        let mut regs: Vec<(Reg, u32)> = square.into_iter().flat_map(|(regs, v)| regs.map(|r| (r, v))).collect();
        regs.extend([(Reg::Ih, h), (Reg::Iw, w), (Reg::Ic, self.channels[0]), (Reg::Oh, oh), (Reg::Ow, ow)]);
        regs.extend([(Reg::Padv, signed(self.x.1)), (Reg::DtypeA, self.x.0 as u32), (Reg::Za, signed(self.x.1))]);
        regs
    }

    /// The stream with tiles of `mt` pixels and `nt` channels; `direct` stores through the requantizer without REQUANT.
    pub fn stream(&self, config: &NpuConfig, constants: &[u8], [mt, nt]: [u32; 2], direct: bool) -> Stream {
        let mut b = Builder::new(self.input_bytes(), self.output_bytes(), 0, constants.to_vec());
        b.push(Inst::new(Opcode::Subgraph, 0, 0, 0));
        b.set(&self.window()).set(&target_registers(Dtype::S8, self.target()));
        b.set(&[(Reg::RqMode, self.mode.as_u32())]);
        let (k, co) = (self.k(), self.channels[1]);
        let table = Local::w(200_000);
        for n0 in (0..co).step_by(nt as usize) {
            let n = nt.min(co - n0);
            b.set(&[(Reg::Rows, k), (Reg::Rowb, n), (Reg::Dstride, co), (Reg::N, n), (Reg::K, k)]);
            b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, n0), Local::w(0).bits(), 0));
            b.set(&[(Reg::Rows, 1), (Reg::Rowb, 12 * n), (Reg::RqTable, table.bits())]);
            b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, k * co + 12 * n0), table.bits(), 0));
            b.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0));
            for m0 in (0..self.pixels()).step_by(mt as usize) {
                let m = mt.min(self.pixels() - m0);
                b.set(&[(Reg::Rows, m), (Reg::Dstride, 0), (Reg::M, m)]);
                b.push(Inst::new(Opcode::LdIm2col, dram(Region::Input, 0), Local::a(0).bits(), m0));
                b.push(Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0));
                b.set(&[(Reg::Rowb, n), (Reg::Dstride, co)]);
                let out = dram(Region::Output, m0 * co + n0);
                if direct {
                    b.push(Inst::new(Opcode::St2d, Local::acc(0).bits(), out, 0).with(flags::PC));
                    continue;
                }
                let requant = Inst::new(Opcode::Requant, Local::acc(0).bits(), Local::a(200_000).bits(), 0);
                b.push(requant.with(flags::PC));
                b.push(Inst::new(Opcode::St2d, Local::a(200_000).bits(), out, 0));
            }
        }
        b.finish(config)
    }
}

fn itertools(a: u32, b: u32, c: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

pub(super) fn dram(region: Region, offset: u32) -> u32 {
    DramAddr { region, offset }.bits()
}

#[test]
fn convolutions_equal_direct_loops_in_all_modes() {
    let config = NpuConfig::default();
    let mut rng = Rng::new(1);
    for mode in RequantMode::ALL {
        let layers = [
            Conv::small(mode),
            Conv { kernel: 1, stride: 1, pad: 0, x: (Dtype::S8, -7), ..Conv::small(mode) },
            Conv { dilation: 2, stride: 1, pad: 2, batch: 1, ..Conv::small(mode) },
            Conv { size: [1, 1], kernel: 3, pad: 2, ..Conv::small(mode) },
        ];
        for conv in layers {
            let (input, constants) = (rng.bytes(conv.input_bytes()), conv.constants(&mut rng));
            let expected = conv.expected(&input, &constants);
            for (tile, direct) in [([64, 16], false), ([3, 4], false), ([5, 9], true)] {
                let stream = conv.stream(&config, &constants, tile, direct);
                let (out, report) = run(&config, stream, &input).unwrap_or_else(|e| panic!("{conv:?}: {e}"));
                assert_eq!(out, expected, "{conv:?} in tiles of {tile:?}");
                let n = u64::from(conv.pixels()) * u64::from(conv.channels[1]);
                assert_eq!(report.counters.requantized, n);
                assert_eq!(report.counters.macs, n * u64::from(conv.k()));
                let high = expected.iter().filter(|&&y| y as i8 == 127).count() as u64;
                assert!(report.counters.saturated_high <= high, "only clamped outputs count");
            }
        }
    }
}

#[test]
fn sums_split_along_k_accumulate() {
    // K = 10 in parts of 4 and 6, the first overwriting, the second adding; the bias row is loaded into all rows.
    let config = NpuConfig::default();
    let mut rng = Rng::new(2);
    let (m, n, k) = (3, 5, 10);
    let (a, w) = (rng.bytes(m * k), rng.bytes(k * n));
    let bias: Vec<i32> = (0..n as i32).map(|i| i * 1000 - 2500).collect();
    let constants: Vec<u8> = w.iter().copied().chain(bias.iter().flat_map(|b| b.to_le_bytes())).collect();
    let mut b = Builder::new(a.len(), 4 * m * n, 0, constants);
    b.set(&[(Reg::Rows, 1), (Reg::Rowb, (m * k) as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(8).bits(), 0));
    b.set(&[(Reg::Rowb, (k * n) as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(4).bits(), 0));
    b.set(&[(Reg::Rows, m as u32), (Reg::Rowb, 4 * n as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, (k * n) as u32), Local::acc(0).bits(), 0).with(flags::BCAST));
    b.set(&[(Reg::M, m as u32), (Reg::N, n as u32), (Reg::PitchA, k as u32)]);
    for (k0, part) in [(0, 4), (4, 6)] {
        b.set(&[(Reg::K, part)]);
        b.push(Inst::new(Opcode::Preload, Local::w(4 + k0 * n as u32).bits(), 0, 0));
        b.push(Inst::new(Opcode::Gemm, Local::a(8 + k0).bits(), Local::acc_add(0).bits(), 0));
    }
    b.push(Inst::new(Opcode::St2d, Local::acc_full(0).bits(), dram(Region::Output, 0), 0));
    let (out, report) = run(&config, b.finish(&config), &a).unwrap();
    let mut expected = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let sum: i32 = (0..k).map(|t| i32::from(a[i * k + t] as i8) * i32::from(w[t * n + j] as i8)).sum();
            expected.extend((sum + bias[j]).to_le_bytes());
        }
    }
    assert_eq!(out, expected);
    assert_eq!(report.counters.macs, (m * n * k) as u64);
    assert_eq!(report.counters.requantized, 0);
}

#[test]
fn four_bit_weights_are_low_nibble_first() {
    let config = NpuConfig::default();
    // One row [1, 2]; weights [[1, -2, 3], [-8, 7, 0]] in rows of two bytes.
    let constants = vec![0xE1, 0x03, 0x78, 0x00];
    let mut b = Builder::new(2, 12, 0, constants);
    b.set(&[(Reg::Rowb, 2)]).push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
    b.set(&[(Reg::Rowb, 4)]).push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
    b.set(&[(Reg::K, 2), (Reg::N, 3), (Reg::DtypeW, Dtype::S4 as u32), (Reg::Rowb, 12)]);
    b.push(Inst::new(Opcode::Preload, Local::w(0).bits(), 0, 0));
    b.push(Inst::new(Opcode::Gemm, Local::a(0).bits(), Local::acc(0).bits(), 0));
    b.push(Inst::new(Opcode::St2d, Local::acc_full(0).bits(), dram(Region::Output, 0), 0));
    let (out, _) = run(&config, b.finish(&config), &[1, 2]).unwrap();
    let sums: Vec<i32> = out.chunks_exact(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(sums, [1 - 16, -2 + 14, 3]);
}

#[test]
fn depthwise_equals_direct_loops_on_both_units() {
    let config = NpuConfig::default();
    let mut rng = Rng::new(3);
    for (multiplier, stride, pad, queue) in [(1, 1, 1, Queue::Vec), (3, 2, 0, Queue::Ex), (2, 1, 2, Queue::Vec)] {
        let (h, w, channels, kernel) = (6_u32, 5_u32, 4_u32, 3_u32);
        let n = channels * multiplier;
        let [oh, ow] = [h, w].map(|s| (s + 2 * pad - kernel) / stride + 1);
        let input = rng.bytes((h * w * channels) as usize);
        let weights = rng.bytes((kernel * kernel * n) as usize);
        let mut b = Builder::new(input.len(), (4 * oh * ow * n) as usize, 0, weights.clone());
        b.set(&[(Reg::Rowb, input.len() as u32)]);
        b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
        b.set(&[(Reg::Rowb, weights.len() as u32)]);
        b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
        b.set(&[(Reg::Ih, h), (Reg::Iw, w), (Reg::Oh, oh), (Reg::Ow, ow), (Reg::Kh, kernel), (Reg::Kw, kernel)]);
        b.set(&[(Reg::Sh, stride), (Reg::Sw, stride), (Reg::Pt, pad), (Reg::Pl, pad), (Reg::Groups, channels)]);
        b.set(&[(Reg::N, n), (Reg::DtypeA, Dtype::U8 as u32), (Reg::Za, 130), (Reg::Zw, 2)]);
        b.push(Inst::new(Opcode::Dwconv, Local::a(0).bits(), Local::w(0).bits(), Local::acc(0).bits()).on(queue));
        b.set(&[(Reg::Rowb, 4 * oh * ow * n)]);
        b.push(Inst::new(Opcode::St2d, Local::acc_full(0).bits(), dram(Region::Output, 0), 0));
        let (out, _) = run(&config, b.finish(&config), &input).unwrap();
        let mut expected = Vec::new();
        for (y, x, c) in itertools(oh, ow, n) {
            let mut acc = 0_i32;
            for (i, j, _) in itertools(kernel, kernel, 1) {
                let (iy, ix) = (i64::from(y * stride + i) - i64::from(pad), i64::from(x * stride + j) - i64::from(pad));
                if (0..i64::from(h)).contains(&iy) && (0..i64::from(w)).contains(&ix) {
                    let p = (iy * i64::from(w) + ix) as usize * channels as usize + (c / multiplier) as usize;
                    let t = ((i * kernel + j) * n + c) as usize;
                    acc += (i32::from(input[p]) - 130) * (i32::from(weights[t] as i8) - 2);
                }
            }
            expected.extend(acc.to_le_bytes());
        }
        assert_eq!(out, expected, "multiplier {multiplier}, {queue:?}");
    }
}

//! Times of the passes over bytes, at the sizes of image networks: sums, tables, and the sum behind a product, apart and fused.
//!
//! ```text
//! cargo run --release -p ottava-kernels --example bytes [isa]
//! ```
//! Each line is the best of many short slices on one thread, which other load disturbs least.

use ottava_kernels::*;
use std::time::{Duration, Instant};

fn best(what: &str, mut f: impl FnMut() -> Result<()>) -> Result<()> {
    let (begin, mut best) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < Duration::from_millis(1000) {
        let start = Instant::now();
        f()?;
        best = best.min(start.elapsed());
    }
    println!("{what:40} {:9.1} us", best.as_secs_f64() * 1e6);
    Ok(())
}

fn bytes(n: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..n).map(|_| next()).collect()
}

const Q: OtherQ = OtherQ { scale: 0.05, zero_point: 128, signed: false };

fn passes(exec: Exec<'_>) -> Result<()> {
    let (x, other, mut y) = (bytes(150_000), bytes(150_001), vec![0; 150_000]);
    let q = BinaryQ { a: Q, b: Q, lo: f32::NEG_INFINITY, hi: f32::INFINITY, y_scale: 0.07, out: OutQ::u8(100) };
    best("add of 150000", || binary_q(exec, BinaryOp::Add, &q, &x, &other[1..], &mut y))?;
    best("mul of 150000", || binary_q(exec, BinaryOp::Mul, &q, &x, &other[1..], &mut y))?;
    let table = std::array::from_fn(|i| (i * 37 + 5) as u8);
    best("table of 150000", || lut(exec, &x, &table, &mut y))
}

/// A 1 x 1 convolution at the end of a residual block.
fn block(exec: Exec<'_>, side: usize, c: usize, n: usize) -> Result<()> {
    let kernel = [1, 1];
    let shape = ConvShape { in_h: side, in_w: side, in_c: c, out_c: n, kernel, ..ConvShape::gemm(c, n) };
    let w: Vec<i8> = bytes(c * n).iter().map(|b| *b as i8 / 2).collect();
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::KN, zero_points: &[] };
    let plan = |epilogue| ConvU8::new(shape, &spec, 128, None, epilogue);
    let (m, out) = (vec![1e-4], OutQ::u8(120));
    let apart = plan(Epilogue::Requant { m: m.clone(), out })?;
    let fused =
        plan(Epilogue::RequantAdd { m, inner: out, inner_scale: 0.04, other: Q, y_scale: 0.07, out: OutQ::u8(100) })?;
    let (x, other) = (bytes(side * side * c), bytes(side * side * n));
    let (mut own, mut y) = (vec![0; other.len()], vec![0; other.len()]);
    let mut scratch = vec![0; apart.scratch_len()];
    let a = OtherQ { scale: 0.04, zero_point: 120, signed: false };
    let q = BinaryQ { a, b: Q, lo: f32::NEG_INFINITY, hi: f32::INFINITY, y_scale: 0.07, out: OutQ::u8(100) };
    let name = format!("{c}->{n} {side}x{side}");
    best(&format!("{name}, then its sum"), || {
        apart.run(exec, &x, None, OutMut::Bytes(&mut own), &mut scratch)?;
        binary_q(exec, BinaryOp::Add, &q, &own, &other, &mut y)
    })?;
    best(&format!("{name} and its sum"), || fused.run(exec, &x, Some(&other), OutMut::Bytes(&mut y), &mut scratch))
}

fn main() -> Result<()> {
    let pool = ThreadPool::new(1)?;
    let isa = std::env::args().nth(1).map_or(Ok(Isa::detect()), |name| Isa::parse(&name))?;
    let exec = Exec { isa, pool: &pool };
    println!("{}", exec.isa.name());
    passes(exec)?;
    block(exec, 56, 64, 256)?;
    block(exec, 28, 128, 512)?;
    block(exec, 14, 256, 1024)?;
    block(exec, 32, 16, 16)
}

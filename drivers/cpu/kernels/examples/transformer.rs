//! Times of the kernels around the big products of a transformer layer, at the sizes of BERT base with 128 tokens.
//!
//! ```text
//! cargo run --release -p ottava-kernels --example transformer
//! ```
//! Each line is the best of many short slices on one thread, which other load disturbs least.

use ottava_kernels::*;
use std::time::{Duration, Instant};

const SEQ: usize = 128;
const HEADS: usize = 12;
const WIDTH: usize = 64;
const HIDDEN: usize = HEADS * WIDTH;
const WIDE: usize = 4 * HIDDEN;

fn best(what: &str, macs: usize, mut f: impl FnMut()) {
    let (begin, mut best) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < Duration::from_millis(1500) {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed());
    }
    let rate = if macs > 0 { format!("{:7.1} GMAC/s", macs as f64 / best.as_secs_f64() * 1e-9) } else { String::new() };
    println!("{what:40} {:9.1} us {rate}", best.as_secs_f64() * 1e6);
}

fn bytes(n: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..n).map(|_| next()).collect()
}

/// Heads side by side: `[row][head][column]`.
fn heads(row: usize, column: usize) -> Strides {
    Strides { first: (0..HEADS).map(|h| h * WIDTH).collect(), rows: row, columns: column }
}

/// One matrix after another.
fn stack(rows: usize, columns: usize) -> Strides {
    Strides { first: (0..HEADS).map(|h| h * rows * columns).collect(), rows: columns, columns: 1 }
}

fn attention(exec: Exec<'_>) -> Result<()> {
    let out_q = || Epilogue::Requant { m: vec![0.001], out: OutQ::u8(100) };
    let scores = MatMulShape { m: SEQ, k: WIDTH, n: SEQ, a: heads(HIDDEN, 1), b: heads(1, HIDDEN), side: 1 };
    let mixed = MatMulShape { m: SEQ, k: SEQ, n: WIDTH, a: stack(SEQ, SEQ), b: heads(HIDDEN, 1), side: HEADS };
    let (x, p) = (bytes(SEQ * HIDDEN), bytes(HEADS * SEQ * SEQ));
    for (what, shape, a) in [("scores, u8 x u8", scores, &x), ("mix, u8 x u8", mixed, &p)] {
        let n = if shape.side == 1 { HEADS * SEQ * SEQ } else { SEQ * HIDDEN };
        let plan = MatMulU8::new(shape, [120, 130], out_q())?;
        let (mut out, mut scratch) = (vec![0; n], vec![0; plan.scratch_len()]);
        best(what, plan.macs(), || plan.run(exec, a, &x, OutMut::Bytes(&mut out), &mut scratch).expect("fits"));
    }
    Ok(())
}

fn elementwise(exec: Exec<'_>) -> Result<()> {
    let q = OtherQ { scale: 0.05, zero_point: 128, signed: false };
    let out = ChainOut::Bytes(0.04, OutQ::u8(30));
    let (x, mut y) = (bytes(SEQ * WIDE), vec![0; SEQ * WIDE]);
    let bias = |n: usize| ChainOp::Row((0..n).map(|i| i as f32 * 1e-3).collect());
    let ops = [ChainOp::Bytes(0, q), bias(HIDDEN), ChainOp::Binary(BinaryOp::Add, 0, 1)];
    let add = Chain::new(&ops, HIDDEN, out)?;
    let n = SEQ * HIDDEN;
    best("bias of 768, u8 to u8", 0, || {
        add.run(exec, &[ChainInput::Bytes(&x[..n])], OutMut::Bytes(&mut y[..n])).expect("fits");
    });
    let ops = [ChainOp::Bytes(0, q), bias(WIDE), ChainOp::Binary(BinaryOp::Add, 0, 1), ChainOp::Unary(Unary::Gelu, 2)];
    let gelu = Chain::new(&ops, WIDE, out)?;
    best("bias and Gelu of 3072, u8 to u8", 0, || {
        gelu.run(exec, &[ChainInput::Bytes(&x)], OutMut::Bytes(&mut y)).expect("fits");
    });
    let tables: Vec<[u8; 256]> = (0..WIDE).map(|c| core::array::from_fn(|q| (q ^ c) as u8)).collect();
    best("the same by a table per column", 0, || lut_rows(exec, &x, &tables, &mut y).expect("fits"));
    best("one table", 0, || lut(exec, &x, &tables[7], &mut y).expect("fits"));
    Ok(())
}

fn rows(exec: Exec<'_>) {
    let x: Vec<f32> = bytes(HEADS * SEQ * SEQ).iter().map(|b| f32::from(*b) * 0.05 - 6.0).collect();
    let mut y = vec![0.0; x.len()];
    best("softmax of 128", 0, || softmax_f32(exec, SEQ, &|x: f32| x.exp(), &x, &mut y).expect("fits"));
    let n = SEQ * HIDDEN;
    let affine = [Some(&x[..HIDDEN]), Some(&x[n..n + HIDDEN])];
    best("layer norm of 768", 0, || layer_norm_f32(exec, affine, HIDDEN, 1e-5, &x[..n], &mut y[..n]).expect("fits"));
}

fn main() -> Result<()> {
    let pool = ThreadPool::new(1)?;
    let exec = Exec { isa: Isa::detect(), pool: &pool };
    println!("{}", exec.isa.name());
    attention(exec)?;
    elementwise(exec)?;
    rows(exec);
    Ok(())
}

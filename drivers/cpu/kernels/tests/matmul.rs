//! Batched products of two run-time operands against naive sums, for every instruction set and thread count, along all kinds of strides.

mod common;

use common::{BYTE_KINDS, Rng, bytes, for_each_exec};
use ottava_kernels::{Epilogue, KernelError, MatMulShape, MatMulU8, OutMut, OutQ, Strides};

/// Operands `[outer][side][..]` row-major, or with axes exchanged: `(rows, columns)` strides of one matrix and the step to the next.
fn operand(products: usize, rows: usize, columns: usize, kind: usize) -> Strides {
    let (rows_step, columns_step, next) = match kind {
        0 => (columns, 1, rows * columns),
        1 => (1, rows, rows * columns),
        // Heads side by side: [row][product][column].
        2 => (products * columns, 1, columns),
        // [column][product][row].
        3 => (1, products * rows, rows),
        // Nothing contiguous.
        4 => (2 * columns, 2, 2 * rows * columns),
        // One matrix for all.
        _ => (columns, 1, 0),
    };
    Strides { first: (0..products).map(|i| i * next).collect(), rows: rows_step, columns: columns_step }
}

fn shapes() -> Vec<MatMulShape> {
    let extents =
        [[1, 1, 1, 1], [2, 5, 64, 16], [3, 7, 33, 17], [4, 70, 3, 40], [2, 4, 2, 32], [6, 13, 20, 5], [1, 131, 7, 16]];
    let mut shapes = vec![];
    for (i, [products, m, k, n]) in extents.into_iter().enumerate() {
        for kind in 0..6 {
            let (a, b) = (operand(products, m, k, (kind + i) % 6), operand(products, k, n, kind));
            let side = if kind % 2 == 0 { 1 } else { products };
            shapes.push(MatMulShape { m, k, n, a, b, side });
        }
    }
    shapes
}

fn reach(s: &Strides, rows: usize, columns: usize) -> usize {
    s.first.iter().max().unwrap() + (rows - 1) * s.rows + (columns - 1) * s.columns + 1
}

/// `f(sum so far, a index, b index)` over ascending k, per output element.
fn sums<T: Copy + Default>(s: &MatMulShape, f: impl Fn(T, usize, usize) -> T) -> Vec<T> {
    let products = s.a.first.len();
    let mut out = vec![T::default(); products * s.m * s.n];
    for i in 0..products {
        for (row, column) in (0..s.m).flat_map(|r| (0..s.n).map(move |c| (r, c))) {
            let at = |k: usize| {
                (s.a.first[i] + row * s.a.rows + k * s.a.columns, s.b.first[i] + k * s.b.rows + column * s.b.columns)
            };
            let sum = (0..s.k).fold(T::default(), |sum, k| f(sum, at(k).0, at(k).1));
            out[((i / s.side * s.m + row) * s.side + i % s.side) * s.n + column] = sum;
        }
    }
    out
}

#[test]
fn bytes_give_the_exact_sums() {
    let mut rng = Rng(5);
    for (i, s) in shapes().into_iter().enumerate() {
        let zeros = [[0, 0], [255, 255], [128, 3], [7, 200]][i % 4];
        let plan = MatMulU8::new(s.clone(), zeros, Epilogue::Raw).unwrap();
        for kind in 0..BYTE_KINDS {
            let (a, b) = (bytes(kind, reach(&s.a, s.m, s.k), &mut rng), bytes(kind, reach(&s.b, s.k, s.n), &mut rng));
            let centred = |x: u8, zero: u8| i32::from(x) - i32::from(zero);
            let want = sums(&s, |sum: i32, x, w| sum + centred(a[x], zeros[0]) * centred(b[w], zeros[1]));
            for_each_exec(|exec, name| {
                let (mut out, mut scratch) = (vec![i32::MIN; want.len()], vec![0xA5; plan.scratch_len()]);
                plan.run(exec, &a, &b, OutMut::I32(&mut out), &mut scratch).unwrap();
                assert!(out == want, "{name} {s:?} data {kind}: {out:?}, expected {want:?}");
            });
        }
    }
}

#[test]
fn epilogues_follow_the_sum() {
    let mut rng = Rng(6);
    let s = MatMulShape { m: 9, k: 30, n: 20, a: operand(2, 9, 30, 0), b: operand(2, 30, 20, 3), side: 2 };
    let (a, b) = (bytes(3, reach(&s.a, 9, 30), &mut rng), bytes(3, reach(&s.b, 30, 20), &mut rng));
    let acc = sums(&s, |sum: i32, x, w| sum + (i32::from(a[x]) - 100) * (i32::from(b[w]) - 90));
    let m = 0.0007f32;
    let out_q = OutQ { zero_point: 17, lo: 10, hi: 240, signed: false };
    let quantized: Vec<u8> =
        acc.iter().map(|v| ((*v as f32 * m).round_ties_even() as i32 + 17).clamp(10, 240) as u8).collect();
    let floats: Vec<f32> = acc.iter().map(|v| *v as f32 * m).collect();
    let requant = MatMulU8::new(s.clone(), [100, 90], Epilogue::Requant { m: vec![m], out: out_q }).unwrap();
    let lo_hi = (f32::NEG_INFINITY, f32::INFINITY);
    let float = MatMulU8::new(s, [100, 90], Epilogue::Float { xw: vec![m], lo: lo_hi.0, hi: lo_hi.1 }).unwrap();
    for_each_exec(|exec, name| {
        let mut scratch = vec![0; requant.scratch_len()];
        let (mut bytes, mut reals) = (vec![0; acc.len()], vec![0.0; acc.len()]);
        requant.run(exec, &a, &b, OutMut::Bytes(&mut bytes), &mut scratch).unwrap();
        float.run(exec, &a, &b, OutMut::F32(&mut reals), &mut scratch).unwrap();
        assert_eq!((&bytes, &reals), (&quantized, &floats), "{name}");
        assert!(float.run(exec, &a, &b, OutMut::Bytes(&mut bytes), &mut scratch).is_err(), "another type");
    });
}

fn plan_of(shape: MatMulShape) -> Result<MatMulU8, KernelError> {
    MatMulU8::new(shape, [0, 0], Epilogue::Raw)
}

#[test]
fn what_does_not_fit_is_an_error() {
    let shape = |m, k, n| MatMulShape { m, k, n, a: operand(2, m.max(1), k, 0), b: operand(2, k, n, 0), side: 1 };
    assert!(matches!(plan_of(shape(0, 1, 1)), Err(KernelError::Shape { .. })));
    assert!(matches!(plan_of(MatMulShape { side: 3, ..shape(2, 2, 2) }), Err(KernelError::Shape { .. })));
    let long = shape(1, MatMulU8::MAX_K + 1, 1);
    assert!(matches!(plan_of(long), Err(KernelError::Parameter { .. })));
    let far = Strides { rows: usize::MAX, ..operand(2, 2, 2, 0) };
    assert!(matches!(plan_of(MatMulShape { a: far, ..shape(2, 2, 2) }), Err(KernelError::Overflow { .. })));
    let plan = plan_of(shape(2, 2, 2)).unwrap();
    for_each_exec(|exec, _| {
        let (mut out, mut scratch) = (vec![0; 8], vec![0; plan.scratch_len()]);
        let run = |n: usize, out: &mut [i32], scratch: &mut [u8]| {
            plan.run(exec, &[0; 8][..n], &[0; 8], OutMut::I32(out), scratch)
        };
        assert!(run(7, &mut out, &mut scratch).is_err());
        assert!(run(8, &mut out, &mut scratch[1..]).is_err());
        assert!(run(8, &mut out[1..], &mut scratch).is_err());
    });
}

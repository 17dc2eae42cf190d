//! Element-wise operations, tables and reductions.

use super::conv::dram;
use super::{entry, target_registers, value};
use crate::NpuConfig;
use crate::isa::{Dtype, Inst, Local, Opcode, Reg, Region, flags};
use crate::testing::{Builder, Rng, run, signed};
use ottava_hal::refmath::elementwise as qdq;
use ottava_hal::refmath::epilogue::residual;
use ottava_hal::refmath::tflite::{TfliteAdd, tflite_mul, tflite_mul_multiplier};
use ottava_hal::refmath::{Affine, RequantMode, SoftmaxLut, Target, lut};

const ROWS: usize = 8;
const COLUMNS: usize = 37;
const A: Affine = Affine { scale: 0.037, zp: -5 };
const B: Affine = Affine { scale: 0.011, zp: 121 };
const OUT: Target = Target { scale: 0.041, zp: 9, lo: -120, hi: 110 };

/// `a` is s8, `b` is u8, the output s8. Operands lie in `in` one behind the other, the tables in `const`.
fn apply(op: Opcode, bits: u16, mode: u32, operands: &[&[u8]], table: &[u8], c: u32) -> (Vec<u8>, crate::RunReport) {
    let config = NpuConfig::default();
    let input = operands.concat();
    let mut b = Builder::new(input.len(), ROWS * COLUMNS, 0, table.to_vec());
    let (a_at, b_at, out_at) = (Local::a(64), Local::w(2048), Local::a(90_000));
    b.set(&[(Reg::Rowb, operands[0].len() as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), a_at.bits(), 0));
    if let Some(second) = operands.get(1) {
        b.set(&[(Reg::Rowb, second.len() as u32)]);
        b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, operands[0].len() as u32), b_at.bits(), 0));
    }
    if !table.is_empty() {
        b.set(&[(Reg::Rowb, table.len() as u32)]);
        b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
    }
    b.set(&target_registers(Dtype::S8, OUT));
    b.set(&[
        (Reg::Sa, A.scale.to_bits()),
        (Reg::Za, signed(A.zp)),
        (Reg::Sb, B.scale.to_bits()),
        (Reg::Zb, signed(B.zp)),
    ]);
    b.set(&[(Reg::M, ROWS as u32), (Reg::N, COLUMNS as u32), (Reg::DtypeW, Dtype::U8 as u32), (Reg::RqMode, mode)]);
    b.set(&[(Reg::Lut, Local::w(0).bits())]);
    let three = op.info().operands[2] == crate::isa::OperandKind::Local;
    let inst = if three {
        Inst::new(op, a_at.bits(), b_at.bits(), out_at.bits())
    } else {
        Inst::new(op, a_at.bits(), out_at.bits(), c)
    };
    b.push(inst.with(bits));
    b.set(&[(Reg::Rowb, (ROWS * COLUMNS) as u32)]);
    b.push(Inst::new(Opcode::St2d, out_at.bits(), dram(Region::Output, 0), 0));
    run(&config, b.finish(&config), &input).unwrap_or_else(|e| panic!("{op:?}: {e}"))
}

/// Checks an operation against a function of two values.
fn check_pair(op: Opcode, bits: u16, mode: u32, f: impl Fn(i32, i32) -> i32) {
    let mut rng = Rng::new(op as u64 * 1000 + u64::from(bits));
    let a = rng.bytes(ROWS * COLUMNS);
    let (brow, belem) = (bits & flags::BROW != 0, bits & flags::BELEM != 0);
    let b = rng.bytes(if brow { 1 } else { ROWS } * if belem { 1 } else { COLUMNS });
    let (out, report) = apply(op, bits, mode, &[&a, &b], &[], 0);
    for (i, &y) in out.iter().enumerate() {
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        let row = if brow { 0 } else { row };
        let at = if belem { row } else { row * COLUMNS + column };
        let expected = f(value(a[i], Dtype::S8), value(b[at], Dtype::U8));
        assert_eq!(i32::from(y as i8), expected, "{op:?} {bits} at {i}");
    }
    assert_eq!(report.counters.vector_ops, (ROWS * COLUMNS) as u64);
}

#[test]
fn qdq_and_qlinear_forms() {
    check_pair(Opcode::Add, 0, 1, |x, y| qdq::qdq_add(x, A, y, B, OUT));
    check_pair(Opcode::Sub, 0, 1, |x, y| qdq::qdq_sub(x, A, y, B, OUT));
    check_pair(Opcode::Mul, 0, 1, |x, y| qdq::qdq_mul(x, A, y, B, OUT));
    check_pair(Opcode::Add, flags::QLIN, 1, |x, y| qdq::qlinear_add(x, A, y, B, OUT));
    let m = qdq::qlinear_mul_multiplier(A.scale, B.scale, OUT.scale);
    check_pair(Opcode::Mul, flags::QLIN, 1, |x, y| qdq::qlinear_mul(x, A.zp, y, B.zp, m, OUT));
}

#[test]
fn tflite_forms_in_both_modes() {
    for mode in [RequantMode::Q31Double, RequantMode::Q31Single] {
        let add = TfliteAdd::new(mode, TfliteAdd::SHIFT_8, A, B, OUT).unwrap();
        check_pair(Opcode::Add, flags::TFL, mode.as_u32(), |x, y| add.add(x, y));
        check_pair(Opcode::Sub, flags::TFL, mode.as_u32(), |x, y| add.sub(x, y));
        let m = tflite_mul_multiplier(A.scale, B.scale, OUT.scale, mode).unwrap();
        check_pair(Opcode::Mul, flags::TFL, mode.as_u32(), |x, y| tflite_mul([x, y], [A.zp, B.zp], m, mode, OUT));
    }
}

#[test]
fn broadcasts_and_comparisons() {
    for bits in [flags::BROW, flags::BELEM, flags::BROW | flags::BELEM] {
        check_pair(Opcode::Add, bits, 1, |x, y| qdq::qdq_add(x, A, y, B, OUT));
        check_pair(Opcode::Max, bits, 1, |x, y| x.max(y).clamp(OUT.lo, OUT.hi));
    }
    check_pair(Opcode::Min, 0, 1, |x, y| x.min(y).clamp(OUT.lo, OUT.hi));
    check_pair(Opcode::Cmp, flags::LT | flags::EQ, 1, |x, y| i32::from(x <= y));
    check_pair(Opcode::Cmp, flags::GT, 1, |x, y| i32::from(x > y));
}

#[test]
fn additions_count_what_the_clamp_changed() {
    let (a, b) = (vec![127; ROWS * COLUMNS], vec![255; ROWS * COLUMNS]);
    let (out, report) = apply(Opcode::Add, 0, 1, &[&a, &b], &[], 0);
    assert!(out.iter().all(|&y| y == 110));
    assert_eq!((report.counters.saturated_low, report.counters.saturated_high), (0, (ROWS * COLUMNS) as u64));
}

#[test]
fn unary_operations() {
    let mut rng = Rng::new(9);
    let a = rng.bytes(ROWS * COLUMNS);
    let table = rng.bytes(256);
    let (out, report) = apply(Opcode::Lut8, 0, 1, &[&a], &table, 0);
    let expected: Vec<u8> = a.iter().map(|&x| lut::lut8(table.as_slice().try_into().unwrap(), x)).collect();
    assert_eq!(out, expected);
    assert_eq!(report.counters.lut_lookups, a.len() as u64);
    let (out, _) = apply(Opcode::Rescale, 0, 1, &[&a], &[], 0);
    let expected: Vec<u8> = a.iter().map(|&x| qdq::requantize(value(x, Dtype::S8), A, OUT) as u8).collect();
    assert_eq!(out, expected);
    let (out, _) = apply(Opcode::Cast, 0, 1, &[&a], &[], 0);
    let expected: Vec<u8> = a.iter().map(|&x| value(x, Dtype::S8).clamp(OUT.lo, OUT.hi) as u8).collect();
    assert_eq!(out, expected);
}

#[test]
fn residuals_add_reals_to_products() {
    // Accumulators from s32 data, one multiplier per channel, and u8 operands in the parameters B.
    let config = NpuConfig::default();
    let mut rng = Rng::new(6);
    let (rows, n) = (5_usize, 7_usize);
    let sums: Vec<i32> = (0..rows * n).map(|_| rng.below(4000) as i32 - 2000).collect();
    let other = rng.bytes(rows * n);
    let multiplier = |n: usize| 0.001 + n as f32 * 0.000_4;
    let entries = (0..n).flat_map(|n| entry(RequantMode::Fp32Rne, multiplier(n), n as i32 * 50).0);
    let input: Vec<u8> = sums.iter().flat_map(|v| v.to_le_bytes()).chain(other.iter().copied()).collect();
    let mut b = Builder::new(input.len(), rows * n, 0, entries.collect());
    b.set(&[(Reg::Rowb, (4 * rows * n) as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::acc(3).bits(), 0));
    b.set(&[(Reg::Rowb, (rows * n) as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Input, (4 * rows * n) as u32), Local::a(0).bits(), 0));
    b.set(&[(Reg::Rowb, (12 * n) as u32)]);
    b.push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
    b.set(&target_registers(Dtype::S8, OUT)).set(&[(Reg::DtypeW, Dtype::U8 as u32), (Reg::M, rows as u32)]);
    b.set(&[(Reg::N, n as u32), (Reg::Sb, B.scale.to_bits()), (Reg::Zb, signed(B.zp)), (Reg::RqTable, 1 << 28)]);
    let inst = Inst::new(Opcode::Residual, Local::acc(3).bits(), Local::a(0).bits(), Local::a(500).bits());
    b.push(inst.with(flags::PC));
    b.set(&[(Reg::Rowb, (rows * n) as u32)]);
    b.push(Inst::new(Opcode::St2d, Local::a(500).bits(), dram(Region::Output, 0), 0));
    let (out, report) = run(&config, b.finish(&config), &input).unwrap();
    let real = |i: usize| (sums[i] + (i % n) as i32 * 50, multiplier(i % n));
    let expected = (0..rows * n).map(|i| residual(real(i).0, real(i).1, other[i].into(), B, |t| t, OUT) as u8);
    assert_eq!(out, expected.collect::<Vec<_>>());
    assert_eq!(report.counters.requantized, (rows * n) as u64);
}

#[test]
fn softmax_rows() {
    let target = Target { scale: 1.0 / 256.0, zp: -128, lo: -128, hi: 127 };
    let soft = SoftmaxLut::new(0.1, target).unwrap();
    let table: Vec<u8> = soft.table.iter().flat_map(|e| e.to_le_bytes()).collect();
    let config = NpuConfig::default();
    let x = Rng::new(4).bytes(3 * 10);
    let mut b = Builder::new(30, 30, 0, table);
    b.set(&[(Reg::Rowb, 30)]).push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
    b.set(&[(Reg::Rowb, 1024)]).push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(16).bits(), 0));
    b.set(&target_registers(Dtype::S8, target)).set(&[(Reg::M, 3), (Reg::N, 10), (Reg::Lut, Local::w(16).bits())]);
    b.push(Inst::new(Opcode::Softmax, Local::a(0).bits(), Local::a(64).bits(), 0));
    b.set(&[(Reg::Rowb, 30)]).push(Inst::new(Opcode::St2d, Local::a(64).bits(), dram(Region::Output, 0), 0));
    let (out, _) = run(&config, b.finish(&config), &x).unwrap();
    for (x, y) in x.chunks_exact(10).zip(out.chunks_exact(10)) {
        let x: Vec<i8> = x.iter().map(|&b| b as i8).collect();
        let mut expected = [0_i8; 10];
        soft.row(&x, None, &mut expected).unwrap();
        assert_eq!(y.iter().map(|&b| b as i8).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn wide_tables_interpolate_and_transposes_move_whole_elements() {
    let config = NpuConfig::default();
    let mut rng = Rng::new(12);
    let mut table = [0_i16; lut::LUT16_LEN];
    table.iter_mut().for_each(|e| *e = rng.next() as i16);
    let values: Vec<i16> = (0..12).map(|_| rng.next() as i16).collect();
    let bytes = |v: &[i16]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let mut b = Builder::new(24, 24, 0, bytes(&table));
    b.set(&[(Reg::Rowb, 24)]).push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
    b.set(&[(Reg::Rowb, 1026)]).push(Inst::new(Opcode::Ld2d, dram(Region::Const, 0), Local::w(0).bits(), 0));
    b.set(&[(Reg::M, 3), (Reg::N, 4), (Reg::DtypeA, Dtype::S16 as u32), (Reg::Lut, Local::w(0).bits())]);
    b.push(Inst::new(Opcode::Lut16, Local::a(0).bits(), Local::a(100).bits(), 0));
    b.push(Inst::new(Opcode::Xpose, Local::a(100).bits(), Local::a(200).bits(), 0));
    b.set(&[(Reg::Rowb, 24)]).push(Inst::new(Opcode::St2d, Local::a(200).bits(), dram(Region::Output, 0), 0));
    let (out, report) = run(&config, b.finish(&config), &bytes(&values)).unwrap();
    let expected: Vec<i16> = (0..12).map(|i| lut::lut16(&table, values[i % 3 * 4 + i / 3])).collect();
    assert_eq!(out, bytes(&expected));
    assert_eq!(report.counters.lut_lookups, 12);
}

#[test]
fn reductions_and_shifts() {
    let config = NpuConfig::default();
    let x = Rng::new(5).bytes(6 * 7);
    let mut b = Builder::new(42, 28 + 7, 0, vec![]);
    b.set(&[(Reg::Rowb, 42)]).push(Inst::new(Opcode::Ld2d, dram(Region::Input, 0), Local::a(0).bits(), 0));
    b.set(&[(Reg::M, 6), (Reg::N, 7), (Reg::Za, 3)]);
    b.push(Inst::new(Opcode::Redsum, Local::a(0).bits(), Local::acc(5).bits(), 0));
    b.push(Inst::new(Opcode::Redsum, Local::a(0).bits(), Local::acc(5).bits(), 0).with(flags::ACC));
    b.push(Inst::new(Opcode::Redmax, Local::a(0).bits(), Local::a(50).bits(), 0));
    b.set(&[(Reg::M, 1)]).push(Inst::new(Opcode::Shift, Local::acc(5).bits(), Local::acc(5).bits(), 2));
    b.set(&[(Reg::Rowb, 28)]).push(Inst::new(Opcode::St2d, Local::acc_full(5).bits(), dram(Region::Output, 0), 0));
    b.set(&[(Reg::Rowb, 7)]).push(Inst::new(Opcode::St2d, Local::a(50).bits(), dram(Region::Output, 28), 0));
    let (out, _) = run(&config, b.finish(&config), &x).unwrap();
    for n in 0..7 {
        let column = (0..6).map(|m| i32::from(x[m * 7 + n] as i8));
        let sum: i32 = column.clone().map(|v| 2 * (v - 3)).sum();
        // Half away from zero, in integers.
        let expected = (sum.abs() + 2) / 4 * sum.signum();
        assert_eq!(i32::from_le_bytes(out[4 * n..4 * n + 4].try_into().unwrap()), expected);
        assert_eq!(i32::from(out[28 + n] as i8), column.max().unwrap());
    }
}

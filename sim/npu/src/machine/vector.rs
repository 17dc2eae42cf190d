//! Element-wise operations, tables and reductions of the vector unit.
//!
//! Each instruction reads its operands completely before it writes, so an output may lie on an operand.

use super::Exec;
use super::memory::{put, value};
use super::requant::Table;
use crate::error::Fault;
use crate::isa::{Dtype, Opcode, flags};
use crate::program::{Binary, Operand, Requantize, Tile, Unary};
use ottava_hal::refmath::tflite::{TfliteAdd, tflite_mul, tflite_mul_multiplier};
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::refmath::{RefmathError, SoftmaxLut, Target, elementwise, epilogue, lut, round, softmax};

type Result<T> = std::result::Result<T, Fault>;

/// A binary operation on two values.
type Pair = Box<dyn Fn(i32, i32) -> i32>;

impl Exec<'_, '_> {
    pub(super) fn requant(&mut self, from: &Tile, to: &Tile, settings: &Requantize) -> Result<()> {
        let table = Table::read(&self.chip, settings, from.len as usize / settings.sums.accumulators() as usize)?;
        for i in 0..from.rows {
            let acc = self.chip.acc_row(from, i).to_vec();
            table.row(&acc, self.chip.row_mut(to, i), &mut self.dynamic);
        }
        Ok(())
    }

    pub(super) fn residual(
        &mut self,
        from: &Tile,
        (other, operand): &(Tile, Operand),
        to: &Tile,
        settings: &Requantize,
    ) -> Result<()> {
        let table = Table::read(&self.chip, settings, from.len as usize / settings.sums.accumulators() as usize)?;
        let (dtype, target) = (settings.output.dtype, settings.output.target);
        let open = Target { lo: i32::MIN, hi: i32::MAX, ..target };
        let x = self.chip.values(other, operand.dtype);
        let n = from.len as usize / settings.sums.accumulators() as usize;
        for (i, x) in (0..to.rows).zip(x.chunks_exact(n)) {
            let sums = table.sums(self.chip.acc_row(from, i));
            let out = self.chip.row_mut(to, i);
            for (n, (acc, &x)) in sums.into_iter().zip(x).enumerate() {
                let (_, m) = table.real(n);
                // The same f32 whether the sum has 32 or 64 bits: both round once.
                let other = operand.affine.dequantize(x);
                let sum = |to: Target| to.quantize(epilogue::acc_i64_to_f32(acc, m) + other);
                let y = sum(target);
                if y == target.lo || y == target.hi {
                    let wide = sum(open);
                    self.dynamic.saturated_low += u64::from(wide < y);
                    self.dynamic.saturated_high += u64::from(wide > y);
                }
                put(out, n, y, dtype);
            }
        }
        Ok(())
    }

    pub(super) fn binary(&mut self, b: &Binary) -> Result<()> {
        let constants = |e: RefmathError| Fault::Constants(e.to_string());
        let (target, dtype) = (b.output.target, b.output.dtype);
        let f = pair(b, target).map_err(constants)?;
        // The same function under the widest clamp tells which outputs the clamp changed.
        let open = pair(b, Target { lo: i32::MIN, hi: i32::MAX, ..target }).map_err(constants)?;
        let (x, y) = (self.chip.values(&b.a.0, b.a.1.dtype), self.chip.values(&b.b.0, b.b.1.dtype));
        let (n, width) =
            (b.out.len as usize / dtype.bytes() as usize, b.b.0.len as usize / b.b.1.dtype.bytes() as usize);
        for i in 0..b.out.rows {
            let start = i as usize * n;
            let row = if b.flags & flags::BROW != 0 { 0 } else { i as usize * width };
            let out = self.chip.row_mut(&b.out, i);
            for j in 0..n {
                let k = if b.flags & flags::BELEM != 0 { row } else { row + j };
                let v = f(x[start + j], y[k]);
                if v == target.lo || v == target.hi {
                    let wide = open(x[start + j], y[k]);
                    self.dynamic.saturated_low += u64::from(wide < v);
                    self.dynamic.saturated_high += u64::from(wide > v);
                }
                put(out, j, v, dtype);
            }
        }
        Ok(())
    }

    pub(super) fn unary(&mut self, op: &Unary, from: &Tile, to: &Tile) -> Result<()> {
        match op {
            Unary::Lut8 { table } => {
                let bytes = self.chip.gather(table);
                let table: &[u8; 256] = bytes.as_slice().try_into().map_err(|_| short_table())?;
                self.map(from, to, |byte| lut::lut8(table, byte));
            }
            Unary::Lut16 { table } => self.lut16(table, from, to)?,
            Unary::Cast { input, output } => {
                let target = output.target;
                self.convert((from, input.dtype), (to, output.dtype), |v| v.max(target.lo).min(target.hi));
            }
            Unary::Rescale { input, output } => {
                let rescale = |v| elementwise::requantize(v, input.affine, output.target);
                self.convert((from, input.dtype), (to, output.dtype), rescale);
            }
            Unary::TfliteRescale { fixed, input, output } => {
                self.convert((from, input.dtype), (to, output.dtype), |v| fixed.apply(v));
            }
            Unary::TfliteSoftmax { input, target } => self.tflite_softmax(input, target, from, to)?,
            Unary::Softmax { table, input, target } => self.softmax(table, input, target, from, to)?,
        }
        Ok(())
    }

    /// Element by element; bytes go through a table.
    fn convert(&mut self, (from, x): (&Tile, Dtype), (to, y): (&Tile, Dtype), f: impl Fn(i32) -> i32) {
        if x.bytes() == 1 && y.bytes() == 1 {
            return self.map(from, to, |byte| f(value(byte, x)) as u8);
        }
        let values = self.chip.values(from, x);
        for (i, row) in (0..to.rows).zip(values.chunks_exact((from.len as usize) / x.bytes() as usize)) {
            let out = self.chip.row_mut(to, i);
            row.iter().enumerate().for_each(|(j, &v)| put(out, j, f(v), y));
        }
    }

    /// Byte by byte.
    fn map(&mut self, from: &Tile, to: &Tile, f: impl Fn(u8) -> u8) {
        let table: [u8; 256] = std::array::from_fn(|b| f(b as u8));
        let bytes = self.chip.gather(from);
        for (i, row) in (0..to.rows).zip(bytes.chunks_exact(from.len as usize)) {
            let out = self.chip.row_mut(to, i);
            out.iter_mut().zip(row).for_each(|(out, &b)| *out = table[usize::from(b)]);
        }
    }

    fn lut16(&mut self, table: &Tile, from: &Tile, to: &Tile) -> Result<()> {
        let entries: Vec<i16> = self.chip.gather(table).as_chunks().0.iter().map(|b| i16::from_le_bytes(*b)).collect();
        let entries: &[i16; lut::LUT16_LEN] = entries.as_slice().try_into().map_err(|_| short_table())?;
        let bytes = self.chip.gather(from);
        for (i, row) in (0..to.rows).zip(bytes.chunks_exact(from.len as usize)) {
            let values = row.as_chunks().0.iter().map(|b| lut::lut16(entries, i16::from_le_bytes(*b)));
            let out = self.chip.row_mut(to, i);
            out.iter_mut().zip(values.flat_map(i16::to_le_bytes)).for_each(|(out, b)| *out = b);
        }
        Ok(())
    }

    fn softmax(&mut self, table: &Tile, input: &Operand, target: &Target, from: &Tile, to: &Tile) -> Result<()> {
        let words: Vec<u32> = self.chip.gather(table).as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        // Entries up to 2^23 and a first one of 2^23 keep the sums and quotients of a row inside u64.
        if words.first() != Some(&(1 << 23)) || words.iter().any(|&e| e > 1 << 23) {
            let found = words.iter().max().map_or(0, |&e| e.into());
            return Err(Fault::Value { what: "the exponential table", found, expected: "at most 2^23, first 2^23" });
        }
        let constants = |e: RefmathError| Fault::Constants(e.to_string());
        let soft = SoftmaxLut {
            table: words.as_slice().try_into().map_err(|_| short_table())?,
            multiplier: softmax::softmax_multiplier(target.scale).map_err(constants)?,
            zy: target.zp,
            lo: target.lo,
            hi: target.hi,
        };
        let x = self.chip.values(from, input.dtype);
        let mut y = vec![0_i16; from.len as usize];
        for (i, row) in (0..to.rows).zip(x.chunks_exact(from.len as usize)) {
            let row: Vec<i16> = row.iter().map(|&v| v as i16).collect();
            soft.row(&row, None, &mut y).map_err(constants)?;
            self.chip.row_mut(to, i).iter_mut().zip(&y).for_each(|(out, &v)| *out = v as u8);
        }
        Ok(())
    }

    fn tflite_softmax(&mut self, input: &Operand, target: &Target, from: &Tile, to: &Tile) -> Result<()> {
        let constants = |e: RefmathError| Fault::Constants(e.to_string());
        let soft = TfliteSoftmax::new(input.affine.scale, 1.0, (target.lo, target.hi)).map_err(constants)?;
        let x = self.chip.values(from, input.dtype);
        let mut y = vec![0_i16; from.len as usize];
        for (i, row) in (0..to.rows).zip(x.chunks_exact(from.len as usize)) {
            let row: Vec<i16> = row.iter().map(|&v| v as i16).collect();
            soft.row(&row, &mut y).map_err(constants)?;
            self.chip.row_mut(to, i).iter_mut().zip(&y).for_each(|(out, &v)| *out = v as u8);
        }
        Ok(())
    }

    pub(super) fn shift(&mut self, from: &Tile, to: &Tile, amount: u32) {
        let values: Vec<i32> = (0..from.rows).flat_map(|i| self.chip.acc_row(from, i).to_vec()).collect();
        for (i, row) in (0..to.rows).zip(values.chunks_exact(from.len as usize)) {
            let out = self.chip.acc_row_mut(to, i);
            out.iter_mut().zip(row).for_each(|(out, &v)| *out = round::rdp(v, amount));
        }
    }

    pub(super) fn redsum(&mut self, from: &Tile, input: &Operand, to: &Tile, accumulate: bool) {
        let x = self.chip.values(from, input.dtype);
        let out = self.chip.acc_row_mut(to, 0);
        if !accumulate {
            out.fill(0);
        }
        for row in x.chunks_exact(from.len as usize) {
            out.iter_mut().zip(row).for_each(|(out, &v)| *out = out.wrapping_add(v - input.affine.zp));
        }
    }

    pub(super) fn redmax(&mut self, from: &Tile, input: &Operand, to: &Tile) {
        let x = self.chip.values(from, input.dtype);
        let mut best = vec![i32::MIN; from.len as usize];
        for row in x.chunks_exact(from.len as usize) {
            best.iter_mut().zip(row).for_each(|(best, &v)| *best = v.max(*best));
        }
        self.chip.row_mut(to, 0).iter_mut().zip(best).for_each(|(out, v)| *out = v as u8);
    }

    pub(super) fn xpose(&mut self, from: &Tile, to: &Tile, element: u32) {
        let (bytes, e) = (self.chip.gather(from), element as usize);
        let (rows, pitch) = (from.rows as usize, from.len as usize);
        for n in 0..to.rows {
            let out = self.chip.row_mut(to, n);
            for (m, out) in (0..rows).zip(out.chunks_exact_mut(e)) {
                let at = m * pitch + n as usize * e;
                out.copy_from_slice(&bytes[at..at + e]);
            }
        }
    }
}

fn short_table() -> Fault {
    Fault::Constants("the table at LUT is cut short".to_owned())
}

/// The function of a binary operation, its constants computed once.
fn pair(b: &Binary, out: Target) -> std::result::Result<Pair, RefmathError> {
    let (pa, pb) = (b.a.1.affine, b.b.1.affine);
    let clamp = move |v: i32| v.max(out.lo).min(out.hi);
    let before_round = b.flags & flags::QLIN != 0;
    let has = |bit: u16| b.flags & bit != 0;
    let (equal, less, greater) = (has(flags::EQ), has(flags::LT), has(flags::GT));
    Ok(match b.op {
        Opcode::Add | Opcode::Sub | Opcode::Mul if has(flags::TFL) => return tflite(b, out),
        Opcode::Add if before_round => Box::new(move |x, y| elementwise::qlinear_add(x, pa, y, pb, out)),
        Opcode::Add => Box::new(move |x, y| elementwise::qdq_add(x, pa, y, pb, out)),
        Opcode::Sub => Box::new(move |x, y| elementwise::qdq_sub(x, pa, y, pb, out)),
        Opcode::Mul if before_round => {
            let m = elementwise::qlinear_mul_multiplier(pa.scale, pb.scale, out.scale);
            Box::new(move |x, y| elementwise::qlinear_mul(x, pa.zp, y, pb.zp, m, out))
        }
        Opcode::Mul => Box::new(move |x, y| elementwise::qdq_mul(x, pa, y, pb, out)),
        Opcode::Min => Box::new(move |x, y| clamp(x.min(y))),
        Opcode::Max => Box::new(move |x, y| clamp(x.max(y))),
        _ => Box::new(move |x, y| i32::from((equal && x == y) || (less && x < y) || (greater && x > y))),
    })
}

fn tflite(b: &Binary, out: Target) -> std::result::Result<Pair, RefmathError> {
    let (pa, pb, mode) = (b.a.1.affine, b.b.1.affine, b.mode);
    if b.op == Opcode::Mul {
        let multiplier = tflite_mul_multiplier(pa.scale, pb.scale, out.scale, mode)?;
        return Ok(Box::new(move |x, y| tflite_mul([x, y], [pa.zp, pb.zp], multiplier, mode, out)));
    }
    let add = TfliteAdd::new(mode, b.shift(), pa, pb, out)?;
    if b.op == Opcode::Sub {
        return Ok(Box::new(move |x, y| add.sub(x, y)));
    }
    Ok(Box::new(move |x, y| add.add(x, y)))
}

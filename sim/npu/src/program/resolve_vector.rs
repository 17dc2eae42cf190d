//! Instructions of the vector unit to work.

use super::resolve::{Cx, accumulates, product};
use super::resolve_params::ELEMENTS;
use super::{Binary, Pool, Requantize, Tile, Unary, Work};
use crate::error::Fault;
use crate::isa::{Dtype, Inst, Opcode, Reg, Space, flags};
use ottava_hal::refmath::tflite::{TfliteAdd, TfliteRequant, tflite_mul_multiplier};
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::refmath::{RequantMode, Target};

type Result<T> = std::result::Result<T, Fault>;

/// Bytes of the tables.
const LUT8_BYTES: u64 = 256;
const LUT16_BYTES: u64 = 2 * 513;
const SOFTMAX_BYTES: u64 = 4 * 256;

impl Cx<'_> {
    /// The work of an instruction of the groups 28, 30-3F, 40 and 41.
    pub(super) fn vector(&self, inst: &Inst) -> Result<Work> {
        let (m, n) = (u64::from(self.reg(Reg::M)), u64::from(self.reg(Reg::N)));
        match inst.op {
            Opcode::Requant => {
                let requant = self.requantize(n, inst.flags)?;
                Ok(Work::Requant {
                    from: self.sums(inst, (m, n), &requant)?,
                    to: self.elements("the output", inst.b, (m, n), requant.output.dtype, Reg::PitchO)?,
                    requant,
                })
            }
            Opcode::Residual => self.residual(inst, m, n),
            Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Min | Opcode::Max | Opcode::Cmp => {
                self.binary(inst, m, n)
            }
            Opcode::Shift => {
                if inst.c > 31 {
                    return Err(Fault::Value { what: "the shift", found: inst.c.into(), expected: "0 to 31" });
                }
                let from = self.acc("the accumulators", inst.a, m, n, Reg::PitchA)?;
                let to = self.acc("the output", inst.b, m, n, Reg::PitchO)?;
                Ok(Work::Shift { from, to, amount: inst.c })
            }
            Opcode::Redsum | Opcode::Redmax => self.reduce(inst, m, n),
            Opcode::Pool => self.pool(inst),
            Opcode::Xpose => self.transpose(inst, m, n),
            _ => self.unary(inst, m, n),
        }
    }

    /// The multiplier of RESIDUAL is the f32 one of a real value; the other modes have none.
    fn residual(&self, inst: &Inst, m: u64, n: u64) -> Result<Work> {
        let requant = self.requantize(n, inst.flags)?;
        if requant.mode != RequantMode::Fp32Rne {
            let found = requant.mode.as_u32().into();
            return Err(Fault::Value { what: "RQ_MODE", found, expected: "1 (fp32_rne) for RESIDUAL" });
        }
        if requant.output.dtype == Dtype::F32 {
            let (what, found) = ("the output of RESIDUAL", Dtype::F32.name());
            return Err(Fault::Type { what, found, expected: "s8, u8 or s16" });
        }
        let operand = self.element(Reg::DtypeW, Reg::Sb, Reg::Zb)?;
        let other = self.elements("the second operand", inst.b, (m, n), operand.dtype, Reg::PitchW)?;
        Ok(Work::Residual {
            from: self.sums(inst, (m, n), &requant)?,
            other: (other, operand),
            to: self.elements("the output", inst.c, (m, n), requant.output.dtype, Reg::PitchO)?,
            requant,
        })
    }

    /// The accumulators that hold sums.
    fn sums(&self, inst: &Inst, (m, n): (u64, u64), requant: &Requantize) -> Result<Tile> {
        self.acc("the accumulators", inst.a, m, product(&[n, requant.sums.accumulators()]), Reg::PitchA)
    }

    /// Elements of a type in a scratchpad.
    fn elements(&self, what: &'static str, at: u32, (m, n): (u64, u64), dtype: Dtype, pitch: Reg) -> Result<Tile> {
        self.bytes(what, at, m, product(&[n, dtype.bytes()]), pitch)
    }

    fn binary(&self, inst: &Inst, m: u64, n: u64) -> Result<Work> {
        let rows = if inst.flags & flags::BROW != 0 { 1 } else { m };
        let len = if inst.flags & flags::BELEM != 0 { 1 } else { n };
        let tflite = inst.flags & flags::TFL != 0;
        let mode = if tflite { self.fixed_mode("2 or 3 with TFL")? } else { RequantMode::Fp32Rne };
        if tflite && inst.flags & flags::QLIN != 0 {
            return Err(Fault::Value {
                what: "the flags",
                found: inst.flags.into(),
                expected: "TFL or QLIN, not both",
            });
        }
        let (a, b) = (self.element(Reg::DtypeA, Reg::Sa, Reg::Za)?, self.element(Reg::DtypeW, Reg::Sb, Reg::Zb)?);
        let output = self.output(&ELEMENTS)?;
        let binary = Binary {
            op: inst.op,
            flags: inst.flags,
            mode,
            a: (self.elements("the first operand", inst.a, (m, n), a.dtype, Reg::PitchA)?, a),
            b: (self.elements("the second operand", inst.b, (rows, len), b.dtype, Reg::PitchW)?, b),
            out: self.elements("the output", inst.c, (m, n), output.dtype, Reg::PitchO)?,
            output,
        };
        if tflite {
            // The constants are computed when the operation runs; here it shows whether they exist.
            let (shift, a, b, target) = (binary.shift(), a.affine, b.affine, output.target);
            let sum = TfliteAdd::new(mode, shift, a, b, target).map(drop);
            let product = tflite_mul_multiplier(a.scale, b.scale, target.scale, mode).map(drop);
            let checked = if inst.op == Opcode::Mul { product } else { sum };
            checked.map_err(|e| Fault::Constants(e.to_string()))?;
        }
        Ok(Work::Binary(binary))
    }

    /// RQ_MODE, which must be one of the Q31 modes.
    fn fixed_mode(&self, expected: &'static str) -> Result<RequantMode> {
        let mode = self.mode()?;
        if mode != RequantMode::Fp32Rne {
            return Ok(mode);
        }
        Err(Fault::Value { what: "RQ_MODE", found: mode.as_u32().into(), expected })
    }

    fn unary(&self, inst: &Inst, m: u64, n: u64) -> Result<Work> {
        if matches!(inst.op, Opcode::Cast | Opcode::Rescale) {
            return self.convert(inst, (m, n));
        }
        let size = if inst.op == Opcode::Lut16 { 2 } else { 1 };
        let from = self.bytes("the operand", inst.a, m, product(&[n, size]), Reg::PitchA)?;
        let to = self.bytes("the output", inst.b, m, product(&[n, size]), Reg::PitchO)?;
        let operand = || self.operand(Reg::DtypeA, Reg::Sa, Reg::Za);
        let op = match inst.op {
            Opcode::Lut8 => Unary::Lut8 { table: self.table(LUT8_BYTES)? },
            Opcode::Lut16 => {
                self.dtype(Reg::DtypeA, "the operand", &[Dtype::S16])?;
                Unary::Lut16 { table: self.table(LUT16_BYTES)? }
            }
            _ if inst.flags & flags::TFL != 0 => self.tflite_softmax()?,
            _ => {
                Unary::Softmax { table: self.table(SOFTMAX_BYTES)?, input: operand()?, target: self.softmax_target()? }
            }
        };
        Ok(Work::Unary { op, from, to })
    }

    /// TFLite's Softmax, whose output is 1/256 from the least value on.
    fn tflite_softmax(&self) -> Result<Unary> {
        let (input, target) = (self.operand(Reg::DtypeA, Reg::Sa, Reg::Za)?, self.target()?);
        if !TfliteSoftmax::fits(target) {
            return Err(Fault::Constants("SO and ZO of SOFTMAX.TFL are not those of TFLite".to_owned()));
        }
        let constants = TfliteSoftmax::new(input.affine.scale, 1.0, (target.lo, target.hi));
        constants.map_err(|e| Fault::Constants(e.to_string()))?;
        Ok(Unary::TfliteSoftmax { input, target })
    }

    /// CAST and RESCALE, between any two types of elements.
    fn convert(&self, inst: &Inst, size: (u64, u64)) -> Result<Work> {
        let (input, output) = (self.element(Reg::DtypeA, Reg::Sa, Reg::Za)?, self.output(&ELEMENTS)?);
        let from = self.elements("the operand", inst.a, size, input.dtype, Reg::PitchA)?;
        let to = self.elements("the output", inst.b, size, output.dtype, Reg::PitchO)?;
        let op = match inst.op {
            Opcode::Cast => Unary::Cast { input, output },
            _ if inst.flags & flags::TFL != 0 => {
                let mode = self.fixed_mode("2 or 3 with TFL")?;
                let constants = TfliteRequant::new(mode, input.affine, output.target);
                Unary::TfliteRescale { fixed: constants.map_err(|e| Fault::Constants(e.to_string()))?, input, output }
            }
            _ => Unary::Rescale { input, output },
        };
        Ok(Work::Unary { op, from, to })
    }

    fn softmax_target(&self) -> Result<Target> {
        let target = self.target()?;
        let multiplier = ottava_hal::refmath::softmax::softmax_multiplier(target.scale);
        multiplier.map(|_| target).map_err(|e| Fault::Constants(e.to_string()))
    }

    fn table(&self, bytes: u64) -> Result<Tile> {
        let table = self.tile_at("the table at LUT", self.reg(Reg::Lut), 1, bytes, 0)?;
        if table.space == Space::Acc {
            return Err(Fault::Place { what: "the table at LUT", expected: "a scratchpad (A or W)" });
        }
        Ok(table)
    }

    fn reduce(&self, inst: &Inst, m: u64, n: u64) -> Result<Work> {
        let from = self.bytes("the operand", inst.a, m, n, Reg::PitchA)?;
        let input = self.operand(Reg::DtypeA, Reg::Sa, Reg::Za)?;
        if inst.op == Opcode::Redmax {
            return Ok(Work::Redmax { from, input, to: self.bytes("the output", inst.b, 1, n, Reg::PitchO)? });
        }
        let to = self.acc("the accumulators", inst.b, 1, n, Reg::PitchO)?;
        Ok(Work::Redsum { from, input, to, accumulate: accumulates(inst.flags, inst.b) })
    }

    fn pool(&self, inst: &Inst) -> Result<Work> {
        let window = self.window()?;
        let channels = u64::from(self.reg(Reg::Ic));
        let pixels = product(&[window.ih.into(), window.iw.into()]);
        if inst.flags & flags::AVG == 0 && inst.flags != 0 {
            return Err(Fault::Value { what: "POOL's flags", found: inst.flags.into(), expected: "PAD, RAW with AVG" });
        }
        Ok(Work::Pool(Pool {
            image: self.bytes("the image", inst.a, pixels, channels, Reg::PitchA)?,
            input: self.operand(Reg::DtypeA, Reg::Sa, Reg::Za)?,
            window,
            flags: inst.flags,
            mode: if inst.flags & flags::AVG != 0 { self.mode()? } else { RequantMode::Fp32Rne },
            to: self.bytes("the output", inst.b, window.pixels_out(), channels, Reg::PitchO)?,
            target: self.target()?,
        }))
    }

    fn transpose(&self, inst: &Inst, m: u64, n: u64) -> Result<Work> {
        let dtype = self.dtype(Reg::DtypeA, "the operand", &[Dtype::S8, Dtype::U8, Dtype::S16, Dtype::F32])?;
        let element = dtype.bytes();
        let from = self.bytes("the operand", inst.a, m, product(&[n, element]), Reg::PitchA)?;
        let to = self.bytes("the output", inst.b, n, product(&[m, element]), Reg::PitchO)?;
        Ok(Work::Xpose { from, to, element: element as u32 })
    }
}

//! Elements that move, on their way converted one by one or not: copies, concatenation, requantization, tables.

use super::walk::Stream;
use super::{At, Chip, Loc, Params, Room, Tiles, fits_u32, further, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::{RequantMode, Result};
use ottava_npu::isa::{Local, Opcode, Reg, flags};

/// What happens to an element.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Convert {
    /// Brought to other parameters; `to` holds the clamp.
    Rescale { from: Params, to: Params },
    /// The same in a Q31 mode.
    Fixed { from: Params, to: Params, mode: RequantMode },
    /// Looked up; the table of all pieces is given to [`Pieces::new`].
    Lut,
}

impl Convert {
    /// Bytes of an element before and behind.
    fn sizes(&self) -> [usize; 2] {
        match self {
            Self::Rescale { from, to } | Self::Fixed { from, to, .. } => [from.bytes(), to.bytes()],
            Self::Lut => [1, 1],
        }
    }
}

/// Rows of elements that move; of bytes where nothing is converted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub from: Loc,
    pub to: Loc,
    pub rows: usize,
    /// Elements of a row.
    pub bytes: usize,
    /// Elements from row to row.
    pub from_pitch: usize,
    pub to_pitch: usize,
    pub convert: Option<Convert>,
}

impl Piece {
    /// Consecutive bytes.
    pub(crate) fn copy(from: Loc, to: Loc, bytes: usize) -> Self {
        Self { from, to, rows: 1, bytes, from_pitch: bytes, to_pitch: bytes, convert: None }
    }

    /// Bytes of an element before and behind.
    fn sizes(&self) -> [usize; 2] {
        self.convert.map_or([1, 1], |c| c.sizes())
    }

    /// Consecutive elements, converted.
    pub(crate) fn converted(from: Loc, to: Loc, bytes: usize, convert: Convert) -> Self {
        Self { convert: Some(convert), ..Self::copy(from, to, bytes) }
    }

    /// Rows that follow one another on both sides are one.
    fn joined(self) -> Self {
        let dense = self.from_pitch == self.bytes && self.to_pitch == self.bytes;
        if dense {
            Self { convert: self.convert, ..Self::copy(self.from, self.to, self.rows * self.bytes) }
        } else {
            self
        }
    }
}

/// A table of 256 bytes.
const TABLE: usize = 256;

/// Pieces in order. Either all are converted or none is: the tokens of a step are of one kind.
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    /// Elements of a tile of each piece, at most.
    tiles: Vec<usize>,
    /// Where the elements of each piece lie on the chip, if they are read there: rows that are converted.
    in_place: Vec<Option<Local>>,
    lut: Option<Loc>,
    /// Two for inputs and, if bytes are converted, two for outputs.
    slots: usize,
    /// Bytes of a slot.
    slot: usize,
    /// Bytes of the widest element.
    widest: usize,
}

impl Pieces {
    /// Checks sizes; `lut` is the table of [`Convert::Lut`].
    pub(crate) fn new(chip: &Chip, pieces: Vec<Piece>, lut: Option<Loc>) -> Result<Self> {
        let converts = pieces.iter().any(|p| p.convert.is_some());
        let widest = pieces.iter().flat_map(Piece::sizes).max().unwrap_or(1);
        for p in &pieces {
            fits_u32(&[p.rows, p.bytes, p.from_pitch, p.to_pitch, widest.saturating_mul(p.rows * p.bytes)])?;
        }
        let pieces: Vec<_> = pieces.into_iter().map(Piece::joined).filter(|p| p.rows * p.bytes > 0).collect();
        let mut step = Self {
            pieces,
            tiles: Vec::new(),
            in_place: Vec::new(),
            lut,
            slots: if converts { 4 } else { 2 },
            slot: 0,
            widest,
        };
        step.fit(&Room::whole(chip))?;
        Ok(step)
    }

    fn piece(
        &self,
        (piece, most, kept): (&Piece, usize, Option<Local>),
        pipe: &mut Pipeline<'_>,
        at: At<'_>,
    ) -> Result<()> {
        let bytes = piece.bytes.min(most);
        let (rows, [x, y]) = ((most / bytes).min(piece.rows), piece.sizes());
        for r in (0..piece.rows).step_by(rows) {
            for b in (0..piece.bytes).step_by(bytes) {
                let (rows, bytes) = (rows.min(piece.rows - r), bytes.min(piece.bytes - b));
                let kept = kept.map(|start| further(start, b * x));
                let from = at(piece.from.plus((r * piece.from_pitch + b) * x));
                let to = at(piece.to.plus((r * piece.to_pitch + b) * y));
                let group = self.group((piece, kept), (rows, bytes), pipe.groups(), [from, to], at);
                pipe.group(group)?;
            }
        }
        Ok(())
    }

    fn group(
        &self,
        (piece, kept): (&Piece, Option<Local>),
        (rows, bytes): (usize, usize),
        group: usize,
        [from, to]: [crate::emit::Place; 2],
        at: At<'_>,
    ) -> Group {
        let input = kept.unwrap_or(Local::a((group % 2 * self.slot) as u32));
        let mut output = input;
        let mut out = Group::default();
        if let (Some(table), 0) = (self.lut, group) {
            out.loads.push(Op::load(at(table), Local::w(0), Rows::dense(TABLE)));
        }
        let [x, y] = piece.sizes();
        if kept.is_none() {
            out.loads.push(Op::load(from, input, Rows { rows, bytes: bytes * x, pitch: piece.from_pitch * x }));
        }
        if let Some(convert) = piece.convert {
            output = Local::a(((2 + group % 2) * self.slot) as u32);
            out.vector.push(convert.op(input, output, rows * bytes));
        }
        out.stores.push(Op::store(output, to, Rows { rows, bytes: bytes * y, pitch: piece.to_pitch * y }));
        out
    }
}

impl Convert {
    fn op(self, from: Local, to: Local, elements: usize) -> Op {
        match self {
            Self::Lut => {
                Op::new(Opcode::Lut8, from.bits(), to.bits(), 0).size(1, elements).local(Reg::Lut, Local::w(0))
            }
            Self::Fixed { from: x, to: y, mode } => Self::Rescale { from: x, to: y }
                .op(from, to, elements)
                .flag(flags::TFL)
                .set(Reg::RqMode, mode.as_u32() as usize),
            Self::Rescale { from: x, to: y } => Op::new(Opcode::Rescale, from.bits(), to.bits(), 0)
                .size(1, elements)
                .dtype(Reg::DtypeA, x.dtype)
                .float(Reg::Sa, x.scale)
                .int(Reg::Za, x.zp)
                .dtype(Reg::DtypeO, y.dtype)
                .float(Reg::So, y.scale)
                .int(Reg::Zo, y.zp)
                .int(Reg::ClampLo, y.lo)
                .int(Reg::ClampHi, y.hi),
        }
    }
}

impl Tiles for Pieces {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        let (chip, slot, widest) = (room.chip, room.chip.a / self.slots, self.widest);
        if slot < widest {
            return Err(no_memory("the activations' scratchpad", 4 * widest, chip.a));
        }
        if self.lut.is_some() && chip.w < TABLE {
            return Err(no_memory("the weights' scratchpad", TABLE, chip.w));
        }
        // A slot holds elements of the widest type.
        let tile = |p: &Piece| Stream::MAP.tile(chip, p.rows * p.bytes, slot / widest);
        (self.tiles, self.slot) = (self.pieces.iter().map(tile).collect(), slot);
        let lies = |p: &Piece| (room.kept)(p.from).filter(|_| p.convert.is_some() && p.rows == 1);
        self.in_place = self.pieces.iter().map(lies).collect();
        Ok(())
    }

    fn kernel(&self) -> String {
        match self.pieces.first().and_then(|p| p.convert) {
            None => "copy",
            Some(Convert::Lut) => "lut8",
            Some(Convert::Rescale { .. } | Convert::Fixed { .. }) => "rescale",
        }
        .into()
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let sized = self.pieces.iter().zip(self.tiles.iter().zip(&self.in_place));
        sized.map(|(piece, (most, kept))| (piece, *most, *kept)).try_for_each(|piece| self.piece(piece, pipe, at))
    }
}

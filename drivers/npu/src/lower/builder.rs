//! Where values lie, and the steps so far.

use super::keep::{self, Kept};
use super::{At, Chip, Form, Loc, Matrices, Piece, Pieces, Tiles, Transpose, no_memory};
use crate::emit::{Emitter, Pipeline, Place};
use ottava_hal::{Error, Program, Reason, Result, Tensor, TensorType, ValueId};
use ottava_npu::NpuConfig;
use ottava_npu::isa::{Inst, NodeMark, Region};

/// Buffers begin at multiples of this.
const ALIGN: usize = 64;

/// Memory of one region.
#[derive(Debug, Clone)]
pub(super) struct Buffer {
    pub(super) region: Region,
    pub(super) bytes: usize,
    /// First byte in its region; of scratch buffers only when all steps are known.
    offset: usize,
    /// The first and the last step that touch it.
    pub(super) life: Option<(usize, usize)>,
}

/// A piece of work of one node.
pub(super) struct Step {
    pub(super) node: usize,
    pub(super) tiles: Box<dyn Tiles>,
    /// Buffers that it reads.
    pub(super) reads: Vec<usize>,
    /// The buffer that it writes.
    pub(super) write: usize,
}

/// Lowers the nodes of one program for one chip.
pub(crate) struct Builder<'p> {
    pub(crate) program: &'p Program,
    pub(crate) chip: &'p Chip,
    buffers: Vec<Buffer>,
    /// Per value and form: where it lies.
    places: Vec<[Option<Loc>; 2]>,
    /// Per program output: its buffer.
    outputs: Vec<usize>,
    constants: Vec<u8>,
    /// Buffer of the constants.
    const_buffer: usize,
    steps: Vec<Step>,
    node: usize,
    kept: Kept,
}

/// A program as instructions.
pub(crate) struct Lowered {
    pub commands: Vec<Inst>,
    pub marks: Vec<NodeMark>,
    pub constants: Vec<u8>,
    /// Bytes of each region.
    pub regions: [u64; 4],
    /// Offset of each input in region 0.
    pub inputs: Vec<usize>,
    /// Offset of each output in region 1.
    pub outputs: Vec<usize>,
    /// Per node: the kernels of its steps.
    pub kernels: Vec<String>,
}

impl<'p> Builder<'p> {
    /// A builder that knows the program's inputs.
    pub(crate) fn new(program: &'p Program, chip: &'p Chip) -> Result<Self> {
        let mut builder = Self::empty(program, chip);
        for &id in &program.inputs {
            let buffer = builder.region_buffer(Region::Input, byte_len(program.ty(id))?);
            builder.places[id.0][0] = Some(Loc { buffer, offset: 0 });
        }
        for &id in &program.outputs {
            let buffer = builder.region_buffer(Region::Output, byte_len(program.ty(id))?);
            builder.outputs.push(buffer);
        }
        Ok(builder)
    }

    /// A builder that tries one node: what it reads counts as given.
    pub(crate) fn trial(program: &'p Program, chip: &'p Chip, node: usize) -> Result<Self> {
        let mut builder = Self::empty(program, chip);
        for id in program.nodes[node].inputs.iter().flatten() {
            if program.value(*id).constant.is_none() && builder.places[id.0][0].is_none() {
                let buffer = builder.region_buffer(Region::Input, byte_len(program.ty(*id))?);
                builder.places[id.0][0] = Some(Loc { buffer, offset: 0 });
            }
        }
        Ok(builder)
    }

    fn empty(program: &'p Program, chip: &'p Chip) -> Self {
        let constants = Buffer { region: Region::Const, bytes: 0, offset: 0, life: None };
        Self {
            program,
            chip,
            buffers: vec![constants],
            places: vec![[None; 2]; program.values.len()],
            outputs: Vec::new(),
            constants: Vec::new(),
            const_buffer: 0,
            steps: Vec::new(),
            node: 0,
            kept: Kept::default(),
        }
    }

    /// The node whose steps follow.
    pub(crate) fn begin(&mut self, node: usize) {
        self.node = node;
    }

    /// Type of a value.
    pub(crate) fn ty(&self, id: ValueId) -> &'p TensorType {
        self.program.ty(id)
    }

    /// Bytes of an element of a value.
    pub(crate) fn size(&self, id: ValueId) -> usize {
        self.program.ty(id).dtype.bits().div_ceil(8)
    }

    /// Extents of a value.
    pub(crate) fn dims(&self, id: ValueId) -> Result<Vec<usize>> {
        let known = self.program.ty(id).shape.known();
        known.ok_or_else(|| Error::unsupported(Reason::DynamicShape, "a shape is only known at run time"))
    }

    /// Data of a constant.
    pub(crate) fn constant(&self, id: ValueId) -> Option<&'p Tensor> {
        self.program.value(id).constant.as_ref()
    }

    /// The form in which a value lies already; constants lie in every form.
    pub(crate) fn form_of(&self, id: ValueId) -> Form {
        if self.places[id.0][0].is_none() && self.places[id.0][1].is_some() { Form::Last } else { Form::Plain }
    }

    /// Whether a value lies in a form without any work.
    pub(crate) fn has(&self, id: ValueId, form: Form) -> Result<bool> {
        let here = self.places[id.0][form as usize].is_some() || self.constant(id).is_some();
        Ok(here || (same_bytes(&self.dims(id)?) && self.places[id.0].iter().any(Option::is_some)))
    }

    /// The value in the wanted form; it is rearranged where it lies in another one only.
    pub(crate) fn want(&mut self, id: ValueId, form: Form) -> Result<Loc> {
        let dims = self.dims(id)?;
        let both = self.places[id.0];
        let other = 1 - form as usize;
        if let Some(loc) = both[form as usize].or(both[other].filter(|_| same_bytes(&dims))) {
            return Ok(loc);
        }
        if let Some(data) = self.constant(id) {
            let bytes = if form == Form::Last {
                channels_last(data.bytes(), &dims, self.size(id))
            } else {
                data.bytes().to_vec()
            };
            let loc = self.pack(&bytes)?;
            self.places[id.0][form as usize] = Some(loc);
            return Ok(loc);
        }
        let from = both[other].ok_or_else(|| Error::invalid("a value is read before it is computed"))?;
        let to = self.make(id, form)?;
        self.rearrange(from, to, id, form)?;
        Ok(to)
    }

    fn rearrange(&mut self, from: Loc, to: Loc, id: ValueId, form: Form) -> Result<()> {
        let (batch, channels, spatial) = split(&self.dims(id)?);
        let (m, n) = if form == Form::Last { (channels, spatial) } else { (spatial, channels) };
        let size = self.size(id);
        if ![1, 2, 4].contains(&size) {
            return Err(Error::unsupported(Reason::Layout, format!("{} with channels last", self.ty(id))));
        }
        let step = Transpose::new(self.chip, from, to, Matrices { batch, m, n, size })?;
        self.step(vec![from], to, step);
        Ok(())
    }

    /// Memory for a value in a form: the program output itself where that is possible.
    pub(crate) fn make(&mut self, id: ValueId, form: Form) -> Result<Loc> {
        let bytes = byte_len(self.ty(id))?;
        let plain = form == Form::Plain || same_bytes(&self.dims(id)?);
        let output = self.program.outputs.iter().position(|o| *o == id).filter(|_| plain);
        let buffer = match output.and_then(|i| self.outputs.get(i)) {
            Some(&buffer) => buffer,
            None => self.scratch(bytes).buffer,
        };
        let loc = Loc { buffer, offset: 0 };
        self.places[id.0][form as usize] = Some(loc);
        Ok(loc)
    }

    /// Memory for what lies between two steps of a node.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Loc {
        self.buffers.push(Buffer { region: Region::Scratch, bytes, offset: 0, life: None });
        Loc { buffer: self.buffers.len() - 1, offset: 0 }
    }

    /// A value that is another one's bytes.
    pub(crate) fn alias(&mut self, id: ValueId, form: Form, loc: Loc) {
        self.places[id.0][form as usize] = Some(loc);
    }

    /// Adds bytes to the constants.
    pub(crate) fn pack(&mut self, bytes: &[u8]) -> Result<Loc> {
        let offset = self.constants.len().next_multiple_of(ALIGN);
        let grown = self.constants.try_reserve(offset - self.constants.len() + bytes.len());
        grown.map_err(|_| Error::failed(ottava_hal::Status::OutOfHostMemory, "no memory for packed constants"))?;
        self.constants.resize(offset, 0);
        self.constants.extend_from_slice(bytes);
        Ok(Loc { buffer: self.const_buffer, offset })
    }

    /// Adds a step of the current node.
    pub(crate) fn step(&mut self, reads: Vec<Loc>, writes: Loc, tiles: impl Tiles + 'static) {
        let at = self.steps.len();
        let reads: Vec<usize> = reads.into_iter().map(|loc| loc.buffer).collect();
        for &buffer in reads.iter().chain([&writes.buffer]) {
            let life = &mut self.buffers[buffer].life;
            *life = Some(life.map_or((at, at), |(first, _)| (first, at)));
        }
        self.steps.push(Step { node: self.node, tiles: Box::new(tiles), reads, write: writes.buffer });
    }

    fn region_buffer(&mut self, region: Region, bytes: usize) -> usize {
        let end = |b: &Buffer| b.offset + b.bytes;
        let used = self.buffers.iter().filter(|b| b.region == region).map(end).max().unwrap_or(0);
        self.buffers.push(Buffer { region, bytes, offset: used.next_multiple_of(ALIGN), life: None });
        self.buffers.len() - 1
    }

    /// Copies every program output that is not computed where it belongs.
    fn deliver(&mut self) -> Result<()> {
        for (i, &id) in self.program.outputs.iter().enumerate() {
            let to = Loc { buffer: self.outputs[i], offset: 0 };
            let written = self.buffers[to.buffer].life.is_some();
            let bytes = self.buffers[to.buffer].bytes;
            if written || bytes == 0 {
                continue;
            }
            let dims = self.dims(id)?;
            match self.places[id.0] {
                [None, Some(from)] if !same_bytes(&dims) => self.rearrange(from, to, id, Form::Plain)?,
                _ => {
                    let from = self.want(id, Form::Plain)?;
                    // The value may have been rearranged into this very output.
                    if from != to {
                        let copy = Pieces::new(self.chip, vec![Piece::copy(from, to, bytes)], None)?;
                        self.step(vec![from], to, copy);
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives scratch buffers their places: each at the lowest offset that is free during its life.
    fn plan_scratch(&mut self) {
        let mut placed: Vec<(usize, usize, (usize, usize))> = Vec::new();
        let mut order: Vec<usize> = (0..self.buffers.len()).collect();
        order.retain(|&i| self.buffers[i].region == Region::Scratch && !self.kept.has(i));
        order.sort_by_key(|&i| std::cmp::Reverse(self.buffers[i].bytes));
        for i in order {
            let Some(life) = self.buffers[i].life else { continue };
            let bytes = self.buffers[i].bytes.next_multiple_of(ALIGN);
            let meets = |other: &(usize, usize)| other.0 <= life.1 && life.0 <= other.1;
            let mut busy: Vec<(usize, usize)> = placed.iter().filter(|p| meets(&p.2)).map(|p| (p.0, p.1)).collect();
            busy.sort_unstable();
            let free = |at: usize, &(start, end): &(usize, usize)| if start < at + bytes { at.max(end) } else { at };
            let offset = busy.iter().fold(0, free);
            self.buffers[i].offset = offset;
            placed.push((offset, offset + bytes, life));
        }
    }

    /// Writes the instructions of every step. With `fusion` values stay on the chip where that is not slower.
    pub(crate) fn finish(mut self, config: &NpuConfig, fusion: bool) -> Result<Lowered> {
        self.deliver()?;
        if fusion {
            self.kept = keep::choose(config, self.chip, &self.buffers, &mut self.steps)?;
        }
        self.plan_scratch();
        self.buffers[self.const_buffer].bytes = self.constants.len();
        let (emitter, kernels) = self.emit()?;
        let (commands, marks) = emitter.finish()?;
        let size = |region| {
            let lies = |(i, b): &(usize, &Buffer)| b.life.is_some() && !self.kept.has(*i);
            let used = |b: &(usize, &Buffer)| b.1.region == region && (region != Region::Scratch || lies(b));
            let ends = self.buffers.iter().enumerate().filter(used).map(|(_, b)| (b.offset + b.bytes) as u64);
            ends.max().unwrap_or(0)
        };
        let offset_of = |id: &ValueId| self.places[id.0][0].map_or(0, |l| self.buffers[l.buffer].offset);
        let inputs = self.program.inputs.iter().map(offset_of).collect();
        let outputs = self.outputs.iter().map(|b| self.buffers[*b].offset).collect();
        let regions = Region::ALL.map(size);
        Ok(Lowered { commands, marks, regions, constants: self.constants, inputs, outputs, kernels })
    }

    /// The instructions, and per node the kernels of its steps.
    fn emit(&self) -> Result<(Emitter, Vec<String>)> {
        let place = |loc: Loc| {
            let buffer = &self.buffers[loc.buffer];
            let offset = (buffer.offset + loc.offset) as u64;
            self.kept.place(loc, Place { region: buffer.region, offset, also: None })
        };
        let at: At<'_> = &place;
        let mut emitter = Emitter::default();
        let mut kernels = vec![String::new(); self.program.nodes.len()];
        for step in &self.steps {
            emitter.begin(step.node)?;
            step.tiles.emit(&mut Pipeline::new(&mut emitter), at)?;
            if let Some(text) = kernels.get_mut(step.node) {
                let and = if text.is_empty() { "" } else { " + " };
                *text = format!("{text}{and}{}", step.tiles.kernel());
            }
        }
        Ok((emitter, kernels))
    }

    /// Checks that the scratchpads can rearrange values at all.
    pub(crate) fn check_chip(chip: &Chip) -> Result<()> {
        if chip.a < super::transpose::LEAST_BYTES {
            return Err(no_memory("the activations' scratchpad", super::transpose::LEAST_BYTES, chip.a));
        }
        Ok(())
    }
}

/// Bytes of a value of fixed shape.
fn byte_len(ty: &TensorType) -> Result<usize> {
    ty.byte_len().ok_or_else(|| Error::unsupported(Reason::DynamicShape, format!("{ty} has no fixed size")))
}

/// Batch, channels and the product of the spatial axes of an image; a matrix has no spatial axes.
pub(crate) fn split(dims: &[usize]) -> (usize, usize, usize) {
    match dims {
        [] => (1, 1, 1),
        [n] => (1, *n, 1),
        [n, c, spatial @ ..] => (*n, *c, spatial.iter().product()),
    }
}

/// Whether both forms of a value have the same bytes.
pub(crate) fn same_bytes(dims: &[usize]) -> bool {
    let (_, channels, spatial) = split(dims);
    channels == 1 || spatial == 1
}

/// Elements of `size` bytes with their channels last.
fn channels_last(bytes: &[u8], dims: &[usize], size: usize) -> Vec<u8> {
    let (batch, channels, spatial) = split(dims);
    let at = |i: usize| {
        let (n, rest) = (i / (channels * spatial), i % (channels * spatial));
        let first = ((n * channels + rest % channels) * spatial + rest / channels) * size;
        bytes[first..first + size].iter().copied()
    };
    (0..batch * channels * spatial).flat_map(at).collect()
}

//! Turns a program into steps: tracks in which forms each value exists, inserts conversions, and collects what each step
//! reads and writes. Operators ask for their operands in the form that suits their kernel ([`Builder::operand`]), say
//! where the result goes ([`Builder::result`]), and push a step; views ([`Builder::alias`]) need no step at all.

use crate::arena::{Io, Operands, Place};
use crate::blob::Packs;
use crate::chains::Chains;
use crate::elementwise;
use crate::form::{Form, channels_first};
use crate::ops::movement::channels_last_outputs;
use crate::relayout;
use crate::sharing::Sharing;
use ottava_hal::{Error, Node, Program, Reason, Result, Tensor, TensorType, ValueId};
use ottava_kernels::{Exec, Isa, KernelError};

/// Operators that want their first input channels-last, whatever it is now.
const IMAGE_OPS: [&str; 7] =
    ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Resize"];

/// The work of a step. It allocates nothing.
pub(crate) type Run = Box<dyn Fn(Exec<'_>, Io<'_>) -> Result<()> + Send + Sync>;

/// One kernel call.
pub(crate) struct Step {
    /// Name of the kernel.
    pub(crate) kernel: String,
    /// Memory that it touches.
    pub(crate) operands: Operands,
    /// Whether operands may lie in the result's memory.
    pub(crate) sharing: Sharing,
    /// The call.
    pub(crate) run: Run,
}

/// The steps of one node, in order; possibly none.
pub(crate) struct Group {
    /// Name of the node, or of the program output that is converted for the caller.
    pub(crate) name: String,
    /// What runs.
    pub(crate) steps: Vec<Step>,
}

/// A compiled program before its memory is planned.
pub(crate) struct Builder<'p> {
    /// The program.
    pub(crate) program: &'p Program,
    /// Instruction set that the kernels will use; part of their names.
    pub(crate) isa: Isa,
    /// Finished nodes; the last group is being built.
    pub(crate) groups: Vec<Group>,
    /// Sizes of the arena buffers.
    pub(crate) buffers: Vec<usize>,
    /// Constants as the steps read them.
    pub(crate) constants: Vec<Tensor>,
    /// Packed weights.
    pub(crate) packs: Packs<'p>,
    /// Elementwise nodes that are computed together.
    pub(crate) chains: Chains,
    /// Per value: the forms in which it exists.
    forms: Vec<Vec<(Form, Place)>>,
    /// Per value: whether a node reads it.
    read_by_node: Vec<bool>,
    /// Per value: whether the steps of an earlier node do the work of the node that makes it.
    taken: Vec<bool>,
    /// Per value: whether a node reads it as images, channels last.
    read_as_images: Vec<bool>,
    /// Per value: the program output that is its transposition to channels last.
    channels_last: Vec<Option<ValueId>>,
}

impl<'p> Builder<'p> {
    /// A builder that knows the program's inputs and constants.
    pub(crate) fn new(program: &'p Program, isa: Isa, packs: Packs<'p>) -> Self {
        let mut forms = vec![vec![]; program.values.len()];
        for (i, id) in program.inputs.iter().enumerate() {
            forms[id.0].push((Form::OUTSIDE, Place::Input(i)));
        }
        let mut read_by_node = vec![false; program.values.len()];
        for id in program.nodes.iter().flat_map(|n| n.inputs.iter().flatten()) {
            read_by_node[id.0] = true;
        }
        let mut read_as_images = vec![false; program.values.len()];
        for node in program.nodes.iter().filter(|n| n.domain.is_empty() && IMAGE_OPS.contains(&n.op.as_str())) {
            node.inputs.first().copied().flatten().into_iter().for_each(|id| read_as_images[id.0] = true);
        }
        let (groups, buffers, constants) = (vec![], vec![], vec![]);
        let (chains, taken) = (Chains::of(program), vec![false; program.values.len()]);
        Self {
            program,
            isa,
            groups,
            buffers,
            constants,
            packs,
            chains,
            forms,
            read_by_node,
            taken,
            read_as_images,
            channels_last: channels_last_outputs(program),
        }
    }

    /// Starts the group of a node.
    pub(crate) fn begin(&mut self, name: &str) {
        self.groups.push(Group { name: name.into(), steps: vec![] });
    }

    /// The type of a value.
    pub(crate) fn ty(&self, id: ValueId) -> &'p TensorType {
        self.program.ty(id)
    }

    /// Whether a value lies channels-last already; image-like operators follow their input.
    pub(crate) fn is_nhwc(&self, id: ValueId) -> bool {
        self.forms[id.0].iter().any(|(form, _)| form.nhwc)
    }

    /// Whether the value should be computed channels-last: it has such a form, and a node wants it.
    pub(crate) fn wants_nhwc(&self, id: ValueId) -> bool {
        self.read_as_images[id.0] && Form::inside(self.ty(id), true).nhwc
    }

    /// Whether a step built so far has computed the value, or it is an input.
    pub(crate) fn exists(&self, id: ValueId) -> bool {
        !self.forms[id.0].is_empty()
    }

    /// Says that the node which makes this value has nothing left to do.
    pub(crate) fn take(&mut self, id: ValueId) {
        self.taken[id.0] = true;
    }

    /// Whether the node which makes this value has nothing left to do.
    pub(crate) fn is_taken(&self, id: ValueId) -> bool {
        self.taken[id.0]
    }

    /// Whether the value's data is known at compile time.
    pub(crate) fn is_constant(&self, id: ValueId) -> bool {
        self.program.value(id).constant.is_some()
    }

    /// The value as kernels want it: in the given layout, s8 held as u8.
    pub(crate) fn operand(&mut self, id: ValueId, nhwc: bool) -> Result<Place> {
        self.in_form(id, Form::inside(self.ty(id), nhwc))
    }

    /// The value in exactly this form; inserts the conversion if it does not exist yet.
    pub(crate) fn in_form(&mut self, id: ValueId, form: Form) -> Result<Place> {
        let form = form.normal(self.ty(id));
        if let Some((_, place)) = self.forms[id.0].iter().find(|(have, _)| *have == form) {
            return Ok(*place);
        }
        let place = match &self.program.value(id).constant {
            Some(data) => {
                let data = relayout::constant(data, self.ty(id), form)?;
                self.constant(data)
            }
            None => self.converted(id, form)?,
        };
        self.forms[id.0].push((form, place));
        Ok(place)
    }

    /// The existing form of a value that takes the fewest conversions.
    fn nearest(&self, id: ValueId, form: Form) -> Result<(Form, Place)> {
        let uncomputed = || {
            let name = &self.program.value(id).name;
            Error::invalid(format!("value `{name}` is read before it is computed"))
        };
        self.forms[id.0].iter().min_by_key(|(have, _)| have.distance(form)).copied().ok_or_else(uncomputed)
    }

    /// Conversion steps, layout last.
    fn converted(&mut self, id: ValueId, form: Form) -> Result<Place> {
        let (ty, (mut have, mut from)) = (self.ty(id), self.nearest(id, form)?);
        if have.distance(form) == 2 {
            let half = Form { flipped: form.flipped, ..have };
            let to = self.buffer(bytes_of(ty)?);
            self.push_convert(ty, have, half, from, to)?;
            (have, from) = (half, to);
        }
        let to = self.buffer(bytes_of(ty)?);
        self.push_convert(ty, have, form, from, to).map(|()| to)
    }

    fn push_convert(&mut self, ty: &TensorType, have: Form, want: Form, from: Place, to: Place) -> Result<()> {
        let (name, run) = match channels_first(ty) {
            Some(ncs) if have.nhwc != want.nhwc => relayout::transposition(ty.dtype, ncs, want.nhwc)?,
            _ if have.flipped != want.flipped => relayout::flip(),
            _ => relayout::copy(),
        };
        self.push(&name, vec![from], to, None, run);
        if have.nhwc == want.nhwc && have.flipped != want.flipped {
            self.share(Sharing::Elementwise);
        }
        Ok(())
    }

    /// A new arena buffer.
    pub(crate) fn buffer(&mut self, bytes: usize) -> Place {
        self.buffers.push(bytes);
        Place::Buffer(self.buffers.len() - 1)
    }

    /// Adds a constant that steps can read.
    pub(crate) fn constant(&mut self, data: Tensor) -> Place {
        self.constants.push(data);
        Place::Const(self.constants.len() - 1)
    }

    /// Where a node writes its result, in the internal form of a layout. A program output is written straight into the
    /// caller's buffer where the forms agree; nodes that read it find it there.
    pub(crate) fn result(&mut self, id: ValueId, nhwc: bool) -> Result<Place> {
        let form = Form::inside(self.ty(id), nhwc);
        self.result_in(id, form)
    }

    /// As [`Self::result`], for kernels that can write s8 as it is: the flag says whether they shall.
    pub(crate) fn result_signed(&mut self, id: ValueId, nhwc: bool) -> Result<(Place, bool)> {
        let form = Form::inside(self.ty(id), nhwc);
        let signed = form.flipped && !form.nhwc && self.only_output(id).is_some();
        let place = self.result_in(id, Form { flipped: form.flipped && !signed, ..form })?;
        Ok((place, signed))
    }

    fn result_in(&mut self, id: ValueId, form: Form) -> Result<Place> {
        let place = match self.output_in(id, form) {
            Some(i) => Place::Output(i),
            None => self.buffer(bytes_of(self.ty(id))?),
        };
        self.forms[id.0].push((form, place));
        Ok(place)
    }

    /// The one program output that has a value's bytes in this form: the value itself, or its transposition.
    fn output_in(&self, id: ValueId, form: Form) -> Option<usize> {
        match form {
            Form::OUTSIDE => self.output_index(id),
            Form { nhwc: true, flipped: false } => self.channels_last[id.0].and_then(|y| self.output_index(y)),
            _ => None,
        }
    }

    /// The index of a value that is a program output exactly once.
    fn output_index(&self, id: ValueId) -> Option<usize> {
        let mut places = self.program.outputs.iter().enumerate().filter(|(_, o)| **o == id).map(|(i, _)| i);
        places.next().filter(|_| places.next().is_none())
    }

    /// The output index of a value that is one program output and nothing else.
    pub(crate) fn only_output(&self, id: ValueId) -> Option<usize> {
        self.output_index(id).filter(|_| !self.read_by_node[id.0])
    }

    /// Says that `to` has the bytes at `place`, in this form.
    pub(crate) fn alias(&mut self, to: ValueId, form: Form, place: Place) {
        let form = form.normal(self.ty(to));
        self.forms[to.0].push((form, place));
    }

    /// Adds a step to the current group.
    pub(crate) fn push(&mut self, kernel: &str, reads: Vec<Place>, write: Place, scratch: Option<usize>, run: Run) {
        let scratch = scratch.filter(|n| *n > 0).map(|bytes| {
            self.buffers.push(bytes);
            self.buffers.len() - 1
        });
        let operands = Operands { reads, write, scratch };
        let step = Step { kernel: kernel.into(), operands, sharing: Sharing::None, run };
        if let Some(group) = self.groups.last_mut() {
            group.steps.push(step);
        }
    }

    /// Gives the step that was added last a scratch buffer whose size is said by [`Self::pack`]; its index.
    pub(crate) fn scratch_later(&mut self) -> usize {
        self.buffers.push(0);
        let index = self.buffers.len() - 1;
        if let Some(step) = self.groups.last_mut().and_then(|g| g.steps.last_mut()) {
            step.operands.scratch = Some(index);
        }
        index
    }

    /// Packs the weights that were put off.
    pub(crate) fn pack(&mut self) -> Result<()> {
        for (buffer, bytes) in self.packs.pack()? {
            self.buffers[buffer] = bytes;
        }
        Ok(())
    }

    /// Adds a step that computes each element of its result from the same elements of one or two operands, which are as
    /// wide; the result may take an operand's place.
    pub(crate) fn push_elementwise(&mut self, kernel: &str, reads: Vec<Place>, write: Place, f: elementwise::Function) {
        let run = elementwise::step(reads.len(), f);
        self.push(kernel, reads, write, None, run);
        self.share(Sharing::Elementwise);
    }

    /// Says what the step that was added last allows.
    pub(crate) fn share(&mut self, sharing: Sharing) {
        if let Some(step) = self.groups.last_mut().and_then(|g| g.steps.last_mut()) {
            step.sharing = sharing;
        }
    }

    /// `name` with the instruction set behind it.
    pub(crate) fn kernel(&self, name: &str) -> String {
        format!("{name}_{}", self.isa.name())
    }

    /// Brings every program output into the caller's buffer in the caller's form.
    pub(crate) fn finish(&mut self) -> Result<()> {
        for (i, &id) in self.program.outputs.iter().enumerate() {
            if self.forms[id.0].contains(&(Form::OUTSIDE, Place::Output(i))) {
                continue;
            }
            self.begin(&self.program.value(id).name);
            self.deliver(id, i)?;
        }
        Ok(())
    }

    fn deliver(&mut self, id: ValueId, output: usize) -> Result<()> {
        if self.is_constant(id) {
            self.in_form(id, Form::OUTSIDE)?;
        }
        let (have, from) = match self.nearest(id, Form::OUTSIDE)? {
            (Form { nhwc: true, flipped: true }, _) => {
                let half = Form { nhwc: false, flipped: true };
                (half, self.in_form(id, half)?)
            }
            nearest => nearest,
        };
        self.push_convert(self.ty(id), have, Form::OUTSIDE, from, Place::Output(output))
    }
}

/// Bytes of a value.
pub(crate) fn bytes_of(ty: &TensorType) -> Result<usize> {
    ty.byte_len().ok_or_else(|| Error::unsupported(Reason::Memory, format!("{ty} is too large for this machine")))
}

/// The value that a node must have at input `i`.
pub(crate) fn input(node: &Node, i: usize) -> Result<ValueId> {
    node.input(i).ok_or_else(|| Error::invalid(format!("node `{}` has no input {i}", node.name)))
}

/// The first output of a node.
pub(crate) fn output(node: &Node) -> Result<ValueId> {
    node.outputs.first().copied().ok_or_else(|| Error::invalid(format!("node `{}` has no output", node.name)))
}

/// A kernel's refusal of a node at compile time.
pub(crate) fn refused(node: &Node, error: KernelError) -> Error {
    let what = format!("node `{}` ({}): {error}", node.name, node.full_op());
    match error {
        KernelError::Overflow { .. } => Error::unsupported(Reason::ShapeLimit, what),
        _ => Error::invalid(what),
    }
}

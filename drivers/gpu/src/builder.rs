//! Values, the forms in which they lie, and the steps so far.

use crate::arena::{self, Lease};
use crate::form::{Form, Stored, element_bytes};
use crate::recipe::{Dispatch, Place, Recipe, Slice, Step};
use crate::{Target, kernels};
use ottava_hal::{Error, Program, Reason, Result, Tensor, TensorType, ValueId};
use smallvec::SmallVec;

/// A buffer of the recipe, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buf(usize);

struct Memory {
    bytes: usize,
    /// `None`: working memory, placed when all steps are known.
    fixed: Option<(Place, usize)>,
    life: Option<(usize, usize)>,
}

enum Draft {
    Dispatch {
        kernel: &'static kernels::Kernel,
        spec: SmallVec<[u32; 4]>,
        buffers: SmallVec<[Buf; 6]>,
        groups: [u32; 3],
        local: [u32; 3],
    },
    Copy {
        from: Buf,
        to: Buf,
        bytes: usize,
    },
}

/// A kernel and what it is launched with.
pub(crate) struct Launch<'a> {
    /// Name in the kernel table.
    pub kernel: &'static str,
    /// Macros of the wanted variant.
    pub defines: &'a [&'a str],
    /// Specialization constants.
    pub spec: &'a [u32],
    /// Parameters (binding 0).
    pub params: &'a [u32],
    /// What is read, in binding order.
    pub inputs: &'a [Buf],
    /// What is written.
    pub output: Buf,
    /// Invocations along each axis.
    pub items: [usize; 3],
    /// Invocations of a work-group; `None` leaves it to the device, along the first axis.
    pub local: Option<[u32; 3]>,
}

/// Lowers the nodes of one program for one device.
pub(crate) struct Builder<'p> {
    pub(crate) program: &'p Program,
    pub(crate) target: &'p Target,
    memory: Vec<Memory>,
    /// Per value and form: where it lies.
    places: Vec<[Option<Buf>; 3]>,
    constants: Vec<u8>,
    steps: Vec<(usize, Draft)>,
    node: usize,
}

impl<'p> Builder<'p> {
    /// A builder that knows the program's inputs.
    pub(crate) fn new(program: &'p Program, target: &'p Target) -> Result<Self> {
        let mut builder = Self::empty(program, target);
        for (i, &id) in program.inputs.iter().enumerate() {
            builder.given(id, i)?;
        }
        Ok(builder)
    }

    /// A builder that tries one node: what it reads counts as given.
    pub(crate) fn trial(program: &'p Program, target: &'p Target, node: usize) -> Result<Self> {
        let mut builder = Self::empty(program, target);
        builder.node = node;
        for (i, id) in program.nodes[node].inputs.iter().flatten().enumerate() {
            if program.value(*id).constant.is_none() && builder.places[id.0][0].is_none() {
                builder.given(*id, i)?;
            }
        }
        Ok(builder)
    }

    fn empty(program: &'p Program, target: &'p Target) -> Self {
        let places = vec![[None; 3]; program.values.len()];
        Self { program, target, memory: Vec::new(), places, constants: Vec::new(), steps: Vec::new(), node: 0 }
    }

    /// An input of the program. One that does not end at a word is copied first: kernels read words.
    fn given(&mut self, id: ValueId, number: usize) -> Result<()> {
        let bytes = Stored::new(self.ty(id), Form::Plain)?.bytes()?;
        let mut buf = self.add(bytes, Some((Place::Input(number), 0)));
        if !bytes.is_multiple_of(4) {
            let whole = self.scratch(bytes)?;
            self.copy(buf, whole, bytes);
            buf = whole;
        }
        self.places[id.0][Form::Plain as usize] = Some(buf);
        Ok(())
    }

    fn add(&mut self, bytes: usize, fixed: Option<(Place, usize)>) -> Buf {
        self.memory.push(Memory { bytes, fixed, life: None });
        Buf(self.memory.len() - 1)
    }

    /// The node whose steps follow.
    pub(crate) fn begin(&mut self, node: usize) {
        self.node = node;
    }

    /// Type of a value.
    pub(crate) fn ty(&self, id: ValueId) -> &'p TensorType {
        self.program.ty(id)
    }

    /// Extents of a value.
    pub(crate) fn dims(&self, id: ValueId) -> Result<Vec<usize>> {
        let known = self.program.ty(id).shape.known();
        known.ok_or_else(|| Error::unsupported(Reason::DynamicShape, "a shape is only known at run time"))
    }

    /// Data of a constant.
    pub(crate) fn data(&self, id: ValueId) -> Option<&'p Tensor> {
        self.program.value(id).constant.as_ref()
    }

    /// Bytes of a buffer.
    pub(crate) fn bytes(&self, buf: Buf) -> usize {
        self.memory[buf.0].bytes
    }

    /// The form in which a value lies; a constant's is plain.
    pub(crate) fn form_of(&self, id: ValueId) -> Form {
        Form::ALL.into_iter().find(|f| self.places[id.0][*f as usize].is_some()).unwrap_or(Form::Plain)
    }

    fn lying(&self, id: ValueId, form: Form) -> Result<Option<Buf>> {
        if let Some(buf) = self.places[id.0][form as usize] {
            return Ok(Some(buf));
        }
        let wanted = Stored::new(self.ty(id), form)?;
        for other in Form::ALL {
            if let Some(buf) = self.places[id.0][other as usize]
                && Stored::new(self.ty(id), other)?.same_bytes(&wanted)
            {
                return Ok(Some(buf));
            }
        }
        Ok(None)
    }

    /// The value in the wanted form; it is rearranged only where it does not lie in it yet.
    pub(crate) fn read(&mut self, id: ValueId, form: Form) -> Result<Buf> {
        if let Some(buf) = self.lying(id, form)? {
            return Ok(buf);
        }
        // A constant lies in its plain form once it has been read.
        if let (Some(data), None) = (self.data(id), self.places[id.0][Form::Plain as usize]) {
            let buf = self.constant(data.bytes())?;
            self.places[id.0][Form::Plain as usize] = Some(buf);
            return self.read(id, form);
        }
        let from = Form::ALL.into_iter().find(|f| self.places[id.0][*f as usize].is_some());
        let from = from.ok_or_else(|| Error::invalid("a value is read before it is computed"))?;
        let to = self.write(id, form)?;
        self.rearrange(id, from, form, to)?;
        Ok(to)
    }

    /// Memory for a value in a form.
    pub(crate) fn write(&mut self, id: ValueId, form: Form) -> Result<Buf> {
        let buf = self.scratch(Stored::new(self.ty(id), form)?.bytes()?)?;
        self.places[id.0][form as usize] = Some(buf);
        Ok(buf)
    }

    /// A value that is another one's bytes.
    pub(crate) fn alias(&mut self, id: ValueId, form: Form, buf: Buf) {
        self.places[id.0][form as usize] = Some(buf);
    }

    /// Memory for what lies between two steps of a node; whole words.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Result<Buf> {
        if bytes as u64 > self.target.max_buffer {
            let what = format!("a buffer of {bytes} bytes, the device's largest has {}", self.target.max_buffer);
            return Err(Error::unsupported(Reason::Memory, what));
        }
        Ok(self.add(bytes.next_multiple_of(4).max(4), None))
    }

    /// Adds bytes to the constants.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> Result<Buf> {
        let offset = self.constants.len().next_multiple_of(self.target.alignment.max(16));
        let end = offset + bytes.len().next_multiple_of(4).max(4);
        if end as u64 > self.target.max_buffer {
            return Err(Error::unsupported(Reason::Memory, format!("{end} bytes of constants")));
        }
        self.constants.resize(offset, 0);
        self.constants.extend_from_slice(bytes);
        self.constants.resize(end, 0);
        Ok(self.add(end - offset, Some((Place::Constants, offset))))
    }

    /// Adds words to the constants.
    pub(crate) fn words(&mut self, words: &[u32]) -> Result<Buf> {
        self.constant(bytemuck::cast_slice(words))
    }

    /// Adds a launch.
    pub(crate) fn launch(&mut self, launch: &Launch<'_>) -> Result<()> {
        let kernel = kernels::find(launch.kernel, launch.defines);
        let kernel = kernel.ok_or_else(|| Error::invalid(format!("no kernel `{}`", launch.kernel)))?;
        let local = launch.local.unwrap_or([self.target.group.max(1), 1, 1]);
        let mut groups = [0; 3];
        for (axis, group) in groups.iter_mut().enumerate() {
            let n = launch.items[axis].div_ceil(local[axis] as usize);
            let limit = self.target.max_groups[axis];
            *group = u32::try_from(n).ok().filter(|n| *n <= limit).ok_or_else(|| {
                Error::unsupported(Reason::ShapeLimit, format!("{n} work-groups, the device starts {limit} at most"))
            })?;
        }
        if groups.contains(&0) {
            return Ok(());
        }
        let params = self.words(launch.params)?;
        let mut buffers: SmallVec<[Buf; 6]> = SmallVec::new();
        buffers.push(params);
        buffers.extend_from_slice(launch.inputs);
        buffers.push(launch.output);
        if buffers.len() != kernel.buffers || launch.spec.len() != kernel.spec.len() {
            return Err(Error::invalid(format!(
                "kernel `{}` is launched with other operands than it has",
                kernel.name
            )));
        }
        let spec = SmallVec::from_slice(launch.spec);
        self.steps.push((self.node, Draft::Dispatch { kernel, spec, buffers, groups, local }));
        Ok(())
    }

    /// Adds a copy of the first bytes of a buffer.
    pub(crate) fn copy(&mut self, from: Buf, to: Buf, bytes: usize) {
        self.steps.push((self.node, Draft::Copy { from, to, bytes }));
    }

    fn rearrange(&mut self, id: ValueId, from: Form, to: Form, into: Buf) -> Result<()> {
        let ty = self.ty(id);
        let (source, result) = (Stored::new(ty, from)?, Stored::new(ty, to)?);
        let axes: Vec<_> = result.axes.iter().map(|a| (a.padded, a.extent, source.stride(a.axis))).collect();
        let x = self.read(id, from)?;
        self.relayout(&axes, (x, 0), element_bytes(ty.dtype)?, 0, into)
    }

    /// Gathers a result of at most 6 axes from a strided source: per axis, outermost first, its extent with padding, its
    /// real extent, and the source's stride in elements. What is padding gets the bits of `outside`.
    pub(crate) fn relayout(
        &mut self,
        axes: &[(usize, usize, usize)],
        (x, first): (Buf, usize),
        element_bytes: usize,
        outside: u32,
        into: Buf,
    ) -> Result<()> {
        // Elements of 8 bytes move as pairs of words.
        let pair = element_bytes / 4 == 2;
        let (element_bytes, times) = if pair { (4, 2) } else { (element_bytes, 1) };
        let mut axes: Vec<_> = axes.iter().map(|a| (a.0, a.1, a.2 * times)).collect();
        axes.extend(pair.then_some((2, 2, 1)));
        let (real, first): (Vec<_>, _) = (axes.iter().filter(|a| a.0 != 1).collect(), first * times);
        if real.len() > 6 {
            return Err(Error::unsupported(Reason::Rank, "more than 6 axes to rearrange"));
        }
        let elements: usize = real.iter().map(|a| a.0).product();
        let words = (elements * element_bytes).div_ceil(4);
        let mut params = vec![words as u32, element_bytes as u32, outside];
        for _ in real.len()..6 {
            params.extend([1, 1, 0]);
        }
        for &&(padded, extent, stride) in &real {
            params.extend([padded as u32, extent as u32, stride as u32]);
        }
        params.extend([first as u32, 6 - real.len() as u32]);
        self.launch(&Launch {
            kernel: "relayout",
            defines: &[],
            spec: &[],
            params: &params,
            inputs: &[x],
            output: into,
            items: [words, 1, 1],
            local: None,
        })
    }

    /// The recipe: results go to the program's outputs, working memory gets its place.
    pub(crate) fn finish(mut self) -> Result<Recipe> {
        self.bind_outputs()?;
        self.note_lives();
        let arena: Vec<usize> = (0..self.memory.len()).filter(|&i| self.memory[i].fixed.is_none()).collect();
        let leases: Vec<Lease> = arena
            .iter()
            .map(|&i| {
                let (first, last) = self.memory[i].life.unwrap_or((0, 0));
                Lease { bytes: self.memory[i].bytes, first, last }
            })
            .collect();
        let (offsets, arena_bytes) = arena::plan(&leases, self.target.alignment);
        if arena_bytes as u64 > self.target.max_buffer {
            return Err(Error::unsupported(Reason::Memory, format!("{arena_bytes} bytes of working memory")));
        }
        for (i, offset) in arena.into_iter().zip(offsets) {
            self.memory[i].fixed = Some((Place::Arena, offset));
        }
        let types = |ids: &[ValueId]| ids.iter().map(|id| self.program.ty(*id).clone()).collect();
        let (inputs, outputs) = (types(&self.program.inputs), types(&self.program.outputs));
        let kernels = self.kernels_of_nodes();
        let steps = self.steps.iter().map(|(node, draft)| self.settle(*node, draft)).collect();
        Ok(Recipe { steps, constants: self.constants, arena_bytes, inputs, outputs, kernels })
    }

    /// A result that ends at a word is written where the caller wants it, once; anything else is copied there.
    fn bind_outputs(&mut self) -> Result<()> {
        for (number, &id) in self.program.outputs.iter().enumerate() {
            let bytes = Stored::new(self.ty(id), Form::Plain)?.bytes()?;
            let buf = self.read(id, Form::Plain)?;
            let place = Some((Place::Output(number), 0));
            if self.memory[buf.0].fixed.is_none() && self.memory[buf.0].bytes == bytes {
                self.memory[buf.0].fixed = place;
            } else if bytes > 0 {
                let output = self.add(bytes, place);
                self.copy(buf, output, bytes);
            }
        }
        Ok(())
    }

    fn note_lives(&mut self) {
        for (at, (_, draft)) in self.steps.iter().enumerate() {
            let touched: SmallVec<[Buf; 6]> = match draft {
                Draft::Dispatch { buffers, .. } => buffers.clone(),
                Draft::Copy { from, to, .. } => SmallVec::from_slice(&[*from, *to]),
            };
            for Buf(i) in touched {
                let life = self.memory[i].life.get_or_insert((at, at));
                life.1 = at;
            }
        }
    }

    fn settle(&self, node: usize, draft: &Draft) -> Step {
        let slice = |Buf(i): &Buf, len: Option<usize>| {
            let memory = &self.memory[*i];
            let (place, offset) = memory.fixed.unwrap_or((Place::Arena, 0));
            Slice { place, offset, len: len.unwrap_or(memory.bytes) }
        };
        match draft {
            Draft::Dispatch { kernel, spec, buffers, groups, local } => Step::Dispatch(Dispatch {
                kernel,
                spec: spec.clone(),
                buffers: buffers.iter().map(|b| slice(b, None)).collect(),
                groups: *groups,
                local: *local,
                node,
            }),
            Draft::Copy { from, to, bytes } => {
                Step::Copy { from: slice(from, Some(*bytes)), to: slice(to, Some(*bytes)) }
            }
        }
    }

    fn kernels_of_nodes(&self) -> Vec<(String, String)> {
        let mut names: Vec<(String, String)> =
            self.program.nodes.iter().map(|n| (n.name.clone(), String::new())).collect();
        for (node, draft) in &self.steps {
            let name = match draft {
                Draft::Dispatch { kernel, .. } => kernel.full_name(),
                Draft::Copy { .. } => "copy".to_owned(),
            };
            if let Some((_, kernels)) = names.get_mut(*node) {
                let joint = if kernels.is_empty() { "" } else { " + " };
                kernels.push_str(joint);
                kernels.push_str(&name);
            }
        }
        names.iter_mut().filter(|(_, k)| k.is_empty()).for_each(|(_, k)| k.push_str("view"));
        names
    }
}

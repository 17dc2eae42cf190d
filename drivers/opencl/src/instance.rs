//! What one run in flight needs: an arena, and kernel objects that know their arguments.
//!
//! Arguments in the arena and in the constants are set once. Those in inputs and outputs are set when a run binds other
//! memory than the instance's last one did, so runs that repeat their bindings set nothing and allocate nothing.

use crate::executable::ClExecutable;
use crate::job::Bound;
use crate::memory::Mem;
use crate::shared::{Shared, copy};
use crate::status::failed;
use opencl3::command_queue::{CommandQueue, enqueue_nd_range_kernel};
use opencl3::event::Event;
use opencl3::kernel::{Kernel, set_kernel_arg};
use opencl3::memory::{CL_MEM_READ_WRITE, cl_mem};
use ottava_gpu::{Dispatch, Place, Recipe, Slice, Step};
use ottava_hal::{Error, Result, Status};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Weak};

/// Memory objects of slices of one buffer.
pub(crate) type Parts = BTreeMap<(usize, usize), Mem>;

/// An arena and the kernels of all launches.
pub(crate) struct Instance {
    /// Its place in the executable's pool.
    pub number: u64,
    arena: Mem,
    /// Kept for the kernels' arguments.
    _parts: Parts,
    /// Per step; copies have none.
    kernels: Vec<Option<Kernel>>,
    /// What the arguments outside the arena are set to, per [`Outside`].
    set: Vec<Option<Argument>>,
}

/// What an argument was set to; a buffer that is gone is never taken for another.
struct Argument {
    number: u64,
    offset: usize,
    mem: Weak<Mem>,
}

/// A slice of an input or output, and which arguments of which steps it is.
#[derive(Debug)]
pub(crate) struct Outside {
    slice: Slice,
    arguments: Vec<(usize, u32)>,
}

/// Every slice of inputs and outputs that a kernel is given.
pub(crate) fn outsides(recipe: &Recipe) -> Vec<Outside> {
    let mut all: Vec<Outside> = Vec::new();
    for (at, launch) in launches(recipe) {
        for (argument, slice) in (0u32..).zip(&launch.buffers) {
            if !matches!(slice.place, Place::Input(_) | Place::Output(_)) {
                continue;
            }
            match all.iter_mut().find(|o| o.slice == *slice) {
                Some(o) => o.arguments.push((at, argument)),
                None => all.push(Outside { slice: *slice, arguments: vec![(at, argument)] }),
            }
        }
    }
    all
}

/// Memory objects for the slices of a place.
pub(crate) fn parts(recipe: &Recipe, place: Place, mem: &Mem) -> Result<Parts> {
    let mut parts = Parts::new();
    for slice in launches(recipe).flat_map(|(_, l)| &l.buffers).filter(|s| s.place == place) {
        if let Entry::Vacant(entry) = parts.entry((slice.offset, slice.len)) {
            entry.insert(mem.part(slice.offset, slice.len)?);
        }
    }
    Ok(parts)
}

fn launches(recipe: &Recipe) -> impl Iterator<Item = (usize, &Dispatch)> {
    recipe.steps.iter().enumerate().filter_map(|(i, step)| match step {
        Step::Dispatch(launch) => Some((i, launch)),
        Step::Copy { .. } => None,
    })
}

impl Instance {
    /// Allocates the arena and makes the kernels.
    pub(crate) fn new(exe: &ClExecutable, number: u64) -> Result<Self> {
        let (shared, recipe) = (exe.shared(), exe.recipe());
        let bytes = recipe.arena_bytes.next_multiple_of(4);
        let arena = Mem::new(&shared.context, CL_MEM_READ_WRITE, bytes, ptr::null_mut())?;
        let parts = parts(recipe, Place::Arena, &arena)?;
        let mut kernels = Vec::with_capacity(recipe.steps.len());
        for step in &recipe.steps {
            kernels.push(match step {
                Step::Dispatch(launch) => Some(prepared(shared, launch, exe.constants(), &parts)?),
                Step::Copy { .. } => None,
            });
        }
        let set = exe.outsides().iter().map(|_| None).collect();
        Ok(Self { number, arena, _parts: parts, kernels, set })
    }

    /// Sets the arguments that differ from the last run's.
    pub(crate) fn bind(&mut self, exe: &ClExecutable, ins: &[Bound], outs: &[Bound]) -> Result<()> {
        for (outside, set) in exe.outsides().iter().zip(&mut self.set) {
            let bound = match outside.slice.place {
                Place::Input(i) => ins.get(i),
                Place::Output(i) => outs.get(i),
                Place::Arena | Place::Constants => None,
            };
            let bound = bound.ok_or_else(|| Error::invalid("a recipe names an input or output that is not bound"))?;
            let (buffer, offset) = (bound.buffer()?, bound.offset + outside.slice.offset);
            let same = |a: &Argument| a.number == buffer.number && a.offset == offset && a.mem.strong_count() > 0;
            if set.as_ref().is_some_and(same) {
                continue;
            }
            *set = None;
            let mem = buffer.part(offset, outside.slice.len)?;
            for &(step, argument) in &outside.arguments {
                let kernel = self.kernels[step].as_ref();
                set_argument(kernel.ok_or_else(|| Error::invalid("a copy has no arguments"))?, argument, &mem)?;
            }
            *set = Some(Argument { number: buffer.number, offset, mem: Arc::downgrade(&mem) });
        }
        Ok(())
    }

    /// Enqueues all steps in order. `seen` is given the node and the event of each launch and of each copy.
    pub(crate) fn enqueue(
        &self,
        exe: &ClExecutable,
        queue: &CommandQueue,
        (ins, outs): (&[Bound], &[Bound]),
        seen: &mut dyn FnMut(Option<usize>, Event),
    ) -> Result<()> {
        for (step, kernel) in exe.recipe().steps.iter().zip(&self.kernels) {
            match (step, kernel) {
                (Step::Dispatch(launch), Some(kernel)) => seen(Some(launch.node), start(queue, kernel, launch)?),
                (Step::Copy { from, to }, _) if from.len > 0 => {
                    let whole = |s: &Slice| self.whole(exe, s, ins, outs);
                    seen(None, copy(queue, whole(from)?, whole(to)?, from.len)?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The buffer that a slice is in, and where.
    fn whole(&self, exe: &ClExecutable, slice: &Slice, ins: &[Bound], outs: &[Bound]) -> Result<(cl_mem, usize)> {
        let outside = |bound: Option<&Bound>| {
            let bound = bound.ok_or_else(|| Error::invalid("a recipe names an input or output that is not bound"))?;
            Ok((bound.buffer()?.mem().raw(), bound.offset + slice.offset))
        };
        match slice.place {
            Place::Arena => Ok((self.arena.raw(), slice.offset)),
            Place::Constants => Ok((exe.constant_memory().raw(), slice.offset)),
            Place::Input(i) => outside(ins.get(i)),
            Place::Output(i) => outside(outs.get(i)),
        }
    }
}

/// A kernel whose arguments in the arena and the constants are set.
fn prepared(shared: &Shared, launch: &Dispatch, constants: &Parts, arena: &Parts) -> Result<Kernel> {
    let kernel = shared.programs.kernel(shared, launch)?;
    for (argument, slice) in (0u32..).zip(&launch.buffers) {
        let key = (slice.offset, slice.len);
        let mem = match slice.place {
            Place::Arena => arena.get(&key),
            Place::Constants => constants.get(&key),
            Place::Input(_) | Place::Output(_) => continue,
        };
        let gone = || Error::failed(Status::Internal, "a slice of a recipe has no memory object");
        set_argument(&kernel, argument, mem.ok_or_else(gone)?)?;
    }
    Ok(kernel)
}

fn set_argument(kernel: &Kernel, argument: u32, mem: &Mem) -> Result<()> {
    let handle = mem.raw();
    let value = ptr::from_ref(&handle).cast::<c_void>();
    // SAFETY: every parameter of every kernel is a buffer, whose argument is a handle of this size; it is copied by the
    // call. A wrong number is an error. The kernel is not used by another thread: its instance is borrowed for writing.
    let done = unsafe { set_kernel_arg(kernel.get(), argument, size_of::<cl_mem>(), value) };
    done.map_err(|e| failed(&format!("argument {argument} of a kernel"), e))
}

fn start(queue: &CommandQueue, kernel: &Kernel, launch: &Dispatch) -> Result<Event> {
    let local = launch.local.map(|n| n as usize);
    let global: [usize; 3] = std::array::from_fn(|axis| launch.groups[axis] as usize * local[axis]);
    // SAFETY: all arguments are set to living buffers that are as large as the recipe says, which is what bounds the
    // kernel's accesses; the sizes are read during the call.
    let event = unsafe {
        enqueue_nd_range_kernel(
            queue.get(),
            kernel.get(),
            3,
            ptr::null(),
            global.as_ptr(),
            local.as_ptr(),
            0,
            ptr::null(),
        )
    };
    event.map(Event::new).map_err(|e| failed(&format!("kernel `{}`", launch.kernel.full_name()), e))
}

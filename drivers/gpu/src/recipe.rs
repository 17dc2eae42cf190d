//! A lowered program: launches and copies in order, their constants, and the memory that they need.

use crate::Kernel;
use ottava_hal::TensorType;
use smallvec::SmallVec;

/// Which memory a slice is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Working memory, one arena per run in flight.
    Arena,
    /// [`Recipe::constants`], the same for all runs.
    Constants,
    /// An input of the program, by its number.
    Input(usize),
    /// An output of the program, by its number.
    Output(usize),
}

/// Bytes of a buffer. Its offset is a multiple of [`crate::Target::alignment`]; only in copies and in inputs and outputs
/// need its length not be a multiple of 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The memory.
    pub place: Place,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Slice {
    /// Whether two slices share a byte.
    pub fn overlaps(&self, other: &Slice) -> bool {
        let end = |s: &Slice| s.offset + s.len;
        self.place == other.place && self.offset < end(other) && other.offset < end(self)
    }
}

/// One launch of a kernel. Its buffers are, in binding order: parameters, the kernel's inputs, its output (the last).
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Values of [`Kernel::spec`], in its order.
    pub spec: SmallVec<[u32; 4]>,
    /// Buffers in binding order; only the last is written.
    pub buffers: SmallVec<[Slice; 6]>,
    /// Work-groups along each axis.
    pub groups: [u32; 3],
    /// Invocations of a work-group along each axis.
    pub local: [u32; 3],
    /// Index of the node in the program that it belongs to.
    pub node: usize,
}

/// One step of a recipe.
#[allow(clippy::large_enum_variant)] // Nearly every step is a launch.
#[derive(Debug, Clone)]
pub enum Step {
    /// Runs a kernel.
    Dispatch(Dispatch),
    /// Copies bytes; both slices have the same length and do not overlap.
    Copy {
        /// Source.
        from: Slice,
        /// Destination.
        to: Slice,
    },
}

impl Step {
    fn reads(&self) -> &[Slice] {
        match self {
            Self::Dispatch(d) => &d.buffers[..d.buffers.len() - 1],
            Self::Copy { from, .. } => std::slice::from_ref(from),
        }
    }

    fn writes(&self) -> Option<&Slice> {
        match self {
            Self::Dispatch(d) => d.buffers.last(),
            Self::Copy { to, .. } => Some(to),
        }
    }
}

/// A lowered program.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Steps in order. A device may overlap those that [`Self::barriers`] does not part.
    pub steps: Vec<Step>,
    /// Packed weights, tables and parameters.
    pub constants: Vec<u8>,
    /// Bytes of working memory.
    pub arena_bytes: usize,
    /// Types of the inputs.
    pub inputs: Vec<TensorType>,
    /// Types of the outputs.
    pub outputs: Vec<TensorType>,
    /// For each node of the program, its name and the kernels that it became, joined by ` + `.
    pub kernels: Vec<(String, String)>,
}

impl Recipe {
    /// For each step, whether what runs before it must be finished first: it touches what an unfinished step writes, or
    /// writes what an unfinished step reads.
    pub fn barriers(&self) -> Vec<bool> {
        let mut unfinished: Vec<&Step> = Vec::new();
        let mut barriers = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let wait = unfinished.iter().any(|before| depends(before, step));
            if wait {
                unfinished.clear();
            }
            unfinished.push(step);
            barriers.push(wait);
        }
        barriers
    }
}

fn depends(before: &Step, step: &Step) -> bool {
    let touches = |written: &Slice| step.reads().iter().chain(step.writes()).any(|s| s.overlaps(written));
    let overwrites = |read: &Slice| step.writes().is_some_and(|w| w.overlaps(read));
    before.writes().is_some_and(touches) || before.reads().iter().any(overwrites)
}

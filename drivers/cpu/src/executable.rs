//! A compiled program: steps over a planned arena, run by [`HostProgram`].
//!
//! Several inferences may run at once. Each takes an arena of its own from a pool; the pool's lock is held only to take
//! one out and to put it back. In the steady state a run allocates nothing.

use crate::arena::{Arena, Memory};
use crate::blob::{self, Packed, bare};
use crate::builder::{Builder, Group, Step, bytes_of};
use crate::sharing;
use crate::shown::Showing;
use ottava_hal::device::NodeTime;
use ottava_hal::host::HostProgram;
use ottava_hal::{Error, Program, Result, Tensor};
use ottava_kernels::{Exec, Isa, ThreadPool};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Steps, constants and memory plan of a program.
pub(crate) struct CpuProgram {
    isa: Isa,
    pool: Arc<ThreadPool>,
    groups: Vec<Group>,
    constants: Vec<Tensor>,
    ranges: Vec<Range<usize>>,
    arena_bytes: usize,
    arenas: Mutex<Vec<Arena>>,
    /// Sizes of the arena buffers and of the outputs.
    buffers: Vec<usize>,
    output_bytes: Vec<usize>,
    /// The memory of runs that show their outputs, once there is one.
    showing: OnceLock<Result<Showing>>,
    /// For saving: the program whose last inputs stand for so many packed weights, and these.
    bare: (Program, u32),
    packed: Vec<Packed>,
    /// Per step: the buffers that nobody reads after it.
    #[cfg(test)]
    dead_after: Vec<Vec<usize>>,
}

impl CpuProgram {
    /// Plans the memory of a finished builder.
    pub(crate) fn new(builder: Builder<'_>, pool: Arc<ThreadPool>) -> Result<Self> {
        let steps: Vec<&Step> = builder.groups.iter().flat_map(|g| &g.steps).collect();
        let accesses: Vec<_> = steps.iter().map(|step| (&step.operands, &step.sharing)).collect();
        let layout = sharing::layout(&accesses, &builder.buffers)?;
        let outputs = builder.program.outputs.iter().map(|id| bytes_of(builder.ty(*id)));
        let output_bytes = outputs.collect::<Result<_>>()?;
        Ok(Self {
            isa: builder.isa,
            pool,
            groups: builder.groups,
            buffers: builder.buffers,
            output_bytes,
            showing: OnceLock::new(),
            constants: builder.constants,
            ranges: layout.ranges,
            arena_bytes: layout.arena_bytes,
            arenas: Mutex::new(vec![]),
            bare: bare(builder.program),
            packed: builder.packs.finish()?,
            #[cfg(test)]
            dead_after: layout.dead_after,
        })
    }

    /// The bytes from which the program comes back without packing.
    pub(crate) fn save(&self) -> Result<Vec<u8>> {
        let (program, n_packed) = &self.bare;
        blob::write(program, *n_packed, &self.packed)
    }

    fn run_groups(&self, memory: &mut Memory<'_, '_>, mut times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        let exec = Exec { isa: self.isa, pool: &self.pool };
        let begin = times.is_some().then(Instant::now);
        let mut step_idx = 0;
        for group in &self.groups {
            let start = begin.map(|b| b.elapsed());
            for step in &group.steps {
                let io = memory.open(&step.operands)?;
                (step.run)(exec, io).map_err(|e| at_node(e, &group.name))?;
                self.after_step(step_idx, memory);
                step_idx += 1;
            }
            if let (Some(times), Some(begin), Some(start)) = (times.as_deref_mut(), begin, start) {
                times.push(NodeTime {
                    node: group.name.clone(),
                    kernel: kernel_of(group),
                    start_ns: start.as_nanos() as u64,
                    duration_ns: (begin.elapsed() - start).as_nanos() as u64,
                    ..NodeTime::default()
                });
            }
        }
        Ok(())
    }

    fn show_groups(
        &self,
        showing: &Showing,
        memory: &mut Memory<'_, '_>,
        see: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let exec = Exec { isa: self.isa, pool: &self.pool };
        let steps = self.groups.iter().flat_map(|group| group.steps.iter().map(|step| (step, &group.name)));
        for (i, ((step, name), operands)) in steps.zip(&showing.operands).enumerate() {
            (step.run)(exec, memory.open(operands)?).map_err(|e| at_node(e, name))?;
            showing.show(i, memory.arena, see);
        }
        Ok(())
    }

    #[cfg(test)]
    fn after_step(&self, step_idx: usize, memory: &mut Memory<'_, '_>) {
        self.dead_after.get(step_idx).into_iter().flatten().for_each(|b| memory.poison(*b));
    }

    #[cfg(not(test))]
    fn after_step(&self, _: usize, _: &mut Memory<'_, '_>) {}
}

fn kernel_of(group: &Group) -> String {
    if group.steps.is_empty() {
        return "view".into();
    }
    group.steps.iter().map(|s| s.kernel.as_str()).collect::<Vec<_>>().join(" + ")
}

fn at_node(error: Error, node: &str) -> Error {
    match error {
        Error::Failed { status, what, transient } => {
            Error::Failed { status, what: format!("node `{node}`: {what}"), transient }
        }
        Error::Invalid(what) => Error::Invalid(format!("node `{node}`: {what}")),
        other => other,
    }
}

impl HostProgram for CpuProgram {
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        let idle = self.arenas.lock().pop();
        let mut arena = idle.map_or_else(|| Arena::new(self.arena_bytes), Ok)?;
        let mut memory =
            Memory { inputs, outputs, constants: &self.constants, ranges: &self.ranges, arena: arena.bytes_mut() };
        let result = self.run_groups(&mut memory, times);
        self.arenas.lock().push(arena);
        result
    }

    fn can_show(&self) -> bool {
        true
    }

    fn run_shown(&self, inputs: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let steps = || self.groups.iter().flat_map(|g| &g.steps).collect::<Vec<_>>();
        let showing = self.showing.get_or_init(|| Showing::new(&steps(), &self.buffers, &self.output_bytes));
        let showing = showing.as_ref().map_err(Error::clone)?;
        let mut arena = showing.take()?;
        let (constants, ranges) = (self.constants.as_slice(), showing.ranges.as_slice());
        let mut memory = Memory { inputs, outputs: &mut [], constants, ranges, arena: arena.bytes_mut() };
        let result = self.show_groups(showing, &mut memory, see);
        showing.give(arena);
        result
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.groups.iter().map(|g| (g.name.clone(), kernel_of(g))).collect()
    }

    fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }
}

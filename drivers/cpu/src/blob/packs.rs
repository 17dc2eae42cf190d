//! Packed weights on their way through the builder: fresh ones are kept for saving, stored ones are handed out in order,
//! to be used where they lie if their memory is shared.
//!
//! Packing is most of the time that compiling takes, and no product's packing depends on another's, so it is put off until
//! all are known and then done on several threads.

use ottava_hal::Result;
use ottava_hal::wire::corrupt;
use ottava_kernels::{ConvF32, ConvU8, PackedBytes};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Threads that pack at most.
const MAX_THREADS: usize = 16;
/// Fewer weights than this are packed sooner than a thread starts.
const SMALL: usize = 1 << 16;

/// The kernel plan of an integer product, once it is packed.
pub(crate) type Slot = Arc<OnceLock<ConvU8>>;

/// The kernel plan of a product, shared with the step that runs it.
pub(crate) enum Packed {
    /// Of 8-bit operands.
    U8(Slot),
    /// Of floats.
    F32(Arc<ConvF32>),
}

impl Packed {
    /// What [`ConvU8::from_packed`] or [`ConvF32::from_packed`] takes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(plan) => plan.get().map(ConvU8::to_packed).unwrap_or_default(),
            Self::F32(plan) => plan.to_packed(),
        }
    }
}

/// The work of packing, which any thread may do.
pub(crate) type Pack<'b> = Box<dyn FnOnce() -> Result<ConvU8> + Send + 'b>;

/// Packing that is put off.
pub(crate) struct Job<'b> {
    /// How many weights it packs.
    pub(crate) n_weights: usize,
    /// The work.
    pub(crate) pack: Pack<'b>,
    /// Where the plan goes.
    pub(crate) slot: Slot,
    /// The arena buffer that is to become as large as the plan's scratch.
    pub(crate) scratch: usize,
}

/// All packed weights of a program.
#[derive(Default)]
pub(crate) struct Packs<'b> {
    /// What is left of a payload; `None` if weights are packed afresh.
    stored: Option<std::vec::IntoIter<PackedBytes<'b>>>,
    /// Those of the steps built so far.
    kept: Vec<Packed>,
    jobs: Vec<Job<'b>>,
}

impl<'b> Packs<'b> {
    /// Weights of a payload.
    pub(crate) fn stored(list: Vec<PackedBytes<'b>>) -> Self {
        Self { stored: Some(list.into_iter()), ..Self::default() }
    }

    /// The packed weights of the next product; `None` if they are to be packed.
    pub(crate) fn next(&mut self) -> Result<Option<PackedBytes<'b>>> {
        let Some(stored) = &mut self.stored else { return Ok(None) };
        stored.next().map(Some).ok_or_else(|| corrupt("packed weights are missing"))
    }

    /// Keeps the plan of a product for saving.
    pub(crate) fn keep(&mut self, packed: Packed) {
        self.kept.push(packed);
    }

    /// Puts packing off until [`Self::pack`].
    pub(crate) fn put_off(&mut self, job: Job<'b>) {
        self.jobs.push(job);
    }

    /// Packs what was put off; arena buffers with the sizes that they need.
    ///
    /// # Errors
    /// That of the first product that cannot be packed, whatever the number of threads.
    pub(crate) fn pack(&mut self) -> Result<Vec<(usize, usize)>> {
        let jobs = std::mem::take(&mut self.jobs);
        let (n_jobs, n_weights) = (jobs.len(), jobs.iter().map(|j| j.n_weights).sum::<usize>());
        let (queue, done) = (Mutex::new(jobs.into_iter().enumerate()), Mutex::new(Vec::with_capacity(n_jobs)));
        let work = || {
            loop {
                let next = queue.lock().next();
                let Some((index, job)) = next else { return };
                let scratch = (job.pack)().map(|plan| (job.scratch, job.slot.get_or_init(|| plan).scratch_len()));
                done.lock().push((index, scratch));
            }
        };
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..n_cores.min(MAX_THREADS).min(n_weights / SMALL) {
                // Without another thread this one does all the work.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        let mut done = done.into_inner();
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, scratch)| scratch).collect()
    }

    /// All plans; an error if a payload has more than the program asked for.
    pub(crate) fn finish(self) -> Result<Vec<Packed>> {
        match self.stored.map_or(0, |left| left.len()) {
            0 => Ok(self.kept),
            n => Err(corrupt(format!("{n} packed weights too many"))),
        }
    }
}

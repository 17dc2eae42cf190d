//! What the queues of a GPU driver do on the host's side: a worker thread per device that hands submissions to the
//! device when their waits are over, and tells their fences how they ended.
//!
//! A driver implements [`Backend`] and gets an asynchronous queue: nothing blocks but [`ottava_hal::Fence::wait`].
//!
//! | file | has |
//! |---|---|
//! | `backend` | what a driver implements, and how it tells the end of a submission |
//! | `queue` | a queue: it checks a submission in the caller's thread |
//! | `core` | the state that device, queues and worker share, and how it changes |
//! | `line` | submissions that wait, and those that run |
//! | `worker` | the thread and what it does next; callers can do it in its stead |
//! | `waits` | what a submission waits for; the timelines of a device |
//! | `profiles` | times that nobody has taken yet |
//! | `bindings` | checks of bindings |
//!
//! **Protocol.** Every queue is a list of submissions under one lock. The worker takes the first of a queue whose waits
//! are over, going round the queues, and hands it to the device without the lock; so a queue that waits holds up no
//! other, and several submissions of one queue may be on the device, which keeps their order. Whatever may make the
//! worker do something (a submission, a timeline, an end, a reset) changes the state first and then wakes it under the
//! lock, so no wake-up is lost. Fences are signalled without the lock: a listener may submit again.
//!
//! **Failures.** A failed wait, a passed deadline or a lost device ends a submission without running it. A panic of the
//! driver is caught and is that submission's error. A submission that hangs (an injected fault) holds its queue, as on
//! hardware: it ends at its deadline, when faults are cleared, by a reset, or with the device. What still runs at a
//! reset tells its fences at once that the device was lost, and keeps its memory until the device has let go of it.

mod backend;
mod bindings;
mod core;
mod line;
mod profiles;
mod queue;
mod waits;
mod worker;

#[cfg(test)]
mod tests;

pub use self::core::Core;
pub use backend::{Backend, Completion};
pub use bindings::{check_bindings, check_copy, check_distinct, check_range};
pub use profiles::Profiles;
pub use queue::EngineQueue;
pub use worker::Engine;

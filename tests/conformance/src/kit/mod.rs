//! What the groups share: small programs that a device accepts, their runs between guard bytes, random numbers, and what
//! the process holds.

mod holdings;
mod net;
mod rng;
mod work;

pub(crate) use holdings::Holdings;
pub(crate) use net::{Net, basis, case_programs};
pub(crate) use rng::Rng;
pub(crate) use work::{
    Bound, LIMIT, Work, buffer_of, bytes_of, done, expected, first_difference, guarded_run, random_inputs,
    submit_and_wait,
};

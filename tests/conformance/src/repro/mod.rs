//! What reproduces a failure: a program with its inputs, what was expected and what came, in one file (`.orepro`).
//!
//! A case attaches a [`Repro`] to its failure ([`Repro::differs`]); the runner adds where it comes from
//! ([`ReproFile`]) and writes it. Every failure gets a file: without a program it names the case and the seed, which is
//! enough to run it again alone.
//!
//! Layout: magic, texts and numbers in the order of [`ReproFile`], then the program in the wire form of `ottava_hal::wire`
//! and three lists of tensors. Reading trusts nothing.

mod file;

pub use file::ReproFile;

use crate::{Check, Stop};
use ottava_hal::wire::{self, Inline, Reader, Writer};
use ottava_hal::{Error, Program, Result, Tensor};

/// A program that gave wrong results.
#[derive(Debug, Clone, PartialEq)]
pub struct Repro {
    /// What ran. Its nodes hold the requantization modes.
    pub program: Program,
    /// One tensor per input of the program.
    pub inputs: Vec<Tensor>,
    /// One tensor per output: what the reference computes.
    pub expected: Vec<Tensor>,
    /// One tensor per output: what the device computed. Empty if it computed nothing.
    pub actual: Vec<Tensor>,
}

impl Repro {
    /// The failure of a case whose results differ: words, and everything that is needed to look into it.
    pub fn differs(self, what: impl Into<String>) -> Stop {
        Stop::Differs(what.into(), Box::new(self))
    }

    /// Passes if the device computed the very bits that were expected; else fails with the first element that differs.
    pub fn equal(self) -> Check {
        match crate::diagnose::first_in_words(&self) {
            None => Ok(()),
            Some(words) => Err(self.differs(words)),
        }
    }

    /// Appends it to a file.
    fn write(&self, w: &mut Writer) -> Result<()> {
        wire::encode(&self.program, &mut Inline, w)?;
        for list in [&self.inputs, &self.expected, &self.actual] {
            w.size(list.len());
            for tensor in list {
                w.tensor(tensor, &mut Inline)?;
            }
        }
        Ok(())
    }

    /// Reads it and checks that the tensors are those of the program.
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let program = wire::decode(r, &mut Inline)?;
        let mut tensors = || r.list(LEAST_TENSOR, |r| r.tensor(&mut Inline));
        let (inputs, expected, actual) = (tensors()?, tensors()?, tensors()?);
        let repro = Self { program, inputs, expected, actual };
        repro.check()?;
        Ok(repro)
    }

    /// Whether the tensors fit the program.
    fn check(&self) -> Result<()> {
        let p = &self.program;
        fits("input", p, &p.inputs, &self.inputs)?;
        fits("expected output", p, &p.outputs, &self.expected)?;
        if self.actual.is_empty() { Ok(()) } else { fits("actual output", p, &p.outputs, &self.actual) }
    }
}

/// Fewest bytes of a tensor: its type and the flag of its data.
const LEAST_TENSOR: usize = 9;

fn fits(what: &str, program: &Program, ids: &[ottava_hal::ValueId], tensors: &[Tensor]) -> Result<()> {
    if ids.len() != tensors.len() {
        return Err(Error::invalid(format!("{} tensors for {} {what}s", tensors.len(), ids.len())));
    }
    for (i, (id, tensor)) in ids.iter().zip(tensors).enumerate() {
        let ty = program.ty(*id);
        let known = ty.shape.known();
        if ty.dtype != tensor.dtype() || known.is_some_and(|dims| dims != tensor.shape()) {
            return Err(Error::invalid(format!("{what} {i} is {}, the program says {ty}", tensor.ty())));
        }
    }
    Ok(())
}

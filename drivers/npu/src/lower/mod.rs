//! From typed nodes to steps: places and forms of values, and the tiles of each kind of step.
//!
//! A [`Builder`] keeps where every value lies outside the chip and in which form (channels last for images), turns nodes
//! into [`Step`]s and packs constants. A step knows its tiles before a single address is fixed: whether a node fits the
//! scratchpads is decided when it is lowered, so an assessment and a compilation cannot disagree. When all steps are there,
//! `keep` chooses the values that stay on the chip, and the steps around them are cut into tiles again.

mod binary;
mod builder;
mod chip;
mod depthwise;
mod image;
mod keep;
mod mean;
mod params;
mod pieces;
mod plan;
mod pool;
mod product;
mod slices;
mod softmax;
mod table;
mod transpose;
mod walk;
mod window;

pub(crate) use binary::{Binary, Second};
pub(crate) use builder::{Builder, Lowered};
pub(crate) use chip::Chip;
pub(crate) use depthwise::Depthwise;
pub(crate) use image::Geometry;
pub(crate) use mean::Mean;
pub(crate) use params::{Params, fits_u32, no_memory, params};
pub(crate) use pieces::{Convert, Piece, Pieces};
pub(crate) use plan::Plan;
pub(crate) use pool::{Kind, Pool};
pub(crate) use product::{Batch, InPlace, Product, Source};
pub(crate) use softmax::Softmax;
pub(crate) use table::{Constants, Epilogue, Table, clamp_of};
pub(crate) use transpose::{Matrices, Transpose};
pub(crate) use window::{Axis, window};

use crate::emit::{Pipeline, Place};
use ottava_hal::Result;
use ottava_npu::isa::Local;

/// The order of a value's elements outside the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The logical order.
    Plain,
    /// Batch, spatial axes, channels.
    Last,
}

/// A byte of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loc {
    pub buffer: usize,
    pub offset: usize,
}

impl Loc {
    /// The byte `bytes` further on.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

/// Where buffers lie.
pub(crate) type At<'a> = &'a dyn Fn(Loc) -> Place;

/// What a step may use of the chip, and what lies there already.
#[derive(Clone, Copy)]
pub(crate) struct Room<'r> {
    /// The chip without what is kept on it.
    pub chip: &'r Chip,
    /// Where a buffer's byte is kept on the chip.
    pub kept: &'r dyn Fn(Loc) -> Option<Local>,
    /// Tiles are chosen by the time of moves; otherwise as if what is moved came from memory and went there, which is
    /// sometimes the better guess.
    pub moves: bool,
}

impl<'r> Room<'r> {
    /// A chip on which nothing is kept.
    pub(crate) fn whole(chip: &'r Chip) -> Self {
        Self { chip, kept: &|_| None, moves: false }
    }
}

/// The byte of a scratchpad `bytes` further on.
fn further(from: Local, bytes: usize) -> Local {
    Local { offset: from.offset + bytes as u32, ..from }
}

/// The tiles of a step.
pub(crate) trait Tiles {
    /// Chooses tiles that fit the room, or refuses; whatever was chosen before is forgotten.
    fn fit(&mut self, room: &Room<'_>) -> Result<()>;

    /// What runs, in words, for the profile.
    fn kernel(&self) -> String;

    /// Whether the choice of tiles depends on [`Room::moves`].
    fn knows_moves(&self) -> bool {
        false
    }

    /// Writes the groups of every tile.
    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()>;
}

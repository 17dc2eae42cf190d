//! Rows for kernels that compute a row at a time: a value whose rows' words lie together, or one that is moved there first,
//! and the teams of invocations that make a row.

use super::types::{refuse, word};
use crate::builder::{Buf, Builder};
use crate::form::{Form, Stored};
use ottava_hal::{Reason, Result, ValueId};

/// Most invocations of a work-group of these kernels: their shared memory has as many seats.
const SEATS: u32 = 1024;
/// Shared memory of these kernels, bytes.
const SHARED_BYTES: u32 = 16 << 10;
/// Invocations of a team.
const TEAM: u32 = 64;

/// The rows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Rows lie along one axis.
    Axis(usize),
    /// A row is all axes from one on.
    From(usize),
}

/// Where the rows of a value are.
pub(super) struct Lines {
    pub rows: usize,
    pub n: usize,
    /// Words of a row.
    pub words: usize,
    dims: Vec<usize>,
    along: Along,
    lanes: usize,
    /// The form whose rows they are; `None`: they are moved.
    form: Option<Form>,
}

impl Lines {
    /// The rows of a value.
    pub fn of(builder: &Builder<'_>, id: ValueId, along: Along) -> Result<Self> {
        let (ty, dims) = (builder.ty(id), builder.dims(id)?);
        let lanes = 32 / ty.dtype.bits().min(32);
        let (rank, total) = (dims.len(), dims.iter().product::<usize>());
        let n: usize = match along {
            Along::Axis(a) => dims[a],
            Along::From(a) => dims[a..].iter().product(),
        };
        if n == 0 || total == 0 {
            return refuse(Reason::ShapeLimit, "empty rows");
        }
        let form = match along {
            Along::Axis(a) | Along::From(a) if a + 1 == rank => Some(Form::Rows),
            Along::Axis(1) if rank > 2 => Some(Form::Image),
            Along::From(_) if n.is_multiple_of(lanes) || n == total => Some(Form::Plain),
            _ => None,
        };
        Ok(Self { rows: total / n, n, words: n.div_ceil(lanes), dims, along, lanes, form })
    }

    /// The rows as a kernel reads them.
    pub fn read(&self, builder: &mut Builder<'_>, id: ValueId) -> Result<Buf> {
        if let Some(form) = self.form {
            return builder.read(id, form);
        }
        let plain = Stored::new(builder.ty(id), Form::Plain)?;
        let x = builder.read(id, Form::Plain)?;
        let to = builder.scratch(self.rows * self.words * 4)?;
        let padded = self.words * self.lanes;
        let axes: Vec<_> = match self.along {
            Along::Axis(a) => {
                let others = (0..self.dims.len()).filter(|i| *i != a);
                let others = others.map(|i| (self.dims[i], self.dims[i], plain.stride(i)));
                others.chain([(padded, self.n, plain.stride(a))]).collect()
            }
            Along::From(_) => vec![(self.rows, self.rows, self.n), (padded, self.n, 1)],
        };
        builder.relayout(&axes, (x, 0), plain.element_bytes, 0, to)?;
        Ok(to)
    }

    /// Where a kernel writes rows.
    pub fn write(&self, builder: &mut Builder<'_>, id: ValueId) -> Result<Buf> {
        match self.form {
            Some(form) => builder.write(id, form),
            None => builder.scratch(self.rows * self.words * 4),
        }
    }

    /// Brings moved rows back.
    pub fn finish(&self, builder: &mut Builder<'_>, id: ValueId, rows: Buf) -> Result<()> {
        if self.form.is_some() {
            return Ok(());
        }
        let bytes = Stored::new(builder.ty(id), Form::Plain)?.element_bytes;
        let to = builder.write(id, Form::Plain)?;
        let padded = self.words * self.lanes;
        let axes: Vec<_> = match self.along {
            Along::Axis(a) => {
                let behind = |i: usize| (i + 1..self.dims.len()).filter(|k| *k != a).map(|k| self.dims[k]);
                let stride = |i: usize| if i == a { 1 } else { behind(i).product::<usize>() * padded };
                (0..self.dims.len()).map(|i| (self.dims[i], self.dims[i], stride(i))).collect()
            }
            Along::From(_) => vec![(self.rows, self.rows, padded), (self.n, self.n, 1)],
        };
        builder.relayout(&axes, (rows, 0), bytes, 0, to)
    }
}

/// How rows are shared out: invocations of a team, of a work-group, and in all.
pub(super) struct Team {
    pub size: u32,
    pub local: [u32; 3],
    pub items: usize,
}

impl Team {
    /// The team for rows of `n` elements. Reals are added by one invocation in ascending order where shared memory brings
    /// nothing.
    pub fn of(builder: &Builder<'_>, rows: usize, n: usize, reals: bool) -> Result<Self> {
        let target = builder.target;
        if target.shared_bytes < SHARED_BYTES {
            return refuse(Reason::Memory, format!("{} bytes of shared memory", target.shared_bytes));
        }
        let most = target.group.clamp(1, SEATS);
        let short = n < TEAM as usize || (reals && !target.shared_fast);
        let size = if short { 1 } else { most.min(TEAM) };
        word(rows)?;
        let (local, items) = if size == 1 { (most, rows) } else { (size, rows * size as usize) };
        Ok(Self { size, local: [local, 1, 1], items })
    }
}

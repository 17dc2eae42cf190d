//! What moves elements: copies, cuts, joints, padding.

use super::Form;
use crate::groups::numerics::build::{Build, Like, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::{Attr, Node, Tensor, ValueId};

/// The operators.
pub(super) const OPS: &[&str] = &[
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Pad",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// A program under construction with its input.
struct Mover<'a, 'b> {
    form: &'a Form,
    draw: &'a mut Draw<'b>,
    build: Build,
    x: ValueId,
    dims: Vec<usize>,
    like: Like,
    node: Node,
}

/// A movement of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = match form.op {
        "DepthToSpace" | "SpaceToDepth" => {
            vec![draw.size(1, 2), 4 * draw.size(1, 5), 2 * draw.size(1, 4), 2 * draw.size(1, 4)]
        }
        _ => draw.dims(1, 5, 2000),
    };
    let mut build = Build::new(form.op);
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let mut mover = Mover { form, draw, build, x, dims, like: (form.dtype, params), node: form.node() };
    let (inputs, n) = mover.inputs()?;
    let about = format!("input {:?}, attributes {:?}", mover.dims, mover.node.attrs.0);
    let inputs: Vec<Option<ValueId>> = inputs.into_iter().map(Some).collect();
    let outputs = mover.build.node(mover.node, &inputs, &vec![mover.like; n])?;
    mover.build.finish(&outputs, about)
}

impl Mover<'_, '_> {
    fn axis(&mut self) -> usize {
        self.draw.size(0, self.dims.len() - 1)
    }

    fn with_ints(&mut self, values: &[i64]) -> Option<Vec<ValueId>> {
        Some(vec![self.x, self.build.ints(values)?])
    }

    /// The inputs and the number of outputs; sets attributes.
    fn inputs(&mut self) -> Option<(Vec<ValueId>, usize)> {
        let inputs = match self.form.op {
            "Concat" => self.concat()?,
            "Split" => return self.split(),
            "Slice" => self.slice()?,
            "Pad" => self.pad()?,
            "Gather" => self.gather()?,
            "Transpose" => {
                self.transpose();
                vec![self.x]
            }
            "Flatten" => {
                let axis = self.axis() as i64;
                self.node.attrs.set("axis", Attr::Int(axis));
                vec![self.x]
            }
            "DepthToSpace" | "SpaceToDepth" => {
                self.node.attrs.set("blocksize", Attr::Int(2));
                vec![self.x]
            }
            _ => self.shaped()?,
        };
        Some((inputs, 1))
    }

    /// What takes a list of numbers beside the data.
    fn shaped(&mut self) -> Option<Vec<ValueId>> {
        let axis = self.axis();
        let list: Vec<i64> = match self.form.op {
            "Reshape" => {
                let n: usize = self.dims.iter().product();
                if self.draw.once_in(2) { vec![-1] } else { vec![1, n as i64, 1] }
            }
            "Unsqueeze" => vec![axis as i64],
            "Squeeze" => return self.squeeze(axis),
            "Tile" => self.dims.iter().enumerate().map(|(i, _)| if i == axis { 2 } else { 1 }).collect(),
            _ => [vec![2], self.dims.iter().map(|d| *d as i64).collect()].concat(),
        };
        self.with_ints(&list)
    }

    /// Data with one more axis, so that there is one to remove.
    fn squeeze(&mut self, axis: usize) -> Option<Vec<ValueId>> {
        let mut dims = self.dims.clone();
        dims.insert(axis, 1);
        self.build = Build::new(self.form.op);
        let data = self.draw.data(self.form.dtype, &dims, self.like.1.as_ref())?;
        self.x = self.build.input(data, self.like.1.clone());
        self.dims = dims;
        self.with_ints(&[axis as i64])
    }

    fn concat(&mut self) -> Option<Vec<ValueId>> {
        let axis = self.axis();
        self.node.attrs.set("axis", Attr::Int(axis as i64));
        let mut inputs = vec![self.x];
        for _ in 0..self.draw.size(1, 2) {
            let mut dims = self.dims.clone();
            dims[axis] = self.draw.extent(1, axis, 9);
            let other = if self.draw.once_in(2) { self.draw.params(self.form.dtype) } else { self.like.1.clone() };
            let data = self.draw.data(self.form.dtype, &dims, other.as_ref())?;
            inputs.push(self.build.input(data, other));
        }
        Some(inputs)
    }

    fn split(&mut self) -> Option<(Vec<ValueId>, usize)> {
        let axis = self.axis();
        let extent = self.dims[axis];
        let first = if extent < 2 { return None } else { self.draw.size(1, extent - 1) };
        self.node.attrs.set("axis", Attr::Int(axis as i64));
        Some((self.with_ints(&[first as i64, (extent - first) as i64])?, 2))
    }

    fn slice(&mut self) -> Option<Vec<ValueId>> {
        let axis = self.axis();
        let extent = self.dims[axis] as i64;
        let start = self.draw.range(0, extent - 1);
        let end = self.draw.range(start + 1, extent);
        let lists = [start, end, axis as i64, if self.draw.once_in(3) { 2 } else { 1 }];
        let ids = lists.map(|v| self.build.ints(&[v]));
        Some(std::iter::once(self.x).chain(ids.into_iter().flatten()).collect())
    }

    fn pad(&mut self) -> Option<Vec<ValueId>> {
        let n = self.dims.len();
        let pads: Vec<i64> = (0..2 * n).map(|_| if self.draw.once_in(2) { 0 } else { self.draw.range(0, 3) }).collect();
        let mode = if self.draw.once_in(3) { "edge" } else { "constant" };
        self.node.attrs.set("mode", Attr::Str(mode.into()));
        self.with_ints(&pads)
    }

    fn gather(&mut self) -> Option<Vec<ValueId>> {
        let axis = self.axis();
        self.node.attrs.set("axis", Attr::Int(axis as i64));
        let extent = self.dims[axis] as i64;
        let picks: Vec<i64> = (0..self.draw.size(1, 5)).map(|_| self.draw.range(-extent, extent - 1)).collect();
        let list = Tensor::from_slice(&[picks.len()], &picks).ok()?;
        let id = if self.draw.once_in(2) { self.build.constant(list, None) } else { self.build.input(list, None) };
        Some(vec![self.x, id])
    }

    fn transpose(&mut self) {
        let mut perm: Vec<i64> = (0..self.dims.len() as i64).collect();
        for i in (1..perm.len()).rev() {
            perm.swap(i, self.draw.size(0, i));
        }
        self.node.attrs.set("perm", Attr::Ints(perm));
    }
}

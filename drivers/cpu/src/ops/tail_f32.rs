//! What a float product does to its sums before it stores them: the bias, a residual and the activation that the node itself
//! names, and Adds behind it whose other operand is a bias vector or a value that exists already. The operations are the same
//! f32 operations in the same order, so no bit changes; only the passes over memory are saved.

use super::product::{Product, bias, residual};
use super::sum::only_reader;
use crate::builder::{Builder, output};
use crate::rows::act_bounds;
use ottava_hal::{DataType, Node, Result, TensorType, ValueId};

/// No activation.
const OPEN: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// The end of a product.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    pub(super) bias: Option<ValueId>,
    pub(super) residual: Option<ValueId>,
    /// Bounds of the activation.
    pub(super) bounds: (f32, f32),
    /// What is computed in the end.
    pub(super) y: ValueId,
    /// Results of the Adds that are done with it: of a bias, of a residual.
    pub(super) taken: [Option<ValueId>; 2],
}

impl Tail {
    /// The tail of a node.
    pub(super) fn of(builder: &Builder<'_>, node: &Node, product: &Product) -> Result<Self> {
        let mut tail = Self {
            bias: bias(node),
            residual: residual(node),
            bounds: act_bounds(node),
            y: output(node)?,
            taken: [None; 2],
        };
        while let Some(next) = tail.longer(builder, product) {
            tail = next;
        }
        Ok(tail)
    }

    /// The tail with the Add behind it, if there is one that can be taken.
    fn longer(self, builder: &Builder<'_>, product: &Product) -> Option<Self> {
        if self.residual.is_some() || self.bounds != OPEN {
            return None;
        }
        let add = only_reader(builder.program, self.y).filter(|n| n.op == "Add" && n.domain.is_empty())?;
        let [Some(a), Some(b)] = add.inputs.as_slice() else { return None };
        let (other, y) = (if *a == self.y { *b } else { *a }, output(add).ok()?);
        let (ty, other_ty) = (builder.ty(y), builder.ty(other));
        if other == self.y || !is_float(ty) || !is_float(other_ty) || ty.shape != builder.ty(self.y).shape {
            return None;
        }
        // There is room: a bias and a residual are taken at most once each.
        let next = Self { bounds: act_bounds(add), y, taken: [Some(y), self.taken[0]], ..self };
        if self.bias.is_none()
            && !product.nhwc
            && builder.is_constant(other)
            && is_vector(other_ty, product.shape.out_c)
        {
            return Some(Self { bias: Some(other), ..next });
        }
        let exists = builder.is_constant(other) || builder.exists(other);
        (exists && other_ty.shape == ty.shape).then_some(Self { residual: Some(other), ..next })
    }
}

fn is_float(ty: &TensorType) -> bool {
    ty.dtype == DataType::F32 && ty.quant.is_none()
}

/// Whether all elements lie along the last axis, one per channel.
fn is_vector(ty: &TensorType, channels: usize) -> bool {
    ty.shape.known().is_some_and(|d| d.last() == Some(&channels) && ty.shape.elements() == Some(channels))
}

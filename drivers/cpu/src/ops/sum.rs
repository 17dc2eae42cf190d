//! The typed Add behind a typed product, computed by the product's epilogue ([`ottava_kernels::Epilogue::RequantAdd`]): the
//! product is rounded to its own 8 bits as always, and the sum follows in registers. No bit changes; what is saved is one
//! pass of stores and one of loads over an image.

use super::product::{Product, residual};
use crate::builder::{Builder, output};
use crate::rows::per_tensor;
use ottava_hal::{DataType, Node, Program, RequantMode, TensorType, ValueId};

/// The sum that a product takes.
#[derive(Clone, Copy)]
pub(super) struct Sum<'p> {
    /// The node behind the product.
    pub(super) node: &'p Node,
    /// The operand that is not the product, of the result's shape.
    pub(super) other: ValueId,
    /// The result.
    pub(super) y: ValueId,
}

impl<'p> Sum<'p> {
    /// The sum behind a product, if its epilogue can take it and the other operand is there already.
    pub(super) fn behind(builder: &Builder<'p>, node: &Node, product: &Product) -> Option<Self> {
        let own = output(node).ok()?;
        let fixed_point = node.requant.is_some_and(|mode| mode != RequantMode::Fp32Rne);
        // A depthwise filter has a kernel that knows requantization alone.
        if fixed_point || residual(node).is_some() || product.shape.groups > 1 || !is_byte(builder.ty(own)) {
            return None;
        }
        let add = only_reader(builder.program, own).filter(|n| n.op == "Add" && n.domain.is_empty())?;
        let [Some(a), Some(b)] = add.inputs.as_slice() else { return None };
        let (other, y) = (if *a == own { *b } else { *a }, output(add).ok()?);
        let there = builder.is_constant(other) || builder.exists(other);
        let as_laid = product.nhwc || !builder.is_nhwc(other);
        let alike = |id: ValueId| is_byte(builder.ty(id)) && builder.ty(id).shape == builder.ty(own).shape;
        (there && as_laid && alike(other) && alike(y)).then_some(Self { node: add, other, y })
    }
}

/// The one node that reads a value, once, if the value is no output of the program.
pub(super) fn only_reader(program: &Program, id: ValueId) -> Option<&Node> {
    let mut reads = program.nodes.iter().flat_map(|n| n.inputs.iter().filter(|i| **i == Some(id)).map(move |_| n));
    let (first, second) = (reads.next(), reads.next());
    first.filter(|_| second.is_none() && !program.outputs.contains(&id))
}

/// Whether a type has 8 bits and one scale.
fn is_byte(ty: &TensorType) -> bool {
    matches!(ty.dtype, DataType::U8 | DataType::S8) && per_tensor(ty).is_some()
}

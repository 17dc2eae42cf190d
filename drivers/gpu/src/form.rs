//! The orders in which the elements of a value lie in a buffer.

use ottava_hal::{DataType, Error, Reason, Result, TensorType};

/// An order of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Row-major as the type says, without padding.
    Plain,
    /// Row-major, the last axis padded to whole words: operands of matrix products.
    Rows,
    /// Axis 1 comes last and is padded to whole words: images whose channels lie together.
    Image,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Rows, Self::Image];
}

/// One axis of a stored value, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Which axis of the value.
    pub axis: usize,
    /// Elements along it.
    pub extent: usize,
    /// The same with padding.
    pub padded: usize,
}

/// How a value is stored in a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub axes: Vec<Axis>,
    pub element_bytes: usize,
}

/// Bytes of an element in a buffer; 4-bit elements do not lie there.
pub(crate) fn element_bytes(dtype: DataType) -> Result<usize> {
    match dtype.bits() {
        bits @ (8 | 16 | 32 | 64) => Ok(bits / 8),
        _ => Err(Error::unsupported(Reason::Dtype, format!("{dtype} elements in a kernel"))),
    }
}

impl Stored {
    pub(crate) fn new(ty: &TensorType, form: Form) -> Result<Self> {
        let dims = ty.shape.known();
        let dims = dims.ok_or_else(|| Error::unsupported(Reason::DynamicShape, "a shape is only known at run time"))?;
        let element_bytes = element_bytes(ty.dtype)?;
        let lanes = (4 / element_bytes).max(1);
        let mut axes: Vec<Axis> =
            dims.iter().enumerate().map(|(axis, &extent)| Axis { axis, extent, padded: extent }).collect();
        if form == Form::Image {
            if dims.len() < 2 {
                return Err(Error::unsupported(Reason::Rank, "an image without channels"));
            }
            let channels = axes.remove(1);
            axes.push(channels);
        }
        if let (Some(last), Form::Rows | Form::Image) = (axes.last_mut(), form) {
            last.padded = last.extent.next_multiple_of(lanes);
        }
        Ok(Self { axes, element_bytes })
    }

    /// Elements with padding.
    pub(crate) fn elements(&self) -> Result<usize> {
        let too_large = || Error::unsupported(Reason::Memory, "a value of more than 2^31 bytes");
        let product = self.axes.iter().try_fold(1usize, |n, a| n.checked_mul(a.padded)).ok_or_else(too_large)?;
        let bytes =
            product.checked_mul(self.element_bytes).filter(|b| *b <= i32::MAX as usize).ok_or_else(too_large)?;
        Ok(bytes / self.element_bytes)
    }

    /// Bytes with padding.
    pub(crate) fn bytes(&self) -> Result<usize> {
        Ok(self.elements()? * self.element_bytes)
    }

    /// Whether both lie in memory in the same way.
    pub(crate) fn same_bytes(&self, other: &Self) -> bool {
        let real = |s: &Self| s.axes.iter().filter(|a| a.padded != 1).copied().collect::<Vec<_>>();
        real(self) == real(other)
    }

    /// Distance of neighbours along an axis of the value, in elements.
    pub(crate) fn stride(&self, axis: usize) -> usize {
        self.axes.iter().rev().take_while(|a| a.axis != axis).map(|a| a.padded).product()
    }
}

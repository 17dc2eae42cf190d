//! Shape of a 2-D convolution over NHWC; a matrix product is its 1 x 1 case.

use alloc::format;

use crate::error::{KernelError, Result, product};

/// Everything about a convolution but the batch, which is known at run time from the input's length.
///
/// 1-D convolutions have `in_h = 1`. A matrix product `[M][K] x [K][N]` is [`ConvShape::gemm`] with batch M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Input rows.
    pub in_h: usize,
    /// Input columns.
    pub in_w: usize,
    /// Input channels, all groups.
    pub in_c: usize,
    /// Output channels, all groups.
    pub out_c: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Vertical and horizontal dilation.
    pub dilation: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pads: [usize; 4],
    /// Groups; divides both channel counts.
    pub groups: usize,
}

impl ConvShape {
    /// A matrix product with inner dimension `k` and `n` columns.
    pub fn gemm(k: usize, n: usize) -> Self {
        Self {
            in_h: 1,
            in_w: 1,
            in_c: k,
            out_c: n,
            kernel: [1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            pads: [0; 4],
            groups: 1,
        }
    }

    /// Output height and width.
    pub fn out_hw(&self) -> Result<[usize; 2]> {
        let h =
            out_extent(self.in_h, self.kernel[0], self.stride[0], self.dilation[0], self.pads[0], self.pads[2], false)?;
        let w =
            out_extent(self.in_w, self.kernel[1], self.stride[1], self.dilation[1], self.pads[1], self.pads[3], false)?;
        Ok([h, w])
    }

    /// Checks everything and derives the sizes that kernels use.
    pub(crate) fn geometry(&self) -> Result<Geometry> {
        if self.groups == 0 || self.in_c == 0 || self.out_c == 0 {
            return Err(KernelError::Shape { what: format!("zero channels or groups in {self:?}") });
        }
        if !self.in_c.is_multiple_of(self.groups) || !self.out_c.is_multiple_of(self.groups) {
            let what = format!("channels {} -> {} are not divisible by {} groups", self.in_c, self.out_c, self.groups);
            return Err(KernelError::Shape { what });
        }
        let [out_h, out_w] = self.out_hw()?;
        let k = product("the kernel", &[self.kernel[0], self.kernel[1], self.in_c / self.groups])?;
        Ok(Geometry {
            out_h,
            out_w,
            image: product("the input image", &[self.in_h, self.in_w, self.in_c])?,
            out_image: product("the output image", &[out_h, out_w, self.out_c])?,
            k,
            n_weights: product("the weights", &[k, self.out_c])?,
            macs: product("the number of multiply-adds", &[out_h, out_w, self.out_c, k])?,
        })
    }

    /// 1 x 1 kernel, stride 1, no padding: pixels are rows of a matrix, whatever the image.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 2] && self.stride == [1; 2] && self.pads == [0; 4]
    }

    /// One filter per channel.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.in_c && self.groups == self.out_c
    }
}

/// Sizes derived from a checked [`ConvShape`]; none of their products overflows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) out_h: usize,
    pub(crate) out_w: usize,
    /// Elements of an input image.
    pub(crate) image: usize,
    /// Elements of an output image.
    pub(crate) out_image: usize,
    /// Weights per output channel.
    pub(crate) k: usize,
    /// Weights in all.
    pub(crate) n_weights: usize,
    /// Multiply-adds per image.
    pub(crate) macs: usize,
}

impl Geometry {
    /// How many images `len` input elements are.
    pub(crate) fn batch(&self, len: usize) -> Result<usize> {
        let batch = len / self.image;
        if batch * self.image == len {
            return Ok(batch);
        }
        Err(KernelError::Length { what: "the input", found: len, expected: (batch + 1) * self.image })
    }
}

/// Output extent along one axis.
pub(crate) fn out_extent(
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    ceil: bool,
) -> Result<usize> {
    if input == 0 || kernel == 0 || stride == 0 || dilation == 0 {
        let what = format!("zero extent: input {input}, kernel {kernel}, stride {stride}, dilation {dilation}");
        return Err(KernelError::Shape { what });
    }
    let overflow = KernelError::Overflow { what: "the padded input" };
    let padded = input.checked_add(before).and_then(|p| p.checked_add(after)).ok_or(overflow.clone())?;
    let window = (kernel - 1).checked_mul(dilation).and_then(|w| w.checked_add(1)).ok_or(overflow)?;
    let Some(room) = padded.checked_sub(window) else {
        return Err(KernelError::Shape {
            what: format!("a window of {window} does not fit a padded input of {padded}"),
        });
    };
    let mut out = room / stride + 1;
    // With rounding up, a last window that would start in the padding behind the input is dropped (ONNX pooling).
    if ceil && !room.is_multiple_of(stride) && out * stride < input + before {
        out += 1;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_extents() {
        let case = |i, k, s, d, p, ceil| out_extent(i, k, s, d, p, p, ceil).unwrap();
        assert_eq!(case(224, 7, 2, 1, 3, false), 112);
        assert_eq!(case(5, 3, 1, 2, 0, false), 1);
        assert_eq!([case(6, 3, 2, 1, 0, false), case(6, 3, 2, 1, 0, true)], [2, 3]);
        assert_eq!(case(4, 1, 3, 1, 0, true), 2);
    }

    #[test]
    fn impossible_shapes_are_errors() {
        assert!(matches!(out_extent(2, 3, 1, 1, 0, 0, false), Err(KernelError::Shape { .. })));
        assert!(matches!(out_extent(usize::MAX, 3, 1, 1, 1, 1, false), Err(KernelError::Overflow { .. })));
        assert!(matches!(out_extent(2, 3, 0, 1, 9, 0, false), Err(KernelError::Shape { .. })));
        let mut shape = ConvShape::gemm(6, 4);
        shape.groups = 4;
        assert!(matches!(shape.geometry(), Err(KernelError::Shape { .. })));
        let huge = ConvShape::gemm(usize::MAX / 2, 4);
        assert!(matches!(huge.geometry(), Err(KernelError::Overflow { .. })));
    }
}

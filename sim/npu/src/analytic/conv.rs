//! A convolution as products of matrices (`npu.md` section 3): M = output positions, K = window · input channels per
//! group, N = output channels per group, once per group.

use super::{DIM_MAX, Error, Gemm, Result, in_range, narrow};

/// One axis of a convolution's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Elements of the kernel.
    pub kernel: u64,
    /// Steps between two outputs.
    pub stride: u64,
    /// Steps between two elements of the kernel.
    pub dilation: u64,
    /// Padding before and behind the input.
    pub padding: [u64; 2],
}

impl Window {
    /// A window without padding or dilation.
    pub const fn new(kernel: u64, stride: u64) -> Self {
        Self { kernel, stride, dilation: 1, padding: [0, 0] }
    }

    /// Outputs along this axis for `input` elements.
    pub fn output(&self, input: u64) -> Result<u64> {
        for (value, what) in [
            (self.kernel, "kernel extent"),
            (self.stride, "stride"),
            (self.dilation, "dilation"),
            (input, "input extent"),
        ] {
            in_range(value, DIM_MAX, what)?;
        }
        let [before, behind] = self.padding.map(u128::from);
        let padded = u128::from(input) + before + behind;
        let extent = u128::from(self.dilation) * u128::from(self.kernel - 1) + 1;
        let room = padded.checked_sub(extent).ok_or(Error::Range {
            what: "extent of the dilated kernel",
            value: u64::try_from(extent).unwrap_or(u64::MAX),
            max: u64::try_from(padded).unwrap_or(u64::MAX),
        })?;
        narrow(room / u128::from(self.stride) + 1, "output extent")
    }
}

/// A two-dimensional convolution; a one-dimensional one has height 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Images.
    pub batch: u64,
    /// Input height and width, without padding.
    pub input: [u64; 2],
    /// Input channels, all groups together.
    pub channels_in: u64,
    /// Output channels, all groups together.
    pub channels_out: u64,
    /// Groups that do not see each other.
    pub groups: u64,
    /// The window along height and width.
    pub window: [Window; 2],
}

/// A convolution as `groups` equal products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvGemm {
    /// The product of one group.
    pub gemm: Gemm,
    /// How often it runs.
    pub groups: u64,
    /// Output height and width.
    pub output: [u64; 2],
    /// Whether each group has one input channel, so that the depthwise mappings apply.
    pub depthwise: bool,
}

impl ConvShape {
    /// The convolution as products of matrices; groups must divide both numbers of channels.
    pub fn gemm(&self) -> Result<ConvGemm> {
        let per_group = |channels: u64, what: &'static str| {
            in_range(self.groups, DIM_MAX, "number of groups")?;
            in_range(channels, DIM_MAX, what)?;
            if !channels.is_multiple_of(self.groups) {
                return Err(Error::Range {
                    what: "number of groups (it must divide the channels)",
                    value: self.groups,
                    max: channels,
                });
            }
            Ok(channels / self.groups)
        };
        let k_channels = per_group(self.channels_in, "number of input channels")?;
        let n = per_group(self.channels_out, "number of output channels")?;
        let [rows, cols] = self.window;
        let output = [rows.output(self.input[0])?, cols.output(self.input[1])?];
        let m = dim(&[self.batch, output[0], output[1]], "number of output positions")?;
        let k = dim(&[rows.kernel, cols.kernel, k_channels], "window times input channels")?;
        let gemm = Gemm::new(m, n, k);
        gemm.check()?;
        Ok(ConvGemm { gemm, groups: self.groups, output, depthwise: k_channels == 1 && self.groups > 1 })
    }
}

/// A product of extents as one dimension of a matrix.
fn dim(extents: &[u64], what: &'static str) -> Result<u64> {
    let product = extents.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
    in_range(product.ok_or(Error::Overflow { what })?, DIM_MAX, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(input: u64, channels: [u64; 2], groups: u64, window: Window) -> ConvShape {
        let [channels_in, channels_out] = channels;
        ConvShape { batch: 1, input: [input; 2], channels_in, channels_out, groups, window: [window; 2] }
    }

    #[test]
    fn first_layers_of_known_networks() {
        let stem = conv(224, [3, 64], 1, Window { padding: [3, 3], ..Window::new(7, 2) }).gemm().unwrap();
        assert_eq!((stem.gemm, stem.output, stem.depthwise), (Gemm::new(12544, 64, 147), [112, 112], false));
        let depthwise = conv(112, [32, 32], 32, Window { padding: [1, 1], ..Window::new(3, 1) }).gemm().unwrap();
        assert_eq!((depthwise.gemm, depthwise.groups, depthwise.depthwise), (Gemm::new(12544, 1, 9), 32, true));
    }

    #[test]
    fn dilation_widens_the_window() {
        let window = Window { dilation: 2, ..Window::new(3, 1) };
        assert_eq!(window.output(9).unwrap(), 5);
        assert!(window.output(4).unwrap_err().to_string().contains("dilated kernel is 5"));
    }

    #[test]
    fn impossible_shapes_are_errors() {
        assert!(conv(8, [6, 8], 4, Window::new(3, 1)).gemm().is_err());
        assert!(conv(8, [8, 8], 1, Window::new(3, 0)).gemm().is_err());
        assert!(conv(u64::MAX, [8, 8], 1, Window::new(3, 1)).gemm().is_err());
        assert!(conv(DIM_MAX, [8, 8], 1, Window::new(1, 1)).gemm().is_err());
    }
}

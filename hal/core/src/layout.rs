//! How a tensor's axes lie in memory.

/// Memory layout of a tensor. Shapes are always given in the operator's logical (ONNX) axis order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// The last logical axis varies fastest. The only layout of everything that is not an image.
    #[default]
    RowMajor,
    /// Channels last: axis 1 varies fastest, the other axes keep their order.
    Nhwc,
}

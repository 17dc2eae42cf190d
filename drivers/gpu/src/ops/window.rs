//! Sliding windows of pools over one to three spatial axes, as three axes.

use ottava_hal::{Attrs, Error, Result};

/// No attribute of a window may exceed this; sums of products of two then fit `usize`.
const LIMIT: i64 = 1 << 20;

/// One axis of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
}

impl Axis {
    /// An axis on which nothing happens.
    const IDENTITY: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 };

    /// The axis as a kernel takes it.
    pub fn words(&self) -> [u32; 7] {
        [self.input, self.output, self.kernel, self.stride, self.dilation, self.before, self.after].map(|v| v as u32)
    }
}

/// The axes of a pool from spatial extents `x` to `y`; depth and height are 1 where there are fewer.
pub(super) fn axes(attrs: &Attrs, x: &[usize], y: &[usize]) -> Result<[Axis; 3]> {
    let rank = x.len();
    let wrong = |what: &str| Error::invalid(format!("{what} of a window over {x:?}"));
    if rank == 0 || rank > 3 || y.len() != rank {
        return Err(wrong("the number of axes"));
    }
    let kernel = attrs.ints_opt("kernel_shape")?.ok_or_else(|| wrong("no kernel"))?;
    let kernel = list("kernel_shape", kernel, rank, 1)?;
    let ones = |name: &str| attrs.ints_opt(name)?.map_or(Ok(vec![1; rank]), |v| list(name, v, rank, 1));
    let (strides, dilations) = (ones("strides")?, ones("dilations")?);
    let pads = attrs.ints_opt("pads")?.map_or(Ok(vec![0; 2 * rank]), |v| list("pads", v, 2 * rank, 0))?;
    let auto = attrs.str("auto_pad", "NOTSET")?;
    let mut axes = [Axis::IDENTITY; 3];
    for i in 0..rank {
        let mut axis = Axis { input: x[i], output: y[i], kernel: kernel[i], ..Axis::IDENTITY };
        (axis.stride, axis.dilation) = (strides[i], dilations[i]);
        let needed = (y[i].saturating_sub(1)) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
        let total = needed.saturating_sub(x[i]);
        (axis.before, axis.after) = match auto {
            "NOTSET" | "" => (pads[i], pads[i + rank]),
            "VALID" => (0, 0),
            "SAME_UPPER" => (total / 2, total - total / 2),
            "SAME_LOWER" => (total - total / 2, total / 2),
            other => return Err(Error::invalid(format!("auto_pad `{other}` is not one of ONNX"))),
        };
        axes[3 - rank + i] = axis;
    }
    Ok(axes)
}

fn list(name: &str, values: &[i64], len: usize, least: i64) -> Result<Vec<usize>> {
    if values.len() != len || values.iter().any(|v| !(least..=LIMIT).contains(v)) {
        return Err(Error::invalid(format!("`{name}` is {values:?}, expected {len} numbers from {least} to {LIMIT}")));
    }
    Ok(values.iter().map(|&v| v as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Attr;

    #[test]
    fn same_puts_the_odd_element_by_its_name() {
        for (mode, pads) in [("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0))] {
            let attrs = Attrs::default().with("auto_pad", Attr::Str(mode.into()));
            let attrs = attrs.with("kernel_shape", Attr::Ints(vec![2]));
            let [_, _, w] = axes(&attrs, &[5], &[5]).unwrap();
            assert_eq!((w.before, w.after), pads);
        }
    }

    #[test]
    fn absurd_attributes_are_errors() {
        let attrs = |name: &str, v: i64| {
            Attrs::default().with("kernel_shape", Attr::Ints(vec![2])).with(name, Attr::Ints(vec![v]))
        };
        for (name, v) in [("strides", 0), ("dilations", 1 << 40), ("kernel_shape", 0)] {
            assert!(axes(&attrs(name, v), &[5], &[5]).is_err(), "{name}");
        }
    }
}

//! Sliding windows of convolutions and pools over one or two spatial axes, as two axes.

use ottava_hal::{Attrs, Error, Result};

/// No attribute of a window may exceed this; sums of products of two then fit `usize`.
const LIMIT: i64 = 1 << 30;

/// A window; 1-D operators have height 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Height and width of the kernel.
    pub(crate) kernel: [usize; 2],
    /// Steps between outputs.
    pub(crate) stride: [usize; 2],
    /// Steps between taps.
    pub(crate) dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub(crate) pads: [usize; 4],
}

/// Height and width of the spatial extents behind batch and channels.
pub(crate) fn height_width(dims: &[usize]) -> Result<[usize; 2]> {
    match dims {
        [_, _, w] => Ok([1, *w]),
        [_, _, h, w] => Ok([*h, *w]),
        _ => Err(Error::invalid(format!("shape {dims:?} has no one or two spatial axes"))),
    }
}

impl Window {
    /// The window of a node over an input of these extents (batch, channels, spatial). `kernel` are the spatial extents
    /// of the weights, for operators that have some.
    pub(crate) fn parse(attrs: &Attrs, dims: &[usize], kernel: Option<&[usize]>) -> Result<Self> {
        let [h, w] = height_width(dims)?;
        let rank = dims.len() - 2;
        let kernel = match (kernel, attrs.ints_opt("kernel_shape")?) {
            (Some(k), _) => pair(k, 1),
            (None, Some(k)) => pair(&list("kernel_shape", k, rank, 1)?, 1),
            (None, None) => return Err(Error::invalid("attribute `kernel_shape` is missing")),
        };
        let ones = |name: &str| match attrs.ints_opt(name)? {
            Some(v) => list(name, v, rank, 1).map(|v| pair(&v, 1)),
            None => Ok([1, 1]),
        };
        let mut window = Self { kernel, stride: ones("strides")?, dilation: ones("dilations")?, pads: [0; 4] };
        match attrs.str("auto_pad", "NOTSET")? {
            "NOTSET" | "" => {
                if let Some(v) = attrs.ints_opt("pads")? {
                    let pads = list("pads", v, 2 * rank, 0)?;
                    let ([t, l], [b, r]) = (pair(&pads[..rank], 0), pair(&pads[rank..], 0));
                    window.pads = [t, l, b, r];
                }
            }
            "VALID" => {}
            "SAME_UPPER" => window.pads = window.same([h, w], false),
            "SAME_LOWER" => window.pads = window.same([h, w], true),
            other => return Err(Error::invalid(format!("auto_pad `{other}` is not one of ONNX"))),
        }
        Ok(window)
    }

    /// Pads that keep `ceil(extent / stride)` outputs; the odd one in front if `lower`.
    fn same(&self, extents: [usize; 2], lower: bool) -> [usize; 4] {
        let axis = |i: usize| {
            let covered = (extents[i].div_ceil(self.stride[i]).max(1) - 1) * self.stride[i];
            let total = (covered + (self.kernel[i] - 1) * self.dilation[i] + 1).saturating_sub(extents[i]);
            if lower { (total - total / 2, total / 2) } else { (total / 2, total - total / 2) }
        };
        let ((t, b), (l, r)) = (axis(0), axis(1));
        [t, l, b, r]
    }
}

/// One or two entries as two, `fill` in front.
fn pair(values: &[usize], fill: usize) -> [usize; 2] {
    match values {
        [w] => [fill, *w],
        [h, w, ..] => [*h, *w],
        [] => [fill; 2],
    }
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
    fn one_axis_is_the_width() {
        let attrs = Attrs::default()
            .with("kernel_shape", Attr::Ints(vec![3]))
            .with("strides", Attr::Ints(vec![2]))
            .with("pads", Attr::Ints(vec![1, 2]));
        let w = Window::parse(&attrs, &[1, 4, 9], None).unwrap();
        assert_eq!(w, Window { kernel: [1, 3], stride: [1, 2], dilation: [1, 1], pads: [0, 1, 0, 2] });
    }

    #[test]
    fn same_puts_the_odd_element_by_its_name() {
        for (mode, pads) in [("SAME_UPPER", [0, 1, 1, 1]), ("SAME_LOWER", [1, 1, 0, 1])] {
            let attrs = Attrs::default().with("auto_pad", Attr::Str(mode.into()));
            assert_eq!(Window::parse(&attrs, &[1, 1, 5, 5], Some(&[2, 3])).unwrap().pads, pads);
        }
    }

    #[test]
    fn absurd_attributes_are_errors() {
        for (name, v) in [("strides", vec![0, 1]), ("pads", vec![-1, 0, 0, 0]), ("dilations", vec![1 << 40, 1])] {
            let attrs = Attrs::default().with(name, Attr::Ints(v));
            assert!(Window::parse(&attrs, &[1, 1, 5, 5], Some(&[2, 3])).is_err(), "{name}");
        }
    }
}

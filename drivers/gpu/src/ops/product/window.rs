//! Windows of convolutions over one or two spatial axes, as two axes. The types say the extents; the attributes must agree.

use super::operand::bad_shape;
use ottava_hal::{Attrs, Error, Result};

/// No number of a window exceeds this; sums of products of two fit `i64`.
const LIMIT: i64 = 1 << 30;

/// One axis of a window; of a transposed convolution it is the axis of the forward one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Padding in front.
    pub before: usize,
}

impl Axis {
    /// An axis on which nothing happens.
    pub(super) const ONE: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 };

    /// Extent of the kernel with its gaps.
    pub(super) fn effective(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// Extent of the image that all taps of all outputs see, from the first padded element on.
    pub(super) fn seen(&self) -> usize {
        (self.output - 1) * self.stride + self.effective()
    }

    /// Whether a tap can lie outside of the image.
    pub(super) fn is_padded(&self) -> bool {
        self.before > 0 || self.seen() > self.input
    }
}

/// Kernel, strides, dilations and pads in front of a node with these spatial extents: as two axes, height first. What
/// lies behind is what the output's extent needs.
pub(super) fn forward(attrs: &Attrs, kernel: &[usize], x: &[usize], y: &[usize]) -> Result<[Axis; 2]> {
    let list = Lists::of(attrs, kernel.len())?;
    let lower = match attrs.str("auto_pad", "NOTSET")? {
        "SAME_LOWER" => Some(true),
        "SAME_UPPER" => Some(false),
        _ => None,
    };
    let axis = |i: usize| {
        let mut axis = list.axis(i, kernel[i], (x[i], y[i]));
        if let Some(lower) = lower {
            let total = axis.seen().saturating_sub(x[i]);
            axis.before = if lower { total - total / 2 } else { total / 2 };
        }
        axis
    };
    let axes = two(kernel, x, y, axis)?;
    for (i, axis) in axes[2 - kernel.len()..].iter().enumerate() {
        let padded = x[i] + list.pads[i] + list.pads[i + kernel.len()];
        let wanted = padded.checked_sub(axis.effective()).map(|room| room / axis.stride + 1);
        if lower.is_none() && wanted != Some(y[i]) {
            return Err(bad_shape(format!("an output {y:?} that the attributes do not make of {x:?}")));
        }
    }
    Ok(axes)
}

/// The same of a transposed convolution: `x` is the smaller side, whose extents the forward convolution would compute.
pub(super) fn transposed(attrs: &Attrs, kernel: &[usize], x: &[usize], y: &[usize]) -> Result<[Axis; 2]> {
    let list = Lists::of(attrs, kernel.len())?;
    let padding = numbers(attrs, "output_padding", kernel.len(), 0)?.unwrap_or_else(|| vec![0; kernel.len()]);
    let auto = attrs.str("auto_pad", "NOTSET")?;
    let chosen = attrs.ints_opt("output_shape")?.is_some() || auto.starts_with("SAME");
    let axis = |i: usize| {
        let mut axis = list.axis(i, kernel[i], (y[i], x[i]));
        if chosen {
            let total = (axis.seen() + padding[i]).saturating_sub(y[i]);
            axis.before = if auto == "SAME_LOWER" { total - total / 2 } else { total / 2 };
        }
        axis
    };
    let axes = two(kernel, y, x, axis)?;
    for (i, axis) in axes[2 - kernel.len()..].iter().enumerate() {
        let wanted = (axis.seen() + padding[i]).checked_sub(list.pads[i] + list.pads[i + kernel.len()]);
        if !chosen && wanted != Some(y[i]) {
            return Err(bad_shape(format!("an output {y:?} that the attributes do not make of {x:?}")));
        }
    }
    Ok(axes)
}

fn two(kernel: &[usize], large: &[usize], small: &[usize], axis: impl Fn(usize) -> Axis) -> Result<[Axis; 2]> {
    let sane = |v: &[usize]| v.iter().all(|&n| (1..LIMIT as usize).contains(&n));
    let same = kernel.len() == large.len() && kernel.len() == small.len();
    if !(same && sane(kernel) && sane(large) && sane(small)) {
        return Err(bad_shape(format!("a window {kernel:?} between {large:?} and {small:?}")));
    }
    match kernel.len() {
        1 => Ok([Axis::ONE, axis(0)]),
        2 => Ok([axis(0), axis(1)]),
        n => Err(bad_shape(format!("a window over {n} axes, supported: 1 and 2"))),
    }
}

struct Lists {
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads: Vec<usize>,
}

impl Lists {
    fn of(attrs: &Attrs, rank: usize) -> Result<Self> {
        let ones = |name: &str| Ok(numbers(attrs, name, rank, 1)?.unwrap_or_else(|| vec![1; rank]));
        let auto = !matches!(attrs.str("auto_pad", "NOTSET")?, "NOTSET" | "");
        let pads = if auto { None } else { numbers(attrs, "pads", 2 * rank, 0)? };
        Ok(Self {
            strides: ones("strides")?,
            dilations: ones("dilations")?,
            pads: pads.unwrap_or_else(|| vec![0; 2 * rank]),
        })
    }

    fn axis(&self, i: usize, kernel: usize, (input, output): (usize, usize)) -> Axis {
        let (stride, dilation, before) = (self.strides[i], self.dilations[i], self.pads[i]);
        Axis { input, output, kernel, stride, dilation, before }
    }
}

fn numbers(attrs: &Attrs, name: &str, len: usize, least: i64) -> Result<Option<Vec<usize>>> {
    let Some(values) = attrs.ints_opt(name)? else { return Ok(None) };
    if values.len() != len || values.iter().any(|v| !(least..=LIMIT).contains(v)) {
        return Err(Error::invalid(format!("`{name}` is {values:?}, expected {len} numbers from {least} to {LIMIT}")));
    }
    Ok(Some(values.iter().map(|&v| v as usize).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Attr;

    #[test]
    fn same_puts_the_odd_element_by_its_name() {
        for (mode, before) in [("SAME_UPPER", 0), ("SAME_LOWER", 1)] {
            let attrs = Attrs::default().with("auto_pad", Attr::Str(mode.into()));
            let [h, w] = forward(&attrs, &[2], &[5], &[5]).unwrap();
            assert_eq!((h, w.before), (Axis::ONE, before));
            assert!(w.is_padded());
        }
    }

    #[test]
    fn absurd_attributes_are_errors() {
        for (name, v) in [("strides", vec![0, 1]), ("pads", vec![-1, 0, 0, 0]), ("dilations", vec![1 << 40, 1])] {
            let attrs = Attrs::default().with(name, Attr::Ints(v));
            assert!(forward(&attrs, &[2, 3], &[5, 5], &[4, 3]).is_err(), "{name}");
        }
        assert!(forward(&Attrs::default(), &[2, 2, 2], &[5; 3], &[4; 3]).is_err());
    }
}

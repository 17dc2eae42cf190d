//! Sliding windows: kernel, strides, dilations and pads of convolutions and pools, as checked geometry.
//!
//! * (C1) `auto_pad` SAME keeps `ceil(input / stride)`; the odd element goes behind (UPPER) or in front (LOWER).
//! * (C2) `ceil_mode` rounds the extent up, but a window never starts in the trailing padding.
//! * (C3) zero strides, negative pads, kernels larger than the padded input are errors.

use ottava_hal::{Attrs, Dim, Error, Reason, Result};
use std::ops::Range;

/// No attribute of a window may exceed this; far beyond real models, and sums of products of two fit `usize`.
const LIMIT: i64 = 1 << 30;

/// How `auto_pad` chooses the pads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoPad {
    /// The attribute `pads` holds.
    NotSet,
    /// No padding.
    Valid,
    /// Keep the extent, the odd element behind.
    SameUpper,
    /// Keep the extent, the odd element in front.
    SameLower,
}

impl AutoPad {
    /// The attribute of a node.
    pub fn parse(attrs: &Attrs) -> Result<Self> {
        Ok(match attrs.str("auto_pad", "NOTSET")? {
            "NOTSET" | "" => Self::NotSet,
            "VALID" => Self::Valid,
            "SAME_UPPER" => Self::SameUpper,
            "SAME_LOWER" => Self::SameLower,
            other => return Err(Error::invalid(format!("auto_pad `{other}` is not one of ONNX"))),
        })
    }

    /// Splits a total into front and back.
    pub fn split(self, total: usize) -> (usize, usize) {
        let less = total / 2;
        if self == Self::SameLower { (total - less, less) } else { (less, total - less) }
    }
}

/// One axis of a window over an input of known extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Extent of the input.
    pub input: usize,
    /// Extent of the output.
    pub output: usize,
    /// Taps.
    pub kernel: usize,
    /// Step between outputs.
    pub stride: usize,
    /// Step between taps.
    pub dilation: usize,
    /// Padding in front.
    pub before: usize,
    /// Padding behind.
    pub after: usize,
}

impl Axis {
    /// An axis on which nothing happens.
    pub const fn identity(n: usize) -> Self {
        Self { input: n, output: n, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 }
    }

    /// Extent of the kernel with its gaps.
    pub fn effective(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The taps of output `o` that lie inside the input.
    pub fn taps(&self, o: usize) -> Range<usize> {
        self.taps_within(o, self.before, self.input + self.before)
    }

    /// The taps of output `o` that lie inside the input or its padding.
    pub fn padded_taps(&self, o: usize) -> Range<usize> {
        self.taps_within(o, 0, self.input + self.before + self.after)
    }

    fn taps_within(&self, o: usize, lo: usize, hi: usize) -> Range<usize> {
        let start = o * self.stride;
        let first = lo.saturating_sub(start).div_ceil(self.dilation);
        let end = hi.saturating_sub(start).div_ceil(self.dilation);
        first.min(self.kernel)..end.min(self.kernel)
    }

    /// Input position of tap `k` of output `o`, which must be one of [`Self::taps`].
    pub fn at(&self, o: usize, k: usize) -> usize {
        o * self.stride + k * self.dilation - self.before
    }

    /// The outputs whose tap `k` lies inside the input.
    pub fn outputs(&self, k: usize) -> Range<usize> {
        let shift = k * self.dilation;
        let first = self.before.saturating_sub(shift).div_ceil(self.stride);
        let end = (self.input + self.before).saturating_sub(shift).div_ceil(self.stride);
        let end = end.min(self.output);
        first.min(end)..end
    }
}

/// The window attributes of a node, one entry per spatial axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Taps.
    pub kernel: Vec<usize>,
    /// Steps between outputs.
    pub strides: Vec<usize>,
    /// Steps between taps.
    pub dilations: Vec<usize>,
    /// Front and back padding, where `auto_pad` does not choose.
    pub pads: Vec<(usize, usize)>,
    /// How the pads are chosen.
    pub auto: AutoPad,
    /// Round the output extent up.
    pub ceil: bool,
}

impl Window {
    /// Parses the attributes for `rank` spatial axes; `kernel` is the weight's extent, where there is a weight.
    pub fn parse(attrs: &Attrs, kernel: Option<&[usize]>, rank: usize) -> Result<Self> {
        if rank == 0 || rank > 3 {
            return Err(Error::unsupported(Reason::Rank, format!("windows over {rank} axes; 1 to 3 are supported")));
        }
        let given = attrs.ints_opt("kernel_shape")?.map(|k| list("kernel_shape", k, rank, 1)).transpose()?;
        let kernel = match (given, kernel) {
            (Some(a), Some(w)) if a != w => {
                return Err(Error::invalid(format!("kernel_shape {a:?} differs from the weight's {w:?}")));
            }
            (Some(a), _) => a,
            (None, Some(w)) if w.iter().all(|&k| (1..=LIMIT as usize).contains(&k)) => w.to_vec(),
            (None, Some(w)) => return Err(Error::invalid(format!("a kernel of extents {w:?} is empty or too large"))),
            (None, None) => return Err(Error::invalid("attribute `kernel_shape` is missing")),
        };
        let or_ones = |name: &str| -> Result<Vec<usize>> {
            attrs.ints_opt(name)?.map_or(Ok(vec![1; rank]), |v| list(name, v, rank, 1))
        };
        let pads = match attrs.ints_opt("pads")? {
            Some(v) => list("pads", v, 2 * rank, 0)?,
            None => vec![0; 2 * rank],
        };
        let window = Self {
            kernel,
            strides: or_ones("strides")?,
            dilations: or_ones("dilations")?,
            pads: (0..rank).map(|i| (pads[i], pads[i + rank])).collect(),
            auto: AutoPad::parse(attrs)?,
            ceil: attrs.int("ceil_mode", 0)? != 0,
        };
        for (&k, &d) in window.kernel.iter().zip(&window.dilations) {
            if (k - 1).checked_mul(d).is_none_or(|n| n > LIMIT as usize) {
                return Err(Error::invalid(format!("a kernel of {k} taps with dilation {d} is too large")));
            }
        }
        Ok(window)
    }

    /// Axis `i` over an input of known extent.
    pub fn axis(&self, i: usize, input: usize) -> Result<Axis> {
        let (kernel, stride, dilation) = (self.kernel[i], self.strides[i], self.dilations[i]);
        let mut axis = Axis { kernel, stride, dilation, ..Axis::identity(input) };
        let effective = axis.effective();
        if let AutoPad::SameUpper | AutoPad::SameLower = self.auto {
            axis.output = input.div_ceil(stride);
            let needed = axis.output.saturating_sub(1).saturating_mul(stride).saturating_add(effective);
            (axis.before, axis.after) = self.auto.split(needed.saturating_sub(input));
            return Ok(axis);
        }
        if self.auto == AutoPad::NotSet {
            (axis.before, axis.after) = self.pads[i];
        }
        let padded = input.checked_add(axis.before + axis.after).filter(|&n| n <= isize::MAX as usize);
        let Some(room) = padded.and_then(|n| n.checked_sub(effective)) else {
            let (b, a) = (axis.before, axis.after);
            return Err(Error::invalid(format!(
                "a window of {effective} does not fit spatial axis {i} of extent {input} with pads {b} and {a}"
            )));
        };
        axis.output = room / stride + 1;
        if self.ceil {
            axis.output = room.div_ceil(stride) + 1;
            if (axis.output - 1) * stride >= input + axis.before {
                axis.output -= 1;
            }
        }
        Ok(axis)
    }

    /// The output extent over a possibly symbolic input; `fresh` where it is not known.
    pub fn output_dim(&self, i: usize, input: &Dim, fresh: Dim) -> Result<Dim> {
        if let Dim::Known(n) = input {
            return Ok(Dim::Known(self.axis(i, *n)?.output));
        }
        let same = matches!(self.auto, AutoPad::SameUpper | AutoPad::SameLower);
        let (b, a) = if self.auto == AutoPad::NotSet { self.pads[i] } else { (0, 0) };
        let keeps = same || b + a == (self.kernel[i] - 1) * self.dilations[i];
        Ok(if self.strides[i] == 1 && keeps { input.clone() } else { fresh })
    }

    /// The axes over a spatial shape, with identity axes in front up to three.
    pub fn axes(&self, spatial: &[usize]) -> Result<[Axis; 3]> {
        let mut axes = [Axis::identity(1); 3];
        for (i, &n) in spatial.iter().enumerate() {
            axes[3 - spatial.len() + i] = self.axis(i, n)?;
        }
        Ok(axes)
    }
}

/// Checks length and bounds of an integer list.
pub fn list(name: &str, values: &[i64], len: usize, least: i64) -> Result<Vec<usize>> {
    if values.len() != len {
        return Err(Error::invalid(format!("`{name}` has {} entries, expected {len}", values.len())));
    }
    match values.iter().find(|v| !(least..=LIMIT).contains(v)) {
        Some(v) => Err(Error::invalid(format!("`{name}` holds {v}, expected {least} to {LIMIT}"))),
        None => Ok(values.iter().map(|&v| v as usize).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Attr;

    fn window(attrs: &[(&str, Attr)]) -> Result<Window> {
        let attrs = attrs.iter().fold(Attrs::default(), |a, (k, v)| a.with(*k, v.clone()));
        Window::parse(&attrs, None, 1)
    }

    fn ints(v: &[i64]) -> Attr {
        Attr::Ints(v.to_vec())
    }

    #[test]
    fn c1_same_puts_the_odd_element_by_its_name() {
        for (mode, expect) in [("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0))] {
            let w = window(&[("kernel_shape", ints(&[2])), ("auto_pad", Attr::Str(mode.into()))]).unwrap();
            let axis = w.axis(0, 5).unwrap();
            assert_eq!((axis.output, axis.before, axis.after), (5, expect.0, expect.1));
        }
    }

    #[test]
    fn c2_ceil_never_starts_in_the_trailing_padding() {
        let w = |k, s, p| {
            let attrs = [
                ("kernel_shape", ints(&[k])),
                ("strides", ints(&[s])),
                ("pads", ints(&[p, p])),
                ("ceil_mode", Attr::Int(1)),
            ];
            window(&attrs).unwrap()
        };
        assert_eq!(w(3, 2, 0).axis(0, 4).unwrap().output, 2);
        assert_eq!(w(1, 2, 0).axis(0, 2).unwrap().output, 1, "the second window would start outside");
        assert_eq!(w(2, 2, 1).axis(0, 3).unwrap().output, 2);
    }

    #[test]
    fn c3_pathological_attributes_are_errors() {
        let k = ("kernel_shape", ints(&[3]));
        assert!(window(&[k.clone(), ("strides", ints(&[0]))]).is_err());
        assert!(window(&[k.clone(), ("pads", ints(&[-1, 0]))]).is_err());
        assert!(window(&[k.clone(), ("pads", ints(&[i64::MAX, 0]))]).is_err());
        assert!(window(&[k.clone(), ("dilations", ints(&[1 << 30]))]).is_err());
        let e = window(&[k]).unwrap().axis(0, 2).unwrap_err();
        assert!(e.to_string().contains("does not fit"), "{e}");
    }

    #[test]
    fn taps_and_outputs_agree() {
        let axis = Axis { input: 5, output: 4, kernel: 3, stride: 2, dilation: 2, before: 3, after: 3 };
        for o in 0..4 {
            for k in 0..3 {
                let inside = (o * 2 + k * 2) as i64 - 3;
                let expect = (0..5).contains(&inside);
                assert_eq!(axis.taps(o).contains(&k), expect, "o {o} k {k}");
                assert_eq!(axis.outputs(k).contains(&o), expect, "o {o} k {k}");
            }
        }
    }
}

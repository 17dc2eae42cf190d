//! Windows of convolutions and pools, along one axis.

use crate::emit::Op;
use ottava_hal::{Attrs, Error, Reason, Result};
use ottava_npu::isa::Reg;
use std::ops::Range;

/// One spatial axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
}

/// Part of an axis: outputs, and the inputs that they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub outputs: Range<usize>,
    pub inputs: Range<usize>,
}

impl Axis {
    /// An axis of extent 1 on which nothing happens.
    pub(crate) const UNIT: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0 };

    /// Whether windows are the elements themselves.
    pub(crate) fn is_identity(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == 0 && self.output == self.input
    }

    /// First position of the window of output `o`, which may lie in the padding.
    fn start(&self, o: usize) -> i64 {
        (o * self.stride) as i64 - self.before as i64
    }

    /// Number of taps of output `o` inside the axis.
    pub(crate) fn taps(&self, o: usize) -> usize {
        let inside = |k: &usize| {
            let at = self.start(o) + (k * self.dilation) as i64;
            (0..self.input as i64).contains(&at)
        };
        (0..self.kernel).filter(inside).count()
    }

    /// Number of taps of output `o` inside the axis or its padding.
    pub(crate) fn padded_taps(&self, o: usize) -> usize {
        let end = (self.input + self.after) as i64;
        (0..self.kernel).filter(|k| self.start(o) + ((k * self.dilation) as i64) < end).count()
    }

    /// Outputs with the inputs that they need; at least one input, which then no tap reaches.
    pub(crate) fn part(&self, outputs: Range<usize>) -> Part {
        let last = self.start(outputs.end.saturating_sub(1)) + ((self.kernel - 1) * self.dilation) as i64;
        let end = (last + 1).clamp(1, self.input as i64) as usize;
        let start = (self.start(outputs.start).max(0) as usize).min(end - 1);
        Part { outputs, inputs: start..end }
    }

    /// Inputs that `outputs` outputs need at most.
    pub(crate) fn reach(&self, outputs: usize) -> usize {
        ((outputs.max(1) - 1) * self.stride + (self.kernel - 1) * self.dilation + 1).min(self.input)
    }

    /// The registers (extent, kernel, stride, dilation, outputs) and the padding of a slice of the taps.
    pub(crate) fn registers(&self, op: Op, regs: [Reg; 5], pad: Reg, taps: &Range<usize>) -> Op {
        let before = self.before as i64 - (taps.start * self.dilation) as i64;
        let [extent, kernel, stride, dilation, output] = regs;
        op.set(extent, self.input)
            .set(kernel, taps.len())
            .set(stride, self.stride)
            .set(dilation, self.dilation)
            .set(output, self.output)
            .int(pad, before as i32)
    }

    /// The same for all taps and a part of the axis, whose inputs are all that is on the chip.
    pub(crate) fn part_registers(&self, op: Op, regs: [Reg; 5], pad: Reg, part: &Part) -> Op {
        let before = part.inputs.start as i64 - self.start(part.outputs.start);
        let [extent, kernel, stride, dilation, output] = regs;
        op.set(extent, part.inputs.len())
            .set(kernel, self.kernel)
            .set(stride, self.stride)
            .set(dilation, self.dilation)
            .set(output, part.outputs.len())
            .int(pad, before as i32)
    }

    /// Padding behind the inputs of a part; negative where the part ends inside.
    pub(crate) fn part_after(&self, part: &Part) -> i32 {
        ((self.input + self.after) as i64 - part.inputs.end as i64) as i32
    }
}

/// The two axes of a window over spatial extents (one or two of them); the output extents that the node declares must
/// be those that follow from its attributes.
pub(crate) fn window(attrs: &Attrs, kernel: Option<&[usize]>, input: &[usize], output: &[usize]) -> Result<[Axis; 2]> {
    let rank = input.len();
    if !(1..=2).contains(&rank) || output.len() != rank {
        return Err(Error::unsupported(Reason::Rank, format!("windows over {rank} axes, supported: 1 and 2")));
    }
    let kernel = match (list(attrs, "kernel_shape", rank)?, kernel) {
        (Some(given), None) => given,
        (given, Some(own)) if given.as_deref().is_none_or(|g| g == own) => own.to_vec(),
        _ => return Err(Error::invalid("the kernel_shape is missing or not that of the weights")),
    };
    let strides = list(attrs, "strides", rank)?.unwrap_or_else(|| vec![1; rank]);
    let dilations = list(attrs, "dilations", rank)?.unwrap_or_else(|| vec![1; rank]);
    let pads = list(attrs, "pads", 2 * rank)?.unwrap_or_else(|| vec![0; 2 * rank]);
    let (auto, ceil) = (attrs.str("auto_pad", "NOTSET")?, attrs.int("ceil_mode", 0)? != 0);
    let mut axes = [Axis::UNIT; 2];
    for i in 0..rank {
        let mut axis = Axis {
            input: input[i],
            output: output[i],
            kernel: kernel[i],
            stride: strides[i],
            dilation: dilations[i],
            before: pads[i],
            after: pads[i + rank],
        };
        axis.check_sizes()?;
        (axis.before, axis.after) = padding(&axis, auto)?;
        axis.check_sizes()?;
        axis.check_output(auto.starts_with("SAME"), ceil)?;
        axes[2 - rank + i] = axis;
    }
    Ok(axes)
}

fn padding(axis: &Axis, auto: &str) -> Result<(usize, usize)> {
    let same = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    let same = same.saturating_sub(axis.input);
    match auto {
        "NOTSET" | "" => Ok((axis.before, axis.after)),
        "VALID" => Ok((0, 0)),
        "SAME_UPPER" => Ok((same / 2, same - same / 2)),
        "SAME_LOWER" => Ok((same - same / 2, same / 2)),
        other => Err(Error::unsupported(Reason::AttrValue, format!("auto_pad `{other}`"))),
    }
}

impl Axis {
    /// Whether registers hold the extents.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        let sizes = [self.input, self.output, self.kernel, self.stride, self.dilation];
        if sizes.contains(&0) || sizes.iter().chain([&self.before, &self.after]).any(|&n| n > 1 << 24) {
            return Err(Error::unsupported(Reason::ShapeLimit, format!("a window {self:?}, supported: 1 to 2^24")));
        }
        Ok(())
    }

    fn check_output(&self, same: bool, ceil: bool) -> Result<()> {
        let wrong = || Error::unsupported(Reason::ShapeLimit, format!("a window {self:?} with another output extent"));
        let room = (self.input + self.before + self.after).checked_sub((self.kernel - 1) * self.dilation + 1);
        let room = room.ok_or_else(wrong)?;
        let expected = match (same, ceil) {
            (true, _) => self.input.div_ceil(self.stride),
            (false, false) => room / self.stride + 1,
            (false, true) => {
                let n = room.div_ceil(self.stride) + 1;
                // A window never begins in the padding behind.
                if (n - 1) * self.stride >= self.input + self.before { n - 1 } else { n }
            }
        };
        if self.output == expected { Ok(()) } else { Err(wrong()) }
    }
}

/// An integer list of a known length without negative entries.
fn list(attrs: &Attrs, name: &str, len: usize) -> Result<Option<Vec<usize>>> {
    let Some(values) = attrs.ints_opt(name)? else { return Ok(None) };
    let values: Option<Vec<usize>> = values.iter().map(|&v| usize::try_from(v).ok()).collect();
    match values {
        Some(v) if v.len() == len => Ok(Some(v)),
        _ => Err(Error::unsupported(Reason::AttrValue, format!("`{name}` must hold {len} numbers from 0 on"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_tap() {
        let base = Axis { input: 9, output: 5, kernel: 3, stride: 2, dilation: 1, before: 1, after: 1 };
        for axis in [base, Axis { dilation: 2, before: 2, after: 2, ..base }, Axis { input: 1, output: 1, ..base }] {
            for lo in 0..axis.output {
                for hi in lo + 1..=axis.output {
                    let part = axis.part(lo..hi);
                    assert!(!part.inputs.is_empty() && part.inputs.end <= axis.input);
                    assert!(part.inputs.len() <= axis.reach(hi - lo), "{part:?} of {axis:?}");
                    for o in lo..hi {
                        for k in 0..axis.kernel {
                            let at = axis.start(o) + (k * axis.dilation) as i64;
                            let inside = (0..axis.input as i64).contains(&at);
                            assert!(!inside || part.inputs.contains(&(at as usize)), "{at} not in {part:?}");
                        }
                    }
                }
            }
        }
    }
}

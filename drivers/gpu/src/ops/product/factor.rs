//! The second factor of a product, and the channels' table: bias, multiplier, shift, float bias.
//!
//! Packed weights are words of the channels of x (four bytes, two or one floats); the kernel reads, for each word, the
//! four channels of a tile side by side, tile after tile. What of the group's channels a tile does not sum over has weight
//! 0. Bytes have their zero point taken off: where that needs more than 8 bits, several *layers* add up to the weight and
//! the sum runs over x once for each.

use super::super::input;
use super::end::End;
use super::operand::{Bytes, bias};
use crate::builder::{Buf, Builder};
use ottava_hal::refmath::AccBounds;
use ottava_hal::refmath::bias::{adopt_bias, bias_s32_real};
use ottava_hal::refmath::bounds::{channel_bounds, max_operand};
use ottava_hal::{DataType, Error, Node, QuantParams, Reason, Result, Scheme, Tensor, TensorType, ValueId};

/// How the weight tensor is read.
pub(super) struct Layout<'l> {
    /// Output channels.
    pub channels: usize,
    /// Groups of them.
    pub groups: usize,
    /// Input channels of a group.
    pub depth: usize,
    /// Taps.
    pub taps: usize,
    /// Axis of the weights' scales.
    pub axis: usize,
    /// Where the weight of (output channel, tap, input channel of the group) lies.
    pub at: &'l dyn Fn(usize, usize, usize) -> usize,
    /// Gemm's alpha.
    pub alpha: f32,
    /// Gemm's beta.
    pub beta: f32,
    /// Words between the first word of a row and that of its first tap.
    pub offset: usize,
}

/// The words of x that each tile sums over, at every tap.
pub(super) struct Windows {
    pub first: Vec<usize>,
    pub words: usize,
}

/// What the kernel reads beside x.
pub(super) struct Factor {
    pub w: Buf,
    /// How often the sum runs over x.
    pub layers: usize,
    pub channels: Buf,
    pub words: usize,
}

impl Layout<'_> {
    fn tiles(&self) -> usize {
        self.channels.div_ceil(4)
    }

    fn group_of(&self, channel: usize) -> usize {
        channel / (self.channels / self.groups)
    }

    /// Words for x with this many elements in each.
    pub(super) fn windows(&self, lanes: usize) -> Windows {
        let all = (self.groups * self.depth).div_ceil(lanes);
        let spans: Vec<(usize, usize)> = (0..self.tiles())
            .map(|t| {
                let last = (4 * t + 3).min(self.channels - 1);
                let (low, high) = (self.group_of(4 * t) * self.depth, (self.group_of(last) + 1) * self.depth);
                (low / lanes, high.div_ceil(lanes))
            })
            .collect();
        let words = spans.iter().map(|(low, high)| high - low).max().unwrap_or(0);
        Windows { first: spans.iter().map(|(low, _)| (*low).min(all - words)).collect(), words }
    }

    /// The input channel of channel `c`'s group that lies at element `i` of x, if any.
    fn depth_of(&self, c: usize, i: usize) -> Option<usize> {
        let low = self.group_of(c) * self.depth;
        i.checked_sub(low).filter(|d| *d < self.depth)
    }

    /// What channel `c` sums over.
    fn sum_of(&self, c: usize, codes: &[i16]) -> impl Iterator<Item = i32> {
        let all = (0..self.taps).flat_map(move |tap| (0..self.depth).map(move |d| (tap, d)));
        all.map(move |(tap, d)| i32::from(codes[(self.at)(c, tap, d)]))
    }

    /// Calls `put` with the place of each packed element and its weight's place: word, lane, channel of the tile.
    fn walk(&self, windows: &Windows, lanes: usize, mut put: impl FnMut(usize, usize, usize, usize)) {
        let tiles = self.tiles();
        for (tile, first) in windows.first.iter().enumerate() {
            for tap in 0..self.taps {
                for k in 0..windows.words {
                    let row = (tap * windows.words + k) * tiles + tile;
                    for lane in 0..lanes {
                        for c in (4 * tile..self.channels).take(4) {
                            if let Some(depth) = self.depth_of(c, (first + k) * lanes + lane) {
                                put(row, lane, c, (self.at)(c, tap, depth));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Records of the channels, then the first word of each tile.
    fn table(&self, builder: &mut Builder<'_>, windows: &Windows, records: &[[u32; 4]]) -> Result<Buf> {
        let mut table: Vec<u32> = records.iter().flatten().copied().collect();
        table.resize(16 * self.tiles(), 0);
        table.extend(windows.first.iter().map(|first| (first + self.offset) as u32));
        builder.words(&table)
    }
}

/// Packs constant weights of an integer product; refused where a sum is not proved to fit 32 bits.
pub(super) fn bytes(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    x: Bytes,
    end: &End<'_>,
) -> Result<Factor> {
    let w = input(node, 1)?;
    let quant = params(builder.ty(w), layout.axis)?;
    let codes = codes(constant(builder, w)?)?;
    let records = byte_records(builder, node, layout, (x, quant, &codes), end)?;
    let windows = layout.windows(4);
    let layers = layers(layout, quant, &codes);
    let layer_words = layout.taps * windows.words * layout.tiles() * 4;
    let mut words = zeros(layer_words.checked_mul(layers))?;
    layout.walk(&windows, 4, |row, lane, c, at| {
        for (layer, part) in parts(i32::from(codes[at]) - scale_of(quant, c).1).take(layers).enumerate() {
            words[layer * layer_words + 4 * row + c % 4] |= u32::from(part) << (8 * lane);
        }
    });
    let (w, channels) = (builder.words(&words)?, layout.table(builder, &windows, &records)?);
    Ok(Factor { w, layers, channels, words: windows.words })
}

/// Packs constant weights of an integer depthwise convolution: a word holds a tap of a tile's channels.
pub(super) fn channel_bytes(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    x: Bytes,
    end: &End<'_>,
) -> Result<Factor> {
    let w = input(node, 1)?;
    let quant = params(builder.ty(w), layout.axis)?;
    let codes = codes(constant(builder, w)?)?;
    let records = byte_records(builder, node, layout, (x, quant, &codes), end)?;
    let (tiles, layers) = (layout.tiles(), layers(layout, quant, &codes));
    let layer_words = layout.taps * tiles;
    let mut words = zeros(layer_words.checked_mul(layers))?;
    for c in 0..layout.channels {
        for tap in 0..layout.taps {
            let w = i32::from(codes[(layout.at)(c, tap, 0)]) - scale_of(quant, c).1;
            for (layer, part) in parts(w).take(layers).enumerate() {
                words[layer * layer_words + tap * tiles + c / 4] |= u32::from(part) << (8 * (c % 4));
            }
        }
    }
    let windows = Windows { first: vec![0; tiles], words: 1 };
    let (w, channels) = (builder.words(&words)?, layout.table(builder, &windows, &records)?);
    Ok(Factor { w, layers, channels, words: 1 })
}

/// Packs constant weights of a float depthwise convolution: four words hold a tap of a tile's channels.
pub(super) fn channel_floats(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    end: &End<'_>,
) -> Result<Factor> {
    let values = constant(builder, input(node, 1)?)?.to_f32s()?;
    let tiles = layout.tiles();
    let mut words = zeros(layout.taps.checked_mul(4 * tiles))?;
    for c in 0..layout.channels {
        for tap in 0..layout.taps {
            words[4 * tap * tiles + c] = values[(layout.at)(c, tap, 0)].to_bits();
        }
    }
    let records = float_records(builder, node, layout, end)?;
    let windows = Windows { first: vec![0; tiles], words: 1 };
    let (w, channels) = (builder.words(&words)?, layout.table(builder, &windows, &records)?);
    Ok(Factor { w, layers: 1, channels, words: 1 })
}

/// The records of the channels of an integer product with constant weights, whose sums are proved to fit.
fn byte_records(
    builder: &Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (x, quant, codes): (Bytes, &QuantParams, &[i16]),
    end: &End<'_>,
) -> Result<Vec<[u32; 4]>> {
    let product = node.scale_product(builder.ty(input(node, 0)?).dtype, quant.scales.len());
    let mut records = Vec::with_capacity(layout.channels);
    for (c, &(bias, last)) in biases(builder, node, layout, (x.scale, Some(quant)), end)?.iter().enumerate() {
        let (ws, zw) = scale_of(quant, c);
        let bounds = channel_bounds(layout.sum_of(c, codes), zw, x.range(), bias);
        check(bounds, layout.taps * layout.depth)?;
        let (multiplier, shift) = end.multiplier((x.scale, ws), layout.alpha, product, bounds)?;
        let sum = layout.sum_of(c, codes).fold(0i32, |sum, w| sum.wrapping_add(w - zw));
        let bias = bias.wrapping_sub(x.held_zp().wrapping_mul(sum));
        records.push([bias as u32, multiplier, shift, last.to_bits()]);
    }
    Ok(records)
}

/// Packs constant weights of a float product. `skips`: some taps lie in the padding, where the kernel multiplies by 0.
pub(super) fn floats(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (lanes, skips): (usize, bool),
    end: &End<'_>,
) -> Result<Factor> {
    let values = constant(builder, input(node, 1)?)?.to_f32s()?;
    let windows = layout.windows(lanes);
    // Otherwise a tile sees channels that it does not sum over, and 0 times infinity is no 0.
    let alone = layout.groups == 1 || windows.words * lanes == layout.depth;
    if !values.iter().all(|v| v.is_finite()) && (skips || !alone) {
        let what = "weights that are not finite, with taps in the padding or several groups";
        return Err(Error::unsupported(Reason::AttrValue, what));
    }
    if !alone {
        let what = "groups of a float product that share tiles of four channels";
        return Err(Error::unsupported(Reason::ShapeLimit, what));
    }
    let tiles = layout.tiles();
    let mut words = zeros(layout.taps.checked_mul(windows.words * tiles * lanes * 4))?;
    layout.walk(&windows, lanes, |row, lane, c, at| {
        let (k, tile) = (row / tiles, row % tiles);
        words[4 * ((k * lanes + lane) * tiles + tile) + c % 4] = values[at].to_bits();
    });
    let records = float_records(builder, node, layout, end)?;
    let (w, channels) = (builder.words(&words)?, layout.table(builder, &windows, &records)?);
    Ok(Factor { w, layers: 1, channels, words: windows.words })
}

/// The channels' table of a float product whose second factor is computed.
pub(super) fn float_table(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    lanes: usize,
    end: &End<'_>,
) -> Result<Buf> {
    let records = float_records(builder, node, layout, end)?;
    layout.table(builder, &layout.windows(lanes), &records)
}

/// The channels' table of an integer product whose second factor is computed; bounds are those of the types.
pub(super) fn byte_table(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (x, w): (Bytes, Bytes),
    end: &End<'_>,
) -> Result<Buf> {
    let reach = |b: Bytes| max_operand(8, b.signed, Some(b.zp.into()));
    let most = reach(x).saturating_mul(reach(w)).saturating_mul(layout.depth as i64);
    let quant = builder.ty(input(node, 1)?).quant.as_deref();
    let product = node.scale_product(builder.ty(input(node, 0)?).dtype, 1);
    let mut records = Vec::with_capacity(layout.channels);
    for (bias, last) in biases(builder, node, layout, (x.scale, quant), end)? {
        let bounds = AccBounds { min: i64::from(bias) - most, max: i64::from(bias) + most };
        check(bounds, layout.depth)?;
        let (multiplier, shift) = end.multiplier((x.scale, w.scale), layout.alpha, product, bounds)?;
        records.push([bias as u32, multiplier, shift, last.to_bits()]);
    }
    layout.table(builder, &layout.windows(4), &records)
}

fn float_records(builder: &Builder<'_>, node: &Node, layout: &Layout<'_>, end: &End<'_>) -> Result<Vec<[u32; 4]>> {
    let biases = biases(builder, node, layout, (1.0, None), end)?;
    Ok(biases.into_iter().map(|(_, last)| [0, layout.alpha.to_bits(), 0, last.to_bits()]).collect())
}

/// Quantization of weights, along the axis of the output channels.
pub(super) fn params(ty: &TensorType, axis: usize) -> Result<&QuantParams> {
    let quant = ty.quant.as_deref().ok_or_else(|| Error::invalid("the second factor is not quantized"))?;
    match quant.scheme {
        Scheme::PerAxis { axis: found } if found != axis && quant.scales.len() > 1 => {
            let what = format!("scales along axis {found}, the operator's channel axis is {axis}");
            Err(Error::unsupported(Reason::QuantAxis, what))
        }
        Scheme::Blocked { .. } => Err(Error::unsupported(Reason::QuantScheme, "blocked weights")),
        _ => Ok(quant),
    }
}

/// Scale and zero point of a channel; a transposed convolution's list repeats for each group.
fn scale_of(quant: &QuantParams, c: usize) -> (f32, i32) {
    quant.channel(c % quant.scales.len())
}

fn check(bounds: AccBounds, terms: usize) -> Result<()> {
    if bounds.fits_i32() {
        return Ok(());
    }
    let what = format!("a sum of {terms} products may reach {}..{}, beyond 32 bits", bounds.min, bounds.max);
    Err(Error::unsupported(Reason::AccOverflow, what))
}

/// Number of s8 that add up to the largest weight without its zero point.
fn layers(layout: &Layout<'_>, quant: &QuantParams, codes: &[i16]) -> usize {
    let layers_of = |w: i32| match w {
        -128..=127 => 1,
        -256..=254 => 2,
        _ => 3,
    };
    let largest = |c: usize| layout.sum_of(c, codes).map(move |w| layers_of(w - scale_of(quant, c).1)).max();
    (0..layout.channels).filter_map(largest).max().unwrap_or(1)
}

/// s8 that add up to a weight, as bytes; behind them zeros.
fn parts(w: i32) -> impl Iterator<Item = u8> {
    let mut rest = w;
    std::iter::repeat_with(move || {
        let part = rest.clamp(-128, 127);
        rest -= part;
        part as u8
    })
}

fn zeros(len: Option<usize>) -> Result<Vec<u32>> {
    let len = len.filter(|n| *n <= (i32::MAX / 4) as usize);
    let len = len.ok_or_else(|| Error::unsupported(Reason::Memory, "packed weights of more than 2^31 bytes"))?;
    Ok(vec![0; len])
}

/// The data of a constant.
pub(super) fn constant<'p>(builder: &Builder<'p>, id: ValueId) -> Result<&'p Tensor> {
    let name = &builder.program.value(id).name;
    builder.data(id).ok_or_else(|| Error::unsupported(Reason::ConstRequired, format!("`{name}` must be constant")))
}

/// The stored integers.
fn codes(data: &Tensor) -> Result<Vec<i16>> {
    Ok(match data.dtype() {
        DataType::S8 => data.as_slice::<i8>()?.iter().map(|&v| v.into()).collect(),
        DataType::U8 => data.bytes().iter().map(|&v| v.into()).collect(),
        _ => data.to_ints()?.into_iter().map(|v| v as i16).collect(),
    })
}

/// Nothing to add to a float: it keeps the sign of a zero.
const NOTHING: f32 = -0.0;

/// Per channel a bias of the sum, and what is added to a float result.
fn biases(
    builder: &Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (xs, quant): (f32, Option<&QuantParams>),
    end: &End<'_>,
) -> Result<Vec<(i32, f32)>> {
    let n = layout.channels;
    let Some(id) = bias(node) else { return Ok(vec![(0, NOTHING); n]) };
    let data = constant(builder, id)?;
    let repeats = data.elements() == 1 && n > 1;
    let along_last = data.shape().last().is_some_and(|&last| last == n) || n == 1;
    if !(repeats || data.elements() == n && along_last) {
        let what = format!("a bias of shape {:?}, supported: one value per output channel", data.shape());
        return Err(Error::unsupported(Reason::ShapeLimit, what));
    }
    if repeats && quant.is_some_and(|q| q.scales.len() > 1) {
        return Err(Error::unsupported(Reason::QuantScheme, "one bias for channels of several scales"));
    }
    let at = |c: usize| if repeats { 0 } else { c };
    if data.dtype().is_float() && end.is_real() {
        let values = data.to_f32s()?;
        return Ok((0..n).map(|c| (0, layout.beta * values[at(c)])).collect());
    }
    let Some(quant) = quant.filter(|_| layout.beta == 1.0) else {
        let what = "an integer bias of a float product, or with a factor";
        return Err(Error::unsupported(Reason::AttrValue, what));
    };
    let stored = builder.ty(id).quant.as_deref();
    (0..n)
        .map(|c| {
            let ws = scale_of(quant, c).0;
            Ok((integer_bias((data, at(c)), stored, layout.alpha, (xs, ws))?, NOTHING))
        })
        .collect()
}

/// Element `i` of a bias at the scale of the sum (numerics.md section 4, "Bias").
fn integer_bias(
    (data, i): (&Tensor, usize),
    params: Option<&QuantParams>,
    alpha: f32,
    (xs, ws): (f32, f32),
) -> Result<i32> {
    if data.dtype().is_float() {
        return Ok(bias_s32_real(f64::from(data.to_f32s()?[i]) / f64::from(alpha), xs, ws));
    }
    let b = match data.dtype() {
        DataType::S32 => data.as_slice::<i32>()?[i],
        DataType::S64 => {
            let b = data.as_slice::<i64>()?[i];
            let large = || Error::unsupported(Reason::AccOverflow, format!("a bias of {b}, sums hold 32 bits"));
            i32::try_from(b).map_err(|_| large())?
        }
        other => return Err(Error::unsupported(Reason::Dtype, format!("a bias of type {other}"))),
    };
    Ok(params.map_or(b, |p| adopt_bias(b, p.channel(i).0 / alpha, xs, ws)))
}

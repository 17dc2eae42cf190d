//! Gram matrices of what products read: `sum x x^T` over sampled rows, where a row holds the inputs of one sum of products
//! (for a convolution the window of one output position). The error of a layer with weights off by `e` is `e^T (sum x x^T)
//! e`, so the matrix is all that choosing the roundings needs from the data.
//!
//! Rows of a sample are taken at even distances, and sums run in f64 in the order of the samples: equal data give equal
//! bytes, whatever the batch.

use ottava_hal::{Attrs, Tensor};
use ottava_ops::nn::window::{Axis, Window};

/// Rows that are added at once.
const BLOCK: usize = 4;

/// How a product reads its first input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reader {
    /// Rows of a matrix product.
    Rows,
    /// Windows of a convolution: its attributes and the spatial extents of its kernel.
    Windows { attrs: Attrs, kernel: Vec<usize> },
}

/// The matrices of one layer, one for each group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gram {
    /// Length of a row.
    pub(super) k: usize,
    pub(super) groups: usize,
    /// Rows that were added to each group.
    pub(super) rows: u64,
    /// Lower triangles, row by row.
    sums: Vec<f64>,
    /// Sums of the rows.
    totals: Vec<f64>,
}

impl Gram {
    pub(super) fn new(groups: usize, k: usize) -> Self {
        Self { k, groups, rows: 0, sums: vec![0.0; groups * k * k], totals: vec![0.0; groups * k] }
    }

    /// Bytes that the matrices of such a layer take; `None` for more than can be counted.
    pub(super) fn bytes(groups: usize, k: usize) -> Option<usize> {
        groups.checked_mul(k)?.checked_mul(k)?.checked_mul(size_of::<f64>())
    }

    /// Adds at most `limit` rows of each sample of a batch. What does not fit the layer adds nothing.
    pub(super) fn observe(&mut self, reader: &Reader, x: &Tensor, samples: usize, limit: usize) {
        let Ok(values) = x.to_f32s() else { return };
        match reader {
            Reader::Rows => {
                let rows = values.len() / self.k;
                let parts = if samples > 0 && rows.is_multiple_of(samples) { samples } else { 1 };
                let part = (rows / parts * self.k).max(1);
                values.chunks_exact(part).for_each(|sample| self.observe_rows(sample, limit));
            }
            Reader::Windows { attrs, kernel } => self.observe_windows((attrs, kernel), x.shape(), &values, limit),
        }
    }

    fn observe_rows(&mut self, sample: &[f32], limit: usize) {
        let k = self.k;
        let picked = evenly(sample.len() / k, limit);
        let rows: Vec<f32> = picked.flat_map(|row| &sample[row * k..(row + 1) * k]).copied().collect();
        self.rows += (rows.len() / k) as u64;
        self.add(0, &rows);
    }

    fn observe_windows(&mut self, (attrs, kernel): (&Attrs, &[usize]), x: &[usize], values: &[f32], limit: usize) {
        let axes = Window::parse(attrs, Some(kernel), kernel.len()).and_then(|w| w.axes(x.get(2..).unwrap_or(&[])));
        let (Ok(axes), Some(&channels)) = (axes, x.get(1)) else { return };
        let window: usize = kernel.iter().product();
        let plane: usize = axes.iter().map(|a| a.input).product();
        let fits = channels == self.k / window.max(1) * self.groups && x.len() == kernel.len() + 2;
        if !fits || channels * plane == 0 {
            return;
        }
        let positions: Vec<usize> = evenly(axes.iter().map(|a| a.output).product(), limit).collect();
        for sample in values.chunks_exact(channels * plane) {
            self.rows += positions.len() as u64;
            for group in 0..self.groups {
                let own = &sample[group * (channels / self.groups) * plane..][..channels / self.groups * plane];
                let rows: Vec<f32> = positions.iter().flat_map(|&p| window_at(own, &axes, p)).collect();
                self.add(group, &rows);
            }
        }
    }

    /// Adds rows to the matrix of a group; rows with values that are not finite count as zeros.
    fn add(&mut self, group: usize, rows: &[f32]) {
        let k = self.k;
        let sums = &mut self.sums[group * k * k..(group + 1) * k * k];
        let totals = &mut self.totals[group * k..(group + 1) * k];
        for block in rows.chunks(BLOCK * k) {
            let mut wide = vec![0.0f64; BLOCK * k];
            for (row, wide) in block.chunks_exact(k).zip(wide.chunks_exact_mut(k)) {
                if row.iter().all(|v| v.is_finite()) {
                    wide.iter_mut().zip(row).for_each(|(w, &v)| *w = f64::from(v));
                }
            }
            let (first, second) = wide.split_at(2 * k);
            let ((a, b), (c, d)) = (first.split_at(k), second.split_at(k));
            for i in 0..k {
                totals[i] += a[i] + b[i] + c[i] + d[i];
                let factors = [a[i], b[i], c[i], d[i]];
                if factors == [0.0; BLOCK] {
                    continue;
                }
                let target = sums[i * k..=i * k + i].iter_mut();
                for ((((sum, a), b), c), d) in target.zip(a).zip(b).zip(c).zip(d) {
                    *sum += factors[0] * a + factors[1] * b + (factors[2] * c + factors[3] * d);
                }
            }
        }
    }

    /// The whole matrix of a group, `sum (x - m)(x - m)^T`: the mean error is the bias' to correct where there are means.
    pub(super) fn centred(&self, group: usize, means: &[f64]) -> Vec<f64> {
        let (k, n) = (self.k, self.rows as f64);
        let sums = &self.sums[group * k * k..(group + 1) * k * k];
        let totals = &self.totals[group * k..(group + 1) * k];
        let mut full = vec![0.0; k * k];
        for i in 0..k {
            for j in 0..=i {
                let off = means[i] * totals[j] + means[j] * totals[i] - n * means[i] * means[j];
                full[i * k + j] = sums[i * k + j] - off;
                full[j * k + i] = full[i * k + j];
            }
        }
        full
    }
}

/// At most `limit` of `n` positions, at even distances.
fn evenly(n: usize, limit: usize) -> impl Iterator<Item = usize> {
    let count = n.min(limit);
    (0..count).map(move |i| ((2 * i as u128 + 1) * n as u128 / (2 * count as u128)) as usize)
}

/// The values that output `position` of a convolution reads, channel by channel; zeros in the padding.
fn window_at(own: &[f32], axes: &[Axis; 3], position: usize) -> Vec<f32> {
    let [d, h, w] = axes;
    let out = [position / (h.output * w.output), position / w.output % h.output, position % w.output];
    let (plane, taps) = (d.input * h.input * w.input, d.kernel * h.kernel * w.kernel);
    let mut row = vec![0.0; own.len() / plane * taps];
    for (channel, row) in own.chunks_exact(plane).zip(row.chunks_exact_mut(taps)) {
        for a in d.taps(out[0]) {
            for b in h.taps(out[1]) {
                let line = (d.at(out[0], a) * h.input + h.at(out[1], b)) * w.input;
                for c in w.taps(out[2]) {
                    row[(a * h.kernel + b) * w.kernel + c] = channel[line + w.at(out[2], c)];
                }
            }
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Attr;

    #[test]
    fn positions_are_even_and_complete() {
        assert_eq!(evenly(3, 10).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(evenly(8, 2).collect::<Vec<_>>(), [2, 6]);
        assert_eq!(evenly(0, 4).count(), 0);
    }

    #[test]
    fn rows_and_batches_give_the_sums_of_products() {
        let x = Tensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, -1.0]).unwrap();
        let mut gram = Gram::new(1, 2);
        gram.observe(&Reader::Rows, &x, 2, 10);
        assert_eq!((gram.rows, gram.centred(0, &[0.0; 2])), (2, vec![10.0, -1.0, -1.0, 5.0]));
        assert_eq!(gram.centred(0, &[2.0, 0.5]), vec![2.0, -3.0, -3.0, 4.5]);
    }

    #[test]
    fn windows_of_padded_strided_groups() {
        let values: Vec<f32> = (1..=8).map(|v| v as f32).collect();
        let x = Tensor::from_slice(&[1, 2, 4], &values).unwrap();
        let mut attrs = Attrs::default();
        attrs.set("group", Attr::Int(2));
        attrs.set("strides", Attr::Ints(vec![2]));
        attrs.set("pads", Attr::Ints(vec![1, 0]));
        let mut gram = Gram::new(2, 2);
        gram.observe(&Reader::Windows { attrs, kernel: vec![2] }, &x, 1, 100);
        // Windows (0, 1), (2, 3) and (0, 5), (6, 7).
        assert_eq!(gram.rows, 2);
        assert_eq!(gram.centred(0, &[0.0; 2]), [4.0, 6.0, 6.0, 10.0]);
        assert_eq!(gram.centred(1, &[0.0; 2]), [36.0, 42.0, 42.0, 74.0]);
    }
}

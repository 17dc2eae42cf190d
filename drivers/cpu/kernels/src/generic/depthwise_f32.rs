//! `dw_f32_f32_f32_portable`.

use crate::arith::clip;
use crate::depthwise_f32::DepthwiseRow;
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;

/// `out[p][c] = finish(sum of fma(a[p][tap][c], w[tap][c]))` over ascending taps, from +0.
pub(crate) fn run(job: DepthwiseRow<'_>) {
    let (n, channels) = (job.check(), job.channels);
    let [row, column, step] = job.a_steps;
    for (p, c) in (0..n).flat_map(|p| (0..channels).map(move |c| (p, c))) {
        let mut sum = 0f32;
        for (y, x) in (0..job.taps[0]).flat_map(|y| (0..job.taps[1]).map(move |x| (y, x))) {
            let (a, w) = (y * row + x * column + p * step + c, y * job.w_step + x * channels + c);
            sum = job.a[a].mul_add(job.weights[w], sum);
        }
        sum = job.bias.map_or(sum, |bias| sum + bias[c]);
        sum = job.residual.map_or(sum, |other| sum + other[p * channels + c]);
        job.out[p * channels + c] = clip(sum, job.bounds[0], job.bounds[1]);
    }
}

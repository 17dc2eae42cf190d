//! `dw_u8_s16_s32_8x8x2_portable`.

use crate::depthwise::{Band, CHANNELS, DepthwisePanel, LINES, PIXELS, Sums};

/// Eight channels of a tile whose first pixel is `x0`: `sums[line][pixel][c]` is the sum over the taps of line and pixel.
pub(crate) fn tile(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    band.check(panel, x0 + PIXELS);
    *sums = [[[0; CHANNELS]; PIXELS]; LINES];
    let window = panel.window;
    let mut weights = panel.weights.iter();
    for step in panel.steps {
        let [p, q] = step.rows.map(|row| band.row(row) + panel.channel);
        for kx in 0..window.kernel[1] {
            for (line, block) in step.uses.lines().iter().zip(&mut weights) {
                for (px, sums) in sums[*line].iter_mut().enumerate() {
                    let at = ((x0 + px) * window.stride[1] + kx * window.dilation[1]) * band.pixel;
                    let [x, y] = [p, q].map(|row| &band.a[row + at..][..CHANNELS]);
                    for (c, sum) in sums.iter_mut().enumerate() {
                        let [v, w] = [4 * c, 4 * c + 2].map(|i| i16::from_le_bytes([block.0[i], block.0[i + 1]]));
                        let pair = i32::from(x[c]) * i32::from(v) + i32::from(y[c]) * i32::from(w);
                        *sum = sum.wrapping_add(pair);
                    }
                }
            }
        }
    }
}

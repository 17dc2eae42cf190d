//! `gemm_u8_s8_s32_8x16x4_portable`: the packed format, one form at a time, in plain Rust.

use crate::gemm::{Block, FORMS, Form, Panel};
use crate::tile::{GemmRows, GemmTile};

/// Product of some activation rows with a panel: `tile[r][c] = sum over k of a[row r][k] * w[k][c]`, wrapping i32. Rows of the tile
/// past `rows.n` are left with any content.
pub(crate) fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    rows.check(a.len(), panel.reach, 0);
    *tile = GemmTile::ZERO;
    for form in FORMS {
        let run = panel.run(form);
        for (step, at) in run.blocks.chunks_exact(form.blocks()).zip(run.offsets) {
            for (row, sums) in rows.at.iter().zip(&mut tile.0).take(rows.n) {
                let x = &a[row + *at as usize..][..form.width()];
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.wrapping_add(dot(form, step, x, c));
                }
            }
        }
    }
}

/// What one step adds to column `c`.
fn dot(form: Form, step: &[Block], x: &[u8], c: usize) -> i32 {
    let weight = |k: usize| match form {
        Form::Dot | Form::Dot8 => {
            let at = c * form.width() + k;
            i32::from(step[at / 32].0[at % 32] as i8)
        }
        Form::Wide => wide_weight(step, c, k),
    };
    x.iter().enumerate().map(|(k, x)| i32::from(*x) * weight(k)).sum()
}

/// Weight `k` of column `c` in a wide step: (w0, w2) per column, then (w1, w3).
fn wide_weight(step: &[Block], c: usize, k: usize) -> i32 {
    let block = &step[k % 2 * 2 + c / 8].0;
    let at = c % 8 * 4 + k / 2 * 2;
    i32::from(i16::from_le_bytes([block[at], block[at + 1]]))
}

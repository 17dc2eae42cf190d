//! `gemm_u8_s8_s32_8x16x4_portable`: the packed format, one form at a time, in plain Rust.

use crate::gemm::{Block, COLS, Form, Panel, RUNS, WINDOW_FORMS};
use crate::tile::{GemmRows, GemmTile};

/// Product of some activation rows with a panel: `tile[r][c] = sum over k of a[row r][k] * w[k][c]`, wrapping i32. Rows of the tile
/// past `rows.n` are left with any content.
pub(crate) fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    rows.check(a.len(), panel.reach, 0);
    *tile = GemmTile::ZERO;
    for (index, form) in RUNS.into_iter().enumerate() {
        let (run, columns) = (panel.run_at(index), columns(index));
        for (step, at) in run.blocks.chunks_exact(form.blocks()).zip(run.offsets) {
            for (row, sums) in rows.at.iter().zip(&mut tile.0).take(rows.n) {
                let x = &a[row + *at as usize..][..form.width()];
                for (c, sum) in sums[columns.clone()].iter_mut().enumerate() {
                    *sum = sum.wrapping_add(dot(form, step, x, c));
                }
            }
        }
    }
}

/// The columns of a run: all, or those of a half panel.
fn columns(run: usize) -> core::ops::Range<usize> {
    let first_half = Form::QuadQuad.run();
    match run.checked_sub(first_half).map(|window| window / WINDOW_FORMS.len()) {
        None => 0..COLS,
        Some(half) => half * COLS / 2..(half + 1) * COLS / 2,
    }
}

/// What one step adds to column `c` of its columns.
fn dot(form: Form, step: &[Block], x: &[u8], c: usize) -> i32 {
    let neighbours = |weight: &dyn Fn(usize) -> i32| x.iter().enumerate().map(|(k, x)| i32::from(*x) * weight(k)).sum();
    match form {
        Form::Dot | Form::Dot8 => neighbours(&|k| {
            let at = c * form.width() + k;
            i32::from(step[at / 32].0[at % 32] as i8)
        }),
        Form::Nibbles => neighbours(&|k| {
            let byte = step[c / 8].0[c % 8 * 4 + k % 4];
            i32::from(if k < 4 { (byte << 4) as i8 >> 4 } else { byte as i8 >> 4 })
        }),
        Form::Wide => neighbours(&|k| wide_weight(step, c, k)),
        Form::Pick => (0..2).map(|i| picked(x, step[0].0[c * 4 + i * 2]) * i16_at(&step[1], c * 4 + i * 2)).sum(),
        Form::QuadQuad | Form::QuadPairs | Form::Pairs | Form::Quad | Form::Pair => {
            let (controls, weights) = step.split_at(step.len() / 2);
            let unit = |(control, weight): (&Block, &Block)| -> i32 {
                (c * 4..c * 4 + 4).map(|i| picked(x, control.0[i]) * i32::from(weight.0[i] as i8)).sum()
            };
            controls.iter().zip(weights).map(unit).sum()
        }
    }
}

/// The byte that a shuffle control names.
fn picked(x: &[u8], control: u8) -> i32 {
    if control & 0x80 == 0 { i32::from(x[usize::from(control & 15)]) } else { 0 }
}

/// Weight `k` of column `c` in a wide step: (w0, w2) per column, then (w1, w3).
fn wide_weight(step: &[Block], c: usize, k: usize) -> i32 {
    i16_at(&step[k % 2 * 2 + c / 8], c % 8 * 4 + k / 2 * 2)
}

fn i16_at(block: &Block, at: usize) -> i32 {
    i32::from(i16::from_le_bytes([block.0[at], block.0[at + 1]]))
}

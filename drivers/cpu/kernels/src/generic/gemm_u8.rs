//! `gemm_u8_s8_s32_4x16x4_portable`: the packed format, one form at a time, in plain Rust.

use crate::gemm::{Block, COLS, FORMS, Form, GROUP, Panel, control, pairing_bytes};
use crate::tile::{Rows, Tile, check_panel};

type Columns = [[u8; GROUP]; COLS];

/// Product of up to four activation rows with a panel: `tile[r][c] = sum over k of a[row r][k] * w[k][c]`, wrapping i32.
pub(crate) fn tile(a: &[u8], rows: &Rows, panel: &Panel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, GROUP);
    check_panel(panel);
    *tile = Tile::ZERO;
    let (mut blocks, mut offsets) = (panel.blocks, panel.offsets);
    for form in FORMS {
        let n = panel.steps[form as usize] as usize;
        let (mine, rest) = blocks.split_at(n * form.blocks());
        let (mine_offsets, rest_offsets) = offsets.split_at(n * form.groups());
        (blocks, offsets) = (rest, rest_offsets);
        for (step, at) in mine.chunks_exact(form.blocks()).zip(mine_offsets.chunks_exact(form.groups())) {
            run_step(form, step, at, a, rows, tile);
        }
    }
}

fn run_step(form: Form, step: &[Block], at: &[u32], a: &[u8], rows: &Rows, tile: &mut Tile) {
    let natural = [pairing_bytes(0); COLS];
    let by_column = |block: &Block| -> Columns { core::array::from_fn(|c| control(block, c)) };
    let mut narrow = |which: usize, order: &Columns, weights: &[Block]| {
        add_group(tile, a, rows, at[which] as usize, order, |c, r| {
            i32::from(weights[c / 8].0[c % 8 * GROUP + r] as i8)
        });
    };
    match form {
        Form::Quad | Form::Quad02 | Form::Quad03 => {
            narrow(0, &natural, &step[..2]);
            narrow(1, &[pairing_bytes(form as usize); COLS], &step[2..]);
        }
        Form::QuadCol => {
            narrow(0, &by_column(&step[0]), &step[1..3]);
            narrow(1, &natural, &step[3..]);
        }
        Form::Pair | Form::Pair02 | Form::Pair03 => {
            narrow(0, &[pairing_bytes(form as usize - Form::Pair as usize); COLS], step);
        }
        Form::PairCol => narrow(0, &by_column(&step[0]), &step[1..]),
        Form::Wide => add_group(tile, a, rows, at[0] as usize, &natural, |c, r| wide_weight(step, c, r)),
    }
}

/// Weight of activation byte `r` for column `c` in a wide step: (w0, w2) per column, then (w1, w3).
fn wide_weight(step: &[Block], c: usize, r: usize) -> i32 {
    let block = &step[r % 2 * 2 + c / 8].0;
    let at = c % 8 * 4 + r / 2 * 2;
    i32::from(i16::from_le_bytes([block[at], block[at + 1]]))
}

fn add_group(tile: &mut Tile, a: &[u8], rows: &Rows, at: usize, order: &Columns, weight: impl Fn(usize, usize) -> i32) {
    for (row, sums) in rows.at.iter().zip(&mut tile.0).take(rows.n) {
        let x = &a[row + at..row + at + GROUP];
        for (c, sum) in sums.iter_mut().enumerate() {
            for (r, byte) in order[c].iter().enumerate() {
                *sum = sum.wrapping_add(i32::from(x[usize::from(*byte)]) * weight(c, r));
            }
        }
    }
}

//! Packed panels taken apart again: every weight must be there once, and every 16-bit lane within its bound.

use super::format::{Block, COLS, Form, Panel, RUNS, WINDOW_FORMS};
use super::{Packing, Span, pack};

/// What the steps of a panel multiply each byte of the activation row with: `[offset][column]`.
struct Taken {
    weights: Vec<[i32; COLS]>,
    /// Largest sum of weights of one sign in a lane that adds in 16 bits.
    worst_lane: i32,
}

/// Adds one weight.
fn put(taken: &mut Taken, offset: usize, column: usize, weight: i32) {
    if weight != 0 {
        assert_eq!(taken.weights[offset][column], 0, "byte {offset} of column {column} is weighted twice");
        taken.weights[offset][column] = weight;
    }
}

fn take_apart(panel: &Panel<'_>) -> Taken {
    let mut taken = Taken { weights: vec![[0; COLS]; panel.reach], worst_lane: 0 };
    for (index, form) in RUNS.into_iter().enumerate() {
        let run = panel.run_at(index);
        let first = if index >= Form::QuadQuad.run() + WINDOW_FORMS.len() { 8 } else { 0 };
        for (step, at) in run.blocks.chunks_exact(form.blocks()).zip(run.offsets) {
            take_step(&mut taken, form, step, *at as usize, first);
        }
    }
    taken
}

fn take_step(taken: &mut Taken, form: Form, step: &[Block], at: usize, first: usize) {
    let narrow = |i: usize| i32::from(step[i / 32].0[i % 32] as i8);
    let wide = |i: usize| i32::from(i16::from_le_bytes([step[i / 32].0[i % 32], step[i / 32].0[i % 32 + 1]]));
    match form {
        Form::Dot | Form::Dot8 => {
            let n = form.width();
            (0..COLS * n).for_each(|i| put(taken, at + i % n, i / n, narrow(i)));
        }
        Form::Nibbles => {
            for (i, byte) in step.iter().flat_map(|b| b.0).enumerate() {
                put(taken, at + i % 4, i / 4, i32::from((byte << 4) as i8 >> 4));
                put(taken, at + 4 + i % 4, i / 4, i32::from(byte as i8 >> 4));
            }
        }
        Form::Wide => (0..COLS * 4).for_each(|i| put(taken, at + i % 2 * 2 + i / 32, i % 32 / 2, wide(i * 2))),
        Form::Pick => {
            for i in 0..16 {
                assert_eq!(step[0].0[i * 2 + 1], 0x80);
                put(taken, at + usize::from(step[0].0[i * 2]), first + i / 2, wide(32 + i * 2));
            }
        }
        _ => take_units(taken, form, step, at, first),
    }
}

fn take_units(taken: &mut Taken, form: Form, step: &[Block], at: usize, first: usize) {
    let (controls, weights) = step.split_at(step.len() / 2);
    for (unit, (control, weight)) in controls.iter().zip(weights).enumerate() {
        for i in 0..32 {
            assert!(control.0[i] < 16);
            put(taken, at + usize::from(control.0[i]), first + i / 4, i32::from(weight.0[i] as i8));
        }
        let partner = match (form, unit) {
            (Form::QuadQuad, u) => Some(u ^ 1),
            (Form::QuadPairs | Form::Quad, u @ 0..2) => Some(u ^ 1),
            _ => None,
        };
        for lane in 0..16 {
            let of = |unit: usize| [0, 1].map(|i| i32::from(weights[unit].0[lane * 2 + i] as i8));
            let all = of(unit).into_iter().chain(partner.into_iter().flat_map(of));
            let sums = all.fold([0, 0], |[p, n], w| [p + w.max(0), n + (-w).max(0)]);
            taken.worst_lane = taken.worst_lane.max(sums[0]).max(sums[1]);
        }
    }
}

/// xorshift64.
fn random(state: &mut u64) -> i64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 24) as i64
}

fn weight(kind: usize, k: usize, state: &mut u64) -> i16 {
    let bell = |state: &mut u64, sigma: i64| {
        let sum: i64 = (0..8).map(|_| random(state) & 255).sum();
        ((sum - 1020) * sigma / 209).clamp(-128, 127) as i16
    };
    match kind {
        0 => 127,
        1 => -128,
        2 => [127, -128][k % 2],
        3 => 64,
        4 => [255, -255, 0, 128][random(state) as usize % 4],
        5 => random(state) as u8 as i8 as i16,
        6 => 0,
        7 => [33, 32][k % 2],
        8 => random(state) as i16 % 8,
        k => bell(state, [40, 30, 12][k % 3]),
    }
}

#[test]
fn every_weight_is_packed_once_and_no_lane_can_saturate() {
    let mut state = 0x1234_5678_9ABC_DEF1;
    let mut steps = [0; RUNS.len()];
    for (packing, kind) in Packing::ALL.into_iter().flat_map(|p| (0..12).map(move |k| (p, k))) {
        for len in (1..=70).chain([576]) {
            let spans = [Span { offset: 3, k: 0, len }, Span { offset: 90 + len, k: len, len }];
            let w: Vec<[i16; COLS]> =
                (0..2 * len).map(|k| core::array::from_fn(|_| weight(kind, k, &mut state))).collect();
            let n = 1 + len % COLS;
            let packed = pack(&spans, 2 * len, n, packing, &|columns, to| {
                to.iter_mut().zip(&w).for_each(|(to, w)| to[columns.clone()].copy_from_slice(&w[columns.clone()]));
            });
            let (packed, name) = (packed.unwrap(), format!("{packing:?} weights {kind} length {len}"));
            let panel = packed.panel(0);
            steps.iter_mut().zip(panel.steps).for_each(|(all, n)| *all += n);
            let taken = take_apart(&panel);
            assert!(taken.worst_lane <= 128, "{name}: a lane of {}", taken.worst_lane);
            for (at, row) in taken.weights.iter().enumerate() {
                let span = spans.iter().find(|s| (s.offset..s.offset + len).contains(&at));
                let want = span.map_or([0; COLS], |s| w[s.k + at - s.offset]);
                for (c, got) in row.iter().enumerate() {
                    assert_eq!(*got, if c < n { i32::from(want[c]) } else { 0 }, "{name}: byte {at} column {c}");
                }
            }
        }
    }
    assert!(steps.iter().all(|n| *n > 0), "runs never reached: {steps:?}");
}

#[test]
fn ordinary_weights_need_no_more_than_seventeen_instructions_per_window() {
    let mut state = 99;
    let w: Vec<[i16; COLS]> = (0..576).map(|k| core::array::from_fn(|_| weight(9, k, &mut state))).collect();
    let spans = [Span { offset: 0, k: 0, len: 576 }];
    let packed = pack(&spans, 576, COLS, Packing::Windows, &|_, to| to.copy_from_slice(&w)).unwrap();
    let steps = packed.panel(0).steps;
    let first = Form::QuadQuad.run();
    let whole: u32 = [0, 6].map(|half| steps[first + half..first + 3 + half].iter().sum::<u32>()).iter().sum();
    assert!(whole >= 70, "of 72 half windows {whole} run as four units: {steps:?}");
}

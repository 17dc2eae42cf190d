//! Products on every GPU device that is present: random convolutions, transposed ones, Gemm and MatMul, of bytes and of
//! floats, have the answers of the reference; integers bit for bit.
//!
//! Shapes have odd channels and tails, zero points lie at the ends, weights are full-scale. A device that is not there is
//! reported as skipped.

use ottava_e2e::gpu::{self, Opened};
use ottava_e2e::random_product::{Case, random_product};
use ottava_hal::{CompileOptions, Tensor};
use ottava_reference::Interpreter;

/// Cases per device and way.
fn n_cases() -> u64 {
    if ottava_e2e::assets::exhaustive() { 2000 } else { 120 }
}

/// Runs the cases of `seeds` on a device; the number that it took.
fn check(device: &Opened, seeds: std::ops::Range<u64>, typed: bool) -> usize {
    let (mut taken, mut wrong) = (0, Vec::new());
    for seed in seeds {
        let case: Case = random_product(seed, typed);
        let verdicts = device.device.assess(&case.program).expect("a checked program is assessed");
        let Ok(expect) = Interpreter::new(&case.program).and_then(|i| i.run(&case.inputs)) else { continue };
        if !verdicts.iter().all(|v| v.is_supported()) {
            println!("refused: {seed} {}: {verdicts:?}", case.what);
            continue;
        }
        let exe = device.device.compile(&case.program, &CompileOptions::default());
        let exe = exe.unwrap_or_else(|e| panic!("{}: seed {seed}, {}: {e}", device.name, case.what));
        let found = gpu::run(device, &exe, &case.inputs).unwrap_or_else(|e| panic!("{}: {}: {e}", device.name, case.what));
        if !is_right(&case, &found[0], &expect[0]) {
            wrong.push(format!("seed {seed}: {}: {}", case.what, difference(&found[0], &expect[0])));
        }
        taken += 1;
    }
    assert!(wrong.is_empty(), "{}: {} of {taken} wrong: {wrong:#?}", device.name, wrong.len());
    taken
}

/// Integers, and floats that come of integers, are equal; float sums within numerics.md section 7.
fn is_right(case: &Case, found: &Tensor, expect: &Tensor) -> bool {
    if found.bytes() == expect.bytes() {
        return true;
    }
    let (Some(bound), Ok(found), Ok(expect)) = (case.tolerance, found.to_f32s(), expect.to_f32s()) else { return false };
    found.iter().zip(&expect).all(|(f, e)| (f - e).abs() <= bound.0 + bound.1 * e.abs())
}

fn difference(found: &Tensor, expect: &Tensor) -> String {
    let (Ok(found), Ok(expect)) = (found.to_f32s(), expect.to_f32s()) else { return "not numbers".into() };
    let differs: Vec<usize> = (0..found.len()).filter(|&i| found[i] != expect[i]).collect();
    let shown: Vec<_> = differs.iter().take(4).map(|&i| (i, found[i], expect[i])).collect();
    format!("{} of {} differ (at, found, expected): {shown:?}", differs.len(), found.len())
}

#[test]
fn products_of_bytes_are_bit_equal() {
    for device in gpu::devices("products of bytes") {
        let taken = check(&device, 0..n_cases(), true);
        println!("{}: {taken} cases", device.name);
        assert!(taken as u64 >= n_cases() * 8 / 10, "{}: only {taken} cases", device.name);
    }
}

#[test]
fn products_of_floats_keep_their_tolerance() {
    for device in gpu::devices("products of floats") {
        let taken = check(&device, 0..n_cases() / 2, false);
        println!("{}: {taken} cases", device.name);
        assert!(taken as u64 >= n_cases() * 3 / 10, "{}: only {taken} cases", device.name);
    }
}

//! Products on every GPU device that is present: random convolutions, transposed ones, Gemm and MatMul, of bytes and of
//! floats, have the answers of the reference; integers bit for bit.
//!
//! Shapes have odd channels and tails, zero points lie at the ends, weights are full-scale. A device that is not there is
//! reported as skipped. `OTTAVA_GPU=full` runs many more cases, and every way to compute a dot product of bytes.

use ottava_e2e::gpus::gpus;
use ottava_e2e::random_product::{Case, random_product};
use ottava_hal::{Binding, BufferDesc, CompileOptions, Device, Executable, Result, Submission, Tensor, TensorType};
use ottava_reference::Interpreter;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any run of these tests.
const LONG: Duration = Duration::from_secs(120);

fn full() -> bool {
    std::env::var("OTTAVA_GPU").is_ok_and(|v| v == "full")
}

/// Options of a device: dot products of bytes by products, and packed in work-groups of an odd size.
fn ways() -> Vec<Vec<(&'static str, &'static str)>> {
    let plain = vec![("dot", "plain")];
    if full() { vec![plain, vec![("dot", "packed"), ("work_group", "5")]] } else { vec![plain] }
}

/// Runs an executable once.
fn run(device: &dyn Device, exe: &Arc<dyn Executable>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let buffer = |bytes: &[u8]| {
        let buffer = device.alloc(&BufferDesc { bytes: bytes.len(), alignment: 64 })?;
        buffer.write(0, bytes).map(|()| buffer)
    };
    let ins = inputs.iter().map(|t| buffer(t.bytes()).map(Binding::whole)).collect::<Result<_>>()?;
    let zeros = |ty: &TensorType| buffer(&vec![0; ty.byte_len().unwrap_or(0)]);
    let outs = exe.outputs().iter().map(zeros).collect::<Result<Vec<_>>>()?;
    let mut s = Submission::dispatch(Arc::clone(exe), ins, outs.iter().cloned().map(Binding::whole).collect());
    let fence = device.create_fence(0)?;
    s.signals.push((Arc::clone(&fence), 1));
    device.create_queue()?.submit(&s)?;
    fence.wait(1, LONG)?;
    let mut results = Vec::new();
    for (ty, buffer) in exe.outputs().iter().zip(&outs) {
        let mut bytes = vec![0; buffer.len()];
        buffer.read(0, &mut bytes)?;
        results.push(Tensor::from_bytes(ty.dtype, &ty.shape.known().unwrap_or_default(), &bytes)?);
    }
    Ok(results)
}

/// Runs the cases of `seeds`; the number that the device took. What the reference has no answer for is no case.
fn check(name: &str, device: &dyn Device, seeds: std::ops::Range<u64>, typed: bool) -> usize {
    let (mut taken, mut wrong) = (0, Vec::new());
    for seed in seeds {
        let case: Case = random_product(seed, typed);
        let Ok(expect) = Interpreter::new(&case.program).and_then(|i| i.run(&case.inputs)) else { continue };
        let verdicts = device.assess(&case.program).expect("a checked program is assessed");
        if !verdicts.iter().all(|v| v.is_supported()) {
            println!("refused: {}: {verdicts:?}", case.what);
            continue;
        }
        let exe = device.compile(&case.program, &CompileOptions::default());
        let exe = exe.unwrap_or_else(|e| panic!("{name}: seed {seed}, {}: {e}", case.what));
        let found = run(device, &exe, &case.inputs).unwrap_or_else(|e| panic!("{name}: {}: {e}", case.what));
        if !is_right(&case, &found[0], &expect[0]) {
            wrong.push(format!("seed {seed}: {}: {}", case.what, difference(&found[0], &expect[0])));
        }
        taken += 1;
    }
    assert!(wrong.is_empty(), "{name}: {} of {taken} wrong: {wrong:#?}", wrong.len());
    taken
}

/// Integers, and floats that come of integers, are equal; float sums within numerics.md section 7.
fn is_right(case: &Case, found: &Tensor, expect: &Tensor) -> bool {
    if found.bytes() == expect.bytes() {
        return true;
    }
    let (Some(bound), Ok(found), Ok(expect)) = (case.tolerance, found.to_f32s(), expect.to_f32s()) else {
        return false;
    };
    found.iter().zip(&expect).all(|(f, e)| (f - e).abs() <= bound.0 + bound.1 * e.abs())
}

fn difference(found: &Tensor, expect: &Tensor) -> String {
    let (Ok(found), Ok(expect)) = (found.to_f32s(), expect.to_f32s()) else { return "not numbers".into() };
    let differs: Vec<usize> = (0..found.len()).filter(|&i| found[i] != expect[i]).collect();
    let shown: Vec<_> = differs.iter().take(4).map(|&i| (i, found[i], expect[i])).collect();
    format!("{} of {} differ (at, found, expected): {shown:?}", differs.len(), found.len())
}

/// Both kinds in one test: the software devices compile on all cores anyway.
#[test]
fn products_have_the_answers_of_the_reference() {
    let (n_typed, n_floats) = if full() { (1000, 300) } else { (40, 16) };
    for gpu in gpus("products on GPUs") {
        for way in ways() {
            let (name, device) = (format!("{} {way:?}", gpu.driver), gpu.open(&way));
            let typed = check(&name, device.as_ref(), 0..n_typed, true);
            let floats = check(&name, device.as_ref(), 0..n_floats, false);
            println!("{name}: {typed} products of bytes, {floats} of floats");
            assert!(
                typed as u64 * 10 >= n_typed * 8 && floats as u64 * 10 >= n_floats * 7,
                "{name}: few were accepted"
            );
        }
    }
}

//! 500 seeded mutations of three ONNX files: whatever is broken, the command ends by itself with exit code 0 or 3, says what is
//! wrong in one message, does not panic, and stays within a bound of memory and time.
//!
//! The kinds are those that real damage and hostile files have: cut off, flipped bits, dimensions changed to huge, zero and
//! negative numbers, edges redirected (cycles, missing values), element types changed, attributes changed, names doubled.

mod common;

use common::{asset, folder, ottava};
use ottava_import::onnx::proto::{GraphProto, ModelProto};
use prost::Message;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MUTATIONS: u64 = 500;
/// Address space of the command, KiB: generous for a 120 KB model, far below what a wild allocation asks for.
const MEMORY_KIB: u64 = 4 << 20;
const TIME: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

fn mutate(bytes: &[u8], rng: &mut Rng) -> (&'static str, Vec<u8>) {
    let mut out = bytes.to_vec();
    match rng.below(8) {
        0 => {
            out.truncate(rng.below(out.len()));
            ("truncated", out)
        }
        1 => {
            for _ in 0..=rng.below(8) {
                let at = rng.below(out.len());
                out[at] ^= 1 << rng.below(8);
            }
            ("flipped bits", out)
        }
        kind => {
            let mut model = ModelProto::decode(bytes).expect("the original decodes");
            let graph = model.graph.as_mut().expect("a graph");
            let name = mutate_graph(graph, kind, rng);
            (name, model.encode_to_vec())
        }
    }
}

fn mutate_graph(g: &mut GraphProto, kind: usize, rng: &mut Rng) -> &'static str {
    const EXTENTS: &[i64] = &[0, -1, 1 << 20, 1 << 40, i64::MAX, i64::MIN];
    let n = g.node.len();
    match kind {
        2 => {
            let i = rng.below(g.initializer.len());
            let dims = &mut g.initializer[i].dims;
            let at = rng.below(dims.len());
            if let Some(d) = dims.get_mut(at) {
                *d = EXTENTS[rng.below(EXTENTS.len())];
            }
            "dimension of a constant"
        }
        3 => {
            let (i, j) = (rng.below(n), rng.below(n));
            let from = g.node[j].output.first().cloned().unwrap_or_default();
            let slot = rng.below(g.node[i].input.len());
            if let Some(input) = g.node[i].input.get_mut(slot) {
                *input = from;
            }
            "redirected edge"
        }
        4 => {
            let i = rng.below(g.initializer.len());
            g.initializer[i].data_type = [0, 1, 2, 3, 6, 7, 9, 10, 11, 17, 999, -5][rng.below(12)];
            "element type of a constant"
        }
        5 => {
            let i = rng.below(n);
            let at = rng.below(g.node[i].attribute.len());
            if let Some(a) = g.node[i].attribute.get_mut(at) {
                a.i = Some(EXTENTS[rng.below(EXTENTS.len())]);
                a.ints.iter_mut().for_each(|v| *v = EXTENTS[rng.below(EXTENTS.len())]);
                a.f = Some(f32::NAN);
            }
            "attribute"
        }
        6 => {
            let (i, j) = (rng.below(n), rng.below(n));
            g.node[i].op_type = g.node[j].op_type.clone();
            "operator"
        }
        _ => {
            let (i, j) = (rng.below(n), rng.below(n));
            g.node[i].output = g.node[j].output.clone();
            "doubled or missing value"
        }
    }
}

/// Exit code and standard error of the command on a mutated model, or what it did wrong.
fn run(dir: &Path, model: &Path) -> Result<(i32, String), String> {
    let log = std::fs::File::create(dir.join("err.txt")).expect("a file");
    let script = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_ottava"), "eval"])
        .arg(model)
        .args(["--data", &asset("digits_test.npz"), "--limit", "2"])
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the command starts");
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("the command can be waited for") {
            Some(status) => break status,
            None if start.elapsed() > TIME => {
                child.kill().expect("the command can be ended");
                return Err(format!("still running after {} s", TIME.as_secs()));
            }
            None => std::thread::yield_now(),
        }
    };
    let text = String::from_utf8_lossy(&std::fs::read(dir.join("err.txt")).expect("a file")).into_owned();
    status.code().map(|code| (code, text)).ok_or_else(|| "ended by a signal".to_owned())
}

fn verdict(outcome: Result<(i32, String), String>) -> Result<bool, String> {
    match outcome {
        Err(what) => Err(what),
        Ok((_, text)) if text.contains("panicked") => Err(format!("panic: {text}")),
        Ok((0, _)) => Ok(true),
        Ok((3, text)) if text.contains("error[") => Ok(false),
        Ok((code, text)) => Err(format!("exit code {code}: {text}")),
    }
}

#[test]
fn mutated_models_are_told_or_run() {
    let dir = folder();
    let float = asset("digits.onnx");
    let calib = asset("digits_calib.npz");
    for (out, more) in [("qdq.onnx", &["--data", calib.as_str()][..]), ("dynamic.onnx", &["--dynamic"][..])] {
        let mut args = vec!["quantize", &float, "-o", out];
        args.extend(more);
        assert_eq!(ottava(dir.path(), &args).code, 0, "{out} is written");
    }
    let files = [float.into(), dir.path().join("qdq.onnx"), dir.path().join("dynamic.onnx")];
    let originals: Vec<Vec<u8>> =
        files.iter().map(|f: &std::path::PathBuf| std::fs::read(f).expect("a model")).collect();
    let (mut ran, mut told, mut wrong) = (0, 0, Vec::new());
    for seed in 0..MUTATIONS {
        let mut rng = Rng(seed);
        let (kind, bytes) = mutate(&originals[seed as usize % originals.len()], &mut rng);
        let path = dir.path().join("mutated.onnx");
        std::fs::write(&path, bytes).expect("a file");
        match verdict(run(dir.path(), &path)) {
            Ok(true) => ran += 1,
            Ok(false) => told += 1,
            Err(what) => wrong.push(format!("seed {seed} ({kind}): {what}")),
        }
    }
    println!("{MUTATIONS} mutations: {told} refused with a message, {ran} still ran, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(told > 100 && ran > 0, "the mutations reach both sides: {told} refused, {ran} ran");
}

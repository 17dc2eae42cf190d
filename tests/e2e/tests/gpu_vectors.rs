//! Every ONNX node vector on the GPU devices of this machine, with nothing to fall back on: passed, or refused with a reason.

use ottava::vectors::{Outcome, Tolerance, cases, run_case, tolerances};
use ottava::{Config, Fallback, SessionOptions};
use ottava_e2e::assets::{registry, skip};
use ottava_e2e::gpus::gpus;
use ottava_e2e::split::device;

/// Vectors that a device must pass: a refusal of everything is no success.
const PASSED: usize = 300;

#[test]
fn every_vector_passes_or_is_refused() {
    let test = "every_vector_passes_or_is_refused";
    if std::env::var("OTTAVA_GPU").is_ok_and(|v| v != "full") || std::env::var_os("OTTAVA_GPU").is_none() {
        return skip(test, "kernels are compiled for minutes; OTTAVA_GPU=full runs it");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (archives, manifest) = ottava_e2e::vectors::unpack(folder.path());
    let tolerance = tolerances(&std::fs::read_to_string(&manifest).expect("the manifest is there"));
    for gpu in gpus(test) {
        let devices = vec![device("gpu", gpu.driver, &[])];
        let registry = registry().configured(Config { devices, fallback: Fallback::Error, ..Config::default() });
        let options = SessionOptions { device: Some("gpu".into()), ..SessionOptions::default() };
        let (mut passed, mut refused, mut failed) = (0, 0, Vec::new());
        for case in archives.iter().flat_map(|dir| cases(dir).expect("cases")) {
            let name = case.file_name().expect("a name").to_string_lossy().into_owned();
            let limits = tolerance.get(&name).copied().unwrap_or(Tolerance::default());
            match run_case(&case, &registry, &options, limits) {
                Outcome::Pass => passed += 1,
                Outcome::Unsupported(why) if !why.is_empty() => refused += 1,
                other => failed.push(format!("{name}: {other:?}")),
            }
        }
        println!("{}: {passed} vectors passed, {} failed, {refused} refused", gpu.driver, failed.len());
        assert!(failed.is_empty(), "{}: {failed:#?}", gpu.driver);
        assert!(passed >= PASSED, "{}: {passed} passed", gpu.driver);
    }
}

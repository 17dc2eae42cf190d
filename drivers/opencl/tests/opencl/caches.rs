//! Kept programs: the second start builds nothing, and damaged files are built anew.

use crate::common::{compile, dequantize, device, run};
use ottava_hal::{BlobKey, Device, Status, Tensor};
use std::path::Path;

/// Opens a device with a cache, runs, and says how many programs were built from text.
fn builds(folder: &Path, expect: &mut Option<Vec<Vec<u8>>>) -> Option<u64> {
    let device = device("kept programs on OpenCL", &[("cache", folder.to_str().unwrap())])?;
    let (program, x): (_, Tensor) = dequantize(100);
    let exe = compile(device.as_ref(), &program);
    let found = run(device.as_ref(), &exe, &[x]).unwrap();
    assert_eq!(&found, expect.get_or_insert_with(|| found.clone()));
    Some(device.builds())
}

#[test]
fn the_second_start_builds_nothing_and_damage_is_repaired() {
    // The first device of a process builds the test of its arithmetic too.
    if device("kept programs on OpenCL", &[]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut expect = None;
    let Some(first) = builds(folder.path(), &mut expect) else { return };
    assert!(first > 0);
    assert_eq!(builds(folder.path(), &mut expect), Some(0));
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x40;
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(builds(folder.path(), &mut expect), Some(first));
    assert_eq!(builds(folder.path(), &mut expect), Some(0));
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(file.unwrap().path(), b"").unwrap();
    }
    assert_eq!(builds(folder.path(), &mut expect), Some(first));
}

#[test]
fn saved_executables_run_and_damage_is_refused_or_compiled() {
    let Some(device) = device("saved executables on OpenCL", &[]) else { return };
    let (program, x) = dequantize(100);
    let exe = compile(device.as_ref(), &program);
    let bytes = device.serialize(exe.as_ref()).unwrap();
    let key = key();
    let again = device.deserialize(&key, &bytes).unwrap();
    let inputs = std::slice::from_ref(&x);
    assert_eq!(run(device.as_ref(), &again, inputs).unwrap(), run(device.as_ref(), &exe, inputs).unwrap());
    for n in [0, 3, 7, 20, bytes.len() - 1] {
        let refused = device.deserialize(&key, &bytes[..n]).err().map(|e| e.status());
        assert_eq!(refused, Some(Status::CorruptBlob), "cut at {n}");
    }
}

/// The driver lowers the program anew, whatever the key says.
fn key() -> BlobKey {
    BlobKey {
        driver: "opencl".into(),
        driver_version: String::new(),
        uuid: [0; 16],
        hw_rev: 0,
        ir_version: 0,
        core_hash: 0,
        ops_hash: 0,
        program_hash: 0,
        quant_hash: 0,
        options_hash: 0,
        payload_len: 0,
        payload_sha256: [0; 32],
    }
}

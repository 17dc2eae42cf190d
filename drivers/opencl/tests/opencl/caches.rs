//! Kept programs: the second start builds nothing, and damaged files are built anew.

use crate::common::{compile, dequantize, device, run};
use ottava_hal::Tensor;
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

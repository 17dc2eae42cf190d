//! Kept pipelines: the second start compiles nothing where the driver's cache works, and damaged files are ignored.

use crate::common::{compile, dequantize, reference, run, unchecked};
use ottava_driver_vulkan::Compiled;
use ottava_gpu::testing::skip;
use std::path::Path;

/// Opens a device with a cache, runs, and says what was compiled.
fn start(folder: &Path) -> Option<Compiled> {
    let device = unchecked("kept pipelines on Vulkan", &[("cache", folder.to_str().unwrap())])?;
    let (program, x) = dequantize(100);
    let exe = compile(device.as_ref(), &program);
    let found = run(device.as_ref(), &exe, std::slice::from_ref(&x)).unwrap();
    assert_eq!(found, reference(&program, &[x]));
    Some(device.compiled())
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect()
}

#[test]
fn the_second_start_compiles_nothing_and_damage_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = start(folder.path()) else { return };
    assert!(first.pipelines > 0 && first.cached < first.pipelines, "{first:?}");
    let kept = files(folder.path());
    assert_eq!(kept.len(), 1, "one file per device");
    let second = start(folder.path()).unwrap();
    if second.cached == second.pipelines {
        println!("the second start took all {} pipelines out of the cache", second.cached);
    } else {
        skip("pipelines out of the cache", &format!("the driver keeps nothing in its cache ({second:?})"));
    }
    let sound = std::fs::read(&kept[0]).unwrap();
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x40;
    for bytes in [&damaged[..], &sound[..sound.len() - 1], b"", b"no cache"] {
        std::fs::write(&kept[0], bytes).unwrap();
        assert_eq!(start(folder.path()), Some(first), "a damaged file is as none");
        let healed = start(folder.path());
        assert_eq!(healed, Some(second), "and is written anew");
    }
    assert_eq!(files(folder.path()), kept, "nothing else is left");
}

#[test]
fn no_folder_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    assert!(start(&folder.path().join("file")).is_none_or(|c| c.pipelines > 0), "a file where the folder should be");
}

//! Saved executables.

use crate::common::{Rng, chip, compile, data, run, try_chip};
use crate::network::network;
use ottava_hal::{BlobKey, Status};

fn key() -> BlobKey {
    BlobKey {
        driver: "npu".into(),
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

#[test]
fn a_saved_executable_runs_on_a_chip_of_the_same_description() {
    let mut rng = Rng::new(5);
    let program = network(&mut rng);
    let (device, inputs) = (chip("Npu()"), data(&program, &mut rng));
    let exe = compile(device.as_ref(), &program);
    let bytes = device.serialize(exe.as_ref()).unwrap();
    let other = chip("Npu(name: \"twin\")");
    let loaded = other.deserialize(&key(), &bytes).unwrap();
    assert_eq!((loaded.inputs(), loaded.outputs(), loaded.kernels()), (exe.inputs(), exe.outputs(), exe.kernels()));
    let found = run(other.as_ref(), &loaded, &inputs).unwrap();
    assert_eq!(found, run(device.as_ref(), &exe, &inputs).unwrap());
    assert_eq!(other.serialize(loaded.as_ref()).unwrap(), bytes);
    let smaller = chip("Npu(array: (rows: 8))").deserialize(&key(), &bytes).err().expect("another chip");
    assert_eq!(smaller.status(), Status::IncompatibleBlob, "{smaller}");
}

#[test]
fn damaged_blobs_are_refused_and_never_crash() {
    let mut rng = Rng::new(6);
    let device = try_chip("Npu()", &[("crc", "on")]).unwrap();
    let program = network(&mut rng);
    let bytes = device.serialize(compile(device.as_ref(), &program).as_ref()).unwrap();
    for n in 0..400 {
        let mut damaged = bytes.clone();
        let at = rng.size(0, bytes.len() - 1);
        match n % 4 {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 0x80,
            2 => damaged[at] = 0xff,
            _ => damaged[at] = damaged[at].wrapping_add(1),
        }
        if damaged != bytes && at >= bytes.len() / 2 {
            let refused = device.deserialize(&key(), &damaged);
            assert!(refused.is_err(), "damage at {at} of {}", bytes.len());
        } else {
            drop(device.deserialize(&key(), &damaged));
        }
    }
}

/// Without a checksum damage can go unseen: such a blob may compute wrong bytes or fail, and nothing worse.
#[test]
fn damaged_blobs_without_a_checksum_never_panic() {
    let mut rng = Rng::new(8);
    let device = try_chip("Npu()", &[("watchdog", "1000000")]).unwrap();
    let program = network(&mut rng);
    let inputs = data(&program, &mut rng);
    let exe = compile(device.as_ref(), &program);
    let bytes = device.serialize(exe.as_ref()).unwrap();
    let container = bytes.windows(4).position(|w| w == b"NPUC").unwrap();
    let mut n_loaded = 0;
    for _ in 0..600 {
        let mut damaged = bytes.clone();
        let at = rng.size(container, bytes.len() - 1);
        damaged[at] ^= 1 << rng.range(0, 7);
        let Ok(loaded) = device.deserialize(&key(), &damaged) else { continue };
        n_loaded += 1;
        let result = run(device.as_ref(), &loaded, &inputs);
        assert!(result.err().is_none_or(|e| e.status() != Status::Panic), "damage at {at}");
    }
    assert!(n_loaded > 100, "only {n_loaded} were loaded, the test sees nothing");
}

//! Round trips, and what becomes of files that are damaged, foreign or malicious.

use super::layout::{MAGIC, UNIT, sections};
use super::{FileError, PlanFile, sha, to_bytes, write};
use crate::Plan;
use crate::testing::{Rng, control, key, rich};
use std::fs;

fn error(bytes: &[u8]) -> FileError {
    PlanFile::from_bytes(bytes.to_vec()).expect_err("refused")
}

#[test]
fn plans_come_back_and_equal_plans_make_equal_files() {
    for plan in [rich(), control(), Plan::default()] {
        plan.check().unwrap();
        let bytes = to_bytes(&plan).unwrap();
        assert_eq!(bytes, to_bytes(&plan.clone()).unwrap());
        let back = PlanFile::from_bytes(bytes.clone()).unwrap();
        assert_eq!(back, plan);
        assert_eq!(to_bytes(&back).unwrap(), bytes);
    }
}

#[test]
fn equal_contents_are_stored_once() {
    let plan = rich();
    let bytes = to_bytes(&plan).unwrap();
    let found = sections(&bytes).unwrap();
    // The plan, one weight for six partitions, one slot's constant, and three blobs that the alternative has too.
    assert_eq!(found.len(), 1 + 1 + 1 + 3);
    assert!(found.iter().all(|s| s.range.start.is_multiple_of(UNIT)));
}

#[test]
fn a_mapped_plan_views_the_file_and_outlives_its_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.plan");
    write(&rich(), &path).unwrap();
    let old = PlanFile::open(&path).unwrap();
    let weights = old.partitions[0].program.values.last().unwrap().constant.clone().unwrap();
    let again = old.alternatives[0].plan.partitions[0].program.values.last().unwrap().constant.clone().unwrap();
    assert_eq!(weights.bytes().as_ptr(), again.bytes().as_ptr());
    assert_eq!(weights.bytes().as_ptr().align_offset(UNIT), 0);
    write(&control(), &path).unwrap();
    assert_eq!(old, rich());
    assert_eq!(PlanFile::open(&path).unwrap(), control());
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["net.plan"]);
}

#[test]
fn files_that_are_no_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| PlanFile::open(&folder.path().join(name)).unwrap_err();
    assert!(matches!(open("absent.plan"), FileError::Io { .. }));
    assert!(open(".").to_string().contains("not a regular file"));
    fs::write(folder.path().join("empty.plan"), []).unwrap();
    assert!(matches!(open("empty.plan"), FileError::NotAPlan { .. }));
    assert!(write(&rich(), &folder.path().join("no/such/folder.plan")).is_err());
    assert!(write(&rich(), std::path::Path::new("/")).is_err());
}

#[test]
fn each_kind_of_damage_has_its_own_words() {
    let good = to_bytes(&rich()).unwrap();
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        error(&bytes)
    };
    assert!(matches!(error(b"ONNX"), FileError::NotAPlan { .. }));
    assert!(matches!(error(&MAGIC[..5]), FileError::Truncated { expected: 64, found: 5 }));
    assert!(matches!(error(&good[..good.len() - 1]), FileError::Truncated { .. }));
    assert!(matches!(error(&[good.as_slice(), &[0]].concat()), FileError::Trailing { extra: 1 }));
    let newer = changed(12, 2);
    assert!(matches!(newer, FileError::Version { needs: 2, ours: 1, .. }));
    let newer = [(8, 7), (12, 3)].iter().fold(good.clone(), |mut bytes, (at, value)| {
        bytes[*at] = *value;
        bytes
    });
    let text = error(&newer).to_string();
    assert!(text.contains("format 7 and needs a reader of format 3"), "{text}");
    assert!(matches!(changed(16, 1), FileError::Flags { flags: 1 }));
    assert!(matches!(changed(70, 1), FileError::Checksum { section } if section == "the header"));
    for (index, section) in sections(&good).unwrap().into_iter().enumerate() {
        let at = section.range.start;
        let e = changed(at, good[at] ^ 0x10);
        assert!(matches!(&e, FileError::Checksum { section: name } if *name == section.name(index)), "{e}");
    }
}

/// Cuts, flips, swaps or repeats parts of a file.
fn mutate(good: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let at = rng.below(bytes.len());
    let n = 1 + rng.below(64).min(bytes.len() - at - 1);
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << rng.below(8),
        2 => {
            let noise = rng.bytes(n);
            bytes.splice(at..at + n, noise);
        }
        3 => drop(bytes.drain(at..at + n)),
        4 => {
            let part = bytes[at..at + n].to_vec();
            let to = rng.below(bytes.len());
            bytes.splice(to..to, part);
        }
        _ => bytes[8 + rng.below(24)] = rng.below(256) as u8,
    }
    bytes
}

#[test]
fn a_damaged_file_is_an_error_or_the_same_plan() {
    for (plan, seed) in [(rich(), 0), (control(), 1)] {
        let (good, mut rng) = (to_bytes(&plan).unwrap(), Rng::new(seed));
        for _ in 0..300 {
            let bytes = mutate(&good, &mut rng);
            match PlanFile::from_bytes(bytes.clone()) {
                Ok(found) => assert!(found == plan && bytes == good),
                Err(e) => assert!(!e.to_string().is_empty()),
            }
        }
    }
}

/// Makes all checksums right again, as someone with bad intentions would.
fn seal(bytes: &mut [u8]) {
    let Some(n) = bytes.get(20..24).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize) else { return };
    let table = UNIT + n.saturating_mul(UNIT);
    if table > bytes.len() {
        return;
    }
    let len = bytes.len() as u64;
    bytes[24..32].copy_from_slice(&len.to_le_bytes());
    for row in (UNIT..table).step_by(UNIT) {
        let number = |at: usize| u64::from_le_bytes(bytes[row + at..row + at + 8].try_into().unwrap()) as usize;
        let range = number(8)..number(8).saturating_add(number(16));
        if let Some(hash) = bytes.get(range).map(sha) {
            bytes[row + 32..row + 64].copy_from_slice(&hash);
        }
    }
    let frame = sha(&[&bytes[..32], &bytes[UNIT..table]].concat());
    bytes[32..UNIT].copy_from_slice(&frame);
}

#[test]
fn a_malicious_file_is_an_error_or_a_plan_that_holds() {
    for (plan, seed) in [(rich(), 2), (control(), 3)] {
        let (good, mut rng) = (to_bytes(&plan).unwrap(), Rng::new(seed));
        let inside = sections(&good).unwrap()[0].range.clone();
        let (mut held, mut refused) = (0, 0);
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..1 + rng.below(3) {
                let at = inside.start + rng.below(inside.len());
                bytes[at] = [0, 1, 2, 0x7f, 0xff, rng.below(256) as u8][rng.below(6)];
            }
            if rng.below(8) == 0 {
                bytes = mutate(&bytes, &mut rng);
            }
            seal(&mut bytes);
            match PlanFile::from_bytes(bytes) {
                Ok(plan) => {
                    plan.check().unwrap();
                    held += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(held > 50 && refused > 50, "{held} held, {refused} were refused");
    }
}

#[test]
fn counts_beyond_the_file_are_refused() {
    let mut bytes = to_bytes(&Plan::default()).unwrap();
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(error(&bytes).to_string().contains("do not fit into"));
    let mut bytes = to_bytes(&Plan::default()).unwrap();
    let plan = sections(&bytes).unwrap()[0].range.clone();
    // A list of 2^63 plans.
    bytes.splice(plan, [[0x80; 9].as_slice(), &[1]].concat());
    bytes[UNIT + 16..UNIT + 24].copy_from_slice(&10u64.to_le_bytes());
    seal(&mut bytes);
    assert!(matches!(error(&bytes), FileError::Corrupt { .. }));
}

#[test]
fn a_blob_fits_its_own_device_only() {
    let plan = rich();
    let p = &plan.partitions[0];
    let wanted = key(&p.program, "1.0");
    assert_eq!(p.blob_for(&wanted).unwrap().payload, p.blobs[0].payload);
    assert!(p.blobs[0].is_intact());
    let note = |key: &_| p.blob_for(key).unwrap_err();
    assert!(note(&key(&p.program, "2.0")).contains("made by driver test 1.0, this is test 2.0"));
    let mut other = wanted.clone();
    other.hw_rev += 1;
    assert!(note(&other).contains("instruction set"));
    let mut program = p.program.clone();
    program.nodes[0].version += 1;
    assert!(note(&key(&program, "1.0")).contains("operators"));
    program = p.program.clone();
    let weights = program.values.last_mut().unwrap().constant.as_mut().unwrap();
    weights.bytes_mut()[299] ^= 1;
    assert!(note(&key(&program, "1.0")).contains("the program is another"));
    let mut blob = p.blobs[0].clone();
    blob.payload.bytes_mut()[0] ^= 1;
    assert!(!blob.is_intact());
    let mut bad = plan.clone();
    bad.partitions[0].blobs[0] = blob;
    assert!(to_bytes(&bad).unwrap_err().to_string().contains("does not match its key"));
}

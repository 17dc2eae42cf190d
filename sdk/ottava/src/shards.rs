//! Calibration files: reading one, and joining those of shards.

use crate::error::{Error, Result, codes};
use ottava_quantize::Calibration;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Reads a calibration file.
pub fn load_calibration(path: &Path) -> Result<Calibration> {
    let bytes = std::fs::read(path).map_err(|e| Error::reading(codes::CALIBRATION, path, &e))?;
    Calibration::from_bytes(&bytes).map_err(|e| Error::invalid(codes::CALIBRATION, e.to_string()).in_file(path))
}

/// One calibration from the files of several shards. What is there twice or missing is an error; files that do not say
/// which shard they are (those of version 2) can only be told apart by what they hold.
pub fn merge_calibrations(paths: &[PathBuf]) -> Result<Calibration> {
    let mut given = Vec::new();
    let mut merged: Option<Calibration> = None;
    for path in paths {
        let next = load_calibration(path)?;
        expect_new(&given, path, &next)?;
        given.push((path.as_path(), next.shard(), next.digest()));
        match &mut merged {
            None => merged = Some(next),
            Some(all) => {
                all.merge(&next).map_err(|e| Error::invalid(codes::CALIBRATION, e.to_string()).in_file(path))?
            }
        }
    }
    expect_all(&given)?;
    merged.ok_or_else(|| Error::invalid(codes::CALIBRATION, "there is nothing to merge").help("name two files or more"))
}

/// A file that was read: its shard, if it says so, and the digest of what it holds.
type Given<'p> = (&'p Path, Option<ottava_quantize::ShardId>, u64);

/// Fails if the file is of a shard that was there before.
fn expect_new(given: &[Given<'_>], path: &Path, next: &Calibration) -> Result<()> {
    let shard = next.shard();
    if let Some((other, theirs)) = given.iter().find_map(|(p, s, _)| Some((p, s.as_ref()?)))
        && let Some(own) = shard.filter(|own| own.count != theirs.count)
    {
        let what = format!("it is one of {} shards, {} is one of {}", own.count, other.display(), theirs.count);
        let help = "merge the shards of one division: the same N in every `--shard I/N`";
        return Err(Error::invalid(codes::CALIBRATION, what).in_file(path).help(help));
    }
    let twice = |(_, theirs, digest): &&Given<'_>| match (shard, theirs) {
        (Some(own), Some(theirs)) => own == *theirs,
        _ => next.samples() > 0 && *digest == next.digest(),
    };
    let Some((other, _, digest)) = given.iter().find(twice) else { return Ok(()) };
    let which = shard.map_or_else(String::new, |s| format!(" {}/{}", s.index + 1, s.count));
    let same = if *digest == next.digest() { "the same statistics" } else { "other statistics" };
    let what = format!("the shard{which} is given twice: {} holds {same} of it", other.display());
    Err(Error::invalid(codes::CALIBRATION, what).in_file(path).help("name each shard once"))
}

/// Fails if a shard is missing. Only files that say which shard they are can be counted.
fn expect_all(given: &[Given<'_>]) -> Result<()> {
    let shards: Option<Vec<_>> = given.iter().map(|(_, shard, _)| *shard).collect();
    let Some((first, shards)) = shards.as_ref().and_then(|list| Some((list.first()?, list))) else { return Ok(()) };
    let present: BTreeSet<u64> = shards.iter().map(|shard| shard.index).collect();
    if present.len() as u64 == first.count {
        return Ok(());
    }
    const NAMED: usize = 8;
    let mut missing = (0..first.count).filter(|i| !present.contains(i)).map(|i| format!("{}/{}", i + 1, first.count));
    let named: Vec<String> = missing.by_ref().take(NAMED).collect();
    let more = if missing.next().is_some() { ", .." } else { "" };
    let what = format!("{} of {} shards are there; missing: {}{more}", present.len(), first.count, named.join(", "));
    Err(Error::invalid(codes::CALIBRATION, what).help("name the files of all shards"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_quantize::ShardId;

    /// Files of shards `(index, count, value)`; without a count a file of version 2.
    fn files(dir: &Path, shards: &[(u64, u64, f32)]) -> Vec<PathBuf> {
        let file = |(i, (index, count, value)): (usize, &(u64, u64, f32))| {
            let mut calibration = Calibration::new(7);
            calibration.observe("x", &[*value], 0);
            calibration.add_samples(1);
            if *count > 0 {
                calibration.mark_shard(ShardId { index: *index, count: *count });
            }
            let path = dir.join(format!("{i}.calib"));
            std::fs::write(&path, calibration.to_bytes()).expect("written");
            path
        };
        shards.iter().enumerate().map(file).collect()
    }

    #[test]
    fn all_shards_in_any_order_are_the_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let merged = merge_calibrations(&files(dir.path(), &[(2, 3, 1.0), (0, 3, 2.0), (1, 3, 3.0)])).expect("merges");
        assert_eq!((merged.samples(), merged.shard()), (3, None));
        let older = merge_calibrations(&files(dir.path(), &[(0, 0, 1.0), (0, 0, 2.0)])).expect("merges");
        assert_eq!(older.samples(), 2);
    }

    #[test]
    fn shards_that_are_double_missing_or_of_another_division_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        for (shards, expected) in [
            (vec![(0, 2, 1.0), (0, 2, 1.0)], ["1.calib", "0.calib", "shard 1/2 is given twice", "the same statistics"]),
            (vec![(1, 2, 1.0), (1, 2, 5.0)], ["1.calib", "0.calib", "shard 2/2 is given twice", "other statistics"]),
            (vec![(0, 0, 1.0), (0, 0, 1.0)], ["1.calib", "0.calib", "is given twice", "name each shard once"]),
            (vec![(0, 2, 1.0), (1, 3, 2.0)], ["1.calib", "0.calib", "one of 3 shards", "one of 2"]),
            (vec![(0, 4, 1.0), (2, 4, 2.0)], ["2 of 4 shards", "missing: 2/4, 4/4", "all shards", ""]),
            (vec![(0, 3000, 1.0)], ["1 of 3000 shards", "2/3000", "9/3000, ..", ""]),
        ] {
            let error = merge_calibrations(&files(dir.path(), &shards)).expect_err("refused").to_string();
            assert!(expected.iter().all(|part| error.contains(part)), "{shards:?}: {error}");
        }
    }
}

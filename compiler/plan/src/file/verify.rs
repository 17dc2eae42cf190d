//! Comparing the checksums of all sections, on several threads.

use super::{FileError, Section, sha};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads do not help: memory is the limit.
const MAX_THREADS: usize = 4;
/// A file below this is verified at once.
const SMALL: usize = 1 << 20;

/// Compares all checksums; the error names the first section that differs.
pub(super) fn all(file: &[u8], sections: &[Section]) -> Result<(), FileError> {
    // Each thread takes the next section; the smallest index that differs is kept. Relaxed is enough: the only data that
    // is shared are the two numbers, and the scope ends before they are read.
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let work = || {
        while let Some((index, section)) = take(&next, sections) {
            let bytes = file.get(section.range.clone());
            if bytes.is_none_or(|b| sha(b) != section.sha) {
                wrong.fetch_min(index, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads(file.len(), sections.len()) {
            // Without another thread this one does all the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let index = wrong.load(Ordering::Relaxed);
    match sections.get(index) {
        None => Ok(()),
        Some(section) => Err(FileError::Checksum { section: section.name(index) }),
    }
}

fn take<'s>(next: &AtomicUsize, sections: &'s [Section]) -> Option<(usize, &'s Section)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    sections.get(index).map(|section| (index, section))
}

fn threads(bytes: usize, n_sections: usize) -> usize {
    match bytes < SMALL {
        true => 1,
        false => thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(n_sections),
    }
}

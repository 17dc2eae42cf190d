//! Rules about the repository itself, held by tests: which crate may depend on which, where unsafe code may be, how
//! files look. `tests/` holds one file per rule; this library holds what they share.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file of the repository with one of the extensions, outside of build output, sorted. Paths are relative.
pub fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root(), Path::new(""), extensions, &mut found);
    found.sort();
    found
}

fn walk(root: &Path, at: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root.join(at)) else { return };
    for entry in entries.flatten() {
        let path = at.join(entry.file_name());
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_dir && !hidden && entry.file_name() != "target" {
            walk(root, &path, extensions, found);
        } else if !is_dir && path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            found.push(path);
        }
    }
}

/// The text of a file of the repository.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

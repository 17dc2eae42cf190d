//! A.2: the manifest beside the library.

use super::Group;
use super::load_symbol::library;
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_loader::{LibrarySpec, LoadOptions, Search, load_all};
use std::path::{Path, PathBuf};

pub(super) const GROUP: Group = Group {
    id: "A.2",
    name: "load.manifest",
    about: "a manifest beside the library is read, and names this library with its hash and machine",
    cases: |_| vec![Case::new("A.2", "load.manifest.beside", beside)],
};

/// Manifests in the library's folder.
fn manifests(library: &Path) -> Vec<PathBuf> {
    let folder = library.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = entries.filter(|p| p.to_string_lossy().ends_with(".ottava.ron")).collect();
    found.sort();
    found
}

fn beside(subject: &Subject) -> Check {
    let library = library(subject)?;
    let found = manifests(library);
    if found.is_empty() {
        return Err(Stop::Unsupported("no manifest (*.ottava.ron) beside the library".into()));
    }
    let same = |path: &Path| path.canonicalize().ok() == library.canonicalize().ok();
    for manifest in found {
        let search = Search { user: false, system: false };
        let libraries = vec![LibrarySpec::new(&manifest)];
        let candidate = load_all(&LoadOptions { libraries, search, ..LoadOptions::default() }).into_iter().next();
        let Some(candidate) = candidate else { continue };
        let why = candidate.reason.unwrap_or_default();
        ensure!(candidate.driver.is_some(), "{} does not load: {why}", manifest.display());
        ensure!(same(&candidate.path), "{} names {}", manifest.display(), candidate.path.display());
    }
    Ok(())
}

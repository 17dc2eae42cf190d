//! The driver's lists of expectations: named by `--expect`, or beside the library.

use super::Args;
use crate::failure::{Failure, Result};
use crate::files::{MAX_SETTINGS, read_text};
use ottava_conformance::{Expectations, Profile};
use std::path::{Path, PathBuf};

/// The lists, and where they are from.
pub struct Lists {
    /// The lists.
    pub expectations: Expectations,
    file: Option<PathBuf>,
    /// Whether nobody named the file.
    is_found: bool,
}

/// Reads the lists; empty ones if there is no file.
pub fn read(args: &Args) -> Result<Lists> {
    let beside = args.library.as_deref().map(beside).filter(|path| path.is_file());
    let (file, is_found) = match &args.expect {
        Some(path) => (Some(path.clone()), false),
        None => (beside, true),
    };
    let Some(path) = file else {
        return Ok(Lists { expectations: Expectations::default(), file: None, is_found });
    };
    let text = read_text(&path, MAX_SETTINGS, ottava::codes::EXPECTATIONS)?;
    let parsed = ottava::parse_ron(&text, ottava::codes::EXPECTATIONS, "list of expectations");
    let expectations = parsed.map_err(|e| Failure::Error(e.in_file(&path)))?;
    Ok(Lists { expectations, file: Some(path), is_found })
}

/// `NAME.expect.ron` beside `NAME.so` or `NAME.ottava.ron`.
fn beside(library: &Path) -> PathBuf {
    let name = library.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".ottava.ron").or_else(|| name.strip_suffix(".so")).unwrap_or(&name);
    library.with_file_name(format!("{stem}.expect.ron"))
}

impl Lists {
    /// What is wrong with the lists for these cases is bad input.
    pub fn check(&self, cases: &[(String, String)], profile: Profile) -> Result<()> {
        let Err(why) = self.expectations.check(cases, profile) else { return Ok(()) };
        let error = ottava::Error::invalid(ottava::codes::EXPECTATIONS, why);
        let error = match &self.file {
            Some(path) => error.in_file(path),
            None => error,
        };
        Err(error
            .help("`unsupported` is for what the profile leaves open, `expected_failures` for what will be mended")
            .into())
    }

    /// Entries that mean no case, and a file that nobody named.
    pub fn remarks(&self, cases: &[(String, String)]) -> Vec<String> {
        let Some(file) = self.file.as_ref().and_then(|f| f.file_name()) else { return Vec::new() };
        let file = file.to_string_lossy();
        let found = self.is_found.then(|| format!("the expectations beside the library are used: {file}"));
        let idle = self.expectations.idle(cases).into_iter();
        found.into_iter().chain(idle.map(|p| format!("{file}: the entry `{p}` means no case; take it out"))).collect()
    }
}

//! The files that a user names: read only where they are regular and no larger than such files are.

use crate::failure::{Failure, Result};
use std::io::Read;
use std::path::Path;

/// The most bytes of a file of settings, far more than any needs.
pub const MAX_SETTINGS: u64 = 16 << 20;

/// Refuses what is no regular file, or one of more than `most` bytes: a pipe or a device could be waited for, or never end.
pub fn check_regular(path: &Path, most: u64, code: &str) -> Result<()> {
    let bad = |what: String| Failure::Error(ottava::Error::invalid(code, what).in_file(path));
    let Ok(data) = std::fs::metadata(path) else {
        return Ok(()); // Who opens it says what is wrong.
    };
    if !data.is_file() {
        return Err(bad("not a regular file; write its content to one".to_owned()));
    }
    if data.len() > most {
        return Err(bad(format!("not a file of at most {} MiB", most >> 20)));
    }
    Ok(())
}

/// The text of a regular file of at most `most` bytes. What is said about a failure has `code`.
pub fn read_text(path: &Path, most: u64, code: &str) -> Result<String> {
    check_regular(path, most, code)?;
    let bad = |what: String| Failure::Error(ottava::Error::invalid(code, what).in_file(path));
    let mut text = String::new();
    // Some files have no size before they are read, and some grow.
    let file = std::fs::File::open(path).map_err(|e| bad(format!("cannot read the file: {e}")))?;
    let read = file.take(most.saturating_add(1)).read_to_string(&mut text);
    read.map_err(|e| bad(format!("cannot read the file: {e}")))?;
    if text.len() as u64 > most {
        return Err(bad(format!("not a file of at most {} MiB", most >> 20)));
    }
    Ok(text)
}

/// Reads a recipe.
pub fn recipe(path: &Path) -> Result<ottava::Recipe> {
    check_regular(path, MAX_SETTINGS, ottava::codes::RECIPE)?;
    Ok(ottava::load_recipe(path)?)
}

/// Refuses data or statistics that are no regular file. Their size has no bound but that of the file.
pub fn check_data(path: &Path) -> Result<()> {
    check_regular(path, u64::MAX, ottava::codes::DATA_FILE)
}

/// Reads data: a file, or a folder of images.
pub fn data(path: &Path, preprocess: Option<&ottava::Preprocess>) -> Result<ottava::Data> {
    if !path.is_dir() {
        check_data(path)?;
    }
    Ok(ottava::Data::load(path, preprocess)?)
}

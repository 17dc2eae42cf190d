//! RON text to [`NpuConfig`], with errors that name line, column and the nearest valid key.

use super::{ConfigError, NpuConfig, PRESETS};
use crate::suggest::{excerpt, hint};
use ron::extensions::Extensions;

impl NpuConfig {
    /// Reads a configuration and checks it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        // Editors of some systems begin files with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
        let config: Self = options.from_str(text).map_err(|e| explain(&e))?;
        config.check().map_err(|problem| {
            let at = locate(text, problem.path);
            ConfigError::new(at, problem.message, problem.help)
        })?;
        Ok(config)
    }

    /// A configuration that was put together by a program, checked as one that was read.
    pub fn checked(self) -> Result<Self, String> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(problem) => Err(format!("{}; {}", problem.message, problem.help)),
        }
    }

    /// The preset of this name.
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((_, text)) => Self::parse(text).map_err(|e| e.in_file(format!("preset {name}"))),
            None => {
                let help = hint(name, PRESETS.iter().map(|(preset, _)| *preset));
                Err(ConfigError::new(None, format!("there is no NPU preset `{}`", excerpt(name)), help))
            }
        }
    }

    /// The names of the presets, in their documented order.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The configuration as RON, every key spelled out.
    pub fn to_ron(&self) -> String {
        ron::ser::to_string_pretty(self, ron::ser::PrettyConfig::default().struct_names(false)).unwrap_or_default()
    }
}

fn explain(error: &ron::error::SpannedError) -> ConfigError {
    use ron::Error as E;
    let (message, help) = match &error.code {
        E::NoSuchStructField { expected, found, .. } => {
            (format!("unknown key `{}`", excerpt(found)), hint(found, expected.iter().copied()))
        }
        E::NoSuchEnumVariant { expected, found, .. } => {
            (format!("unknown value `{}`", excerpt(found)), hint(found, expected.iter().copied()))
        }
        E::MissingStructField { field, .. } => (format!("the key `{field}` is missing"), String::new()),
        E::DuplicateStructField { field, .. } => (format!("the key `{field}` is given twice"), String::new()),
        E::ExpectedDifferentStructName { expected, found } => {
            (format!("the file begins with `{}`", excerpt(found)), format!("begin it with `{expected}(`"))
        }
        E::InvalidValueForType { expected, found } => {
            (format!("a value of another type is needed: found {}", excerpt(found)), format!("expected {expected}"))
        }
        other => (format!("the text is not valid RON: {other}"), String::new()),
    };
    ConfigError::new(Some((error.span.start.line, error.span.start.col)), message, help)
}

/// Line and column of the key at the end of `path`, each key searched behind the one before; comments are skipped.
fn locate(text: &str, path: &[&str]) -> Option<(usize, usize)> {
    let mut keys = path.iter();
    let mut key = keys.next()?;
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let mut from = 0;
        while let Some(column) = find_key(code, key, from) {
            match keys.next() {
                Some(next) => (key, from) = (next, column + key.len()),
                None => return Some((number + 1, code[..column].chars().count() + 1)),
            }
        }
    }
    None
}

/// The byte position of `key` followed by a colon, as a whole word, from `from` on.
fn find_key(code: &str, key: &str, from: usize) -> Option<usize> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(key).map(|(i, _)| i).filter(|&i| i >= from).find(|&i| {
        let before = code[..i].chars().next_back();
        let after = code[i + key.len()..].trim_start();
        !before.is_some_and(word) && (after.starts_with(':') || (key.starts_with('"') && after.starts_with(':')))
    })
}

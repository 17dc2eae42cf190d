//! What a parser of RON finds wrong, as a message that names the key, what was found and what was expected.

use super::ConfigError;
use super::places::Keys;
use crate::suggest::{excerpt, hint};

/// The error of a text, with its place.
pub(crate) fn explain(text: &str, error: &ron::error::SpannedError) -> ConfigError {
    use ron::Error as E;
    let at = (error.span.start.line, error.span.start.col);
    let keys = Keys::of(text);
    // The reader stops behind what it does not accept, or on it.
    let end = (error.span.end.line, error.span.end.col);
    let near = keys.before(end.max((at.0, at.1 + 1)));
    let path = near.map_or_else(String::new, |(key, _)| format!("`{}`: ", excerpt(&key.path)));
    let found = near.map_or_else(String::new, |(_, value)| format!("found `{}`; ", excerpt(value)));
    let (message, help) = match &error.code {
        E::NoSuchStructField { expected, found, .. } => {
            (format!("unknown key `{}`", excerpt(found)), hint(found, expected.iter().copied()))
        }
        E::NoSuchEnumVariant { expected, found, .. } => {
            (format!("{path}unknown value `{}`", excerpt(found)), hint(found, expected.iter().copied()))
        }
        E::MissingStructField { field, .. } => {
            // The last key that was read is a neighbour.
            let around = near.and_then(|(key, _)| key.path.rsplit_once('.')).map_or("", |(around, _)| around);
            let missing = if around.is_empty() { (*field).to_owned() } else { format!("{}.{field}", excerpt(around)) };
            (format!("the key `{missing}` is missing"), format!("expected `{field}: ..`"))
        }
        E::DuplicateStructField { field, .. } => {
            (format!("the key `{field}` is given twice"), "expected each key once".to_owned())
        }
        E::ExpectedDifferentStructName { expected, found } => {
            (format!("{path}found `{}`", excerpt(found)), format!("begin it with `{expected}(`"))
        }
        E::InvalidValueForType { expected, found } => (
            format!("{path}a value of another type is needed: found {}", excerpt(found)),
            format!("expected {expected}"),
        ),
        E::ExpectedDifferentLength { expected, found } => {
            (format!("{path}{found} values"), format!("expected {}", excerpt(expected)))
        }
        E::IntegerOutOfBounds => (
            format!("{path}the number is out of bounds"),
            format!("{found}expected a whole number that is not below 0 and fits"),
        ),
        E::InvalidIntegerDigit { .. } | E::ExpectedInteger => {
            (format!("{path}no whole number"), format!("{found}expected an integer"))
        }
        E::ExpectedBoolean | E::ExpectedString | E::ExpectedFloat | E::ExpectedArray | E::ExpectedMap => {
            let expected = error.code.to_string().replace("Expected ", "expected ");
            (format!("{path}a value of another type is needed"), format!("{found}{expected}"))
        }
        E::Message(text) => (format!("{path}{}", long_excerpt(text)), found.trim_end_matches("; ").to_owned()),
        other => {
            let text = other.to_string();
            let said = match text.strip_prefix("Expected ") {
                Some(what) => format!("{found}expected {}", excerpt(what)),
                None => format!("{found}the reader says: {}", long_excerpt(&text)),
            };
            (format!("{path}the text is not valid RON"), said)
        }
    };
    ConfigError::new(Some(at), message, help)
}

/// A message of a library in full, unless it repeats a long text of the user.
fn long_excerpt(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    if short.contains(char::is_control) { short.escape_debug().collect() } else { short }
}

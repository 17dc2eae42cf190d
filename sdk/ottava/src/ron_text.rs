//! RON files into wire types, with errors that name line, column and the nearest valid name.

use crate::error::{Error, Result};
use crate::suggest;
use serde::de::DeserializeOwned;

/// Parses a RON text; `code` is the error's code, `what` names the kind of text ("configuration").
pub fn parse<T: DeserializeOwned>(text: &str, code: &str, what: &str) -> Result<T> {
    ron::from_str(text).map_err(|e| explain(&e, text, code, what))
}

fn explain(error: &ron::error::SpannedError, text: &str, code: &str, what: &str) -> Error {
    use ron::Error as E;
    let at = |e: Error| e.at_text(text, error.span.start.line, error.span.start.col);
    let plain = |message: String| at(Error::invalid(code, message));
    match &error.code {
        E::NoSuchStructField { expected, found, .. } => {
            plain(format!("unknown key `{found}` in the {what}")).help(suggest::hint(found, expected.iter().copied()))
        }
        E::NoSuchEnumVariant { expected, found, .. } => {
            plain(format!("unknown value `{found}` in the {what}")).help(suggest::hint(found, expected.iter().copied()))
        }
        E::MissingStructField { field, .. } => plain(format!("the key `{field}` is missing in the {what}")),
        E::DuplicateStructField { field, .. } => plain(format!("the key `{field}` is given twice in the {what}")),
        E::ExpectedDifferentStructName { expected, found } => {
            plain(format!("the {what} begins with another name")).found(format!("`{found}`")).expected(expected)
        }
        E::InvalidValueForType { expected, found } => {
            plain(format!("a value of another type is needed in the {what}")).found(found).expected(expected)
        }
        other => plain(format!("the {what} is not valid RON: {other}")),
    }
}

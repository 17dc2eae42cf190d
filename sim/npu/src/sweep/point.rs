//! One point of a sweep: values at the places of keys, and the configuration that results.

use super::file::Values;
use crate::NpuConfig;
use crate::suggest::{excerpt, hint};
use serde_json::Value;

/// A choice of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'s> {
    /// Its number among all combinations.
    pub number: u64,
    /// The value of each entry, in the order of the sweep.
    pub chosen: Vec<(&'s Values, &'s Value)>,
}

impl Point<'_> {
    /// The configuration, checked; or why there is none.
    pub fn config(&self, base: &NpuConfig) -> Result<NpuConfig, String> {
        let mut document = serde_json::to_value(base).map_err(|e| e.to_string())?;
        for (values, value) in &self.chosen {
            for key in &values.keys {
                *place(&mut document, key).ok_or_else(|| format!("there is no key `{key}`"))? = (*value).clone();
            }
        }
        let config: NpuConfig = serde_json::from_value(document).map_err(|e| e.to_string())?;
        config.checked()
    }

    /// The values as cells of a table.
    pub fn cells(&self) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.chosen.iter().map(|(_, value)| text(value)).collect()
    }
}

/// A number that differs, for all practical purposes, between different texts: FNV-1a.
pub fn fingerprint<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    texts.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, text| {
        let sized = (text.len() as u64).to_le_bytes();
        sized.iter().chain(text).fold(h, |h, b| step(h, *b))
    })
}

/// The object below a key; an enum with fields has its variant between.
fn object(value: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    let map = value.as_object_mut()?;
    let is_variant = map.len() == 1 && map.iter().all(|(k, v)| v.is_object() && k.starts_with(char::is_uppercase));
    if is_variant { map.values_mut().next()?.as_object_mut() } else { Some(map) }
}

/// The place of a key in the document of a configuration.
pub(crate) fn place<'v>(document: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    // The table of vector operations is open: an operation that is not listed takes one cycle.
    if let Some(op) = key.strip_prefix("vector.cycles.") {
        let table = document.get_mut("vector")?.get_mut("cycles")?.as_object_mut()?;
        return Some(table.entry(op).or_insert(Value::Null));
    }
    key.split('.').try_fold(document, |at, part| object(at)?.get_mut(part))
}

/// The keys of a configuration that hold a value, not a group.
pub(crate) fn keys(base: &NpuConfig) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(mut document) = serde_json::to_value(base) {
        collect(&mut document, "", &mut found);
    }
    found
}

fn collect(value: &mut Value, path: &str, found: &mut Vec<String>) {
    match object(value) {
        Some(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, found);
            }
        }
        None => found.push(path.to_owned()),
    }
}

/// Whether a key can vary.
pub(super) fn check_key(key: &str, known: &[String]) -> Result<(), String> {
    if key == "name" {
        return Err("the name is no figure of the chip".to_owned());
    }
    if known.iter().any(|k| k == key) || key.strip_prefix("vector.cycles.").is_some_and(|op| !op.is_empty()) {
        return Ok(());
    }
    if key.starts_with("energy.") {
        return Err("the configuration has no energy table; give it one first".to_owned());
    }
    let help = hint(key, known.iter().map(String::as_str));
    Err(format!("there is no key `{}` with a value in the configuration; {help}", excerpt(key)))
}

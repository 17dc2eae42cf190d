//! The `Sweep(...)` file: which keys vary, over which values, and how many points are taken.
//!
//! ```ron
//! Sweep(
//!   vary: {
//!     "array.rows+array.cols": [8, 16, 32],                          // several keys, the same value
//!     "sram.a.bytes": (from: 65536, to: 1048576, times: 2),          // or `step`
//!     "array.dataflow": [Os, Ws, Is],
//!   },
//!   sample: Full,                                                    // or Random(points: 60, seed: 1)
//! )
//! ```

use super::point::{self, Point};
use super::ranges::{MAX_VALUES, Range};
use crate::NpuConfig;
use crate::config::{ConfigError, Keys, explain};
use crate::suggest::excerpt;
use ron::extensions::Extensions;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Points that a sweep has at most.
pub const MAX_POINTS: u64 = 1_000_000;

/// A sweep that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// The text is no sweep.
    #[error("line {line}, column {column}: {what}")]
    Text {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        what: String,
    },
    /// A key or its values are wrong.
    #[error("line {line}, column {column}: `{key}`: {what}")]
    Key {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
    },
}

/// A key and what is wrong with it, before its place is known.
struct Problem {
    key: String,
    what: String,
}

impl Problem {
    /// `key` is the path in the file.
    fn new(key: &str, what: impl Into<String>) -> Self {
        Self { key: key.to_owned(), what: what.into() }
    }

    /// A problem of an entry of `vary`.
    fn of(entry: &str, what: impl Into<String>) -> Self {
        Self { key: format!("vary.{entry}"), what: what.into() }
    }

    fn at(self, text: &str) -> SweepError {
        let (line, column) = Keys::of(text).find(&self.key).unwrap_or((1, 1));
        let key = excerpt(self.key.strip_prefix("vary.").unwrap_or(&self.key));
        SweepError::Key { line, column, key, what: self.what }
    }
}

/// How points are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Sampling {
    /// Every combination.
    #[default]
    Full,
    /// Some combinations, each at most once.
    Random {
        /// How many.
        points: u64,
        /// The same seed takes the same ones.
        seed: u64,
    },
}

/// The values of one entry of `vary`.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The entry as written.
    pub name: String,
    /// Its keys.
    pub keys: Vec<String>,
    /// What they take.
    pub values: Vec<Value>,
}

/// A sweep over a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What varies, in the order of the file; the last entry changes fastest.
    pub vary: Vec<Values>,
    /// Numbers of the points, ascending.
    points: Vec<u64>,
}

impl Sweep {
    /// Reads a sweep; its keys must be keys of `base`.
    pub fn parse(text: &str, base: &NpuConfig) -> Result<Self, SweepError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
        let file: File = options.from_str(text).map_err(|e| {
            let ConfigError { at, message, help, .. } = explain(text, &e);
            let (line, column) = at.unwrap_or((1, 1));
            SweepError::Text {
                line,
                column,
                what: if help.is_empty() { message } else { format!("{message}; {help}") },
            }
        })?;
        Self::checked(file, base).map_err(|problem| problem.at(text))
    }

    fn checked(file: File, base: &NpuConfig) -> Result<Self, Problem> {
        let Vary(entries) = file.vary;
        if entries.is_empty() {
            return Err(Problem::new("vary", "it names no key"));
        }
        let known = point::keys(base);
        let vary =
            entries.into_iter().map(|(name, range)| entry(name, range, &known)).collect::<Result<Vec<_>, _>>()?;
        once(&vary)?;
        let total = vary.iter().fold(1_u128, |n, v| n.saturating_mul(v.values.len() as u128));
        Ok(Self { points: sampled(total, file.sample)?, vary })
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none, which a sweep that was read never has.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The points, ascending by number.
    pub fn points(&self) -> impl Iterator<Item = Point<'_>> {
        self.points.iter().map(|&number| {
            let mut rest = number;
            let mut chosen: Vec<(&Values, &Value)> = Vec::with_capacity(self.vary.len());
            for values in self.vary.iter().rev() {
                let n = values.values.len() as u64;
                chosen.push((values, &values.values[(rest % n) as usize]));
                rest /= n;
            }
            chosen.reverse();
            Point { number, chosen }
        })
    }
}

#[derive(Deserialize)]
#[serde(rename = "Sweep", deny_unknown_fields)]
struct File {
    vary: Vary,
    #[serde(default)]
    sample: Sampling,
}

/// The entries in the order of the file; a name that stands twice is an error.
struct Vary(Vec<(String, Range)>);

impl<'de> Deserialize<'de> for Vary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from keys to values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vary, A::Error> {
                let mut entries: Vec<(String, Range)> = Vec::new();
                while let Some((name, range)) = map.next_entry::<String, Range>()? {
                    if entries.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format!("`{}` stands twice", excerpt(&name))));
                    }
                    entries.push((name, range));
                }
                Ok(Vary(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

fn entry(name: String, range: Range, known: &[String]) -> Result<Values, Problem> {
    let wrong = |what: String| Problem::of(&name, what);
    let keys: Vec<String> = name.split('+').map(|key| key.trim().to_owned()).collect();
    for key in &keys {
        point::check_key(key, known).map_err(wrong)?;
    }
    let values = range.values().map_err(wrong)?;
    match values.len() {
        0 => Err(wrong("the list of values is empty".to_owned())),
        n if n > MAX_VALUES => Err(wrong(format!("{n} values; at most {MAX_VALUES} are allowed"))),
        _ => Ok(Values { keys, values, name }),
    }
}

/// No key stands in two entries.
fn once(vary: &[Values]) -> Result<(), Problem> {
    let mut keys: Vec<(&String, &String)> = vary.iter().flat_map(|v| v.keys.iter().map(|k| (k, &v.name))).collect();
    keys.sort_by_key(|(key, _)| *key);
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Problem::of(pair[1].1, format!("the key `{}` stands twice", excerpt(pair[1].0)))),
        None => Ok(()),
    }
}

/// Numbers of the points.
fn sampled(total: u128, sampling: Sampling) -> Result<Vec<u64>, Problem> {
    let wrong = |what: String| Problem::new("sample", what);
    let too_many = |n: u128| wrong(format!("{n} points are more than {MAX_POINTS}; sample some: Random(..)"));
    match sampling {
        Sampling::Random { points: 0, .. } => Err(wrong("Random takes no point".to_owned())),
        Sampling::Random { points, seed } if u128::from(points) < total => {
            let limit =
                u64::try_from(total).map_err(|_| wrong(format!("{total} combinations are too many to number")))?;
            if points > MAX_POINTS {
                return Err(too_many(points.into()));
            }
            Ok(drawn(limit, points, seed))
        }
        _ if total > u128::from(MAX_POINTS) => Err(too_many(total)),
        _ => Ok((0..total as u64).collect()),
    }
}

/// `n` different numbers below `limit`, each set equally likely: Floyd's way, which draws exactly n times.
fn drawn(limit: u64, n: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut chosen = std::collections::BTreeSet::new();
    for top in limit - n..limit {
        let random = u128::from(splitmix(&mut state));
        let at = ((random * (u128::from(top) + 1)) >> 64) as u64;
        if !chosen.insert(at) {
            chosen.insert(top);
        }
    }
    chosen.into_iter().collect()
}

/// The generator splitmix64.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

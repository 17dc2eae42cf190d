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
use crate::NpuConfig;
use crate::suggest::excerpt;
use ron::extensions::Extensions;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Number, Value};
use std::fmt;

/// Points that a sweep has at most.
pub const MAX_POINTS: u64 = 1_000_000;
/// Values of one key at most.
const MAX_VALUES: usize = 65_536;

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
    #[error("`{key}`: {what}")]
    Key {
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// The whole is wrong.
    #[error("{0}")]
    Whole(String),
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
            let (line, column) = (e.span.start.line, e.span.start.col);
            SweepError::Text { line, column, what: excerpt(&e.code.to_string()) }
        })?;
        let Vary(entries) = file.vary;
        if entries.is_empty() {
            return Err(SweepError::Whole("`vary` names no key".to_owned()));
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

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of values, or (from: .., to: .., step: ..) or (from: .., to: .., times: ..)"
)]
enum Range {
    List(Vec<Value>),
    Steps(Steps),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    from: Number,
    to: Number,
    #[serde(default)]
    step: Option<Number>,
    #[serde(default)]
    times: Option<Number>,
}

fn entry(name: String, range: Range, known: &[String]) -> Result<Values, SweepError> {
    let wrong = |what: String| SweepError::Key { key: excerpt(&name), what };
    let keys: Vec<String> = name.split('+').map(|key| key.trim().to_owned()).collect();
    for key in &keys {
        point::check_key(key, known).map_err(wrong)?;
    }
    let values = match range {
        Range::List(values) => values,
        Range::Steps(steps) => steps.values().map_err(wrong)?,
    };
    match values.len() {
        0 => Err(wrong("the list of values is empty".to_owned())),
        n if n > MAX_VALUES => Err(wrong(format!("{n} values; at most {MAX_VALUES} are allowed"))),
        _ => Ok(Values { keys, values, name }),
    }
}

/// No key stands in two entries.
fn once(vary: &[Values]) -> Result<(), SweepError> {
    let mut keys: Vec<&String> = vary.iter().flat_map(|v| &v.keys).collect();
    keys.sort();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SweepError::Key { key: excerpt(pair[0]), what: "the key stands twice".to_owned() }),
        None => Ok(()),
    }
}

impl Steps {
    fn values(&self) -> Result<Vec<Value>, String> {
        let whole = |n: &Number| n.as_u64();
        let change = match (&self.step, &self.times) {
            (Some(step), None) => (step, false),
            (None, Some(times)) => (times, true),
            _ => return Err("a range needs either `step` or `times`".to_owned()),
        };
        let (by, multiplies) = change;
        match (whole(&self.from), whole(&self.to), whole(by)) {
            (Some(from), Some(to), Some(by)) => integers(from, to, by, multiplies),
            _ => reals(self.from.as_f64(), self.to.as_f64(), by.as_f64(), multiplies),
        }
    }
}

fn integers(from: u64, to: u64, by: u64, multiplies: bool) -> Result<Vec<Value>, String> {
    let stuck = if multiplies { by < 2 || from == 0 } else { by == 0 };
    if stuck || from > to {
        return Err("the range never ends or is empty: it needs from <= to, a step above 0, times above 1".to_owned());
    }
    let next = |at: &u64| if multiplies { at.checked_mul(by) } else { at.checked_add(by) };
    let values = std::iter::successors(Some(from), next).take_while(|at| *at <= to).take(MAX_VALUES + 1);
    Ok(values.map(Value::from).collect())
}

fn reals(from: Option<f64>, to: Option<f64>, by: Option<f64>, multiplies: bool) -> Result<Vec<Value>, String> {
    let (Some(from), Some(to), Some(by)) = (from, to, by) else { return Err("no number".to_owned()) };
    let stuck = if multiplies { by <= 1.0 || from <= 0.0 } else { by <= 0.0 };
    if stuck || from > to || ![from, to, by].iter().all(|x| x.is_finite()) {
        return Err("the range never ends or is empty: it needs from <= to, a step above 0, times above 1".to_owned());
    }
    // From the start each time, so that errors do not add up; the end may be missed by a rounding.
    let at = |i: usize| if multiplies { from * by.powi(i as i32) } else { from + by * i as f64 };
    let limit = to + (to - from).abs() * 1e-12;
    let values = (0..=MAX_VALUES).map(at).take_while(|x| *x <= limit);
    Ok(values.map(Value::from).collect())
}

/// Numbers of the points.
fn sampled(total: u128, sampling: Sampling) -> Result<Vec<u64>, SweepError> {
    let too_many =
        |n: u128| SweepError::Whole(format!("{n} points are more than {MAX_POINTS}; sample some: Random(..)"));
    match sampling {
        Sampling::Random { points: 0, .. } => Err(SweepError::Whole("Random takes no point".to_owned())),
        Sampling::Random { points, seed } if u128::from(points) < total => {
            let limit = u64::try_from(total)
                .map_err(|_| SweepError::Whole(format!("{total} combinations are too many to number")))?;
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

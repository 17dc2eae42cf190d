//! The values of one entry of a sweep: a list, or a range with a step or a factor.

use serde::Deserialize;
use serde_json::{Number, Value};

/// Values of one key at most.
pub(super) const MAX_VALUES: usize = 65_536;

/// The values as written.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of values, or (from: .., to: .., step: ..) or (from: .., to: .., times: ..)"
)]
pub(super) enum Range {
    /// As they are.
    List(Vec<Value>),
    /// By a rule.
    Steps(Steps),
}

/// A range.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Steps {
    from: Number,
    to: Number,
    #[serde(default)]
    step: Option<Number>,
    #[serde(default)]
    times: Option<Number>,
}

impl Range {
    /// All values; one more than the limit at most.
    pub fn values(self) -> Result<Vec<Value>, String> {
        match self {
            Self::List(values) => Ok(values),
            Self::Steps(steps) => steps.values(),
        }
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

//! The two lists of a driver: what it does not offer and need not, and what fails for now.
//!
//! * (C1) `unsupported` is permanent, and legal only for what the profile leaves optional. What it names does not run.
//! * (C2) `expected_failures` is temporary: an entry expires. A case that it names and that passes is an `xpass`, which
//!   counts as a failure; one that still fails after the day of expiry is a failure again.
//! * (C3) No case is in both lists. An entry that means no case is said.

use crate::case::matches;
use crate::{Ending, Outcome, Profile};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// A day, `2027-01-31`, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Day(String);

impl Day {
    /// A day from its text.
    pub fn new(text: &str) -> Result<Self, String> {
        let part = |range: std::ops::Range<usize>| text.get(range).and_then(|t| t.parse::<u32>().ok());
        let digits =
            text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
        let is_day = match (part(0..4), part(5..7), part(8..10)) {
            (Some(year), Some(month), Some(day)) => (1..=days_in(year, month)).contains(&day),
            _ => false,
        };
        if text.len() == 10 && digits && is_day {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("`{text}` is not a day as 2027-01-31"))
        }
    }

    /// Today, in UTC.
    pub fn today() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let (mut days, mut year, mut month) = (seconds / 86_400, 1970, 1);
        loop {
            let length = u64::from(days_in(year, month));
            if days < length || year > 9998 {
                return Self(format!("{year:04}-{month:02}-{:02}", days.min(30) + 1));
            }
            days -= length;
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// Days of a month; none of one that there is not.
fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// The lists. A pattern is a group (`D`, `D.1`) or the name of a case, in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// Patterns with reasons.
    #[serde(default)]
    pub unsupported: Vec<(String, String)>,
    /// Patterns with reasons, and the last day on which they hold.
    #[serde(default)]
    pub expected_failures: Vec<(String, String, Day)>,
}

/// What the lists say of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Nothing: it has to pass.
    Pass,
    /// It does not run; why.
    Unsupported(&'a str),
    /// It fails for now; why, and until when.
    Failure(&'a str, &'a Day),
}

impl Expectations {
    /// What is said of a case.
    pub fn of(&self, group: &str, name: &str) -> Expected<'_> {
        let means = |pattern: &str| matches(pattern, group, name);
        if let Some((_, reason)) = self.unsupported.iter().find(|(pattern, _)| means(pattern)) {
            return Expected::Unsupported(reason);
        }
        let failure = self.expected_failures.iter().find(|(pattern, _, _)| means(pattern));
        failure.map_or(Expected::Pass, |(_, reason, day)| Expected::Failure(reason, day))
    }

    /// (C1, C3) What is wrong with the lists for these cases (group, name) of a profile, the first thing only.
    pub fn check(&self, cases: &[(String, String)], profile: Profile) -> Result<(), String> {
        let empty = |reason: &str| reason.trim().is_empty();
        let entries = self.unsupported.iter().map(|(p, r)| (p, r));
        if let Some((pattern, _)) =
            entries.chain(self.expected_failures.iter().map(|(p, r, _)| (p, r))).find(|(_, reason)| empty(reason))
        {
            return Err(format!("the entry `{pattern}` gives no reason"));
        }
        for (pattern, _) in &self.unsupported {
            let mut meant = cases.iter().filter(|(group, name)| matches(pattern, group, name));
            if let Some((group, name)) = meant.find(|(group, _)| profile.needs(group)) {
                let profile = profile.name();
                return Err(format!(
                    "`unsupported` has `{pattern}`, which means `{name}` ({group}): the profile {profile} needs that group"
                ));
            }
        }
        for (group, name) in cases {
            let means = |pattern: &str| matches(pattern, group, name);
            let gone = self.unsupported.iter().find(|(p, _)| means(p));
            let failing = self.expected_failures.iter().find(|(p, _, _)| means(p));
            if let (Some((a, _)), Some((b, _, _))) = (gone, failing) {
                return Err(format!("`{name}` is in both lists: `{a}` is unsupported, `{b}` is expected to fail"));
            }
        }
        Ok(())
    }

    /// (C3) The patterns that mean none of the cases.
    pub fn idle(&self, cases: &[(String, String)]) -> Vec<&str> {
        let patterns = self.unsupported.iter().map(|(p, _)| p).chain(self.expected_failures.iter().map(|(p, _, _)| p));
        let is_idle = |p: &&String| !cases.iter().any(|(group, name)| matches(p, group, name));
        patterns.filter(is_idle).map(String::as_str).collect()
    }

    /// (C2) The outcome of a case, seen with the lists.
    pub fn judge(&self, outcome: Outcome, today: &Day) -> Outcome {
        let Expected::Failure(reason, day) = self.of(&outcome.group, &outcome.name) else { return outcome };
        let is_bad = matches!(outcome.result, Ending::Failed | Ending::Crashed | Ending::Hung);
        let (result, detail) = match outcome.result {
            Ending::Passed => (Ending::Xpass, format!("it passes, but is expected to fail: {reason}")),
            result if is_bad && today > day => {
                (result, format!("expected to fail until {day}, which is over ({reason}): {}", outcome.detail))
            }
            _ if is_bad => (Ending::Xfail, format!("{reason} (until {day}): {}", outcome.detail)),
            result => (result, outcome.detail.clone()),
        };
        Outcome { result, detail, ..outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> Expectations {
        let text = str::to_owned;
        Expectations {
            unsupported: vec![(text("F.5"), text("no dynamic shapes"))],
            expected_failures: vec![(text("num.Conv.*"), text("rounds wrongly"), Day::new("2027-01-31").unwrap())],
        }
    }

    fn outcome(result: Ending) -> Outcome {
        Outcome {
            group: "G.1".into(),
            name: "num.Conv.3".into(),
            result,
            detail: "x".into(),
            millis: 1,
            attached: None,
        }
    }

    #[test]
    fn days_are_days() {
        for good in ["2027-01-31", "2028-02-29", "0001-12-01"] {
            assert!(Day::new(good).is_ok(), "{good}");
        }
        for bad in
            ["2027-02-29", "2027-13-01", "2027-00-01", "2027-1-1", "2027-01-00", "tomorrow", "2027/01/01", "+027-01-01"]
        {
            assert!(Day::new(bad).is_err(), "{bad}");
        }
        assert!(Day::today() > Day::new("2025-01-01").unwrap() && Day::new(&Day::today().0).is_ok());
    }

    #[test]
    fn c2_expected_failures_are_xfail_until_they_expire_and_xpass_where_they_pass() {
        let (before, after) = (Day::new("2027-01-31").unwrap(), Day::new("2027-02-01").unwrap());
        let result = |ending, day: &Day| lists().judge(outcome(ending), day).result;
        assert_eq!(result(Ending::Failed, &before), Ending::Xfail);
        assert_eq!(result(Ending::Hung, &before), Ending::Xfail);
        assert_eq!(result(Ending::Crashed, &after), Ending::Crashed);
        assert_eq!((result(Ending::Passed, &before), result(Ending::Passed, &after)), (Ending::Xpass, Ending::Xpass));
        assert_eq!(result(Ending::Skipped, &before), Ending::Skipped);
        let detail = lists().judge(outcome(Ending::Failed), &after).detail;
        assert!(detail.contains("2027-01-31, which is over"), "{detail}");
    }

    #[test]
    fn c1_what_a_profile_needs_cannot_be_unsupported() {
        let case = |group: &str, name: &str| (group.to_owned(), name.to_owned());
        let all = [case("F.5", "exec.dynamic.a"), case("G.1", "num.Conv.3"), case("B.1", "dev.enumerate.a")];
        assert_eq!(lists().check(&all, Profile::Full), Ok(()));
        let mut wrong = lists();
        wrong.unsupported.push(("dev.*".into(), "no".into()));
        let why = wrong.check(&all, Profile::Full).unwrap_err();
        assert!(why.contains("`dev.enumerate.a` (B.1)") && why.contains("full"), "{why}");
        assert_eq!(wrong.idle(&all), Vec::<&str>::new());
    }

    #[test]
    fn c3_lists_do_not_mix_and_idle_entries_are_found() {
        let case = |group: &str, name: &str| (group.to_owned(), name.to_owned());
        let mut mixed = lists();
        mixed.unsupported.push(("num.Conv.3".into(), "no".into()));
        let cases = [case("G.5", "num.Conv.3")];
        assert!(mixed.check(&cases, Profile::Full).unwrap_err().contains("both lists"));
        assert_eq!(lists().idle(&cases), ["F.5"]);
        mixed.unsupported.push(("x".into(), " ".into()));
        assert!(mixed.check(&cases, Profile::Full).unwrap_err().contains("no reason"));
    }
}

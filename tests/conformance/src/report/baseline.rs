//! What is worse than in an older report.

use crate::{Ending, Outcome};
use serde_json::Value;
use std::collections::BTreeMap;

/// A case that ended well once and does not any more, or is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regression {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// How it ended.
    pub was: String,
    /// How it ends; `gone` if there is no such case.
    pub is: String,
}

/// The cases of an older report.
#[derive(Debug, Clone, Default)]
pub struct Baseline(BTreeMap<String, (String, String)>);

impl Baseline {
    /// Reads a `report.json`.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let doc: Value = serde_json::from_str(text).map_err(|e| format!("it is no JSON: {e}"))?;
        let schema = doc.get("schema").and_then(Value::as_u64);
        if schema != Some(super::SCHEMA.into()) {
            let found = schema.map_or_else(|| "none".to_owned(), |n| n.to_string());
            return Err(format!("its schema is {found}, this version reads {}", super::SCHEMA));
        }
        let cases = doc.get("cases").and_then(Value::as_array).ok_or("it has no list `cases`")?;
        let text = |case: &Value, key: &str| case.get(key).and_then(Value::as_str).map(str::to_owned);
        let one = |case: &Value| Some((text(case, "name")?, (text(case, "group")?, text(case, "result")?)));
        let read: Option<_> = cases.iter().map(one).collect();
        read.map(Self).ok_or_else(|| "a case has no group, name or result".to_owned())
    }

    /// The cases that passed and are bad now, or are not there any more although `wants` asks for them.
    pub fn regressions(&self, now: &[Outcome], wants: impl Fn(&str, &str) -> bool) -> Vec<Regression> {
        let by_name: BTreeMap<&str, Ending> = now.iter().map(|o| (o.name.as_str(), o.result)).collect();
        let mut list = Vec::new();
        for (name, (group, was)) in &self.0 {
            let is = match by_name.get(name.as_str()) {
                Some(ending) if was == Ending::Passed.name() && *ending != Ending::Passed => ending.name(),
                Some(ending) if ending.is_bad() && !is_bad(was) => ending.name(),
                None if wants(group, name) => "gone",
                _ => continue,
            };
            list.push(Regression { group: group.clone(), name: name.clone(), was: was.clone(), is: is.to_owned() });
        }
        list
    }
}

fn is_bad(name: &str) -> bool {
    Ending::ALL.iter().any(|e| e.name() == name && e.is_bad())
}

#[cfg(test)]
mod tests {
    use super::super::testing::report;
    use super::*;

    #[test]
    fn what_passed_and_is_bad_or_gone_is_found() {
        let mut old = report();
        old.outcomes.iter_mut().for_each(|o| o.result = Ending::Passed);
        old.outcomes.push(Outcome { name: "dev.gone".into(), ..old.outcomes[0].clone() });
        let baseline = Baseline::from_json(&super::super::to_json(&old).to_string()).unwrap();
        let found = baseline.regressions(&report().outcomes, |_, name| name.starts_with("dev."));
        assert_eq!(found.len(), 8);
        assert!(found.iter().any(|r| r.name == "dev.gone" && r.is == "gone" && r.was == "passed"));
        let same = Baseline::from_json(&super::super::to_json(&report()).to_string()).unwrap();
        assert_eq!(same.regressions(&report().outcomes, |_, _| true), []);
    }

    #[test]
    fn other_documents_are_refused_in_words() {
        for (text, words) in [("", "no JSON"), ("{}", "schema is none"), (r#"{"schema":9}"#, "schema is 9")] {
            assert!(Baseline::from_json(text).unwrap_err().contains(words), "{text}");
        }
        assert!(Baseline::from_json(r#"{"schema":1,"cases":[{}]}"#).unwrap_err().contains("no group"));
    }
}

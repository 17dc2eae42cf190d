//! The report of a run: the submission header, the outcomes, what is worse than in an older report.
//!
//! | file | makes |
//! |---|---|
//! | `header` | the submission: driver, library, machine, choice |
//! | `json` | `report.json`, which is also what `--baseline` reads |
//! | `junit` | `junit.xml` |
//! | `baseline` | regressions against an older report |
//!
//! Nothing in a report depends on time but the fields `millis`, `seconds` and `date`.

mod baseline;
mod header;
mod json;
mod junit;

pub use baseline::{Baseline, Regression};
pub use header::{Header, Library, SUITE, system};
pub use json::{SCHEMA, to_json};
pub use junit::to_junit;

use crate::{Coverage, Ending, Outcome};
use std::collections::BTreeMap;

/// So many failures are looked into; a driver with more has one defect that shows everywhere.
const MOST_DIAGNOSES: usize = 100;

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The submission.
    pub header: Header,
    /// What the device claims to run.
    pub coverage: Vec<Coverage>,
    /// How each case ended.
    pub outcomes: Vec<Outcome>,
    /// Repro files by the case's name, relative to the folder of the report.
    pub repros: BTreeMap<String, String>,
    /// Likely causes by the case's name.
    pub causes: BTreeMap<String, String>,
    /// What is worse than in an older report; none if there is no older one.
    pub regressions: Option<Vec<Regression>>,
    /// Entries of the lists that mean no case, and other remarks.
    pub remarks: Vec<String>,
    /// How long the run took.
    pub seconds: f64,
}

impl Report {
    /// How many cases ended so.
    pub fn count(&self, ending: Ending) -> usize {
        self.outcomes.iter().filter(|o| o.result == ending).count()
    }

    /// Whether the driver keeps the contract: nothing is bad, and something passed.
    pub fn is_conformant(&self) -> bool {
        self.count(Ending::Passed) > 0 && !self.outcomes.iter().any(|o| o.result.is_bad())
    }

    /// In words.
    pub fn verdict(&self) -> String {
        let (driver, profile) = (&self.header.facts.driver, &self.header.profile);
        let bad = self.outcomes.iter().filter(|o| o.result.is_bad()).count();
        match bad {
            0 if self.count(Ending::Passed) == 0 => format!("`{driver}`: no case passed, so nothing is shown"),
            0 if self.header.filter.is_empty() => {
                format!("`{driver}` is Ottava conformant (profile {profile}, suite {})", self.header.suite)
            }
            0 => format!("`{driver}` passes what was chosen of the profile {profile}"),
            1 => format!("`{driver}` is not conformant: 1 case is bad"),
            n => format!("`{driver}` is not conformant: {n} cases are bad"),
        }
    }

    /// Finds the likely causes of the failures that have a program.
    pub fn find_causes(&mut self) {
        let attached = self.outcomes.iter().filter_map(|o| Some((&o.name, o.attached.as_deref()?)));
        let looked_into = attached.take(MOST_DIAGNOSES);
        let cause = |(name, repro): (&String, &crate::Repro)| {
            let found = crate::diagnose(repro);
            Some((name.clone(), found.cause()?.to_owned()))
        };
        self.causes = looked_into.filter_map(cause).collect();
    }

    /// The groups in order, each with the number of cases by ending.
    pub fn groups(&self) -> Vec<(String, BTreeMap<&'static str, usize>)> {
        let mut list: Vec<(String, BTreeMap<&'static str, usize>)> = Vec::new();
        for o in &self.outcomes {
            let i = list.iter().position(|(group, _)| *group == o.group).unwrap_or_else(|| {
                list.push((o.group.clone(), BTreeMap::new()));
                list.len() - 1
            });
            *list[i].1.entry(o.result.name()).or_default() += 1;
        }
        list.sort_by_key(|(group, _)| crate::GROUPS.iter().position(|g| g.id == group).unwrap_or(usize::MAX));
        list
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A report with every ending and hostile texts.

    use super::*;
    use crate::{Expectations, Facts};

    pub(crate) const EVIL: &str = "<a href=\"x\">&'\u{1}]]></a>\u{fffe}";

    pub(crate) fn report() -> Report {
        let outcome = |(i, result): (usize, &Ending)| Outcome {
            group: "B.3".into(),
            name: format!("dev.open_close.{i}"),
            result: *result,
            detail: EVIL.into(),
            millis: 1500,
            attached: None,
        };
        let facts = Facts { driver: "acme".into(), version: EVIL.into(), ..Facts::default() };
        Report {
            header: Header {
                facts,
                library: None,
                suite: "0.1.0",
                profile: "full".into(),
                filter: String::new(),
                seed: 7,
                stress: false,
                timeout_s: 30.0,
                command: vec!["ottava".into(), EVIL.into()],
                system: Vec::new(),
                date: "2027-01-01".into(),
                expectations: Expectations::default(),
            },
            coverage: Vec::new(),
            outcomes: Ending::ALL.iter().enumerate().map(outcome).collect(),
            repros: [("dev.open_close.1".to_owned(), "repro/dev.open_close.1.orepro".to_owned())].into(),
            causes: [("dev.open_close.1".to_owned(), EVIL.to_owned())].into(),
            regressions: None,
            remarks: vec![EVIL.into()],
            seconds: 12.0,
        }
    }

    #[test]
    fn one_bad_case_is_enough_and_none_that_passed_is_too_few() {
        let mut report = report();
        assert!(!report.is_conformant() && report.verdict().contains("4 cases are bad"), "{}", report.verdict());
        report.outcomes.retain(|o| !o.result.is_bad());
        assert!(report.is_conformant() && report.verdict().contains("profile full, suite 0.1.0"));
        report.outcomes.retain(|o| o.result != Ending::Passed);
        assert!(!report.is_conformant() && report.verdict().contains("no case passed"));
    }
}

//! A run of the suite from the parent's side: what there is, what of it is chosen, the cases in children, several at once.
//!
//! The outcomes are in the order of the groups whatever the number of children, so that the same seed and driver give the
//! same report except for times.

use crate::child::{Answer, Heard, run_case};
use crate::describe::{Coverage, Facts};
use crate::expect::{Day, Expectations, Expected};
use crate::{Child, Ending, GROUPS, Limits, Outcome, Profile, Refusal};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Makes the command of a child.
pub type Starter<'a> = dyn Fn(&Child) -> Command + Sync + 'a;

/// What a driver says of itself, and every case that there is for it.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// Who it is.
    pub facts: Facts,
    /// The library that was loaded.
    pub library: Option<PathBuf>,
    /// What it claims to run.
    pub coverage: Vec<Coverage>,
    /// Group and name of every case.
    pub cases: Vec<(String, String)>,
    /// Groups whose cases could not even be listed.
    pub broken: Vec<Outcome>,
}

/// Asks a child who the driver is and which cases there are. An error says why the driver cannot be tested at all; a driver
/// that dies while the cases are made is asked group by group.
pub fn describe(start: &Starter<'_>, limits: Limits) -> Result<Described, Refusal> {
    let heard = Heard::of(start(&Child::Describe), limits)?;
    let cases = heard.cases(limits);
    let (mut facts, mut library, mut coverage) = (None, None, Vec::new());
    for answer in heard.answers {
        match answer {
            Answer::Facts(found) => facts = Some(found),
            Answer::Library(found) => library = Some(found),
            Answer::Coverage(found) => coverage = found,
            _ => {}
        }
    }
    match (facts, cases) {
        (None, Err(why)) => Err(why),
        (None, Ok(_)) => Err("the driver does not say who it is".to_owned().into()),
        (Some(facts), Ok(cases)) => Ok(Described { facts, library, coverage, cases, broken: Vec::new() }),
        (Some(facts), Err(_)) => {
            Ok(by_group(start, limits, Described { facts, library, coverage, ..Described::default() }))
        }
    }
}

fn by_group(start: &Starter<'_>, limits: Limits, mut described: Described) -> Described {
    for group in GROUPS {
        let heard = Heard::of(start(&Child::ListOf(group.id.to_owned())), limits);
        match heard.as_ref().map_err(String::clone).and_then(|h| h.cases(limits).map_err(|e| e.reason)) {
            Ok(cases) => described.cases.extend(cases),
            Err(why) => {
                let is_hung = heard.is_ok_and(|h| h.ended.status.is_none());
                described.broken.push(Outcome {
                    group: group.id.to_owned(),
                    name: format!("{}.cases", group.name),
                    result: if is_hung { Ending::Hung } else { Ending::Crashed },
                    detail: format!("the cases of the group cannot be made: {why}"),
                    millis: 0,
                    attached: None,
                });
            }
        }
    }
    described
}

/// Which cases run, and how.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The profile.
    pub profile: Profile,
    /// A group or pattern; empty for all.
    pub filter: String,
    /// The driver's lists.
    pub expectations: Expectations,
    /// Limits of each child.
    pub limits: Limits,
    /// Children at once.
    pub jobs: usize,
    /// Today, for entries that expire.
    pub today: Day,
}

impl Choice {
    /// Whether a case is asked for.
    pub fn wants(&self, group: &str, name: &str) -> bool {
        self.profile.asks_for(group) && (self.filter.is_empty() || crate::case::matches(&self.filter, group, name))
    }
}

/// Runs the chosen cases; `tell` hears of each that is over: how many are, and of how many.
pub fn run(
    start: &Starter<'_>,
    described: &Described,
    choice: &Choice,
    mut tell: impl FnMut(u64, u64),
) -> Vec<Outcome> {
    let chosen: Vec<_> = described.cases.iter().filter(|(group, name)| choice.wants(group, name)).collect();
    let broken = described.broken.iter().filter(|o| choice.wants(&o.group, &o.name)).cloned();
    let (next, total) = (AtomicUsize::new(0), chosen.len() as u64);
    let mut done: Vec<Option<Outcome>> = vec![None; chosen.len()];
    std::thread::scope(|scope| {
        let (to, from) = mpsc::channel();
        for _ in 0..choice.jobs.clamp(1, chosen.len().max(1)) {
            let (to, next, chosen) = (to.clone(), &next, &chosen);
            scope.spawn(move || {
                while let Some((i, (group, name))) = take(next, chosen) {
                    if to.send((i, one(start, group, name, choice))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(to);
        tell(0, total);
        for (n, (i, outcome)) in from.into_iter().enumerate() {
            done[i] = Some(outcome);
            tell(n as u64 + 1, total);
        }
    });
    done.into_iter().flatten().chain(broken).collect()
}

fn take<'a, T>(next: &AtomicUsize, list: &'a [T]) -> Option<(usize, &'a T)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    list.get(i).map(|item| (i, item))
}

fn one(start: &Starter<'_>, group: &str, name: &str, choice: &Choice) -> Outcome {
    if let Expected::Unsupported(reason) = choice.expectations.of(group, name) {
        let (group, name, detail) = (group.to_owned(), name.to_owned(), reason.to_owned());
        return Outcome { group, name, result: Ending::Unsupported, detail, millis: 0, attached: None };
    }
    let outcome = run_case(group, name, start(&Child::Run(name.to_owned())), choice.limits);
    choice.expectations.judge(outcome, &choice.today)
}

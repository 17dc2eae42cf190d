//! `ottava-conformance`: whether a driver keeps the contract.
//!
//! The command's verb `conformance` is a thin shell around this library. A driver that is linked as a crate runs the same
//! groups in process, from its own tests ([`run_here`]).
//!
//! Reading order:
//!
//! 1. `case`: what a case is, and how it ends;
//! 2. `subject`: the driver under test;
//! 3. `groups`: the table of groups A to H, one file per group, one line each;
//! 4. `kit`: what the groups share;
//! 5. `profile`: which groups a profile asks for;
//! 6. `child`: every case in a process of its own, with a time limit;
//! 7. `run`: the cases of a run, several children at once; `expect`: the two lists of what a driver does not do;
//! 8. `report`: what a run came to, as JSON and JUnit's XML;
//! 9. `repro`: what a failure leaves behind, to be looked into alone; `diagnose`: what is wrong with it.
//!
//! Invariants: a case that cannot fail is no case (each group has a mutant that it catches); one seed decides everything;
//! integers are compared exactly; a crash, a hang or an exit of the driver ends its case and never the run.

mod case;
mod child;
mod describe;
mod diagnose;
mod execute;
mod expect;
mod groups;
mod kit;
mod library;
mod process;
mod profile;
mod raw;
mod report;
mod repro;
mod run;
mod subject;

pub use case::{Case, Check, Ending, Outcome, Stop, refused, wild};
pub use child::{Child, Refusal, answer, list, refusal, run_case, serve};
pub use describe::{Coverage, Facts};
pub use diagnose::{Diagnosis, Difference, Finding, diagnose};
pub use execute::execute;
pub use expect::{Day, Expectations, Expected};
pub use groups::{GROUPS, Group, cases};
pub use library::{Policy, Rule};
pub use process::Limits;
pub use profile::Profile;
pub use report::{Baseline, Header, Library, Regression, Report, SCHEMA, SUITE, system, to_json, to_junit};
pub use repro::{Repro, ReproFile};
pub use run::{Choice, Described, Starter, describe, run};
pub use subject::{Oracle, Subject};

/// Runs the cases of a profile in this process, for drivers that are linked in; a crash ends the caller.
pub fn run_here(subject: &Subject, profile: Profile, filter: &str) -> Vec<Outcome> {
    let chosen = cases(subject).into_iter().filter(|c| profile.asks_for(c.group) && c.matches(filter));
    chosen.map(|case| case.run(subject)).collect()
}

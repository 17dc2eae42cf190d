//! `ottava conformance`: whether a driver keeps the contract.
//!
//! This process never loads the library. It starts itself again for each case (`--child`), so that a driver that crashes,
//! hangs or calls `exit` ends its case and nothing else; the suite itself is the crate `ottava_conformance`.
//!
//! | file | has |
//! |---|---|
//! | `child` | the processes of the cases: their command line, and what they do |
//! | `lists` | the driver's two lists of expectations |
//! | `folder` | the folder of the report |
//! | `text`, `page` | the report for the terminal and as an HTML page |
//! | `replay` | one failure alone |

mod child;
mod folder;
mod lists;
mod page;
mod replay;
mod text;

use super::Context;
use crate::failure::{Failure, Result};
use crate::ui::Answer;
use ottava_conformance::{
    Baseline, Choice, Day, Described, Header, Library, Limits, Outcome, Profile, Refusal, Report, SUITE, describe,
    run as run_cases, system,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Check a driver library, or a device, against the contract; each case runs in a process of its own.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "ottava conformance <LIB.so|--device ID> [OPTIONS]",
    after_help = "Examples:
  ottava conformance ./libacme.so
  ottava conformance ./libacme.so --profile quant --report out
  ottava conformance ./libacme.so --repro out/repro/num.Conv.3.orepro
  ottava conformance --device cpu --filter 'num.*'

Exit codes: 0 conformant, 1 not, 2 wrong usage, 3 bad input, 4 the library is not loaded."
)]
pub struct Args {
    /// The driver's library, or its manifest (`*.ottava.ron`).
    #[arg(required_unless_present = "device", value_name = "LIB.so")]
    library: Option<PathBuf>,
    /// A device of a driver that is built in or configured; with a library, the one of its devices to take.
    #[arg(long, value_name = "ID")]
    device: Option<String>,
    /// What the driver wants to be: minimal (first day), async (queues and fences), quant (integer accelerators), full.
    #[arg(long, value_name = "PROFILE", default_value = "minimal", value_parser = |text: &str| text.parse::<Profile>())]
    profile: Profile,
    /// Only a group (`D`, `D.1`) or cases by name, with `*` for any text.
    #[arg(long, value_name = "G", default_value = "")]
    filter: String,
    /// Write report.json, report.html, junit.xml and a repro file per failure into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The driver's lists of what it does not support and of what fails for now [default: NAME.expect.ron beside NAME.so].
    #[arg(long, value_name = "E.ron")]
    expect: Option<PathBuf>,
    /// Decides everything that is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seconds after which a case is hung.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Long forms of the cases.
    #[arg(long)]
    stress: bool,
    /// Run one failure alone and look into it.
    #[arg(long, value_name = "F.orepro", conflicts_with_all = ["filter", "report", "baseline", "dry_run"])]
    repro: Option<PathBuf>,
    /// An older report.json: what is worse than there is told first.
    #[arg(long, value_name = "R.json")]
    baseline: Option<PathBuf>,
    /// Also compare with a chip that exists as a description: what it runs, and the bytes.
    #[arg(long, value_name = "npu:CHIP.ron")]
    oracle: Option<String>,
    /// Compare cycles too, which may be off by so many percent.
    #[arg(long, value_name = "PCT", requires = "oracle", value_parser = percent)]
    cycle_tolerance: Option<f64>,
    /// List what would run.
    #[arg(long)]
    dry_run: bool,
    /// What a process of this command's own is asked for.
    #[arg(long, hide = true, value_parser = |text: &str| ottava_conformance::Child::from_arg(text).ok_or("no such request"))]
    child: Option<ottava_conformance::Child>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let valid = text.parse().ok().filter(|s: &f64| *s > 0.0 && *s <= 86_400.0);
    valid.map(Duration::from_secs_f64).ok_or_else(|| "needs a number of seconds above 0, at most a day".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let valid = text.parse().ok().filter(|p: &f64| (0.0..=1e6).contains(p));
    valid.ok_or_else(|| "needs a number of percent from 0".to_owned())
}

impl Args {
    /// Whether this process loads the libraries of the configuration: only the one of a case on a configured device.
    pub fn loads_libraries(&self) -> bool {
        self.child.is_some() && self.library.is_none()
    }

    /// Whether this process is that of a case.
    pub fn is_case(&self) -> bool {
        self.child.is_some()
    }

    /// What is tested, for messages.
    fn target(&self) -> String {
        let device = || self.device.as_ref().map(|id| format!("device `{id}`"));
        self.library.as_ref().map_or_else(|| device().unwrap_or_default(), |path| format!("`{}`", path.display()))
    }

    fn limits(&self) -> Limits {
        Limits { time: self.timeout, log: 64 << 10 }
    }
}

/// Why there is no driver to test, as the command says it.
fn refused(args: &Args, why: Refusal) -> Failure {
    if why.is_usage {
        return Failure::Usage(why.reason);
    }
    let what = format!("{} is not loaded: {}", args.target(), why.reason);
    Failure::Error(ottava::Error::failed(ottava::codes::DRIVER_REFUSED, what))
}

/// Runs the suite.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    if let Some(asked) = &args.child {
        return child::serve(args, cx, asked);
    }
    // What is wrong with the description is told here, before any process starts.
    child::oracle(args)?;
    let commands = child::Commands::new(args, cx)?;
    if let Some(path) = &args.repro {
        return replay::run(args, &commands, path);
    }
    let lists = lists::read(args)?;
    let baseline = args.baseline.as_deref().map(folder::baseline).transpose()?;
    let out = args.report.as_deref().map(|dir| folder::Folder::new(dir, args, cx)).transpose()?;
    let start = commands.starter();
    let described = describe(&start, args.limits()).map_err(|why| refused(args, why))?;
    lists.check(&described.cases, args.profile)?;
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let choice = Choice {
        profile: args.profile,
        filter: args.filter.clone(),
        expectations: lists.expectations.clone(),
        limits: args.limits(),
        jobs,
        today: Day::today(),
    };
    if !described.cases.iter().any(|(group, name)| choice.wants(group, name)) && described.broken.is_empty() {
        return Err(Failure::Usage(format!("no case of the profile {} is `{}`", args.profile.name(), args.filter)));
    }
    if args.dry_run {
        return Ok(dry_run(&described, &choice));
    }
    let begin = Instant::now();
    let bar = cx.ui.bar("conformance");
    let outcomes = run_cases(&start, &described, &choice, bar.callback());
    drop(bar);
    let worse = baseline.map(|b: Baseline| b.regressions(&outcomes, |group, name| choice.wants(group, name)));
    let mut report = Report {
        header: header(args, &described, &choice)?,
        coverage: described.coverage,
        repros: BTreeMap::new(),
        causes: BTreeMap::new(),
        regressions: worse,
        remarks: lists.remarks(&described.cases),
        seconds: begin.elapsed().as_secs_f64(),
        outcomes,
    };
    report.find_causes();
    report.remarks.iter().for_each(|remark| cx.ui.warn(remark));
    if let Some(out) = &out {
        out.write(&mut report)?;
    }
    Ok(text::answer(&report, out.as_ref().map(|o| o.path.as_path())))
}

fn header(args: &Args, described: &Described, choice: &Choice) -> Result<Header> {
    let read = |path: &PathBuf| {
        let failed = |e: std::io::Error| ottava::Error::failed(ottava::codes::DRIVER_REFUSED, e.to_string());
        Library::of(path).map_err(|e| Failure::Error(failed(e).in_file(path)))
    };
    Ok(Header {
        facts: described.facts.clone(),
        library: described.library.as_ref().map(read).transpose()?,
        suite: SUITE,
        profile: args.profile.name().to_owned(),
        filter: args.filter.clone(),
        seed: args.seed,
        stress: args.stress,
        timeout_s: args.timeout.as_secs_f64(),
        command: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        system: system(),
        date: choice.today.to_string(),
        expectations: choice.expectations.clone(),
    })
}

/// What would run, and what would not because of the lists.
fn dry_run(described: &Described, choice: &Choice) -> Answer {
    use ottava_conformance::Expected;
    let chosen = described.cases.iter().filter(|(group, name)| choice.wants(group, name));
    let row = |(group, name): &(String, String)| {
        let listed = match choice.expectations.of(group, name) {
            Expected::Pass => String::new(),
            Expected::Unsupported(reason) => format!("unsupported: {reason}"),
            Expected::Failure(reason, day) => format!("expected to fail until {day}: {reason}"),
        };
        vec![group.clone(), name.clone(), listed]
    };
    let rows: Vec<Vec<String>> = chosen.map(row).collect();
    let case =
        |r: &Vec<String>| json!({ "group": r[0], "name": r[1], "result": "listed", "detail": r[2], "repro": null });
    let cases: Vec<_> = rows.iter().map(case).collect();
    let broken: Vec<&str> = described.broken.iter().map(|o: &Outcome| o.detail.as_str()).collect();
    let json = json!({ "driver": described.facts, "cases": cases, "broken": broken });
    let n = rows.len();
    let text = format!("{}\ncases that would run: {n}", crate::text::table(&["group", "case", "lists"], &[], rows));
    Answer::new(text, json)
}

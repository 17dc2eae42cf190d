//! H.6: what a driver says in the log.

use super::Group;
use crate::kit::Work;
use crate::{Case, Check, Stop, Subject, ensure};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

pub(super) const GROUP: Group = Group {
    id: "H.6",
    name: "obs.log",
    about: "no errors while all is well, few words at high levels, silence once the device is closed",
    cases: |_| vec![Case::new("H.6", "obs.log.quiet", quiet), Case::new("H.6", "obs.log.after_close", after_close)],
};

/// Events: level and words.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<(Level, String)>>>);

/// The words of an event.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(event.metadata().target().to_owned());
        event.record(&mut words);
        if let Ok(mut all) = self.0.lock() {
            all.push((*event.metadata().level(), words.0));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Recorder {
    /// The recorder of the whole process; threads of the driver are heard as well.
    fn install() -> Result<Self, Stop> {
        let recorder = Self::default();
        tracing::subscriber::set_global_default(recorder.clone())
            .map_err(|_| Stop::Skipped("the process has a log already; run the case in a process of its own".into()))?;
        Ok(recorder)
    }

    fn all(&self) -> Vec<(Level, String)> {
        self.0.lock().map(|all| all.clone()).unwrap_or_default()
    }
}

/// Lines at INFO and above that a compilation, twenty runs and an opening may leave.
const LINES: usize = 10;

fn quiet(subject: &Subject) -> Check {
    let log = Recorder::install()?;
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    (0..20).try_for_each(|i| work.with_seed(subject.seed + i)?.run(&*device))?;
    drop((work, device));
    let all = log.all();
    let error = all.iter().find(|(level, _)| *level == Level::ERROR);
    ensure!(error.is_none(), "an error in the log while all is well: {}", error.map_or("", |(_, w)| w.as_str()));
    let loud = all.iter().filter(|(level, _)| *level <= Level::INFO).count();
    ensure!(loud <= LINES, "{loud} lines at INFO and above for 20 runs; what repeats belongs to DEBUG");
    let empty = all.iter().any(|(_, words)| words.trim().is_empty());
    ensure!(!empty, "a line of the log has no words");
    Ok(())
}

fn after_close(subject: &Subject) -> Check {
    let log = Recorder::install()?;
    let device = subject.open()?;
    Work::small(&*device, subject.seed)?.run(&*device)?;
    drop(device);
    std::thread::sleep(super::timeline::MOMENT);
    let before = log.all().len();
    std::thread::sleep(4 * super::timeline::MOMENT);
    let all = log.all();
    ensure!(all.len() == before, "the driver logs after its device was closed: {:?}", all.last());
    Ok(())
}

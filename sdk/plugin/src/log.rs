//! The driver's `tracing` events go to the host: each library has a dispatcher of its own, without this they vanish.
//!
//! Protocol: the host's function lies under a read-write lock. A line holds it for reading while it calls the host, and
//! `shutdown` takes it for writing to clear it; so no line is under way or follows when `shutdown` returns. A line that
//! comes out of the host's own `log` function, in the same thread, is dropped.

use ottava_abi::{HostV1, Str, log_level};
use parking_lot::RwLock;
use std::cell::Cell;
use std::fmt::Write;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// What of the host a line needs.
struct Sink(HostV1);

// SAFETY: the host promises that `log` may be called from any thread with its `user`.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Option<Sink>> = RwLock::new(None);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Sends the events of this library to the host from now on.
pub(crate) fn install(host: &HostV1) {
    *SINK.write() = Some(Sink(*host));
    // Fails where a dispatcher is set already: the kit is linked into a program that logs by itself.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Forward));
}

/// Sends nothing any more. Waits for lines under way.
pub(crate) fn stop() {
    *SINK.write() = None;
}

/// The layer.
struct Forward;

impl<S: Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if INSIDE.replace(true) {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        send(level(*event.metadata().level()), event.metadata().target(), &line.text());
        INSIDE.set(false);
    }
}

fn level(level: Level) -> u32 {
    match level {
        Level::ERROR => log_level::ERROR,
        Level::WARN => log_level::WARN,
        Level::INFO => log_level::INFO,
        Level::DEBUG => log_level::DEBUG,
        _ => log_level::TRACE,
    }
}

fn send(level: u32, target: &str, message: &str) {
    let sink = SINK.read_recursive();
    if let Some(Sink(host)) = &*sink {
        // SAFETY: the table is valid until `shutdown`, which clears the sink first; the texts live during the call.
        unsafe { (host.log)(host.user, level, Str::borrowed(target), Str::borrowed(message)) };
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail; a field whose Debug does is left as far as it came.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }
}

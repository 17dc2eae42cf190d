//! The table that a driver gets from the host: logging into `tracing`, the clock, extensions (none yet).
//!
//! The functions run in the driver's threads. They never unwind into it, and they do nothing once the process is ending,
//! because the logger may be gone by then.

use crate::{clock, foreign};
use ottava_abi::{ExtV1, HostV1, KeyValueV1, Slice, Str, kind, log_level, note, status};
use ottava_hal::Options;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when the process is ending: messages are dropped.
pub(crate) static ENDING: AtomicBool = AtomicBool::new(false);

/// What the table points to. Lives as long as the process.
struct Context {
    driver: String,
    dir: String,
    texts: Vec<(String, String)>,
    options: Vec<KeyValueV1>,
    table: Option<HostV1>,
}

/// A table for one driver. It is never freed: a driver may log until its last thread has ended.
pub(crate) fn create(driver: &str, dir: &Path, options: &Options) -> &'static HostV1 {
    let context = Box::leak(Box::new(Context {
        driver: driver.to_owned(),
        dir: dir.to_string_lossy().into_owned(),
        texts: options.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        options: Vec::new(),
        table: None,
    }));
    let pair = |(k, v): &(String, String)| KeyValueV1 { key: Str::borrowed(k), value: Str::borrowed(v) };
    context.options = context.texts.iter().map(pair).collect();
    let user = std::ptr::from_mut(context).cast::<c_void>();
    context.table.insert(HostV1 {
        size: size_of::<HostV1>() as u32,
        kind: kind::HOST,
        user,
        plugin_dir: Str::borrowed(&context.dir),
        abi_minor: note::MINOR,
        pad: 0,
        options: Slice::borrowed(&context.options),
        log,
        now_ns,
        query_extension,
    })
}

unsafe extern "C" fn log(user: *mut c_void, level: u32, target: Str, message: Str) {
    if ENDING.load(Ordering::Relaxed) {
        return;
    }
    // A subscriber that panics must not unwind into the driver; there is nobody to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the driver hands back the `user` of its table, a leaked `Context`; NULL is handled. The names in it
        // do not change after `create`.
        let driver = unsafe { user.cast::<Context>().as_ref() }.map_or("?", |c| c.driver.as_str());
        emit(driver, level, &foreign::lossy(target), &foreign::lossy(message));
    }));
}

fn emit(driver: &str, level: u32, module: &str, message: &str) {
    const TARGET: &str = "ottava::driver";
    match level {
        log_level::ERROR => tracing::error!(target: TARGET, driver, module, "{message}"),
        log_level::WARN => tracing::warn!(target: TARGET, driver, module, "{message}"),
        log_level::INFO => tracing::info!(target: TARGET, driver, module, "{message}"),
        log_level::DEBUG => tracing::debug!(target: TARGET, driver, module, "{message}"),
        _ => tracing::trace!(target: TARGET, driver, module, "{message}"),
    }
}

unsafe extern "C" fn now_ns(_user: *mut c_void) -> u64 {
    clock::now_ns()
}

unsafe extern "C" fn query_extension(_user: *mut c_void, _name: Str, _out: *mut ExtV1) -> i32 {
    status::NOT_FOUND
}

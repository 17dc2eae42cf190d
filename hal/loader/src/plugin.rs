//! A loaded driver: its checked tables, and who is using it.
//!
//! A library's entry is called once in a process, so loaded plugins are kept in one list for good; loading the same file
//! again gives the same plugin. `shutdown` is the last call into a driver: [`Plugin::enter`] counts who is inside,
//! [`Plugin::shutdown`] closes the door only when nobody is and no device is open, and nobody enters afterwards.

use crate::host_table;
use crate::library;
use crate::lint::{self, Tables};
use crate::note::Note;
use crate::refusal::{Refusal, Result};
use ottava_hal::{Error, Options, Status};
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Value of [`Plugin::users`] after shutdown.
const CLOSED: usize = usize::MAX;

/// A loaded driver.
pub(crate) struct Plugin {
    /// The library.
    pub path: PathBuf,
    /// Its functions.
    pub tables: Tables,
    /// Name, vendor and version from the driver's table.
    pub info: ottava_hal::DriverInfo,
    /// Version of the kit and door: `0.9 c`.
    pub abi: String,
    /// Device and inode of the file.
    file: (u64, u64),
    /// Calls that are inside and devices that are open, or [`CLOSED`].
    users: AtomicUsize,
}

// SAFETY: the pointers in the tables are the driver's; by contract its functions may be called from any thread, and the
// memory behind them lives as long as the process.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Every driver of this process, in the order of loading.
static LOADED: Mutex<Vec<Arc<Plugin>>> = Mutex::new(Vec::new());
/// Held while a library is opened: two threads never load the same one twice.
static LOADING: Mutex<()> = Mutex::new(());

/// Somebody is inside a driver; see [`Plugin::enter`].
pub(crate) struct Inside(Arc<Plugin>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Plugin {
    /// First argument of the driver's functions.
    pub fn ctx(&self) -> *mut c_void {
        self.tables.driver.ctx
    }

    /// Keeps the driver from being shut down until the result is dropped.
    pub fn enter(self: &Arc<Self>) -> ottava_hal::Result<Inside> {
        let more = |n: usize| (n != CLOSED).then(|| n + 1);
        match self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Inside(self.clone())),
            Err(_) => {
                let what = format!("driver `{}` has been shut down", self.info.name);
                Err(Error::failed(Status::NotFound, what))
            }
        }
    }

    /// Makes the last call into the driver, unless somebody is using it. Whether it is shut down now.
    fn shutdown(&self) -> bool {
        match self.users.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: the counter says that nobody is inside and no device is open, and keeps it so: the call is
                // exclusive and the last one.
                unsafe { (self.tables.driver.shutdown)(self.ctx()) };
                true
            }
            Err(users) => users == CLOSED,
        }
    }
}

/// Shuts down every loaded driver that is not in use; the names of those that are and stay.
pub fn shutdown() -> Vec<String> {
    let loaded = LOADED.lock().clone();
    loaded.iter().rev().filter(|p| !p.shutdown()).map(|p| p.info.name.clone()).collect()
}

/// Runs when the process ends.
extern "C" fn at_exit() {
    host_table::ENDING.store(true, Ordering::Relaxed);
    // Whoever holds the lock has been stopped by the end of the process; then nothing is shut down.
    let loaded = LOADED.try_lock().map(|l| l.clone()).unwrap_or_default();
    for plugin in loaded.iter().rev() {
        plugin.shutdown();
    }
}

/// Lets `shutdown` run before exit handlers that the library has registered so far. Handlers run in reverse order, hence
/// one registration per library; shutting down twice is nothing.
fn register_at_exit() {
    unsafe extern "C" {
        /// Registers a function that runs at the end of the process.
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: the function takes and returns nothing and stays loaded: it is part of the program.
    if unsafe { atexit(at_exit) } != 0 {
        tracing::warn!("drivers will not be shut down at the end of the process: no exit handler is left");
    }
}

/// The driver of a library that has passed all checks of its file.
pub(crate) fn load(path: &Path, note: &Note, options: &Options) -> Result<Arc<Plugin>> {
    let file = path.metadata().map(|m| (m.dev(), m.ino()));
    let file = file.map_err(|e| Refusal::load(format!("{}: {e}", path.display())))?;
    let _loading = LOADING.lock();
    let known = LOADED.lock().iter().find(|p| p.file == file).cloned();
    if let Some(plugin) = known {
        return if plugin.users.load(Ordering::Acquire) == CLOSED {
            Err(Refusal::load("the driver has been shut down and cannot be started again in this process"))
        } else {
            Ok(plugin)
        };
    }
    let plugin = Arc::new(start(path, file, note, options)?);
    LOADED.lock().push(plugin.clone());
    register_at_exit();
    Ok(plugin)
}

fn start(path: &Path, file: (u64, u64), note: &Note, options: &Options) -> Result<Plugin> {
    let (entry, door) = library::open(path, note)?;
    let host = host_table::create(&note.name, path.parent().unwrap_or(path), options);
    let table = library::enter(entry, host)?;
    // SAFETY: the entry returned this table with OK; by contract it and its device table are complete and stay.
    let tables = unsafe { lint::tables(table)? };
    let info = identity(&tables)?;
    if info.name != note.name {
        tracing::warn!("driver `{}` calls itself `{}` in its ABI note", info.name, note.name);
    }
    let abi = format!("{}.{} {}", note.sdk.0, note.sdk.1, door.name());
    Ok(Plugin { path: path.to_path_buf(), tables, info, abi, file, users: AtomicUsize::new(0) })
}

fn identity(tables: &Tables) -> Result<ottava_hal::DriverInfo> {
    let text = |what: &str, text| {
        let text = crate::foreign::text(text).map(|t| crate::foreign::name(&t));
        text.map_err(|e| Refusal::load(format!("the driver's {what} cannot be read: {e}")))
    };
    let t = &tables.driver;
    let (name, vendor) = (text("name", t.name)?, text("vendor", t.vendor)?);
    if name.is_empty() {
        return Err(Refusal::load("the driver has no name"));
    }
    Ok(ottava_hal::DriverInfo { name, vendor, version: text("version", t.version)? })
}

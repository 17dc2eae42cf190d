//! Group B: what a driver and its devices say, and what openings leave behind.

use super::Defect;
use crate::driver;
use ottava_hal::{DeviceInfo, Error, Result, Status};
use parking_lot::Mutex;
use std::fs::File;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Calls so far, for what is right at first.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Devices that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Devices that were closed.
static CLOSED: AtomicUsize = AtomicUsize::new(0);
/// What nobody gives back.
static LEAKED: Mutex<Vec<File>> = Mutex::new(Vec::new());

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("uuid_changes", "B.1", "dev.enumerate.same_each_call", "uuid", |b| b.devices = other_uuid),
    Defect::new("devices_vanish", "B.1", "dev.enumerate.same_each_call", "0 devices", |b| b.devices = vanish),
    Defect::new("uuid_shared", "B.1", "dev.enumerate.unique", "another device", |b| b.devices = shared_uuid),
    Defect::new("listed_does_not_open", "B.1", "dev.enumerate.each_opens", "does not open", |b| b.devices = ghost),
    Defect::new("alignment_3", "B.2", "dev.info.sane", "power of two", |b| {
        b.info = |i| changed(i, |i| i.alignment = 3)
    }),
    Defect::new("rate_nan", "B.2", "dev.info.sane", "NaN", |b| b.info = |i| changed(i, |i| i.peak.s8 = f64::NAN)),
    Defect::new("info_changes", "B.2", "dev.info.constant", "changes", |b| {
        b.info = |i| changed(i, |i| i.hw_rev = CALLS.fetch_add(1, Ordering::Relaxed));
    }),
    Defect::new("unknown_option_taken", "B.2", "dev.info.option_unknown", "accepted", |b| b.option_ok = |_, _| Ok(())),
    Defect::new("default_option_refused", "B.2", "dev.info.option_schema", "default", |b| b.option_ok = refuse_all),
    Defect::new("descriptor_leak", "B.3", "dev.open_close.leaves_nothing", "descriptors", |b| {
        b.opened = |_| LEAKED.lock().extend(File::open("/dev/null"));
    }),
    Defect::new("thread_leak", "B.3", "dev.open_close.leaves_nothing", "threads", |b| {
        b.closed = |_| drop(std::thread::spawn(std::thread::park));
    }),
    Defect::new("memory_leak", "B.3", "dev.open_close.leaves_nothing", "memory", |b| {
        b.opened = |_| std::mem::forget(vec![1u8; 64 << 10]);
    }),
    Defect::new("opens_once", "B.4", "dev.multi.two_openings", "is lost", |b| {
        b.opened = |d| drop((OPEN.fetch_add(1, Ordering::SeqCst) > 0).then(|| d.core().lose()));
        b.closed = |_| _ = OPEN.fetch_sub(1, Ordering::SeqCst);
    }),
    Defect::new("close_kills_others", "B.4", "dev.multi.closing_one", "another opening was closed", |b| {
        b.closed = |_| _ = CLOSED.fetch_add(1, Ordering::SeqCst);
        b.submit = |core, s| {
            if CLOSED.load(Ordering::SeqCst) > 0 {
                return Err(core.lose());
            }
            (crate::Behaviour::right().submit)(core, s)
        };
    }),
];

fn other_uuid() -> Result<Vec<DeviceInfo>> {
    let mut all = driver::devices()?;
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    all.iter_mut().for_each(|d| d.uuid[..4].copy_from_slice(&call.to_le_bytes()));
    Ok(all)
}

/// The first two calls of the process list the devices.
fn vanish() -> Result<Vec<DeviceInfo>> {
    if CALLS.fetch_add(1, Ordering::Relaxed) < 2 { driver::devices() } else { Ok(Vec::new()) }
}

fn shared_uuid() -> Result<Vec<DeviceInfo>> {
    let mut all = driver::devices()?;
    let uuid = all[0].uuid;
    all.iter_mut().for_each(|d| d.uuid = uuid);
    Ok(all)
}

fn ghost() -> Result<Vec<DeviceInfo>> {
    let mut all = driver::devices()?;
    all.push(driver::info("faulty-9", 0));
    Ok(all)
}

/// Information with a change; it lives as long as the process, as the signature asks.
fn changed<'a>(info: &DeviceInfo, change: impl FnOnce(&mut DeviceInfo)) -> &'a DeviceInfo {
    let mut info = info.clone();
    change(&mut info);
    Box::leak(Box::new(info))
}

fn refuse_all(key: &str, _: &str) -> Result<()> {
    Err(Error::failed(Status::Internal, format!("`{key}` cannot be read")))
}

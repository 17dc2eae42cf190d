//! The driver's table: one [`Driver`] behind [`DriverV1`].
//!
//! The context is a leaked [`DriverCx`]: a library is never unloaded, and its tables live as long as the process.

use crate::guard::{Items, check_out, check_prefix, fill, guard, guard_void, read, text};
use crate::info::{blob_key, device_info};
use crate::{device, extensions, log};
use ottava_abi::{
    BlobKeyV1, Device, DeviceInfoV1, DriverV1, ErrorV1, ExtV1, HostV1, KeyValueV1, OptionV1, Slice, Str, Table,
    blob_verdict, first_null, option_type, status,
};
use ottava_hal::device::BlobVerdict;
use ottava_hal::{DeviceInfo, Driver, Error, Options, Result, Status};
use parking_lot::RwLock;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// What belongs to a driver for the life of the process.
pub(crate) struct DriverCx {
    /// Gone after `shutdown`.
    driver: RwLock<Option<Arc<dyn Driver>>>,
    pub(crate) host: HostV1,
    /// Ticks of the device clock are nanoseconds since then.
    pub(crate) epoch: Instant,
    options: Options,
    schema: Schema,
}

impl DriverCx {
    pub(crate) fn driver(&self) -> Result<Arc<dyn Driver>> {
        self.driver.read().clone().ok_or_else(|| Error::invalid("the driver was shut down"))
    }
}

// SAFETY: the raw pointers are the host's table, which may be used from any thread, and texts that never change.
unsafe impl Send for DriverCx {}
// SAFETY: as above.
unsafe impl Sync for DriverCx {}

/// Makes a driver of the options that the application gives; see `export_driver!`.
pub trait Constructor<Arguments> {
    /// Makes it.
    fn construct(self, options: &Options) -> Result<Arc<dyn Driver>>;
}

impl<F: FnOnce() -> D, D: Driver + 'static> Constructor<()> for F {
    fn construct(self, _: &Options) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(self()))
    }
}

impl<F: FnOnce(&Options) -> Result<D>, D: Driver + 'static> Constructor<(Options,)> for F {
    fn construct(self, options: &Options) -> Result<Arc<dyn Driver>> {
        Ok(Arc::new(self(options)?))
    }
}

/// The entry: what `ottava_driver_entry_v1` of `export_driver!` does.
///
/// # Safety
/// The pointers are NULL or what the signature says; the host's table lives until `shutdown` has returned.
pub unsafe fn entry<A>(
    make: impl Constructor<A>,
    host: *const HostV1,
    out: *mut *const DriverV1,
    err: *mut ErrorV1,
) -> i32 {
    let body = || {
        check_out(out, "out")?;
        // SAFETY: the caller's promise; a table is not read as a value before no function in it is NULL.
        let host = unsafe {
            check_prefix(host, "host")?;
            if let Some(name) = first_null(host) {
                return Err(Error::invalid(format!("host.{name} is NULL")));
            }
            host.read()
        };
        log::install(&host);
        // SAFETY: the host's options live until `shutdown`.
        let options = unsafe { options(host.options)? };
        let driver = make.construct(&options)?;
        let table: &'static DriverV1 = Box::leak(Box::new(table(driver, host, options)));
        // SAFETY: checked above.
        unsafe { out.write(table) };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard("entry", None, err, body) }
}

fn table(driver: Arc<dyn Driver>, host: HostV1, options: Options) -> DriverV1 {
    let info = driver.info();
    let schema = Schema::new(&*driver);
    let cx = Box::leak(Box::new(DriverCx {
        driver: RwLock::new(Some(driver)),
        host,
        epoch: Instant::now(),
        options,
        schema,
    }));
    let text = |s: String| Str::new(Box::leak(s.into_boxed_str()));
    DriverV1 {
        size: size_of::<DriverV1>() as u32,
        kind: DriverV1::KIND,
        ctx: std::ptr::from_mut(cx).cast(),
        name: text(info.name),
        vendor: text(info.vendor),
        version: text(info.version),
        device: &device::VTBL,
        enumerate,
        option_schema,
        open,
        check_blob,
        query_extension,
        shutdown,
    }
}

/// Options of the driver's schema and the texts they point to.
struct Schema {
    options: Vec<OptionV1>,
    _texts: Vec<String>,
    _allowed: Vec<Vec<Str>>,
}

impl Schema {
    fn new(driver: &dyn Driver) -> Self {
        let mut schema = Self { options: vec![], _texts: vec![], _allowed: vec![] };
        for spec in driver.option_schema() {
            let allowed: Vec<Str> = spec.allowed.into_iter().map(|a| schema.text(a)).collect();
            let option = OptionV1 {
                key: schema.text(spec.key),
                value_type: if allowed.is_empty() { option_type::STRING } else { option_type::ENUM },
                default_value: schema.text(spec.default),
                allowed: Slice::borrowed(&allowed),
                help: schema.text(spec.help),
                ..OptionV1::blank()
            };
            schema._allowed.push(allowed);
            schema.options.push(option);
        }
        schema
    }

    /// Keeps a text; its bytes do not move with the list.
    fn text(&mut self, text: String) -> Str {
        let view = Str::borrowed(&text);
        self._texts.push(text);
        view
    }
}

/// Key-value pairs as a map.
///
/// # Safety
/// The pairs and their texts are readable during the call.
unsafe fn options(pairs: Slice<KeyValueV1>) -> Result<Options> {
    // SAFETY: the caller's promise.
    let pairs = unsafe { Items::new(pairs, "options")? };
    // SAFETY: the caller's promise.
    let pair = |p: KeyValueV1| unsafe { Ok((text(p.key, "key")?.to_owned(), text(p.value, "value")?.to_owned())) };
    pairs.iter().map(pair).collect()
}

/// Runs a function of the driver's table.
///
/// # Safety
/// `ctx` is NULL or the context of a table of this kit; `err` as in [`guard`].
pub(crate) unsafe fn on_driver(
    name: &str,
    ctx: *mut c_void,
    err: *mut ErrorV1,
    body: impl FnOnce(&'static DriverCx) -> Result<()>,
) -> i32 {
    // SAFETY: contexts are leaked, so a pointer to one is good for ever.
    let cx = unsafe { ctx.cast::<DriverCx>().as_ref() };
    let body = || body(cx.ok_or_else(|| Error::invalid("ctx is NULL"))?);
    // SAFETY: the caller's promise.
    unsafe { guard(name, None, err, body) }
}

unsafe extern "C" fn enumerate(
    ctx: *mut c_void,
    cap: u32,
    out: *mut DeviceInfoV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |cx: &DriverCx| {
        let devices = cx.driver()?.devices()?;
        let infos: Vec<_> = devices.iter().zip(0..).map(|(info, ordinal)| device_info(info, ordinal)).collect();
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill(cap, out, count, &infos) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_driver("enumerate", ctx, err, body) }
}

unsafe extern "C" fn option_schema(
    ctx: *mut c_void,
    cap: u32,
    out: *mut OptionV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    // SAFETY: the host keeps to the contract of the table and of two-call functions.
    unsafe { on_driver("option_schema", ctx, err, |cx| fill(cap, out, count, &cx.schema.options)) }
}

/// The device of a uuid.
pub(crate) fn find(cx: &DriverCx, uuid: *const [u8; 16]) -> Result<DeviceInfo> {
    // SAFETY: the host passes NULL or 16 bytes.
    let uuid = unsafe { uuid.as_ref() }.ok_or_else(|| Error::invalid("uuid is NULL"))?;
    let found = cx.driver()?.devices()?.into_iter().find(|d| d.uuid == *uuid);
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    found.ok_or_else(|| Error::failed(Status::NotFound, format!("no device has the uuid {hex}")))
}

unsafe extern "C" fn open(
    ctx: *mut c_void,
    uuid: *const [u8; 16],
    pairs: Slice<KeyValueV1>,
    out: *mut *mut Device,
    err: *mut ErrorV1,
) -> i32 {
    let body = |cx: &'static DriverCx| {
        check_out(out, "out")?;
        let id = find(cx, uuid)?.id;
        let mut all = cx.options.clone();
        // SAFETY: the host's options are readable during the call.
        all.extend(unsafe { options(pairs)? });
        let handle = device::DeviceHandle::new(cx, cx.driver()?.open(&id, &all)?);
        // SAFETY: checked above.
        unsafe { out.write(Box::into_raw(Box::new(handle)).cast()) };
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_driver("open", ctx, err, body) }
}

unsafe extern "C" fn check_blob(ctx: *mut c_void, key: *const BlobKeyV1, verdict: *mut u32, err: *mut ErrorV1) -> i32 {
    let body = |cx: &DriverCx| {
        check_out(verdict, "verdict")?;
        // SAFETY: the host passes NULL or a key.
        let key = blob_key(&unsafe { read(key, "key")? });
        let (number, words) = match cx.driver()?.check_blob(&key)? {
            BlobVerdict::Optimal => (blob_verdict::OPTIMAL, String::new()),
            BlobVerdict::RecompilePreferred(words) => (blob_verdict::RECOMPILE_PREFERRED, words),
            BlobVerdict::Incompatible(words) => (blob_verdict::INCOMPATIBLE, words),
        };
        // SAFETY: checked above.
        unsafe { verdict.write(number) };
        // SAFETY: `guard` has checked that `err` is NULL or an error struct.
        if let Some(err) = unsafe { err.as_mut() } {
            err.set(status::OK, &words);
        }
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_driver("check_blob", ctx, err, body) }
}

unsafe extern "C" fn query_extension(ctx: *mut c_void, name: Str, out: *mut ExtV1) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_driver("query_extension", ctx, std::ptr::null_mut(), |_| extensions::of_driver(name, out)) }
}

unsafe extern "C" fn shutdown(ctx: *mut c_void) {
    // SAFETY: contexts are leaked, so a pointer to one is good for ever.
    let cx = unsafe { ctx.cast::<DriverCx>().as_ref() };
    guard_void("shutdown", || drop(cx.and_then(|cx| cx.driver.write().take())));
    log::stop();
}

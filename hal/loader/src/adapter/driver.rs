//! A loaded driver.

use super::call::two_call;
use super::device::{AbiDevice, Shared};
use super::error::{broken, of_call};
use super::info::{Described, describe};
use super::options::{TypedOption, check, pairs, read, slice};
use super::{blob, error, extension};
use crate::once;
use crate::plugin::Plugin;
use ottava_abi::{DESCRIBE_HASH, DESCRIBE_NAME, DescribeV1, DeviceInfoV1, ErrorV1, OptionV1, status};
use ottava_hal::device::OptionSpec;
use ottava_hal::{BlobKey, BlobVerdict, Device, DeviceInfo, Driver, DriverInfo, Error, Options, Result, Status};
use std::sync::Arc;

/// More devices than this are not read.
const MAX_DEVICES: u64 = 256;
/// More options than this are not read.
const MAX_OPTIONS: u64 = 1024;
/// Longest text of `ottava.describe/1`.
const MAX_WORDS: u64 = 64 * 1024;

/// A loaded driver.
pub(crate) struct AbiDriver {
    plugin: Arc<Plugin>,
    describe: Option<DescribeV1>,
}

impl AbiDriver {
    /// The driver of a plugin.
    pub fn new(plugin: Arc<Plugin>) -> Self {
        let describe = extension::query(&plugin.info.name, DESCRIBE_NAME, DESCRIBE_HASH, |name, out| {
            // SAFETY: the function was checked for NULL, its context is the driver's own, the arguments live in the call.
            unsafe { (plugin.tables.driver.query_extension)(plugin.ctx(), name, out) }
        });
        Self { plugin, describe }
    }

    fn name(&self) -> &str {
        &self.plugin.info.name
    }

    /// Calls a function of the driver; nobody shuts it down meanwhile.
    fn call(&self, function: &str, f: impl FnOnce(*mut ErrorV1) -> i32) -> Result<()> {
        let _inside = self.plugin.enter()?;
        let mut err = error::blank();
        match f(&mut err) {
            status::OK => Ok(()),
            code => Err(of_call(code, &err, self.name(), function, None)),
        }
    }

    fn enumerate(&self) -> Result<Vec<Described>> {
        let driver = &self.plugin.tables.driver;
        let raw = two_call(self.name(), "enumerate", MAX_DEVICES, DeviceInfoV1::blank(), |cap, out, count| {
            let mut n = 0;
            let result = self.call("enumerate", |err| {
                // SAFETY: `out` holds `cap` prepared elements; the other pointers are valid during the call.
                unsafe { (driver.enumerate)(self.plugin.ctx(), cap as u32, out, &mut n, err) }
            });
            *count = u64::from(n);
            result
        })?;
        describe(&self.plugin, &raw, |uuid| self.words(uuid))
    }

    /// The driver's own lines about a device; empty if it has none.
    fn words(&self, uuid: &[u8; 16]) -> String {
        let Some(describe) = &self.describe else { return String::new() };
        let bytes = two_call(self.name(), "device_text", MAX_WORDS, 0u8, |cap, out, len| {
            self.call("device_text", |err| {
                // SAFETY: `out` holds `cap` bytes; the other pointers are valid during the call.
                unsafe { (describe.device_text)(self.plugin.ctx(), uuid, out, cap, len, err) }
            })
        });
        match bytes {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) => {
                once::warn(self.name(), &e.to_string());
                String::new()
            }
        }
    }

    fn schema(&self) -> Result<Vec<TypedOption>> {
        let driver = &self.plugin.tables.driver;
        let raw = two_call(self.name(), "option_schema", MAX_OPTIONS, OptionV1::blank(), |cap, out, count| {
            let mut n = 0;
            let result = self.call("option_schema", |err| {
                // SAFETY: `out` holds `cap` prepared elements; the other pointers are valid during the call.
                unsafe { (driver.option_schema)(self.plugin.ctx(), cap as u32, out, &mut n, err) }
            });
            *count = u64::from(n);
            result
        })?;
        raw.iter().map(|option| read(self.name(), option)).collect()
    }
}

impl Driver for AbiDriver {
    fn info(&self) -> DriverInfo {
        self.plugin.info.clone()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(self.enumerate()?.into_iter().map(|d| d.info).collect())
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        let schema = self.schema().inspect_err(|e| once::warn(self.name(), &e.to_string()));
        schema.unwrap_or_default().into_iter().map(|o| o.spec).collect()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        let devices = self.enumerate()?;
        let known: Vec<String> = devices.iter().map(|d| format!("`{}`", d.info.id)).collect();
        let device = devices.into_iter().find(|d| d.info.id == id).ok_or_else(|| {
            let what = format!("driver `{}` has no device `{id}`; it has: {}", self.name(), known.join(", "));
            Error::failed(Status::NotFound, what)
        })?;
        check(id, options, &self.schema()?)?;
        let inside = self.plugin.enter()?;
        let (pairs, mut raw) = (pairs(options), std::ptr::null_mut());
        self.call("open", |err| {
            let open = self.plugin.tables.driver.open;
            // SAFETY: uuid and options are valid during the call, the result is checked before it is used.
            unsafe { open(self.plugin.ctx(), &device.info.uuid, slice(&pairs), &mut raw, err) }
        })?;
        if raw.is_null() {
            return Err(broken(self.name(), "open", "OK without a device"));
        }
        let shared = Shared::new(self.plugin.clone(), inside, raw, device, self.describe);
        Ok(Arc::new(AbiDevice::new(Arc::new(shared))?))
    }

    fn check_blob(&self, key: &BlobKey) -> Result<BlobVerdict> {
        let (raw, mut answer, mut words) = (blob::key(key), u32::MAX, error::blank());
        self.call("check_blob", |err| {
            // SAFETY: key, answer and error are valid during the call.
            let code = unsafe { (self.plugin.tables.driver.check_blob)(self.plugin.ctx(), &raw, &mut answer, err) };
            // SAFETY: `call` passes a pointer to its own error struct.
            words = unsafe { *err };
            code
        })?;
        blob::verdict(self.name(), answer, &words)
    }
}

//! A device with timelines and memory of its own behind the tables: waits, signals, callbacks, failures, copies.
#![allow(unsafe_code)] // The tables are called as a host calls them.

mod common;

use common::{check, host};
use ottava_abi::*;
use ottava_hal::device::{Link, LinkMode};
use ottava_hal::host::{self as memory, HostFence, HostQueue};
use ottava_hal::{
    BufferDesc, Capability, CompileOptions, Cost, DeviceInfo, DeviceKind, Driver, DriverInfo, Error, Executable,
    OptionSpec, Options, Program, Result, Status,
};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// A device whose memory the host cannot see and whose timelines it uses.
struct Far(DeviceInfo, Capability);

fn far() -> Far {
    let link = Link { mode: LinkMode::Copy, bytes_per_s: 1e9, latency_ns: 5 };
    let info = DeviceInfo { sync_only: false, link, ..DeviceInfo::new("far", "far0", DeviceKind::Npu) };
    Far(info, Capability::default())
}

impl Driver for Far {
    fn info(&self) -> DriverInfo {
        DriverInfo { name: "far".into(), vendor: "tests".into(), version: "1".into() }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![self.0.clone()])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        let mode =
            OptionSpec { allowed: vec!["slow".into(), "fast".into()], ..OptionSpec::new("mode", "fast", "speed") };
        vec![mode, OptionSpec::new("path", "", "a file")]
    }

    fn open(&self, _: &str, options: &Options) -> Result<Arc<dyn ottava_hal::Device>> {
        match options.get("mode").map(String::as_str) {
            None | Some("fast") => Ok(Arc::new(far())),
            other => Err(Error::invalid(format!("option mode is {other:?}"))),
        }
    }
}

impl ottava_hal::Device for Far {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn capability(&self) -> &Capability {
        &self.1
    }

    fn estimate(&self, _: &Program) -> Result<Cost> {
        Ok(Cost::default())
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        Err(Error::failed(Status::Internal, "not here"))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn ottava_hal::Buffer>> {
        memory::alloc(desc)
    }

    fn create_queue(&self) -> Result<Arc<dyn ottava_hal::Queue>> {
        Ok(Arc::new(HostQueue::default()))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn ottava_hal::Fence>> {
        Ok(Arc::new(HostFence::new(initial)))
    }
}

struct Opened(&'static DriverV1, &'static DeviceVtblV1, *mut Device);

fn table() -> &'static DriverV1 {
    let (host, mut out, mut err) = (Box::leak(Box::new(host())), null(), ErrorV1::blank());
    // SAFETY: a host that keeps to the contract.
    unsafe {
        check(ottava_plugin::private::entry(far, host, &mut out, &mut err), &err).unwrap();
        &*out
    }
}

fn open(driver: &'static DriverV1, mode: &str) -> std::result::Result<Opened, (i32, String)> {
    let options = [KeyValueV1 { key: Str::new("mode"), value: Str::borrowed(mode) }];
    let (mut device, mut err, uuid) = (null_mut(), ErrorV1::blank(), far().0.uuid);
    // SAFETY: a host that keeps to the contract.
    unsafe {
        check((driver.open)(driver.ctx, &uuid, Slice::borrowed(&options), &mut device, &mut err), &err)?;
        Ok(Opened(driver, &*driver.device, device))
    }
}

impl Opened {
    fn fence(&self, initial: u64) -> *mut Fence {
        let (mut fence, mut err) = (null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.1.fence_create)(self.2, initial, &mut fence, &mut err) }, &err).unwrap();
        fence
    }

    fn wait(&self, fence: *mut Fence, value: u64) -> std::result::Result<(), (i32, String)> {
        let mut err = ErrorV1::blank();
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.1.fence_wait)(self.2, fence, value, 1_000, &mut err) }, &err)
    }

    fn buffer(&self, bytes: u64) -> *mut Buffer {
        let (desc, mut out, mut err) = (BufferDescV1 { bytes, ..BufferDescV1::blank() }, null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.1.alloc)(self.2, &desc, &mut out, &mut err) }, &err).unwrap();
        out
    }
}

#[test]
fn options_cross_both_ways() {
    let driver = table();
    let (mut count, mut err, mut options) = (0, ErrorV1::blank(), [OptionV1::blank(); 2]);
    // SAFETY: a host that keeps to the contract.
    let code = unsafe { (driver.option_schema)(driver.ctx, 2, options.as_mut_ptr(), &mut count, &mut err) };
    check(code, &err).unwrap();
    assert_eq!(options.map(|o| (o.value_type, o.allowed.len)), [(option_type::ENUM, 2), (option_type::STRING, 0)]);
    assert!(open(driver, "fast").is_ok());
    let refused = open(driver, "slow").err().unwrap();
    assert_eq!(refused, (status::INVALID_ARGUMENT, "option mode is Some(\"slow\")".into()));
}

#[test]
fn submissions_wait_signal_copy_and_fill() {
    let d = open(table(), "fast").unwrap();
    let (from, to, before, after) = (d.buffer(8), d.buffer(8), d.fence(0), d.fence(4));
    let fill = CommandV1 { op: command::FILL, dst: from, len: 8, pattern: 0x0403_0201, ..CommandV1::blank() };
    let copy = CommandV1 { op: command::COPY, src: from, src_off: 1, dst: to, len: 7, ..CommandV1::blank() };
    let (commands, waits) = ([fill, copy], [FencePointV1 { fence: before, value: 2 }]);
    let signals = [FencePointV1 { fence: after, value: 5 }];
    let (mut queue, mut err, mut ptr) = (null_mut(), ErrorV1::blank(), null_mut());
    let s = SubmitV1 {
        commands: Slice::borrowed(&commands),
        waits: Slice::borrowed(&waits),
        signals: Slice::borrowed(&signals),
        ..SubmitV1::blank()
    };
    // SAFETY: a host that keeps to the contract; the mapping has 8 bytes.
    unsafe {
        check((d.1.queue_create)(d.2, priority::HIGH, &mut queue, &mut err), &err).unwrap();
        check((d.1.fence_signal)(d.2, before, 2, &mut err), &err).unwrap();
        check((d.1.submit)(d.2, queue, &s, &mut err), &err).unwrap();
        d.wait(after, 5).unwrap();
        check((d.1.map)(d.2, to, 0, 8, map_mode::READ_WRITE, &mut ptr, &mut err), &err).unwrap();
        let bytes = std::slice::from_raw_parts_mut(ptr.cast::<u8>(), 8);
        assert_eq!(bytes, [2, 3, 4, 1, 2, 3, 4, 0]);
        bytes[7] = 9;
        check((d.1.unmap)(d.2, to, &mut err), &err).unwrap();
        check((d.1.map)(d.2, to, 7, 1, map_mode::READ, &mut ptr, &mut err), &err).unwrap();
        assert_eq!(*ptr.cast::<u8>(), 9, "what was written through a mapping arrives");
        (d.1.fence_release)(d.2, before);
        (d.1.queue_release)(d.2, queue);
    }
}

unsafe extern "C" fn done(user: *mut c_void, code: i32) {
    // SAFETY: the test passes a counter that outlives the fence.
    unsafe { &*user.cast::<AtomicI32>() }.store(code, Ordering::SeqCst);
}

#[test]
fn timelines_tell_once_and_failures_stay() {
    let (d, heard) = (open(table(), "fast").unwrap(), AtomicI32::new(-1));
    let (fence, user, mut err) = (d.fence(0), std::ptr::from_ref(&heard).cast_mut().cast(), ErrorV1::blank());
    assert_eq!(d.wait(fence, 1).unwrap_err().0, status::TIMEOUT);
    let notify = |value, err: &mut ErrorV1| {
        // SAFETY: a host that keeps to the contract.
        unsafe { (d.1.fence_notify)(d.2, fence, value, NotifyFn { call: done }, user, err) }
    };
    assert_eq!(notify(1, &mut err), status::OK);
    assert_eq!(heard.load(Ordering::SeqCst), -1);
    // SAFETY: a host that keeps to the contract.
    unsafe {
        check((d.1.fence_signal)(d.2, fence, 3, &mut err), &err).unwrap();
        assert_eq!(heard.swap(-1, Ordering::SeqCst), status::OK);
        assert_eq!((d.1.fence_signal)(d.2, fence, 3, &mut err), status::INVALID_ARGUMENT);
        assert_eq!((d.1.fence_fail)(d.2, fence, 0, &mut err), status::INVALID_ARGUMENT);
        assert_eq!(notify(9, &mut err), status::OK);
        check((d.1.fence_fail)(d.2, fence, status::DEVICE_LOST, &mut err), &err).unwrap();
        assert_eq!(heard.load(Ordering::SeqCst), status::DEVICE_LOST);
        let (mut value, mut failure) = (0, 0);
        assert_eq!((d.1.fence_query)(d.2, fence, &mut value, &mut failure), status::OK);
        assert_eq!(failure, status::DEVICE_LOST);
    }
    assert_eq!(d.wait(fence, 1).unwrap_err().0, status::DEVICE_LOST);
}

#[test]
fn nothing_is_left_after_shutdown() {
    let driver = table();
    let d = open(driver, "fast").unwrap();
    // SAFETY: the device is closed before.
    unsafe {
        (d.1.close)(d.2);
        (driver.shutdown)(d.0.ctx);
    }
    assert_eq!(open(driver, "fast").err().unwrap(), (status::INVALID_ARGUMENT, "the driver was shut down".into()));
}

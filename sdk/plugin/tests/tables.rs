//! A kernel driver behind the tables, used as a host uses it; and what the tables say to hosts that err.
#![allow(unsafe_code)] // The tables are called as a host calls them.

mod arrays;
mod common;

use arrays::Arrays;
use common::{check, host};
use ottava_abi::*;
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{
    DataType, DeviceInfo, DeviceKind, DriverInfo, Error, Node, OpRow, Program, QuantParams, Status, TensorType, Value,
    ValueId,
};
use ottava_plugin::kernels::{Kernel, KernelCx, KernelDriver};
use std::ptr::{null, null_mut};

/// Adds one to each s8, saturating; panics on a tensor that begins with 100, fails on one that begins with 99.
fn increment(cx: &mut KernelCx) -> ottava_hal::Result<()> {
    let x = cx.input::<i8>(0)?;
    match x.first() {
        Some(100) => panic!("cannot stand 100"),
        Some(99) => return Err(Error::failed(Status::OutOfDeviceMemory, "99 is too much")),
        _ => {}
    }
    cx.output::<i8>(0)?.iter_mut().zip(x).for_each(|(y, x)| *y = x.saturating_add(1));
    Ok(())
}

fn driver() -> KernelDriver {
    let info = DriverInfo { name: "demo".into(), vendor: "tests".into(), version: "1.0".into() };
    let s8 = Operand { dtypes: vec![DataType::S8], quant: vec![QuantKind::PerTensor], ..Operand::default() };
    let row = OpRow { inputs: vec![s8.clone()], outputs: vec![s8], ..OpRow::any("Increment") };
    let device = DeviceInfo::new("demo", "demo0", DeviceKind::Dsp);
    KernelDriver::new(info, device, vec![Kernel { row, name: "increment_s8", run: increment }])
}

/// `n` increments in a row on six s8.
fn program(n: usize) -> Program {
    let ty = TensorType::fixed(DataType::S8, &[2, 3]).quantized(QuantParams::per_tensor(0.5, -3));
    let value = |i| Value { name: format!("v{i}"), ty: ty.clone(), constant: None };
    let node = |i| {
        let mut node = Node::new(format!("n{i}"), "Increment", 1);
        (node.inputs, node.outputs) = (vec![Some(ValueId(i))], vec![ValueId(i + 1)]);
        node
    };
    Program {
        name: "p".into(),
        values: (0..=n).map(value).collect(),
        nodes: (0..n).map(node).collect(),
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(n)],
    }
}

/// An open device behind its table.
struct Opened {
    driver: &'static DriverV1,
    vtbl: &'static DeviceVtblV1,
    device: *mut Device,
    info: DeviceInfoV1,
}

fn open() -> Opened {
    let (host, mut out, mut err) = (Box::leak(Box::new(host())), null(), ErrorV1::blank());
    // SAFETY: this is a host that keeps to the contract: pointers are to live structs, handles come from the driver.
    unsafe {
        check(ottava_plugin::private::entry(driver, host, &mut out, &mut err), &err).unwrap();
        let driver = &*out;
        let (mut count, mut info) = (0, DeviceInfoV1::blank());
        check((driver.enumerate)(driver.ctx, 0, null_mut(), &mut count, &mut err), &err).unwrap();
        assert_eq!(count, 1);
        check((driver.enumerate)(driver.ctx, 1, &mut info, &mut count, &mut err), &err).unwrap();
        let mut device = null_mut();
        let code = (driver.open)(driver.ctx, &info.uuid, Slice::borrowed(&[]), &mut device, &mut err);
        check(code, &err).unwrap();
        Opened { driver, vtbl: &*driver.device, device, info }
    }
}

type Answer<T> = Result<T, (i32, String)>;

impl Opened {
    fn compile(&self, view: &ProgramV1) -> Answer<*mut Exec> {
        let (opts, mut exec, mut err) = (CompileOptsV1::blank(), null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.vtbl.compile)(self.device, view, &opts, &mut exec, &mut err) }, &err).map(|()| exec)
    }

    fn alloc(&self, bytes: u64) -> Answer<*mut Buffer> {
        let (desc, mut buffer, mut err) =
            (BufferDescV1 { bytes, ..BufferDescV1::blank() }, null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.vtbl.alloc)(self.device, &desc, &mut buffer, &mut err) }, &err).map(|()| buffer)
    }

    fn map(&self, buffer: *mut Buffer, len: u64, mode: u32) -> Answer<*mut i8> {
        let (mut ptr, mut err) = (null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        let code = unsafe { (self.vtbl.map)(self.device, buffer, 0, len, mode, &mut ptr, &mut err) };
        check(code, &err).map(|()| ptr.cast())
    }

    fn unmap(&self, buffer: *mut Buffer) -> Answer<()> {
        let mut err = ErrorV1::blank();
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.vtbl.unmap)(self.device, buffer, &mut err) }, &err)
    }

    fn write(&self, buffer: *mut Buffer, data: &[i8]) {
        let ptr = self.map(buffer, data.len() as u64, map_mode::WRITE).unwrap();
        // SAFETY: the mapping is as long as the data.
        unsafe { ptr.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        self.unmap(buffer).unwrap();
    }

    fn read(&self, buffer: *mut Buffer, len: usize) -> Vec<i8> {
        let ptr = self.map(buffer, len as u64, map_mode::READ).unwrap();
        // SAFETY: the mapping has that length.
        let data = unsafe { std::slice::from_raw_parts(ptr, len) }.to_vec();
        self.unmap(buffer).unwrap();
        data
    }

    fn queue(&self) -> *mut Queue {
        let (mut queue, mut err) = (null_mut(), ErrorV1::blank());
        // SAFETY: a host that keeps to the contract.
        let code = unsafe { (self.vtbl.queue_create)(self.device, priority::NORMAL, &mut queue, &mut err) };
        check(code, &err).unwrap();
        queue
    }

    fn submit(&self, queue: *mut Queue, exec: *mut Exec, buffers: [*mut Buffer; 2], flags: u64) -> Answer<u64> {
        let bindings = buffers.map(|buffer| BindingV1 { buffer, offset: 0, len: 6 });
        let dispatch =
            CommandV1 { op: command::DISPATCH, exec, bindings: Slice::borrowed(&bindings), ..CommandV1::blank() };
        let commands = [dispatch];
        let mut id = 0;
        let s = SubmitV1 {
            commands: Slice::borrowed(&commands),
            flags,
            submission: &mut id,
            deadline_ns: u64::MAX,
            ..SubmitV1::blank()
        };
        let mut err = ErrorV1::blank();
        // SAFETY: a host that keeps to the contract.
        check(unsafe { (self.vtbl.submit)(self.device, queue, &s, &mut err) }, &err)?;
        Ok(id)
    }

    fn extension<T>(&self, name: &str, hash: u64) -> &'static T {
        let mut ext = ExtV1::blank();
        // SAFETY: a host that keeps to the contract; the hash says that the table is a `T`.
        unsafe {
            assert_eq!((self.vtbl.query_extension)(self.device, Str::borrowed(name), &mut ext), status::OK);
            assert_eq!(ext.layout_hash, hash);
            &*ext.table.cast::<T>()
        }
    }
}

#[test]
fn a_program_runs_behind_the_tables() {
    let d = open();
    assert_eq!((text_of(&d.info.name), d.info.flags), ("demo0".into(), device_flag::SYNC_ONLY));
    let program = program(3);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (x, y, queue) = (d.alloc(6).unwrap(), d.alloc(6).unwrap(), d.queue());
    d.write(x, &[-128, -1, 0, 1, 126, 127]);
    d.submit(queue, exec, [x, y], 0).unwrap();
    assert_eq!(d.read(y, 6), [-125, 2, 3, 4, 127, 127]);
    // SAFETY: each handle is given back once, the device last.
    unsafe {
        (d.vtbl.exec_release)(d.device, exec);
        (d.vtbl.buffer_release)(d.device, x);
        (d.vtbl.buffer_release)(d.device, y);
        (d.vtbl.queue_release)(d.device, queue);
        (d.vtbl.close)(d.device);
        (d.driver.shutdown)(d.driver.ctx);
    }
}

#[test]
fn imported_memory_is_used_in_place() {
    let d = open();
    let program = program(1);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (mut memory, queue, y) = ([0x0505_0505_0505u64; 1], d.queue(), d.alloc(6).unwrap());
    let (desc, mut x, mut err) = (BufferDescV1 { bytes: 6, ..BufferDescV1::blank() }, null_mut(), ErrorV1::blank());
    // SAFETY: the memory outlives the buffer.
    let code = unsafe { (d.vtbl.import_host)(d.device, memory.as_mut_ptr().cast(), 6, &desc, &mut x, &mut err) };
    check(code, &err).unwrap();
    assert_eq!(d.map(x, 6, map_mode::READ_WRITE).unwrap().cast(), memory.as_mut_ptr());
    assert!(d.map(x, 6, map_mode::READ).unwrap_err().1.contains("mapped already"));
    d.unmap(x).unwrap();
    d.submit(queue, exec, [x, y], 0).unwrap();
    assert_eq!(d.read(y, 6), [6; 6]);
    // SAFETY: given back once.
    unsafe { (d.vtbl.buffer_release)(d.device, x) };
}

#[test]
fn a_view_says_what_the_program_says() {
    let d = open();
    let program = program(2);
    let mut wrong = program.clone();
    wrong.nodes[1].op = "Decrement".into();
    let (arrays, mut err) = (Arrays::of(&wrong), ErrorV1::blank());
    let mut verdicts = [VerdictV1::blank(); 2];
    // SAFETY: a host that keeps to the contract.
    let code = unsafe { (d.vtbl.assess)(d.device, &arrays.view(), SliceMut::borrowed(&mut verdicts), &mut err) };
    check(code, &err).unwrap();
    assert_eq!((verdicts[0].state, verdicts[0].flags), (state::SUPPORTED, verdict_flag::EXACT));
    assert_eq!((verdicts[1].state, verdicts[1].reason), (state::REJECTED, reason::OP_UNKNOWN));
    assert_eq!(text_of(&verdicts[1].detail), "no kernel for Decrement");
    let refused = d.compile(&arrays.view()).unwrap_err();
    assert_eq!(refused.0, status::UNSUPPORTED);
    assert!(refused.1.contains("node `n1` (Decrement) on device `demo0`"), "{}", refused.1);
}

#[test]
fn requirements_come_in_the_order_of_bindings() {
    let d = open();
    let program = program(1);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (mut count, mut err, mut io) = (0, ErrorV1::blank(), [IoReqV1::blank(); 2]);
    // SAFETY: a host that keeps to the contract.
    unsafe {
        check((d.vtbl.exec_io)(d.device, exec, 1, io.as_mut_ptr(), &mut count, &mut err), &err).unwrap_err();
        assert_eq!((err.code, count), (status::BUFFER_TOO_SMALL, 2));
        check((d.vtbl.exec_io)(d.device, exec, 2, io.as_mut_ptr(), &mut count, &mut err), &err).unwrap();
    }
    assert_eq!(
        io.map(|r| (r.value, r.direction, r.bytes)),
        [(0, io_direction::INPUT, 6), (1, io_direction::OUTPUT, 6)]
    );
}

#[test]
fn failed_work_is_the_answer_of_submit_and_a_panic_poisons() {
    let d = open();
    let program = program(1);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (x, y, queue) = (d.alloc(6).unwrap(), d.alloc(6).unwrap(), d.queue());
    d.write(x, &[99, 0, 0, 0, 0, 0]);
    let full = d.submit(queue, exec, [x, y], 0).unwrap_err();
    assert_eq!(full, (status::OUT_OF_DEVICE_MEMORY, "99 is too much".into()));
    d.write(x, &[100, 0, 0, 0, 0, 0]);
    let panicked = d.submit(queue, exec, [x, y], 0).unwrap_err();
    assert_eq!(panicked, (status::PANIC, "the driver panicked in `submit`: cannot stand 100".into()));
    let after = d.alloc(1).unwrap_err();
    assert_eq!(after.0, status::PANIC);
    assert!(after.1.contains("close and open it"), "{}", after.1);
    // SAFETY: closing a poisoned device is legal.
    unsafe { (d.vtbl.close)(d.device) };
}

#[test]
fn a_queue_works_on_after_failed_and_refused_work() {
    let d = open();
    let program = program(1);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (x, y, queue) = (d.alloc(6).unwrap(), d.alloc(6).unwrap(), d.queue());
    for round in 0..3 {
        for value in [1, 2] {
            d.write(x, &[value; 6]);
            d.submit(queue, exec, [x, y], 0).unwrap();
            assert_eq!(d.read(y, 6), [value + 1; 6], "round {round}");
        }
        d.write(x, &[99, 0, 0, 0, 0, 0]);
        assert_eq!(d.submit(queue, exec, [x, y], 0).unwrap_err().0, status::OUT_OF_DEVICE_MEMORY);
        assert_eq!(d.submit(queue, exec, [x, x], 0).unwrap_err().0, status::INVALID_ARGUMENT);
        assert_eq!(d.submit(queue, null_mut(), [x, y], 0).unwrap_err().0, status::INVALID_ARGUMENT);
    }
}

#[test]
fn devices_without_fences_say_so() {
    let d = open();
    let (mut fence, mut err) = (null_mut(), ErrorV1::blank());
    // SAFETY: a host that keeps to the contract.
    let code = unsafe { (d.vtbl.fence_create)(d.device, 0, &mut fence, &mut err) };
    assert_eq!(check(code, &err).unwrap_err().0, status::UNSUPPORTED);
}

#[test]
fn hosts_that_err_are_told() {
    let d = open();
    let program = program(1);
    let arrays = Arrays::of(&program);
    let mut err = ErrorV1::blank();
    // SAFETY: NULL and wrong prefixes are what the functions check.
    unsafe {
        let code = (d.vtbl.estimate)(d.device, null(), &mut CostV1::blank(), &mut err);
        assert_eq!(check(code, &err).unwrap_err(), (1, "program is NULL".into()));
        let code = (d.vtbl.estimate)(null_mut(), &arrays.view(), &mut CostV1::blank(), &mut err);
        assert_eq!(check(code, &err).unwrap_err(), (1, "device is NULL".into()));
        let mut cost = CostV1 { kind: kind::HOST, ..CostV1::blank() };
        let code = (d.vtbl.estimate)(d.device, &arrays.view(), &mut cost, &mut err);
        assert!(check(code, &err).unwrap_err().1.contains("ottava_cost_v1 has size"));
        let mut no_error = ErrorV1 { size: 8, ..ErrorV1::blank() };
        assert_eq!((d.vtbl.reset)(d.device, &mut no_error), status::INVALID_ARGUMENT);
        let code = (d.vtbl.reset)(d.device, &mut err);
        assert_eq!(check(code, &err).unwrap_err().0, status::UNSUPPORTED);
        assert_eq!(err.reason, reason::OTHER);
    }
    let (small, exec) = (d.alloc(4).unwrap(), d.compile(&arrays.view()).unwrap());
    let outside = d.submit(d.queue(), exec, [small, small], 0).unwrap_err();
    assert!(outside.1.contains("bytes 0+6 are outside a buffer of 4"), "{}", outside.1);
    assert!(d.map(small, 5, map_mode::READ).unwrap_err().1.contains("outside"));
    assert!(d.unmap(small).unwrap_err().1.contains("not mapped"));
}

#[test]
fn profiles_have_the_whole_and_the_nodes() {
    let d = open();
    let program = program(2);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let (x, y, queue) = (d.alloc(6).unwrap(), d.alloc(6).unwrap(), d.queue());
    let id = d.submit(queue, exec, [x, y], submit_flag::PROFILE).unwrap();
    let profile: &ProfileV1 = d.extension(PROFILE_NAME, PROFILE_HASH);
    let (mut count, mut err, mut records) = (0, ErrorV1::blank(), [ProfileRecordV1::blank(); 3]);
    // SAFETY: a host that keeps to the contract.
    unsafe {
        let code = (profile.read)(d.device, queue, id, 3, records.as_mut_ptr(), &mut count, &mut err);
        check(code, &err).unwrap();
        let none = (profile.read)(d.device, queue, id + 1, 0, null_mut(), &mut count, &mut err);
        assert_eq!(check(none, &err).unwrap_err().0, status::NOT_FOUND);
    }
    assert_eq!(records.map(|r| r.record_kind), [record_kind::SUBMISSION, record_kind::DISPATCH, record_kind::DISPATCH]);
    assert_eq!(records.map(|r| r.node), [index::NONE, 0, 1]);
    assert_eq!((text_of(&records[2].label), text_of(&records[2].kernel)), ("n1".into(), "increment_s8".into()));
    assert!(records[0].start <= records[1].start && records[2].end <= records[0].end);
}

#[test]
fn devices_and_executables_describe_themselves() {
    let d = open();
    let program = program(1);
    let exec = d.compile(&Arrays::of(&program).view()).unwrap();
    let describe: &DescribeV1 = d.extension(DESCRIBE_NAME, DESCRIBE_HASH);
    let (mut len, mut err, mut buf) = (0, ErrorV1::blank(), [0u8; 200]);
    let (mut count, mut kernel) = (0, ExecKernelV1::blank());
    // SAFETY: a host that keeps to the contract.
    unsafe {
        let code = (describe.open_text)(d.device, buf.as_mut_ptr(), 200, &mut len, &mut err);
        check(code, &err).unwrap();
        let code = (describe.exec_kernels)(d.device, exec, 1, &mut kernel, &mut count, &mut err);
        check(code, &err).unwrap();
        assert_eq!((std::slice::from_raw_parts(kernel.kernel.ptr, kernel.kernel.len as usize)), b"increment_s8");
    }
    let text = text_of(&buf[..len as usize]);
    assert!(text.starts_with("id=demo0\nisa=\nthreads=1\n"), "{text}");
}

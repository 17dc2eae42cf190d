//! Buffers: reads, writes, copies, fills, staging, lent memory, limits.
#![allow(unsafe_code)] // memory that is lent is looked at while it is lent

use crate::common::{buffer, compile, contents, dequantize, device, finish, reference, submission};
use ottava_gpu::testing::skip;
use ottava_hal::device::{Command, LinkMode};
use ottava_hal::host::HostMemory;
use ottava_hal::{Binding, BlobKey, Buffer, BufferDesc, Device, Status, Submission};
use std::sync::Arc;

fn part(buffer: &Arc<dyn Buffer>, offset: usize, len: usize) -> Binding {
    Binding { buffer: Arc::clone(buffer), offset, len }
}

fn commands(commands: Vec<Command>) -> Submission {
    Submission { commands, ..Submission::default() }
}

#[test]
fn memory_begins_as_zeros_and_ranges_are_checked() {
    let Some(device) = device("buffers on Vulkan", &[]) else { return };
    for bytes in [0, 1, 3, 4, 1000, 4099] {
        let buffer = device.alloc(&BufferDesc { bytes, alignment: 64 }).unwrap();
        assert_eq!((buffer.len(), contents(&[Arc::clone(&buffer)])), (bytes, vec![vec![0; bytes]]));
        assert!(buffer.write(bytes, &[1]).unwrap_err().to_string().contains("outside"));
        assert!(buffer.read(usize::MAX, &mut [0; 2]).is_err());
    }
    let large = device.alloc(&BufferDesc { bytes: usize::MAX - 7, alignment: 64 });
    assert_eq!(large.err().map(|e| e.status()), Some(Status::OutOfDeviceMemory));
}

#[test]
fn copies_and_fills_reach_every_byte() {
    let Some(device) = device("copies and fills on Vulkan", &[]) else { return };
    let queue = device.create_queue().unwrap();
    let from = buffer(device.as_ref(), &(0..64).collect::<Vec<u8>>());
    for (begin, len) in [(0, 64), (1, 5), (3, 1), (2, 2), (5, 30), (8, 8), (7, 0), (63, 1)] {
        let to = buffer(device.as_ref(), &[9; 64]);
        let fill = Command::Fill { to: part(&to, begin, len), pattern: 0x0403_0201 };
        let copy = Command::Copy { from: part(&from, 1, len.min(3)), to: part(&to, begin, len.min(3)) };
        finish(device.as_ref(), queue.as_ref(), commands(vec![fill, copy])).unwrap();
        let mut expect = vec![9; 64];
        (0..len).for_each(|i| expect[begin + i] = (i % 4 + 1) as u8);
        (0..len.min(3)).for_each(|i| expect[begin + i] = (i + 1) as u8);
        assert_eq!(contents(&[to])[0], expect, "{begin}+{len}");
    }
}

#[test]
fn wrong_commands_submit_nothing() {
    let Some(device) = device("wrong commands on Vulkan", &[]) else { return };
    let queue = device.create_queue().unwrap();
    let (a, b) = (buffer(device.as_ref(), &[1; 16]), buffer(device.as_ref(), &[0; 16]));
    let message = |command| queue.submit(&commands(vec![command])).unwrap_err().to_string();
    assert!(message(Command::Copy { from: part(&a, 12, 8), to: part(&b, 0, 8) }).contains("outside"));
    assert!(message(Command::Copy { from: part(&a, 0, 8), to: part(&b, 0, 4) }).contains("8 bytes to 4"));
    assert!(message(Command::Copy { from: part(&a, 0, 8), to: part(&a, 4, 8) }).contains("overlap"));
    assert!(message(Command::Fill { to: part(&a, usize::MAX, 2), pattern: 0 }).contains("outside"));
    let (program, x) = dequantize(8);
    let exe = compile(device.as_ref(), &program);
    let (mut run, _) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    let Command::Dispatch { inputs, .. } = &mut run.commands[0] else { unreachable!() };
    inputs[0].offset = 1;
    assert!(queue.submit(&run).is_err());
    let (mut run, _) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    let Command::Dispatch { outputs, .. } = &mut run.commands[0] else { unreachable!() };
    outputs.clear();
    assert!(queue.submit(&run).unwrap_err().to_string().contains("0 output bindings"));
    let Some(stranger) = crate::common::device("wrong commands on Vulkan", &[]) else { return };
    let (run, _) = submission(stranger.as_ref(), &exe, &[x]);
    assert!(queue.submit(&run).unwrap_err().to_string().contains("another device"));
}

/// Bytes at a multiple of 64, not of a page; the test keeps looking at them, as an application that lends them would.
#[derive(Clone)]
struct Lent {
    words: Arc<Vec<u64>>,
    first: usize,
    bytes: usize,
}

impl Lent {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8) + 16];
        let first = (words.as_ptr().cast::<u8>().align_offset(64)) / 8 + 8;
        for (word, part) in words[first..].iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(whole);
        }
        Self { words: Arc::new(words), first, bytes: bytes.len() }
    }
}

impl HostMemory for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the range is inside the words; a test reads them only while no submission runs.
        unsafe { std::slice::from_raw_parts(self.words[self.first..].as_ptr().cast(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody holds another reference to the bytes while this one is used.
        unsafe { std::slice::from_raw_parts_mut(self.words[self.first..].as_ptr().cast_mut().cast(), self.bytes) }
    }
}

#[test]
fn lent_memory_is_read_and_written_where_it_is() {
    let Some(device) = device("lent memory on Vulkan", &[]) else { return };
    if device.info().link.mode != LinkMode::Import {
        skip("lent memory on Vulkan", "the device does not work in host memory");
        return;
    }
    let (program, x) = dequantize(256);
    let exe = compile(device.as_ref(), &program);
    let desc = |bytes| BufferDesc { bytes, alignment: 64 };
    let (source, result) = (Lent::new(x.bytes()), Lent::new(&[0; 1024]));
    let input = device.import_host(Box::new(source), &desc(256)).unwrap();
    let output = device.import_host(Box::new(result.clone()), &desc(1024)).unwrap();
    let queue = device.create_queue().unwrap();
    let expect = reference(&program, &[x]);
    for _ in 0..3 {
        output.write(0, &[7; 1024]).unwrap();
        let run = Submission::dispatch(
            Arc::clone(&exe),
            vec![Binding::whole(Arc::clone(&input))],
            vec![Binding::whole(Arc::clone(&output))],
        );
        finish(device.as_ref(), queue.as_ref(), run).unwrap();
        assert_eq!(result.bytes(), expect[0]);
    }
    assert_eq!(contents(&[output]), expect);
    let crooked = Lent { first: result.first + 1, bytes: 64, ..result };
    let refused = device.import_host(Box::new(crooked), &desc(64)).err().map(|e| e.to_string());
    assert!(refused.unwrap().contains("not aligned to"));
}

#[test]
fn memory_that_the_host_cannot_reach_is_staged() {
    let Some(device) = device("staging on Vulkan", &[("memory", "staged")]) else { return };
    // More than the staging buffer holds.
    let bytes: Vec<u8> = (0..9_000_001u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let large = buffer(device.as_ref(), &bytes);
    let mut part = vec![0; 5_000_003];
    large.read(3_999_998, &mut part).unwrap();
    assert_eq!(part, bytes[3_999_998..]);
    let (program, x) = dequantize(1001);
    let exe = compile(device.as_ref(), &program);
    let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    finish(device.as_ref(), device.create_queue().unwrap().as_ref(), run).unwrap();
    assert_eq!(contents(&outs), reference(&program, &[x]));
    assert_eq!(contents(&[device.alloc(&BufferDesc { bytes: 5, alignment: 64 }).unwrap()])[0], [0; 5]);
}

#[test]
fn an_executable_is_saved_and_read_back() {
    let Some(device) = device("saved programs on Vulkan", &[]) else { return };
    let (program, x) = dequantize(77);
    let exe = compile(device.as_ref(), &program);
    let bytes = device.serialize(exe.as_ref()).unwrap();
    let key = BlobKey {
        driver: "vulkan".into(),
        driver_version: env!("CARGO_PKG_VERSION").into(),
        uuid: device.info().uuid,
        hw_rev: device.info().hw_rev,
        ir_version: 0,
        core_hash: 0,
        ops_hash: 0,
        program_hash: 0,
        quant_hash: 0,
        options_hash: 0,
        payload_len: bytes.len() as u64,
        payload_sha256: [0; 32],
    };
    let again = device.deserialize(&key, &bytes).unwrap();
    assert_eq!((again.kernels(), again.outputs()), (exe.kernels(), exe.outputs()));
    let (run, outs) = submission(device.as_ref(), &again, std::slice::from_ref(&x));
    finish(device.as_ref(), device.create_queue().unwrap().as_ref(), run).unwrap();
    assert_eq!(contents(&outs), reference(&program, &[x]));
    for n in 0..bytes.len() {
        assert!(device.deserialize(&key, &bytes[..n]).is_err(), "cut at {n}");
    }
}

//! Buffers: reads, writes, copies, fills, lent memory, limits.

use crate::common::{buffer, compile, contents, dequantize, device, finish, reference, submission};
use ottava_hal::device::Command;
use ottava_hal::host::HostMemory;
use ottava_hal::{Binding, Buffer, BufferDesc, Device, Status, Submission};
use std::sync::Arc;

fn part(buffer: &Arc<dyn Buffer>, offset: usize, len: usize) -> Binding {
    Binding { buffer: Arc::clone(buffer), offset, len }
}

fn commands(commands: Vec<Command>) -> Submission {
    Submission { commands, ..Submission::default() }
}

#[test]
fn memory_begins_as_zeros_and_ranges_are_checked() {
    let Some(device) = device("buffers on OpenCL", &[]) else { return };
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
    let Some(device) = device("copies and fills on OpenCL", &[]) else { return };
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
    let Some(device) = device("wrong commands on OpenCL", &[]) else { return };
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
    let Some(stranger) = crate::common::device("wrong commands on OpenCL", &[]) else { return };
    let (run, _) = submission(stranger.as_ref(), &exe, &[x]);
    assert!(queue.submit(&run).unwrap_err().to_string().contains("another device"));
}

/// Memory that the test keeps looking at, as an application that lends it would.
struct Lent(Arc<Vec<u64>>);

impl HostMemory for Lent {
    fn bytes(&self) -> &[u8] {
        #[allow(unsafe_code)] // so is memory that an application lends through the C interface
        // SAFETY: the words are as many bytes; a test reads them only while no submission runs.
        unsafe {
            std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len() * 8)
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        #[allow(unsafe_code)] // as above
        // SAFETY: as above; nobody holds another reference to the bytes while this one is used.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.as_ptr().cast_mut().cast::<u8>(), self.0.len() * 8)
        }
    }
}

#[test]
fn lent_memory_is_read_and_written_where_it_is() {
    let Some(device) = device("lent memory on OpenCL", &[]) else { return };
    let (program, x) = dequantize(256);
    let exe = compile(device.as_ref(), &program);
    let desc = |bytes| BufferDesc { bytes, alignment: 64 };
    let mut words = vec![0u64; 32];
    words.iter_mut().zip(x.bytes().chunks(8)).for_each(|(w, b)| *w = u64::from_le_bytes(b.try_into().unwrap()));
    let result = Arc::new(vec![0u64; 128]);
    let input = device.import_host(Box::new(Lent(Arc::new(words))), &desc(256)).unwrap();
    let output = device.import_host(Box::new(Lent(Arc::clone(&result))), &desc(1024)).unwrap();
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
        let bytes: Vec<u8> = result.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes, expect[0]);
    }
    assert_eq!(contents(&[output]), expect);
}

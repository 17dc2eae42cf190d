//! The ONNX importer and the compiler behind it, on any bytes.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| ottava_fuzz::onnx(bytes));

// Half of the changes are made to the message, the others to its bytes.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let changed = if seed % 2 == 0 { ottava_fuzz::mutate::model(&data[..size], seed / 2) } else { None };
    match changed.filter(|c| !c.is_empty() && c.len() <= max_size) {
        Some(bytes) => {
            data[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});

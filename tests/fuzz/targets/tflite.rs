//! The TFLite importer and the compiler behind it, on any bytes.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| ottava_fuzz::tflite(bytes));

// Half of the changes keep the words of the file in their places.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 2 == 0 && size >= 4 {
        ottava_fuzz::mutate::word(&mut data[..size], seed / 2);
        return size;
    }
    fuzzer_mutate(data, size, max_size)
});

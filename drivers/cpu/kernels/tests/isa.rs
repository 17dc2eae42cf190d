//! Which instruction sets were detected. A script that runs this under an emulator says which it expects.

use ottava_kernels::{Isa, KERNELS};

#[test]
fn the_detected_instruction_sets_are_the_expected_ones() {
    let found: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    println!("instruction sets: {}; kernels: {}", found.join(" "), KERNELS.len());
    match std::env::var("OTTAVA_EXPECT_ISAS") {
        Ok(expected) => assert_eq!(found.join(" "), expected),
        Err(_) => assert_eq!(found[0], "portable"),
    }
}

//! An image that boots without a system and runs every kernel of every instruction set of the CPU it finds against naive sums.
//!
//! It prints the instruction sets, a line `N checks passed on ISA` for each, and `done`; a difference is a panic, printed as `FAILED`.
#![no_std]
#![no_main]

extern crate alloc;

mod checks;
mod machine;

use core::fmt::Write;

use machine::Serial;
use ottava_kernels::Isa;

/// Where the boot sector jumps to.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text._start")]
extern "C" fn _start() -> ! {
    Serial::start();
    for isa in Isa::available() {
        say(format_args!("available: {}", isa.name()));
    }
    say(format_args!("chosen: {}", Isa::detect().name()));
    for isa in Isa::available() {
        say(format_args!("{} checks passed on {}", checks::run(isa), isa.name()));
    }
    say(format_args!("done"));
    machine::shut_down()
}

fn say(line: core::fmt::Arguments<'_>) {
    // The port takes every byte.
    let _ = writeln!(Serial, "{line}");
}

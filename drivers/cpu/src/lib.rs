//! ottava-driver-cpu.

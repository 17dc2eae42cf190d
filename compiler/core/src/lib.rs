//! ottava-compiler.

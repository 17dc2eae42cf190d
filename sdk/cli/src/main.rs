//! The `ottava` command.
fn main() {}

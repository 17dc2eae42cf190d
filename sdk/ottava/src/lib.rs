//! ottava.

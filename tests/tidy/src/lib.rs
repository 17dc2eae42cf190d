//! ottava-tidy.

//! ottava-e2e.

//! ottava-validate.

//! Programs as views, for tests.

//! `ottava-plugin-cpu`: the CPU driver as a plugin.

//! The partitioner on devices made for the test: what a device accepts and what it costs is a table here, and it computes
//! with the reference interpreter, so that every plan can be run and compared with the whole graph on the reference.

mod alternatives;
mod best;
mod bridges;
mod cost;
mod device;
mod measured;
mod network;
mod operators;
mod random;
#[path = "../../../../tests/e2e/src/random_graph.rs"]
mod random_graph;
#[path = "../../../../tests/e2e/src/rng.rs"]
mod rng;
mod rules;

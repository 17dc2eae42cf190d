//! The NPU as a device, through the contract alone: its integers against the reference interpreter on several chips,
//! what it refuses and why, its queues, fences and failures, saved executables.

mod blobs;
mod cases;
mod chips;
mod common;
mod elementwise;
mod exact;
mod faults;
mod fusion;
mod movement;
mod network;
mod picks;
mod pools;
mod products;
mod queues;
mod wide;
mod widths;

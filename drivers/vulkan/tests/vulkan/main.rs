//! The Vulkan driver on whatever Vulkan device the machine has, under validation; without one every test says that it was
//! skipped.

mod buffers;
mod caches;
mod cases;
mod common;
mod faults;
mod queues;

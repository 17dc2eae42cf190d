//! `ottava-e2e`: what tests of the whole share. Its tests go through the public interfaces of several crates.
//!
//! | file | holds |
//! |---|---|
//! | `assets` | real networks and data, where they are; skips are counted |
//! | `rng` | seeded random numbers |
//! | `random_graph` | random quantized networks |
//! | `random_float` | random float networks of what exporters spell out |
//! | `devices` | devices that know less, or fail |
//! | `gpus` | the Vulkan and OpenCL devices of this machine |
//! | `lockstep` | comparison of a graph before and after a transformation, value by value |
//! | `spearman` | the measure of sentence embeddings |
//! | `split` | one network over several devices |
//! | `vectors` | the ONNX node vectors of this folder, unpacked |

pub mod assets;
pub mod detector;
pub mod devices;
pub mod gpus;
pub mod lockstep;
pub mod one_node;
pub mod random_float;
pub mod random_graph;
pub mod random_node;
pub mod random_product;
pub mod rng;
pub mod spearman;
pub mod split;
pub mod vectors;

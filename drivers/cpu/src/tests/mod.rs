//! Every operator row against the reference: random programs, bit for bit, on each instruction set.

mod attention;
mod cases;
mod device;
mod integers;
mod matmul;
mod memory;
mod movement;
pub(crate) mod network;
mod pointwise;
mod pool;
mod product;
mod resize;
mod select;
mod shapes;
mod sum;

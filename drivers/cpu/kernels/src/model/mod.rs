//! Models of dot product instructions in plain Rust, as their manuals define them, for tests on machines that lack them: the same tiling
//! runs over them, and only the one-line methods differ from the real ones.

mod vnni;

use crate::dot;
use crate::gemm::{Content, Panel};
use crate::generic;
use crate::table::GemmU8Fn;
use crate::tile::{GemmRows, GemmTile};
use vnni::Vnni;

/// The integer products over models, with the heights and chains of the kernels that they stand for.
pub(crate) static GEMM_U8: &[(&str, GemmU8Fn)] =
    &[("avxvnni", vnni::<4, 1>), ("avx512vnni256", vnni::<8, 1>), ("avx512vnni", vnni::<8, 2>)];

fn vnni<const TALL: usize, const CHAINS: usize>(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    if panel.content == Content::Dot {
        dot::tile::<Vnni, TALL, CHAINS>(Vnni, a, rows, panel, tile);
    } else {
        generic::gemm_u8::tile(a, rows, panel, tile);
    }
}

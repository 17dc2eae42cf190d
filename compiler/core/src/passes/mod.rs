//! The passes, one file each, and the pipelines: two explicit lists of one line per pass.

use crate::Cx;
use ottava_graph::{Graph, Result};

mod absorb_activation;
mod attach_bias;
mod build_tables;
mod cancel_transposes;
mod expand_qoperator;
mod fold_batch_norm;
mod fold_constants;
mod fold_qdq;
mod fuse_activation;
mod fuse_functions;
mod fuse_norms;
mod fuse_residual;
mod inline_control;
mod mask_rows;
mod merge_bridges;
mod moments;
mod move_bridges;
mod pattern;
mod polynomial;
mod remove_identities;
pub(crate) mod rules;
mod tabulate_scalars;
mod type_qdq;
mod type_weights;

/// A pass: changes the graph and says how often.
pub struct Pass {
    /// Name in reports and in golden tests.
    pub name: &'static str,
    /// The work.
    pub run: fn(&mut Graph, &mut Cx) -> Result<usize>,
}

macro_rules! passes {
    ($($module:ident),* $(,)?) => { &[$(Pass { name: stringify!($module), run: $module::run }),*] };
}

/// From an imported to a canonical graph.
pub static CANONICAL: &[Pass] = passes![
    remove_identities,
    fold_constants,
    inline_control,
    fuse_functions,
    fuse_norms,
    fold_batch_norm,
    attach_bias,
    cancel_transposes,
    remove_identities,
    fold_constants,
];

/// From a canonical to a quantized graph.
pub static QUANTIZED: &[Pass] = passes![
    fold_constants,
    expand_qoperator,
    type_weights,
    type_qdq,
    absorb_activation,
    move_bridges,
    mask_rows,
    fold_qdq,
    fuse_residual,
    move_bridges,
    merge_bridges,
    build_tables,
    tabulate_scalars,
    cancel_transposes,
    fuse_activation,
    fold_dequantized,
    remove_identities,
];

/// The last constant folding: dequantized constants that no integer operator has taken become float constants.
mod fold_dequantized {
    pub use super::fold_constants::run_all as run;
}

/// A pass of either pipeline, by name.
pub fn find(name: &str) -> Option<&'static Pass> {
    CANONICAL.iter().chain(QUANTIZED).find(|p| p.name == name)
}

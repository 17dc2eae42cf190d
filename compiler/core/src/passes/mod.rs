//! The passes, one file each, and the pipelines: two explicit lists of one line per pass.

use crate::Cx;
use ottava_graph::{Graph, Result};

mod absorb_activation;
mod attach_bias;
mod build_tables;
mod cancel_transposes;
mod expand_qoperator;
mod fold_batch_norm;
mod fold_channel_affine;
mod fold_constants;
mod fold_norm_forward;
mod fold_pad;
mod fold_qdq;
mod fold_shapes;
mod fuse_activation;
mod fuse_functions;
mod fuse_norms;
mod fuse_residual;
mod fuse_softmax;
mod inline_control;
mod join_requantizations;
mod mask_rows;
mod merge_bridges;
mod moments;
mod move_bridges;
mod pattern;
mod permuted;
mod polynomial;
mod remove_identities;
mod requantizations;
pub(crate) mod rules;
mod share_equal;
mod sink_transposes;
mod tabulate_scalars;
mod type_qdq;
mod type_weights;

/// What a pass may do to results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// No bit of any result changes.
    Exact,
    /// Float results change by roundings, within the bounds of numerics.md section 7.
    Rounds,
    /// Float operators between Q and DQ become the integer operators that they mean (numerics.md section 4).
    Quantizes,
}

impl Effect {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Rounds => "rounds",
            Self::Quantizes => "quantizes",
        }
    }
}

/// What a pass does, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// One line about what it changes.
    pub what: &'static str,
    /// What that does to results.
    pub effect: Effect,
}

/// A pass: changes the graph and says how often.
pub struct Pass {
    /// Name in reports and in golden tests.
    pub name: &'static str,
    /// What it does.
    pub about: About,
    /// The work.
    pub run: fn(&mut Graph, &mut Cx) -> Result<usize>,
}

macro_rules! passes {
    ($($module:ident),* $(,)?) => { &[$(Pass { name: stringify!($module), about: $module::ABOUT, run: $module::run }),*] };
}

/// From an imported to a canonical graph.
pub static CANONICAL: &[Pass] = passes![
    remove_identities,
    fold_constants,
    fold_shapes,
    inline_control,
    remove_identities,
    fuse_functions,
    fuse_norms,
    fuse_softmax,
    fold_pad,
    fold_batch_norm,
    fold_channel_affine,
    fold_norm_forward,
    attach_bias,
    sink_transposes,
    cancel_transposes,
    remove_identities,
    fold_constants,
    share_equal,
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
    merge_bridges,
    fold_qdq,
    fuse_residual,
    move_bridges,
    merge_bridges,
    build_tables,
    tabulate_scalars,
    join_requantizations,
    cancel_transposes,
    fuse_activation,
    fold_dequantized,
    remove_identities,
];

/// The last constant folding: dequantized constants that no integer operator has taken become float constants.
mod fold_dequantized {
    pub use super::fold_constants::{ABOUT, run_all as run};
}

pub use requantizations::count_requantizations;

/// A pass of either pipeline, by name.
pub fn find(name: &str) -> Option<&'static Pass> {
    CANONICAL.iter().chain(QUANTIZED).find(|p| p.name == name)
}

//! The phases of a graph.

use std::fmt;
use std::str::FromStr;

/// How far a graph has come; [`crate::verify`] knows what each phase promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Phase {
    /// As read from a file: ONNX operators of the newest form, Q/DQ nodes explicit.
    #[default]
    Imported,
    /// Shapes inferred, constants folded, batch norms folded, biases attached.
    Canonical,
    /// Q/DQ pairs and QOperator nodes have become types; activations, residuals and tables are fused.
    Quantized,
}

impl Phase {
    /// Name in the text form and in `--stop-after`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Canonical => "canonical",
            Self::Quantized => "quantized",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        [Self::Imported, Self::Canonical, Self::Quantized]
            .into_iter()
            .find(|p| p.name() == s)
            .ok_or_else(|| format!("unknown phase `{s}`; phases are imported, canonical, quantized"))
    }
}

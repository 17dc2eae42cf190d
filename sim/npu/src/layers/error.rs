//! What is wrong with a list of layers, and where.

use crate::analytic;

/// A list of layers that cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayersError {
    /// The first line does not name the columns.
    #[error("{file}:1: {problem}; expected the columns network, layer, kind, M, N, K, channels, count in any order")]
    Header {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A line has another number of cells than the first one.
    #[error("{file}:{line}: {found} cells; expected {expected}, as in the first line")]
    Width {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Cells of this line.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// A cell does not hold what its column needs.
    #[error("{file}:{line}: column `{column}`: found `{found}`; expected {expected}")]
    Cell {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Name of the column.
        column: &'static str,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// A line is too long to be a layer.
    #[error("{file}:{line}: the line has {bytes} bytes; expected at most {limit}: is this a list of layers?")]
    LongLine {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Bytes of the line.
        bytes: usize,
        /// Most that a line may have.
        limit: usize,
    },
    /// A quoted cell does not end on its line.
    #[error(
        "{file}:{line}: a quoted cell does not end on its line; close it with `\"`, and use no line breaks in cells"
    )]
    Quote {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
    },
    /// There is no layer in the list.
    #[error("{file}: the list has no layers; give at least one line below the names of the columns")]
    Empty {
        /// The file.
        file: String,
    },
    /// A layer has no closed form.
    #[error("layer `{layer}` (line {line}): {source}")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// Line in its list, from 1.
        line: usize,
        /// Why.
        source: analytic::Error,
    },
    /// The sum over layers does not fit.
    #[error("{network}: {source}")]
    Sum {
        /// What was summed up.
        network: String,
        /// Why.
        source: analytic::Error,
    },
}

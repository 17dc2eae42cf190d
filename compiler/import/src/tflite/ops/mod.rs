//! From operators of TFLite to nodes of the graph: [`table`] has one line per operator, the other files build them by
//! family. `names` has the names of all operators of the schema, for messages.

pub(crate) mod activation;
pub(crate) mod arithmetic;
pub(crate) mod blocks;
pub(crate) mod chain;
pub(crate) mod hybrid;
pub(crate) mod index;
pub(crate) mod lstm;
pub(crate) mod lstm_integer;
pub(crate) mod matrix;
pub(crate) mod more;
pub(crate) mod names;
pub(crate) mod pieces;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod quantize;
pub(crate) mod reduce;
pub(crate) mod shape;
pub(crate) mod state;
pub(crate) mod suppress;
pub(crate) mod table;
pub(crate) mod table16;
pub(crate) mod whole;

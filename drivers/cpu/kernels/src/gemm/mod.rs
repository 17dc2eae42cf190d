//! Packed weights for exact u8 x s8 products on machines without a four-way dot product instruction.
//!
//! `vpmaddubsw` multiplies u8 by s8 and adds neighbours with *s16 saturation*. It is exact for every u8 input when, in each 16-bit lane,
//! the positive weights sum to at most 128 and the negative ones likewise (255 * 128 = 32640 fits s16). The K axis is cut into groups of
//! four; a panel is 16 output columns. Packing proves, group by group, which instruction sequence ([`Form`]) is exact, using three freedoms:
//!
//! * the order of groups within a panel is free, since an offset table says where each reads;
//! * the four activations of a group are broadcast, so a byte shuffle may pair them as (01)(23), (02)(13) or (03)(12), and even
//!   differently per column;
//! * two groups that together meet the bound in every lane may be added in 16 bits before widening.
//!
//! What no pairing makes exact runs on operands widened to 16 bits, which also carries weights outside s8 (a zero point subtracted from
//! u8 weights). So each product is exact for any activations and any 8-bit weights.

mod format;
mod pack;
mod pairing;
mod stored;

pub(crate) use format::{Block, COLS, FORMS, Form, GROUP, PackedB, Panel, control, pairing_bytes};
pub use pack::Packing;
pub(crate) use pack::{Group, NO_K, pack};

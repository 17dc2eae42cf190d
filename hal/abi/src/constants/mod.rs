//! Every number of the ABI that has a name. In Rust a group is a module, in C a prefix.
//!
//! Enums are open sets: a reader handles values that it does not know, it never assumes that there are none.

/// A named number.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Name without the prefix of the group.
    pub name: &'static str,
    /// The value's bits.
    pub value: u64,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
}

/// Named numbers that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Prefix of the names in C.
    pub prefix: &'static str,
    /// Rust type of the values.
    pub ty: &'static str,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
    /// The numbers.
    pub items: &'static [Constant],
}

macro_rules! constants {
    ($(
        $(#[doc = $doc:literal])*
        $group:ident : $ty:ident, $prefix:literal {
            $( $(#[doc = $vdoc:literal])* $name:ident = $value:expr, )*
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            pub mod $group {
                $( $(#[doc = $vdoc])* pub const $name: $ty = $value; )*

                /// The name of a value of this group.
                pub fn name(value: $ty) -> Option<&'static str> {
                    const ALL: &[($ty, &str)] = &[$(($name, stringify!($name))),*];
                    ALL.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
                }
            }
        )*

        /// Every group of this file, for the C header.
        pub const GROUPS: &[super::Group] = &[$(
            super::Group {
                prefix: $prefix,
                ty: stringify!($ty),
                doc: &[$($doc),*],
                items: &[$( super::Constant { name: stringify!($name), value: $group::$name as u64, doc: &[$($vdoc),*] } ),*],
            }
        ),*];
    };
}
pub(crate) use constants;

mod calls;
mod view;

pub use calls::{
    blob_verdict, command, compile_flag, confidence, device_flag, device_kind, door, error_flag, fault, handle_type,
    io_direction, kind, link_mode, log_level, map_mode, memory_flag, option_type, priority, record_kind, status,
    submit_flag, usage,
};
pub use view::{
    attr_type, cmp, dtype, fused, index, layout, operand_flag, quant_flag, reason, requant, row_flag, scheme, state,
    verdict_flag,
};

/// Every group, for the C header.
pub const GROUPS: [&[Group]; 2] = [calls::GROUPS, view::GROUPS];

//! The kernel table: one line per kernel.

/// What a kernel needs that not every device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// 64-bit integers.
    Int64,
    /// The packed dot product of four bytes.
    Dot,
}

/// A kernel: its text for OpenCL and its SPIR-V for Vulkan.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the entry point in OpenCL, of the files, and in reports.
    pub name: &'static str,
    /// The text of `kernels/NAME.kernel`.
    pub text: &'static str,
    /// SPIR-V of the same text.
    pub spirv: &'static [u8],
    /// Macros that are defined before the text.
    pub defines: &'static [&'static str],
    /// Names of the specialization constants, from constant id 3 on (0 to 2 are the work-group's size).
    pub spec: &'static [&'static str],
    /// What it needs.
    pub needs: &'static [Feature],
    /// Number of buffers: parameters, inputs, output.
    pub buffers: usize,
}

impl Kernel {
    /// Name and variant, as reports show it.
    pub fn full_name(&self) -> String {
        self.defines.iter().fold(self.name.to_owned(), |name, d| name + "." + &d.to_lowercase())
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.defines == other.defines
    }
}

/// What the language of the kernels means in GLSL, behind a `#version` line.
pub const PRELUDE_GLSL: &str = include_str!("../kernels/prelude.glsl");
/// What it means in OpenCL C.
pub const PRELUDE_CL: &str = include_str!("../kernels/prelude.cl");
/// The arithmetic that every kernel may use; it follows the prelude.
pub const ARITHMETIC: &str = include_str!("../kernels/arithmetic.h");

macro_rules! kernel {
    // A kernel with further texts in front, and the macros of a variant.
    ($name:literal, $buffers:literal, with [$($part:literal),*]) => {
        kernel!($name, $buffers, with [$($part),*], $name, [], [])
    };
    ($name:literal, $buffers:literal, with [$($part:literal),*], $spirv:literal, [$($define:literal),*], [$($need:ident),*]) => {
        Kernel {
            name: $name,
            text: concat!(
                $(include_str!(concat!("../kernels/", $part)),)*
                include_str!(concat!("../kernels/", $name, ".kernel"))
            ),
            spirv: include_bytes!(concat!("../kernels/spirv/", $spirv, ".spv")),
            defines: &[$($define),*],
            spec: &[],
            needs: &[$(Feature::$need),*],
            buffers: $buffers,
        }
    };
    ($name:literal, $buffers:literal) => {
        kernel!($name, $buffers, [], $name, [], [])
    };
    ($name:literal, $buffers:literal, [$($spec:literal),*]) => {
        kernel!($name, $buffers, [$($spec),*], $name, [], [])
    };
    // A variant: macros in front of the text, the file of its SPIR-V, and what it needs.
    ($name:literal, $buffers:literal, [$($spec:literal),*], $spirv:literal, [$($define:literal),*], [$($need:ident),*]) => {
        Kernel {
            name: $name,
            text: include_str!(concat!("../kernels/", $name, ".kernel")),
            spirv: include_bytes!(concat!("../kernels/spirv/", $spirv, ".spv")),
            defines: &[$($define),*],
            spec: &[$($spec),*],
            needs: &[$(Feature::$need),*],
            buffers: $buffers,
        }
    };
}

/// A kernel of products: its end is in a file of its own.
macro_rules! product {
    ($name:literal, $buffers:literal, [$($spec:literal),*], $spirv:literal, [$($define:literal),*], [$($need:ident),*]) => {
        Kernel {
            text: concat!(include_str!("../kernels/product.h"), include_str!(concat!("../kernels/", $name, ".kernel"))),
            ..kernel!($name, $buffers, [$($spec),*], $spirv, [$($define),*], [$($need),*])
        }
    };
}

/// Every kernel.
pub static KERNELS: &[Kernel] = &[
    kernel!("binary", 5, with["functions.h"]),
    kernel!("cast", 3, with["functions.h"]),
    kernel!("concat", 6, with["functions.h"]),
    kernel!("convert", 4),
    product!("depthwise", 6, ["END"], "depthwise", [], []),
    product!("depthwise", 6, ["END"], "depthwise.real", ["REAL"], []),
    kernel!("fixed_point", 4, with["fixed.h"]),
    kernel!("frame", 3),
    kernel!("lut", 4),
    kernel!("norm", 5, with["functions.h"]),
    kernel!("norm", 5, with["functions.h"], "norm.wide", ["WIDE"], [Int64]),
    kernel!("pack", 3),
    kernel!("pack", 3, [], "pack.real", ["REAL"], []),
    kernel!("pick", 4, with["functions.h"]),
    kernel!("pool", 4, with["functions.h"]),
    product!("product", 6, ["END"], "product", [], []),
    product!("product", 6, ["END"], "product.real", ["REAL"], []),
    product!("product", 6, ["END"], "product.dot", ["DOT"], [Dot]),
    product!("product", 6, ["END"], "product.single", ["SINGLE"], []),
    product!("product", 6, ["END"], "product.real.single", ["REAL", "SINGLE"], []),
    product!("product", 6, ["END"], "product.dot.single", ["DOT", "SINGLE"], [Dot]),
    kernel!("reduce", 5, with["functions.h"]),
    kernel!("relayout", 3),
    kernel!("resample", 4, with["functions.h"]),
    kernel!("selftest", 3),
    kernel!("softmax", 5, with ["functions.h", "fixed.h"]),
    kernel!("softmax", 5, with ["functions.h", "fixed.h"], "softmax.wide", ["WIDE"], [Int64]),
    kernel!("take", 4, with["functions.h"]),
    kernel!("unary", 3, with["functions.h"]),
];

/// The kernel of a name and set of macros; a missing one is an error of this crate that its tests find.
pub(crate) fn find(name: &str, defines: &[&str]) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name && k.defines == defines)
}

//! A library whose note promises the tables of this version and whose Rust door has others: only abi_stable's comparison
//! can tell. For the tests of this crate.
#![allow(unsafe_code)]
#![allow(non_local_definitions)] // abi_stable's derive needs it.

use abi_stable::StableAbi;
use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModule, RootModuleResult};
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;

/// The note, as the kit writes it.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".ottava.abi")]
#[allow(non_upper_case_globals)]
pub static ottava_abi_note: ottava_abi::AbiNote = ottava_abi::AbiNote::new("other-layout", "1.0");

/// A root module whose first field is wider than the contract's.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = RootRef, prefix_fields = RootFields)))]
pub struct Root {
    /// A `u32` in the contract.
    pub abi_minor: u64,
    /// The entry.
    #[sabi(last_prefix_field)]
    pub entry: extern "C" fn() -> i32,
}

impl RootModule for RootRef {
    abi_stable::declare_root_module_statics! {RootRef}
    const BASE_NAME: &'static str = "ottava_driver";
    const NAME: &'static str = "ottava_driver";
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
}

extern "C" fn entry() -> i32 {
    ottava_abi::status::INTERNAL
}

extern "C" fn module() -> RootModuleResult {
    __call_root_module_loader(|| Root { abi_minor: 9, entry }.leak_into_prefix())
}

/// The header symbol, as abi_stable mangles it.
#[used]
#[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
pub static ROOT: LibHeader = {
    // SAFETY: `module` returns the root module that the type says.
    unsafe { LibHeader::from_constructor::<RootRef>(module, CheckTypeLayout::Yes) }
};

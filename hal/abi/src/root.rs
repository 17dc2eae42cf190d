//! The Rust door: an abi_stable root module whose only function is the entry of the C door.
//!
//! Its signature reaches every table, so that abi_stable's check at load time compares the whole contract field by
//! field. Hosts load it with `lib_header_from_path(path)?.init_root_module::<RootRef>()`, never with the functions that
//! cache per type: they would return the first driver for every later path.

use crate::{DriverV1, ErrorV1, HostV1};
use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;

/// The root module of a driver.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = RootRef, prefix_fields = RootFields)))]
pub struct Root {
    /// Minor version of the ABI that the driver was built with.
    pub abi_minor: u32,
    /// `ottava_driver_entry_v1`.
    #[sabi(last_prefix_field)]
    pub entry: unsafe extern "C" fn(host: *const HostV1, out: *mut *const DriverV1, err: *mut ErrorV1) -> i32,
}

impl RootModule for RootRef {
    abi_stable::declare_root_module_statics! {RootRef}
    const BASE_NAME: &'static str = "ottava_driver";
    const NAME: &'static str = "ottava_driver";
    // The version of the contract, not of a driver: drivers differ freely in theirs.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
}

/// What `export_driver!` writes the header symbol with.
#[doc(hidden)]
pub mod export {
    pub use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult};

    /// The root module of a driver; leaked, like everything that a library exports.
    pub fn root(entry: crate::EntryFn) -> super::RootRef {
        use abi_stable::prefix_type::PrefixTypeTrait;
        super::Root { abi_minor: crate::note::MINOR, entry }.leak_into_prefix()
    }
}

//! `export_driver!`: note, entry and root module of a driver.

/// What the macro needs and nobody else.
#[doc(hidden)]
pub mod private {
    pub use crate::driver::entry;
    pub use ottava_abi as abi;

    /// The doors of drivers of this kit.
    pub const DOORS: u32 = abi::door::C | if cfg!(feature = "rust-door") { abi::door::RUST } else { 0 };
}

/// Exports a driver from a `cdylib`: the C door, the Rust door (feature `rust-door`) and the ABI note.
///
/// The argument makes the driver: a function without arguments that returns it, or one of
/// [`&Options`](ottava_hal::Options) (the driver's options of the application's configuration) that returns a `Result`
/// of it. The note has the name and version of the calling package; another name may come first. Names have at most 31
/// bytes.
///
/// ```text
/// ottava_plugin::export_driver!(MyDriver::new);
/// ottava_plugin::export_driver!("my-npu", MyDriver::with_options);
/// ```
///
/// Does not compile with `panic = "abort"`: a panic in a driver must not end the application.
#[macro_export]
macro_rules! export_driver {
    ($make:expr $(,)?) => {
        $crate::export_driver!(env!("CARGO_PKG_NAME"), $make);
    };
    ($name:expr, $make:expr $(,)?) => {
        const _: () = {
            #[cfg(panic = "abort")]
            compile_error!(
                "a driver must be built with panic = \"unwind\": its panics become errors of the application"
            );

            use $crate::private::abi;

            /// What the library says of itself before it is loaded.
            #[used]
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".ottava.abi")]
            #[allow(non_upper_case_globals)]
            pub static ottava_abi_note: abi::AbiNote =
                abi::AbiNote::new($name, env!("CARGO_PKG_VERSION")).with_doors($crate::private::DOORS);

            /// The C door.
            ///
            /// # Safety
            /// The pointers are NULL or what the signature says.
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn ottava_driver_entry_v1(
                host: *const abi::HostV1,
                out: *mut *const abi::DriverV1,
                err: *mut abi::ErrorV1,
            ) -> i32 {
                // SAFETY: the host's promise is passed on.
                unsafe { $crate::private::entry($make, host, out, err) }
            }

            $crate::export_root!(ottava_driver_entry_v1);
        };
    };
}

/// The Rust door: the header symbol that abi_stable looks for.
#[cfg(feature = "rust-door")]
#[doc(hidden)]
#[macro_export]
macro_rules! export_root {
    ($entry:ident) => {
        /// The Rust door.
        #[used]
        #[allow(unsafe_code)]
        // abi_stable's mangling of "_as.lib_header.root module loader".
        #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
        pub static ROOT: abi::root::export::LibHeader = {
            extern "C" fn module() -> abi::root::export::RootModuleResult {
                abi::root::export::__call_root_module_loader(|| abi::root::export::root($entry))
            }
            // SAFETY: `module` returns the root module that the type says.
            unsafe {
                abi::root::export::LibHeader::from_constructor::<abi::root::RootRef>(
                    module,
                    abi::root::export::CheckTypeLayout::Yes,
                )
            }
        };
    };
}

/// Without the Rust door there is nothing more to export.
#[cfg(not(feature = "rust-door"))]
#[doc(hidden)]
#[macro_export]
macro_rules! export_root {
    ($entry:ident) => {};
}

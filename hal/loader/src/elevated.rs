//! Whether the process has more rights than the user who started it.
//!
//! The kernel says so in the auxiliary vector: `AT_SECURE`, and real and effective user and group. Where it does not say,
//! the answer is yes, because then the environment is not trusted.

/// Whether the environment and the user's files must not be trusted.
#[cfg(target_os = "linux")]
pub(crate) fn is_elevated() -> bool {
    use std::ffi::c_ulong;

    unsafe extern "C" {
        /// A value of the auxiliary vector; 0 if it is not there.
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    const UID: c_ulong = 11;
    const EUID: c_ulong = 12;
    const GID: c_ulong = 13;
    const EGID: c_ulong = 14;
    const SECURE: c_ulong = 23;
    // SAFETY: `getauxval` of the C library takes any number, changes nothing and may be called from any thread.
    let value = |kind| unsafe { getauxval(kind) };
    value(SECURE) != 0 || value(UID) != value(EUID) || value(GID) != value(EGID)
}

/// Whether the environment and the user's files must not be trusted.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_elevated() -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_test_process_is_not_elevated() {
        assert!(!super::is_elevated());
    }
}

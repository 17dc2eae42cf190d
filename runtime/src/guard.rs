//! Calls into drivers: a panic there is an error value here.

use ottava_hal::{Error, Result, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a driver. What a panicking driver leaves behind is not used again: its device counts as lost.
pub(crate) fn call<T>(device: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        let what = format!("the driver of device `{device}` panicked: {}", text.unwrap_or("without a message"));
        Err(Error::failed(Status::Panic, what))
    })
}

/// The same error with words before it; its family and status stay.
pub(crate) fn context(error: Error, before: &str) -> Error {
    match error {
        Error::Invalid(what) => Error::Invalid(format!("{before}: {what}")),
        Error::Unsupported { reason, what } => Error::Unsupported { reason, what: format!("{before}: {what}") },
        Error::Failed { status, what, transient } => {
            Error::Failed { status, what: format!("{before}: {what}"), transient }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_names_the_device() {
        let error = call::<()>("npu", || panic!("index out of range")).unwrap_err();
        assert_eq!(error.status(), Status::Panic);
        assert!(error.to_string().contains("device `npu` panicked: index out of range"), "{error}");
        assert_eq!(call("npu", || Ok(3)), Ok(3));
    }

    #[test]
    fn context_keeps_the_status() {
        let error = context(Error::failed(Status::DeviceLost, "gone"), "step `a`");
        assert_eq!(
            (error.status(), error.to_string().as_str()),
            (Status::DeviceLost, "DeviceLost (7): step `a`: gone")
        );
    }
}

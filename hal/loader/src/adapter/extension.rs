//! Extensions: tables that are found by name (abi.md section 2). One whose layout differs is treated as absent, and the log
//! says so; a driver without extensions is complete.

use crate::{lint, once};
use ottava_abi::{ExtV1, Str, Table, kind, status};

/// The table of an extension; `ask` is the `query_extension` of a driver or device.
pub(crate) fn query<T: Table + Copy>(
    who: &str,
    name: &'static str,
    hash: u64,
    ask: impl FnOnce(Str, *mut ExtV1) -> i32,
) -> Option<T> {
    let mut out = ExtV1::blank();
    let code = ask(Str::new(name), &mut out);
    if code != status::OK {
        if code != status::NOT_FOUND && code != status::UNSUPPORTED {
            once::warn(who, &format!("`{who}` answers {code} when asked for {name}; it is treated as absent"));
        }
        return None;
    }
    if out.kind != kind::EXT || out.layout_hash != hash {
        let found = out.layout_hash;
        let text = format!("`{who}`: {name} has another layout ({found:016x}, expected {hash:016x}); it is not used");
        once::warn(who, &text);
        return None;
    }
    // SAFETY: the driver names the extension with the hash of exactly this layout; the table lives as long as the driver,
    // and the prefix is checked before the rest is read.
    match unsafe { lint::copy(out.table.cast::<T>()) } {
        Ok(table) => Some(table),
        Err(refusal) => {
            once::warn(who, &format!("`{who}`: {name} is not used: {refusal}"));
            None
        }
    }
}

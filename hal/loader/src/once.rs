//! Warnings that are told once per process: what a driver does wrong it does on every call.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Texts beyond this number are told each time; a driver that invents new ones does not fill the memory.
const MOST: usize = 4096;

/// Every pair of driver (or device) and text that was told.
static TOLD: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Whether `who` says `text` for the first time.
fn is_new(who: &str, text: &str) -> bool {
    let mut told = TOLD.lock();
    let pair = (who.to_owned(), text.to_owned());
    if told.len() >= MOST { !told.contains(&pair) } else { told.insert(pair) }
}

/// Warns, unless the same was said of the same driver before.
pub(crate) fn warn(who: &str, text: &str) {
    if is_new(who, text) {
        tracing::warn!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::is_new;

    #[test]
    fn each_text_is_new_once_for_each_driver() {
        let all = [("once-a", "x"), ("once-a", "x"), ("once-b", "x"), ("once-a", "y"), ("once-a", "y")];
        assert_eq!(all.map(|(who, text)| is_new(who, text)), [true, false, true, true, false]);
    }
}

//! What the tests of the GPU drivers share.

/// Says on the error output and in the list of skipped tests (`OTTAVA_SKIP_LOG`) what was not run, and why.
pub fn skip(what: &str, why: &str) {
    eprintln!("skipped: {what}: {why}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(log);
        let written = file.and_then(|mut f| writeln!(f, "{what}: {why}"));
        written.expect("the list of skipped tests can be written");
    }
}

//! The options of the device.

use ottava_hal::{Error, OptionSpec, Options, Result};
use ottava_npu::NpuConfig;
use std::io::Read;
use std::path::Path;

/// A description larger than this is no description.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Memory of the device where the option does not say it.
const DEFAULT_MEMORY: u64 = 1 << 30;
/// The description taken without the option.
pub(crate) const DEFAULT_CONFIG: &str = "edge16";

/// The options, read.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub config: NpuConfig,
    /// The queue takes this many times the modelled time; `None` answers as soon as the bytes are there.
    pub realtime: Option<f64>,
    /// Bytes of the device's memory.
    pub memory: u64,
    /// Saved streams carry a checksum.
    pub crc: bool,
    /// Values stay on the chip between steps where that is not slower.
    pub fusion: bool,
}

/// The options that exist.
pub(crate) fn schema() -> Vec<OptionSpec> {
    let presets: Vec<&str> = NpuConfig::presets().collect();
    let config = format!("the chip: a preset ({}) or the path of an `Npu(...)` file", presets.join(", "));
    vec![
        OptionSpec::new("config", DEFAULT_CONFIG, &config),
        OptionSpec::new("realtime", "off", "off, or a factor: a run takes that many times its modelled time"),
        OptionSpec::new("memory", DEFAULT_MEMORY, "bytes of the device's memory"),
        OptionSpec::new("watchdog", "off", "off, or the cycles after which a submission is given up"),
        OptionSpec {
            allowed: vec!["off".into(), "on".into()],
            ..OptionSpec::new("crc", "off", "command streams carry a checksum")
        },
        OptionSpec {
            allowed: vec!["off".into(), "on".into()],
            ..OptionSpec::new("fusion", "on", "values stay on the chip between layers where that is not slower")
        },
    ]
}

/// Reads the options; what is not given is taken from the description.
pub(crate) fn parse(options: &Options) -> Result<Settings> {
    let text = |key: &str| options.get(key).map(String::as_str);
    let known = schema();
    if let Some(key) = options.keys().find(|k| known.iter().all(|s| s.key != **k)) {
        let names: Vec<&str> = known.iter().map(|s| s.key.as_str()).collect();
        return Err(Error::invalid(format!("the npu driver has no option `{key}`; it has {}", names.join(", "))));
    }
    let mut config = read_config(text("config").unwrap_or(DEFAULT_CONFIG))?;
    config.crc = switch("crc", text("crc"), config.crc)?;
    config.fusion = switch("fusion", text("fusion"), config.fusion)?;
    match text("watchdog") {
        None => {}
        Some("off") => config.watchdog_cycles = None,
        Some(n) => {
            let cycles = n.parse().ok().filter(|&n: &u64| n > 0);
            config.watchdog_cycles = Some(cycles.ok_or_else(|| bad("watchdog", n, "off or a number of cycles"))?);
        }
    }
    let realtime = match text("realtime") {
        None => config.realtime,
        Some("off") => None,
        Some(factor) => Some(parse_factor(factor)?),
    };
    let memory = match text("memory") {
        None => DEFAULT_MEMORY,
        Some(n) => n.parse().map_err(|_| bad("memory", n, "a number of bytes"))?,
    };
    Ok(Settings { crc: config.crc, fusion: config.fusion, config, realtime, memory })
}

fn switch(key: &str, text: Option<&str>, otherwise: bool) -> Result<bool> {
    match text {
        None => Ok(otherwise),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(bad(key, other, "on or off")),
    }
}

fn parse_factor(text: &str) -> Result<f64> {
    let factor = text.parse().ok().filter(|f: &f64| (1e-3..=1e6).contains(f));
    factor.ok_or_else(|| bad("realtime", text, "off or a factor from 0.001 to 1000000"))
}

fn bad(key: &str, found: &str, expected: &str) -> Error {
    Error::invalid(format!("option {key} is `{found}`, expected {expected}"))
}

/// A preset, or a file where the text looks like a path.
fn read_config(text: &str) -> Result<NpuConfig> {
    let invalid = |e: ottava_npu::ConfigError| Error::invalid(e.to_string());
    if NpuConfig::presets().any(|p| p == text) || !(text.contains(['/', '\\']) || text.ends_with(".ron")) {
        return NpuConfig::preset(text).map_err(invalid);
    }
    let unreadable = |e: std::io::Error| Error::invalid(format!("option config: cannot read `{text}`: {e}"));
    // A pipe or device would be waited for, and what a system makes up as it is read has no size.
    let data = std::fs::metadata(Path::new(text)).map_err(unreadable)?;
    if !data.is_file() || data.len() == 0 {
        return Err(Error::invalid(format!("option config: `{text}` is no regular file, or it is empty")));
    }
    let file = std::fs::File::open(Path::new(text)).map_err(unreadable)?;
    let mut content = String::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_CONFIG_BYTES {
        return Err(Error::invalid(format!("option config: `{text}` is larger than {MAX_CONFIG_BYTES} bytes")));
    }
    NpuConfig::parse(&content).map_err(|e| invalid(e.in_file(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        parse(&options).map(|s| s.config.name).unwrap_or_else(|e| e.to_string())
    }

    #[test]
    fn options_name_what_is_wrong_and_what_is_valid() {
        assert_eq!(message(&[]), "edge16");
        assert_eq!(message(&[("config", "gemmini"), ("realtime", "0.5"), ("memory", "4096")]), "gemmini");
        assert!(message(&[("confg", "x")]).contains("it has config, realtime"));
        assert!(message(&[("config", "edge17")]).contains("did you mean `edge16`"));
        assert!(message(&[("config", "./none.ron")]).contains("cannot read `./none.ron`"));
        assert!(message(&[("config", "/dev/null")]).contains("no regular file"));
        assert!(message(&[("config", "./")]).contains("no regular file"));
        assert!(message(&[("realtime", "fast")]).contains("expected off or a factor"));
        assert!(message(&[("memory", "-1")]).contains("number of bytes"));
        assert!(message(&[("watchdog", "0")]).contains("number of cycles"));
        assert!(message(&[("crc", "yes")]).contains("on or off"));
    }
}

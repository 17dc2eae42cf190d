//! The options of a device.

use ottava_gpu::Dot;
use ottava_hal::{Error, OptionSpec, Options, Result};
use std::path::PathBuf;

/// The options, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    /// Part of the platform's name.
    pub platform: Option<String>,
    /// Part of the device's name, or its number.
    pub device: Option<String>,
    /// Invocations of a work-group; `None` leaves it to the device.
    pub work_group: Option<u32>,
    /// Which dot product; `None` takes what the device has.
    pub dot: Option<Dot>,
    /// Folder of program binaries; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Submissions run in the caller's thread.
    pub in_caller: bool,
}

/// The options that exist.
pub(crate) fn schema() -> Vec<OptionSpec> {
    vec![
        OptionSpec::new("platform", "", "part of the name of the OpenCL platform"),
        OptionSpec::new("device", "", "number of the device, or a part of its name"),
        OptionSpec::new("work_group", "auto", "auto, or invocations of a work-group"),
        OptionSpec {
            allowed: vec!["auto".into(), "plain".into(), "packed".into()],
            ..OptionSpec::new("dot", "auto", "dot products of bytes: as the device has them, by products, or packed")
        },
        OptionSpec {
            allowed: vec!["on".into(), "off".into()],
            ..OptionSpec::new("worker", "on", "off: submissions run in the caller's thread, for tools that watch one")
        },
        OptionSpec::new("cache", "off", "off, or the folder in which built programs are kept"),
    ]
}

/// Reads the options.
pub(crate) fn parse(options: &Options) -> Result<Settings> {
    let known = schema();
    if let Some(key) = options.keys().find(|k| known.iter().all(|s| s.key != **k)) {
        let names: Vec<&str> = known.iter().map(|s| s.key.as_str()).collect();
        return Err(Error::invalid(format!("the opencl driver has no option `{key}`; it has {}", names.join(", "))));
    }
    let text = |key: &str| options.get(key).map(String::as_str).filter(|t| !t.is_empty());
    let work_group = match text("work_group") {
        None | Some("auto") => None,
        Some(n) => {
            let group = n.parse().ok().filter(|&n: &u32| n > 0);
            Some(group.ok_or_else(|| bad("work_group", n, "auto or a number of invocations"))?)
        }
    };
    let dot = match text("dot") {
        None | Some("auto") => None,
        Some("plain") => Some(Dot::Plain),
        Some("packed") => Some(Dot::Packed),
        Some(other) => return Err(bad("dot", other, "auto, plain or packed")),
    };
    let in_caller = match text("worker") {
        None | Some("on") => false,
        Some("off") => true,
        Some(other) => return Err(bad("worker", other, "on or off")),
    };
    let cache = text("cache").filter(|t| *t != "off").map(PathBuf::from);
    let owned = |key| text(key).map(str::to_owned);
    Ok(Settings { platform: owned("platform"), device: owned("device"), work_group, dot, cache, in_caller })
}

fn bad(key: &str, found: &str, expected: &str) -> Error {
    Error::invalid(format!("option {key} is `{found}`, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<Settings> {
        parse(&options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn options_name_what_is_wrong_and_what_is_valid() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        let all = read(&[("work_group", "7"), ("dot", "plain"), ("cache", "x"), ("device", "1")]).unwrap();
        assert_eq!((all.work_group, all.dot, all.cache), (Some(7), Some(Dot::Plain), Some("x".into())));
        let message = |key, value| read(&[(key, value)]).unwrap_err().to_string();
        assert!(message("dots", "x").contains("it has platform, device, work_group"));
        assert!(message("dot", "x").contains("expected auto, plain or packed"));
        assert!(message("worker", "x").contains("expected on or off"));
        assert!(message("work_group", "0").contains("number of invocations"));
    }
}

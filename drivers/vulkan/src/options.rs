//! The options of a device.

use ottava_gpu::Dot;
use ottava_hal::{Error, OptionSpec, Options, Result};
use std::path::PathBuf;

/// The options, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    /// Which dot product; `None` takes what the device has.
    pub dot: Option<Dot>,
    /// Invocations of a work-group; `None` leaves it to the device.
    pub work_group: Option<u32>,
    /// The validation layers check every call.
    pub validation: bool,
    /// Folder of pipeline caches; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Lanes on which submissions overlap; `None` takes as many as the device has queues.
    pub queues: Option<usize>,
    /// Buffers go through a staging buffer even where the host could reach them.
    pub staged: bool,
}

/// The options that exist.
pub(crate) fn schema() -> Vec<OptionSpec> {
    let choice = |key: &str, allowed: &[&str], help: &str| OptionSpec {
        allowed: allowed.iter().map(|a| (*a).to_owned()).collect(),
        ..OptionSpec::new(key, allowed[0], help)
    };
    vec![
        choice(
            "dot",
            &["auto", "plain", "packed"],
            "dot products of bytes: as the device has them, by products, packed",
        ),
        OptionSpec::new("work_group", "auto", "auto, or invocations of a work-group"),
        choice("validation", &["off", "on"], "the validation layers check every call; what they say is an error"),
        OptionSpec::new("queues", "auto", "auto, or on how many of the device's queues submissions go, 1 to 4"),
        OptionSpec::new("cache", "off", "off, or the folder in which compiled pipelines are kept"),
        choice(
            "memory",
            &["auto", "staged"],
            "buffers where the host reaches them if it can, or always through staging",
        ),
    ]
}

/// Reads the options.
pub(crate) fn parse(options: &Options) -> Result<Settings> {
    let known = schema();
    if let Some(key) = options.keys().find(|k| known.iter().all(|s| s.key != **k)) {
        let names: Vec<&str> = known.iter().map(|s| s.key.as_str()).collect();
        return Err(Error::invalid(format!("the vulkan driver has no option `{key}`; it has {}", names.join(", "))));
    }
    let text = |key: &str| options.get(key).map(String::as_str).filter(|t| !t.is_empty());
    for spec in known.iter().filter(|s| !s.allowed.is_empty()) {
        if let Some(found) = text(&spec.key).filter(|t| spec.allowed.iter().all(|a| a != t)) {
            return Err(bad(&spec.key, found, &spec.allowed.join(", ")));
        }
    }
    let work_group = match text("work_group") {
        None | Some("auto") => None,
        Some(n) => {
            let group = n.parse().ok().filter(|&n: &u32| n > 0);
            Some(group.ok_or_else(|| bad("work_group", n, "auto or a number of invocations"))?)
        }
    };
    let queues = match text("queues") {
        None | Some("auto") => None,
        Some(n) => {
            let number = n.parse().ok().filter(|n| (1..=4).contains(n));
            Some(number.ok_or_else(|| bad("queues", n, "auto or a number from 1 to 4"))?)
        }
    };
    let dot = match text("dot") {
        Some("plain") => Some(Dot::Plain),
        Some("packed") => Some(Dot::Packed),
        _ => None,
    };
    Ok(Settings {
        dot,
        work_group,
        queues,
        validation: text("validation") == Some("on"),
        cache: text("cache").filter(|t| *t != "off").map(PathBuf::from),
        staged: text("memory") == Some("staged"),
    })
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
        let defaults: Vec<_> = schema().into_iter().map(|s| (s.key, s.default)).collect();
        assert_eq!(parse(&defaults.into_iter().collect()).unwrap(), Settings::default());
        let all = read(&[("work_group", "7"), ("dot", "plain"), ("cache", "x"), ("validation", "on")]).unwrap();
        assert_eq!((all.work_group, all.dot, all.cache), (Some(7), Some(Dot::Plain), Some("x".into())));
        assert!(all.validation && !all.staged);
        let message = |key, value| read(&[(key, value)]).unwrap_err().to_string();
        assert!(message("dots", "x").contains("it has dot, work_group"));
        assert!(message("dot", "x").contains("expected auto, plain, packed"));
        assert!(message("validation", "yes").contains("expected off, on"));
        assert!(message("queues", "5").contains("from 1 to 4"));
        assert!(message("work_group", "0").contains("number of invocations"));
    }
}

//! RON text to [`NpuConfig`], with errors that name line, column and the nearest valid key.

use super::explain::explain;
use super::places::Keys;
use super::{ConfigError, NpuConfig, PRESETS};
use crate::suggest::{excerpt, hint};
use ron::extensions::Extensions;

impl NpuConfig {
    /// Reads a configuration and checks it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        // Editors of some systems begin files with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
        let config: Self = options.from_str(text).map_err(|e| explain(text, &e))?;
        config.check().map_err(|problem| {
            // What is not written has its place where the file begins.
            let at = Keys::of(text).find(&problem.path).unwrap_or((1, 1));
            ConfigError::new(Some(at), problem.message, problem.help)
        })?;
        Ok(config)
    }

    /// A configuration that was put together by a program, checked as one that was read.
    pub fn checked(self) -> Result<Self, String> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(problem) => Err(format!("{}; {}", problem.message, problem.help)),
        }
    }

    /// The preset of this name.
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((_, text)) => Self::parse(text).map_err(|e| e.in_file(format!("preset {name}"))),
            None => {
                let help = hint(name, PRESETS.iter().map(|(preset, _)| *preset));
                Err(ConfigError::new(None, format!("there is no NPU preset `{}`", excerpt(name)), help))
            }
        }
    }

    /// The names of the presets, in their documented order.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The configuration as RON, every key spelled out.
    pub fn to_ron(&self) -> String {
        ron::ser::to_string_pretty(self, ron::ser::PrettyConfig::default().struct_names(false)).unwrap_or_default()
    }
}

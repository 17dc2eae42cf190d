//! The one error type of the facade: invalid, unsupported, failed; each with what, where, found, expected and a remedy.
//!
//! Codes are stable and never reused. `M06`: models, `M07`: data, `Q06`: calibration, recipes, quantization, `P06`:
//! placement, `H06`: drivers and devices, `H07`: the configuration. The list is [`codes`].

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of every fallible call of the facade.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every code that the facade gives an error. Never reused.
pub mod codes {
    /// A model file cannot be read.
    pub const MODEL_FILE: &str = "M0601";
    /// A model uses something that this version does not know.
    pub const MODEL_UNSUPPORTED: &str = "M0602";
    /// A model contradicts itself.
    pub const MODEL_INVALID: &str = "M0603";
    /// A model cannot be written.
    pub const MODEL_WRITE: &str = "M0604";
    /// A symbolic dimension has no value, or one that does not fit.
    pub const MODEL_DIM: &str = "M0605";
    /// A named input, output or tensor does not exist.
    pub const MODEL_NAME: &str = "M0606";
    /// A data file cannot be read.
    pub const DATA_FILE: &str = "M0701";
    /// An array is missing or there is one too many.
    pub const DATA_ARRAY: &str = "M0702";
    /// An array's element type does not fit.
    pub const DATA_DTYPE: &str = "M0703";
    /// An array's shape does not fit.
    pub const DATA_SHAPE: &str = "M0704";
    /// A value does not fit the input's range.
    pub const DATA_RANGE: &str = "M0705";
    /// Labels are missing or do not fit.
    pub const DATA_LABELS: &str = "M0706";
    /// An image cannot be read or prepared.
    pub const DATA_IMAGE: &str = "M0707";
    /// A result cannot be written.
    pub const DATA_WRITE: &str = "M0708";
    /// A result holds values that are no numbers.
    pub const DATA_NAN: &str = "M0709";
    /// A calibration cannot be read, merged or used.
    pub const CALIBRATION: &str = "Q0601";
    /// A recipe cannot be read or does not fit.
    pub const RECIPE: &str = "Q0602";
    /// A model cannot be quantized as asked.
    pub const QUANTIZE: &str = "Q0603";
    /// A rule of a recipe has no effect.
    pub const RECIPE_UNUSED: &str = "Q0604";
    /// Tensors that stay in float without being named, so that the output keeps its accuracy.
    pub const MIXED: &str = "Q0605";
    /// Integers that no chosen device computes with.
    pub const STORAGE: &str = "Q0606";
    /// Compilation for the chosen devices failed.
    pub const COMPILE: &str = "P0601";
    /// A plan cannot be read, or does not fit what was asked for.
    pub const PLAN: &str = "P0602";
    /// A device or driver failed.
    pub const DEVICE_FAILED: &str = "H0601";
    /// No driver offers the device.
    pub const NO_DEVICE: &str = "H0602";
    /// A device option is unknown or has a bad value.
    pub const DEVICE_OPTION: &str = "H0603";
    /// A library is not loaded as a driver.
    pub const DRIVER_REFUSED: &str = "H0604";
    /// The configuration cannot be read.
    pub const CONFIG: &str = "H0701";
    /// A part of the configuration that this version does not offer.
    pub const CONFIG_UNAVAILABLE: &str = "H0702";
    /// A tuning file cannot be read or contradicts itself or its model.
    pub const TUNING: &str = "H0703";
    /// A tuning file was made for something else and is not used, or is used.
    pub const TUNING_USE: &str = "H0704";
    /// A list of expectations for the conformance suite cannot be read or contradicts itself.
    pub const EXPECTATIONS: &str = "H0705";
}

/// Where in a file a problem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A place in a text file; both counts start at 1.
    Text {
        /// Line.
        line: usize,
        /// Column, in characters.
        column: usize,
        /// The line itself, for display.
        source: String,
    },
    /// A named thing: a node, a tensor, an array, a key.
    Named(String),
}

/// What there is to say about a problem. Empty parts are left out when it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// Stable code, one of [`codes`] or that of a compiler diagnostic.
    pub code: String,
    /// What is wrong, one sentence.
    pub message: String,
    /// The file.
    pub file: Option<PathBuf>,
    /// Where in it.
    pub place: Option<Place>,
    /// What was found.
    pub found: Option<String>,
    /// What was expected.
    pub expected: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        match &self.place {
            Some(Place::Text { line, column, .. }) => write!(f, "line {line}, column {column}: ")?,
            Some(Place::Named(name)) => write!(f, "{name}: ")?,
            None => {}
        }
        f.write_str(&self.message)?;
        let parts = [("found", &self.found), ("expected", &self.expected)];
        for (label, text) in parts.iter().filter_map(|(l, t)| Some((l, t.as_ref()?))) {
            write!(f, "; {label} {text}")?;
        }
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

/// Why a call of the facade did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller's fault: a model, data, configuration or request that is wrong.
    #[error("{0}")]
    Invalid(Box<Detail>),
    /// Legal, but not done by this version or device.
    #[error("unsupported: {0}")]
    Unsupported(Box<Detail>),
    /// The machine, a device or a driver failed.
    #[error("failed: {0}")]
    Failed(Box<Detail>),
}

impl Error {
    /// An error of the family *invalid*.
    pub fn invalid(code: &str, message: impl Into<String>) -> Self {
        Self::Invalid(Box::new(Detail::new(code, message)))
    }

    /// An error of the family *unsupported*.
    pub fn unsupported(code: &str, message: impl Into<String>) -> Self {
        Self::Unsupported(Box::new(Detail::new(code, message)))
    }

    /// An error of the family *failed*.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed(Box::new(Detail::new(code, message)))
    }

    /// What there is to say.
    pub fn detail(&self) -> &Detail {
        match self {
            Self::Invalid(d) | Self::Unsupported(d) | Self::Failed(d) => d,
        }
    }

    fn with(mut self, edit: impl FnOnce(&mut Detail)) -> Self {
        match &mut self {
            Self::Invalid(d) | Self::Unsupported(d) | Self::Failed(d) => edit(d),
        }
        self
    }

    /// Names the file, unless a more precise one is named already.
    pub fn in_file(self, file: &Path) -> Self {
        self.with(|d| d.file = d.file.take().or_else(|| Some(file.to_path_buf())))
    }

    /// Names the node, tensor, array or key.
    pub fn at(self, name: impl Into<String>) -> Self {
        self.with(|d| d.place = Some(Place::Named(name.into())))
    }

    /// Names a place in a text.
    pub(crate) fn at_text(self, text: &str, line: usize, column: usize) -> Self {
        let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
        self.with(|d| d.place = Some(Place::Text { line, column, source }))
    }

    /// Says what was found.
    pub fn found(self, what: impl fmt::Display) -> Self {
        self.with(|d| d.found = Some(what.to_string()))
    }

    /// Says what was expected.
    pub fn expected(self, what: impl fmt::Display) -> Self {
        self.with(|d| d.expected = Some(what.to_string()))
    }

    /// Says what to do.
    pub fn help(self, what: impl Into<String>) -> Self {
        self.with(|d| d.help = Some(what.into()))
    }

    /// An error of a device or driver. A request that the device finds invalid is the caller's fault.
    pub(crate) fn device(id: &str, error: ottava_hal::Error) -> Self {
        let message = format!("device `{id}`: {error}");
        match error {
            ottava_hal::Error::Invalid(_) => Self::invalid(codes::DEVICE_FAILED, message),
            ottava_hal::Error::Unsupported { .. } => Self::unsupported(codes::DEVICE_FAILED, message),
            ottava_hal::Error::Failed { .. } => Self::failed(codes::DEVICE_FAILED, message),
        }
    }

    /// An error of a run.
    pub(crate) fn run(origin: &Path, error: ottava_hal::Error) -> Self {
        let message = error.to_string();
        let family = match error {
            ottava_hal::Error::Invalid(_) => Self::invalid(codes::DATA_SHAPE, message),
            ottava_hal::Error::Unsupported { .. } => Self::unsupported(codes::MODEL_UNSUPPORTED, message),
            ottava_hal::Error::Failed { .. } => Self::failed(codes::DEVICE_FAILED, message),
        };
        family.in_file(origin)
    }

    /// A file that cannot be read.
    pub(crate) fn reading(code: &str, path: &Path, error: &std::io::Error) -> Self {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied => "check who may read the file",
            _ => "check the file and the disk it is on",
        };
        Self::invalid(code, format!("cannot read the file: {error}")).in_file(path).help(help)
    }

    /// A file that cannot be written.
    pub(crate) fn writing(code: &str, path: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot write the file: {error}");
        Self::invalid(code, message).in_file(path).help("check the folder, who may write to it, and the free space")
    }
}

impl Detail {
    fn new(code: &str, message: impl Into<String>) -> Self {
        let (file, place, found, expected, help) = (None, None, None, None, None);
        Self { code: code.to_owned(), message: message.into(), file, place, found, expected, help }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_where_found_expected_and_what_to_do() {
        let e = Error::invalid(codes::DATA_SHAPE, "wrong shape")
            .in_file(Path::new("a.npz"))
            .at("array `x`")
            .found("[3]")
            .expected("[N,4]")
            .help("reshape it");
        assert_eq!(e.to_string(), "a.npz: array `x`: wrong shape; found [3]; expected [N,4]; reshape it");
        assert_eq!(e.in_file(Path::new("b.npz")).detail().file.as_deref(), Some(Path::new("a.npz")));
    }
}

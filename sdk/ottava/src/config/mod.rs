//! The application's configuration: which drivers, which devices, what may run where.
//!
//! Read from a RON file (`ottava.ron`); without a file: built-in drivers, automatic placement. A key or value that does
//! not exist is an error with line, column and the nearest valid name; one that exists but is not offered by this version
//! is an error that names the key. Nothing is ignored.

mod wire;

use crate::error::{Error, Result, codes};
use crate::ron_text;
use ottava_hal::{Options, RequantMode};
use std::path::{Path, PathBuf};

/// A device that the application names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEntry {
    /// The application's name of the device.
    pub id: String,
    /// Name of its driver.
    pub driver: String,
    /// Options, checked against the driver's schema when the device is opened.
    pub options: Options,
}

/// A driver that the application names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverEntry {
    /// Linked into the program.
    Builtin(String),
    /// A shared library.
    Library {
        /// Its file; relative paths count from the folder of the configuration.
        path: PathBuf,
        /// What its SHA-256 must be.
        sha256: Option<String>,
    },
}

/// A rule about libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Everything in a folder.
    Dir(PathBuf),
    /// The file with this SHA-256.
    Sha256(String),
}

/// Which libraries may be loaded, and where they are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// A library without a known SHA-256 is refused.
    pub require_hash: bool,
    /// If not empty, only these.
    pub allow: Vec<Rule>,
    /// Never these.
    pub deny: Vec<Rule>,
    /// Look in the user's folder.
    pub search_user: bool,
    /// Look in the system's folder.
    pub search_system: bool,
}

/// What automatic placement optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Time of one inference.
    #[default]
    Latency,
    /// Inferences per second.
    Throughput,
    /// Energy of one inference.
    Energy,
}

/// How nodes find their device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// By cost.
    Auto(Objective),
    /// The first device of the list that can run the node.
    Priority(Vec<String>),
}

/// What happens to a node that no named device runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// The reference device runs it, with a diagnostic.
    #[default]
    Reference,
    /// The model is refused.
    Error,
}

/// The application's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Drivers to use; `None`: all built-in ones and those that are found.
    pub drivers: Option<Vec<DriverEntry>>,
    /// Which libraries may be loaded.
    pub policy: Policy,
    /// Devices by the application's names. Empty: those that the drivers find.
    pub devices: Vec<DeviceEntry>,
    /// How nodes find their device.
    pub placement: Placement,
    /// Node name or glob, and the device that must run it.
    pub pins: Vec<(String, String)>,
    /// Node name or glob, and a device that must not run it.
    pub bans: Vec<(String, String)>,
    /// What happens to a node that no named device runs.
    pub fallback: Fallback,
    /// Requantization of what Ottava quantizes itself.
    pub requantize: RequantMode,
    /// Overrides the mode of imported nodes too.
    pub force_requantize: Option<RequantMode>,
    /// Inferences that may be in flight at once.
    pub in_flight: usize,
    /// A file of measured costs, written by [`crate::tune`].
    pub tuning: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        from_wire(wire::Wire::default()).expect("the defaults are valid")
    }
}

impl Config {
    /// Reads a configuration file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| Error::reading(codes::CONFIG, path, &e))?;
        let mut config = Self::from_ron(&text).map_err(|e| e.in_file(path))?;
        config.anchor(path.parent().unwrap_or(Path::new("")));
        config.file = Some(path.to_path_buf());
        Ok(config)
    }

    /// Makes relative paths start at the folder of the configuration.
    fn anchor(&mut self, folder: &Path) {
        for entry in self.drivers.iter_mut().flatten() {
            if let DriverEntry::Library { path, .. } = entry {
                *path = folder.join(&*path);
            }
        }
        for value in self.devices.iter_mut().flat_map(|d| d.options.values_mut()) {
            if names_file(value) {
                *value = folder.join(&*value).display().to_string();
            }
        }
        if let Some(file) = &mut self.tuning {
            *file = folder.join(&*file);
        }
        for rule in self.policy.allow.iter_mut().chain(&mut self.policy.deny) {
            if let Rule::Dir(dir) = rule {
                *dir = folder.join(&*dir);
            }
        }
    }

    /// The file itself and every file that it names.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let library = |entry: &DriverEntry| match entry {
            DriverEntry::Library { path, .. } => Some(path.clone()),
            DriverEntry::Builtin(_) => None,
        };
        let options = self
            .devices
            .iter()
            .flat_map(|d| d.options.values())
            .filter(|v| names_file(v) || v.contains(std::path::is_separator));
        let drivers = self.drivers.iter().flatten().filter_map(library);
        self.file.iter().chain(&self.tuning).cloned().chain(drivers).chain(options.map(PathBuf::from)).collect()
    }

    /// Reads a configuration from its text.
    pub fn from_ron(text: &str) -> Result<Self> {
        from_wire(ron_text::parse(text, codes::CONFIG, "configuration")?)
    }
}

/// Whether an option names a file: an NPU's chip.
fn names_file(value: &str) -> bool {
    value.ends_with(".ron")
}

fn mode(wire: wire::Requantize) -> RequantMode {
    match wire {
        wire::Requantize::Fp32Rne => RequantMode::Fp32Rne,
        wire::Requantize::Q31Double => RequantMode::Q31Double,
        wire::Requantize::Q31Single => RequantMode::Q31Single,
    }
}

fn unavailable(key: &str, what: &str, help: &str) -> Error {
    Error::unsupported(codes::CONFIG_UNAVAILABLE, format!("{what} is not part of this version"))
        .at(format!("key `{key}`"))
        .help(help)
}

fn driver(driver: wire::Driver) -> Result<DriverEntry> {
    match driver {
        wire::Driver::Builtin(name) => Ok(DriverEntry::Builtin(name)),
        wire::Driver::Library { path, isolation: Some(wire::Isolation::Process), .. } => Err(unavailable(
            "drivers",
            &format!("running the library `{path}` in a process of its own"),
            "leave `isolation` out; the library then runs in this process",
        )),
        wire::Driver::Library { path, sha256, .. } => Ok(DriverEntry::Library { path: path.into(), sha256 }),
    }
}

fn policy(policy: wire::Policy, search: wire::Search) -> Policy {
    let rule = |r: wire::Allow| match r {
        wire::Allow::Dir(dir) => Rule::Dir(dir.into()),
        wire::Allow::Sha256(hash) => Rule::Sha256(hash),
    };
    Policy {
        require_hash: policy.require_hash,
        allow: policy.allow.into_iter().map(rule).collect(),
        deny: policy.deny.into_iter().map(rule).collect(),
        search_user: search.user,
        search_system: search.system,
    }
}

fn check_available(w: &wire::Wire) -> Result<()> {
    if !w.layers.is_empty() {
        return Err(unavailable("layers", "a layer between application and driver", "leave `layers` empty"));
    }
    if w.in_flight == 0 {
        return Err(Error::invalid(codes::CONFIG, "no inference could ever run")
            .at("key `in_flight`")
            .found("0")
            .expected("1 or more"));
    }
    check_devices(&w.devices)?;
    for (key, rules) in [("pins", &w.pins), ("bans", &w.bans)] {
        at_most(key, rules.len(), MAX_RULES)?;
    }
    Ok(())
}

/// More devices than this are a mistake.
const MAX_DEVICES: usize = 64;
/// More pins or bans than this are a mistake.
const MAX_RULES: usize = 10_000;

fn at_most(key: &str, found: usize, most: usize) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    let e = Error::invalid(codes::CONFIG, "there are more entries than make sense").at(format!("key `{key}`"));
    Err(e.found(found).expected(format!("at most {most}")))
}

/// Ids are short, visible and unique.
fn check_devices(devices: &[wire::Device]) -> Result<()> {
    at_most("devices", devices.len(), MAX_DEVICES)?;
    for (i, d) in devices.iter().enumerate() {
        let fail = |what: &str| Error::invalid(codes::CONFIG, what).at(format!("key `devices`, entry {}", i + 1));
        if d.id.is_empty() || d.id.len() > 64 || d.id.chars().any(char::is_control) {
            return Err(fail("a device needs an id of 1 to 64 visible characters").found(format!("{:?}", d.id)));
        }
        if devices[..i].iter().any(|other| other.id == d.id) {
            return Err(fail("two devices have the same id").found(format!("`{}`", d.id)));
        }
    }
    Ok(())
}

fn from_wire(w: wire::Wire) -> Result<Config> {
    check_available(&w)?;
    let placement = match w.placement {
        wire::Placement::Auto { objective } => Placement::Auto(match objective {
            wire::Objective::Latency => Objective::Latency,
            wire::Objective::Throughput => Objective::Throughput,
            wire::Objective::Energy => Objective::Energy,
        }),
        wire::Placement::Priority(ids) => Placement::Priority(ids),
    };
    let fallback = match w.fallback {
        wire::Fallback::Reference => Fallback::Reference,
        wire::Fallback::Error => Fallback::Error,
    };
    let drivers = w.drivers.map(|d| d.into_iter().map(driver).collect::<Result<Vec<_>>>()).transpose()?;
    let device = |d: wire::Device| DeviceEntry { id: d.id, driver: d.driver, options: d.options };
    Ok(Config {
        file: None,
        drivers,
        policy: policy(w.policy, w.search),
        devices: w.devices.into_iter().map(device).collect(),
        placement,
        pins: w.pins,
        bans: w.bans,
        fallback,
        requantize: mode(w.requantize),
        force_requantize: w.force_requantize.map(mode),
        in_flight: w.in_flight,
        tuning: w.tuning.map(PathBuf::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;

    fn message(text: &str) -> String {
        Config::from_ron(text).unwrap_err().to_string()
    }

    #[test]
    fn a_full_file_is_read() {
        let c = Config::from_ron(
            r#"Ottava(
                drivers: [Builtin("cpu"), Library(path: "a.so", sha256: Some("9f"))],
                devices: [(id: "fast", driver: "cpu", options: {"threads": "2"})],
                placement: Priority(["fast"]),
                pins: [("*/classifier/*", "fast")],
                fallback: Error, requantize: Q31Double, force_requantize: Some(Q31Single),
                policy: (require_hash: false, allow: [Dir("vendor")], deny: []),
                layers: [], search: (user: true, system: false), in_flight: 2, tuning: Some("t.ron"),
            )"#,
        )
        .unwrap();
        let library = DriverEntry::Library { path: "a.so".into(), sha256: Some("9f".into()) };
        assert_eq!(c.drivers, Some(vec![DriverEntry::Builtin("cpu".into()), library]));
        assert_eq!(c.policy.allow, [Rule::Dir("vendor".into())]);
        assert!(c.policy.search_user && !c.policy.search_system);
        assert_eq!(c.devices[0].options["threads"], "2");
        assert_eq!(c.placement, Placement::Priority(vec!["fast".into()]));
        assert_eq!((c.fallback, c.requantize), (Fallback::Error, RequantMode::Q31Double));
        assert_eq!((c.force_requantize, c.in_flight), (Some(RequantMode::Q31Single), 2));
        assert_eq!(c.tuning, Some(PathBuf::from("t.ron")));
    }

    #[test]
    fn libraries_lie_beside_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("o.ron");
        let text = r#"Ottava(tuning: Some("t.ron"), drivers: [Library(path: "v/a.so")], policy: (deny: [Dir("bad")]),
            devices: [(id: "n", driver: "npu", options: {"config": "chip.ron", "realtime": "1"})])"#;
        std::fs::write(&file, text).unwrap();
        let c = Config::load(&file).unwrap();
        assert_eq!(c.devices[0].options["config"], dir.path().join("chip.ron").display().to_string());
        assert_eq!(c.devices[0].options["realtime"], "1");
        assert_eq!(c.tuning, Some(dir.path().join("t.ron")));
        let library = DriverEntry::Library { path: dir.path().join("v/a.so"), sha256: None };
        assert_eq!(c.drivers, Some(vec![library]));
        assert_eq!(c.policy.deny, [Rule::Dir(dir.path().join("bad"))]);
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::from_ron("Ottava()").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_names_line_column_and_the_nearest_name() {
        let e = Config::from_ron("Ottava(\n  devises: [],\n)").unwrap_err();
        assert!(e.to_string().contains("unknown key `devises`"), "{e}");
        assert!(e.to_string().contains("did you mean `devices`?"), "{e}");
        let Some(Place::Text { line, column, source }) = &e.detail().place else { panic!("no place in {e}") };
        assert_eq!((*line, source.as_str()), (2, "  devises: [],"));
        assert!(*column >= 3, "{column}");
    }

    #[test]
    fn parts_of_later_versions_are_refused_by_name() {
        let isolated = r#"Ottava(drivers: [Library(path: "a.so", isolation: Process)])"#;
        assert!(message(isolated).contains("key `drivers`"));
        assert!(message("Ottava(layers: [Trace])").contains("key `layers`"));
    }

    #[test]
    fn wrong_values_are_refused() {
        assert!(message("Ottava(fallback: Referense)").contains("did you mean `Reference`?"));
        assert!(message("Ottava(in_flight: 0)").contains("expected 1 or more"));
        assert!(message("Ottava(in_flight: \"4\")").contains("line 1"));
        let twice = r#"Ottava(devices: [(id: "a", driver: "cpu"), (id: "a", driver: "cpu")])"#;
        assert!(message(twice).contains("two devices have the same id"));
        assert!(message(r#"Ottava(devices: [(id: "", driver: "cpu")])"#).contains("1 to 64"));
        assert!(message("Otava()").contains("Ottava"));
        assert!(message("Ottava(").contains("line 1"));
    }
}

//! The configuration file as it is written. Unknown keys are errors; see the parent module for the meaning.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename = "Ottava", deny_unknown_fields, default)]
pub(super) struct Wire {
    #[serde(deserialize_with = "present")]
    pub drivers: Option<Vec<Driver>>,
    pub devices: Vec<Device>,
    pub placement: Placement,
    pub pins: Vec<(String, String)>,
    pub bans: Vec<(String, String)>,
    pub fallback: Fallback,
    pub requantize: Requantize,
    pub force_requantize: Option<Requantize>,
    pub policy: Policy,
    pub layers: Vec<Layer>,
    pub search: Search,
    pub in_flight: usize,
    pub tuning: Option<String>,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            drivers: None,
            devices: vec![],
            placement: Placement::Auto { objective: Objective::Latency },
            pins: vec![],
            bans: vec![],
            fallback: Fallback::Reference,
            requantize: Requantize::Fp32Rne,
            force_requantize: None,
            policy: Policy::default(),
            layers: vec![],
            search: Search::default(),
            in_flight: 4,
            tuning: None,
        }
    }
}

/// A key that may be absent, and is written without `Some` where it is there.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Driver {
    Builtin(String),
    Library {
        path: String,
        #[serde(default)]
        sha256: Option<String>,
        #[serde(default, deserialize_with = "present")]
        isolation: Option<Isolation>,
    },
}

#[derive(Deserialize)]
pub(super) enum Isolation {
    None,
    Process,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    pub id: String,
    pub driver: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Placement {
    Auto { objective: Objective },
    Priority(Vec<String>),
}

#[derive(Deserialize, Clone, Copy)]
pub(super) enum Objective {
    Latency,
    Throughput,
    Energy,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) enum Fallback {
    Reference,
    Error,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) enum Requantize {
    Fp32Rne,
    Q31Double,
    Q31Single,
}

/// What libraries may be loaded.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    pub require_hash: bool,
    pub allow: Vec<Allow>,
    pub deny: Vec<Allow>,
}

#[derive(Deserialize)]
pub(super) enum Allow {
    Dir(String),
    Sha256(String),
}

#[derive(Deserialize)]
#[allow(dead_code)] // Named in the error that says that layers are not offered yet.
pub(super) enum Layer {
    Validate,
    Trace,
    Faults { seed: u64 },
}

/// Folders in which drivers are looked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Search {
    pub user: bool,
    pub system: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self { user: true, system: true }
    }
}

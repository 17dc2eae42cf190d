//! The tuning file as it is written: RON, format 1. Times are microseconds.
//!
//! Files come from anywhere: sizes, names and numbers are checked here, and every error names the key.

use super::apply::brief;
use super::{DeviceKey, Machine, ModelKey, Timing, TunedDevice, TunedNodes, Tuning, Variant};
use crate::error::{Error, Result, codes};
use crate::ron_text;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;
/// Three days; no node takes longer.
const MAX_US: f64 = 3.0 * 24.0 * 3600.0 * 1e6;
/// No text about a processor or driver has more characters.
const MAX_TEXT: usize = 256;
/// More devices than this are a mistake.
const MAX_DEVICES: usize = 64;
/// More extensions than this are a mistake.
const MAX_FEATURES: usize = 256;

#[derive(Serialize, Deserialize)]
#[serde(rename = "Tuning", deny_unknown_fields)]
struct File {
    format: u32,
    cpu: Cpu,
    model: Model,
    devices: Vec<Device>,
    nodes: Vec<Nodes>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpu {
    vendor: String,
    model: String,
    features: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    id: String,
    driver: String,
    version: String,
    library_sha256: Option<String>,
    isa: String,
    #[serde(deserialize_with = "unique")]
    options: BTreeMap<String, String>,
    #[serde(deserialize_with = "unique")]
    chosen: BTreeMap<String, String>,
    variants: Vec<Compared>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compared {
    #[serde(deserialize_with = "unique")]
    options: BTreeMap<String, String>,
    time: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nodes {
    signature: String,
    op: String,
    names: Vec<String>,
    #[serde(deserialize_with = "unique")]
    costs: BTreeMap<String, Time>,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct Time {
    best_us: f64,
    median_us: f64,
    runs: u32,
}

/// A map in which no key is there twice.
fn unique<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<BTreeMap<String, T>, D::Error> {
    struct Unique<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, T>()? {
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format!("the key `{}` is given twice", brief(&key))));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    d.deserialize_map(Unique(PhantomData))
}

/// The text of a file.
pub(super) fn print(tuning: &Tuning) -> Result<String> {
    let pretty = ron::ser::PrettyConfig::new().depth_limit(4).indentor("  ").compact_arrays(false);
    let text = ron::ser::to_string_pretty(&write(tuning), pretty);
    let text = text.map_err(|e| Error::invalid(codes::TUNING, format!("cannot write it as RON: {e}")))?;
    Ok(format!("// Written by `ottava bench --tune`; times in microseconds.\nTuning{text}\n"))
}

fn write(t: &Tuning) -> File {
    let Machine { vendor, model, features } = t.machine.clone();
    let device = |d: &TunedDevice| Device {
        id: d.id.clone(),
        driver: d.key.driver.clone(),
        version: d.key.version.clone(),
        library_sha256: d.key.library.clone(),
        isa: d.key.isa.clone(),
        options: d.key.options.clone(),
        chosen: d.chosen.clone(),
        variants: d.variants.iter().map(|v| Compared { options: v.options.clone(), time: time(&v.time) }).collect(),
    };
    let nodes = |n: &TunedNodes| Nodes {
        signature: n.signature.clone(),
        op: n.op.clone(),
        names: n.nodes.clone(),
        costs: n.costs.iter().map(|(id, t)| (id.clone(), time(t))).collect(),
    };
    File {
        format: FORMAT,
        cpu: Cpu { vendor, model, features },
        model: Model { name: t.model.name.clone(), sha256: t.model.sha256.clone() },
        devices: t.devices.iter().map(device).collect(),
        nodes: t.nodes.iter().map(nodes).collect(),
    }
}

fn time(t: &Timing) -> Time {
    let us = |ns: u64| ns as f64 / 1e3;
    Time { best_us: us(t.best_ns), median_us: us(t.median_ns), runs: u32::try_from(t.runs).unwrap_or(u32::MAX) }
}

/// Reads and checks a file.
pub(super) fn parse(text: &str) -> Result<Tuning> {
    let file: File = ron_text::parse(text, codes::TUNING, "tuning file")?;
    if file.format != FORMAT {
        return Err(bad("format", "another version has written this file").found(file.format).expected(FORMAT));
    }
    let model = ModelKey { name: file.model.name, sha256: sha("model.sha256", file.model.sha256)? };
    let Cpu { vendor, model: name, features } = file.cpu;
    short("cpu.vendor", &vendor)?;
    short("cpu.model", &name)?;
    at_most("cpu.features", features.len(), MAX_FEATURES)?;
    features.iter().enumerate().try_for_each(|(i, text)| short(&format!("cpu.features[{i}]"), text))?;
    let devices = devices(file.devices)?;
    let ids: BTreeSet<&str> = devices.iter().map(|d| d.id.as_str()).collect();
    let nodes = nodes(file.nodes, &ids)?;
    Ok(Tuning { machine: Machine { vendor, model: name, features }, model, devices, nodes })
}

fn bad(key: &str, what: &str) -> Error {
    Error::invalid(codes::TUNING, what).at(format!("key `{key}`"))
}

fn at_most(key: &str, found: usize, most: usize) -> Result<()> {
    match found <= most {
        true => Ok(()),
        false => {
            Err(bad(key, "there are more entries than make sense").found(found).expected(format!("at most {most}")))
        }
    }
}

/// A text that messages can show as it is.
fn short(key: &str, text: &str) -> Result<()> {
    match text.chars().nth(MAX_TEXT).is_none() && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => {
            Err(bad(key, "this text is too long, or not visible").expected(format!("at most {MAX_TEXT} characters")))
        }
    }
}

/// A SHA-256 in lower-case hexadecimal digits.
fn sha(key: &str, text: String) -> Result<String> {
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    match text.len() == 64 && text.bytes().all(is_digit) {
        true => Ok(text),
        false => Err(bad(key, "this is no SHA-256").expected("64 lower-case hexadecimal digits")),
    }
}

fn devices(list: Vec<Device>) -> Result<Vec<TunedDevice>> {
    at_most("devices", list.len(), MAX_DEVICES)?;
    let mut found: Vec<TunedDevice> = Vec::with_capacity(list.len());
    for (i, d) in list.into_iter().enumerate() {
        let key = format!("devices[{i}]");
        for (name, text) in [("id", &d.id), ("driver", &d.driver), ("version", &d.version), ("isa", &d.isa)] {
            short(&format!("{key}.{name}"), text)?;
        }
        if found.iter().any(|other| other.id == d.id) {
            return Err(bad(&format!("{key}.id"), "two devices have the same id").found(format!("{:?}", d.id)));
        }
        let library = d.library_sha256.map(|text| sha(&format!("{key}.library_sha256"), text)).transpose()?;
        let variant = |(n, v): (usize, Compared)| {
            Ok(Variant { options: v.options, time: checked(&format!("{key}.variants[{n}].time"), v.time)? })
        };
        let variants = d.variants.into_iter().enumerate().map(variant).collect::<Result<_>>()?;
        let device = DeviceKey { driver: d.driver, version: d.version, library, isa: d.isa, options: d.options };
        found.push(TunedDevice { id: d.id, key: device, chosen: d.chosen, variants });
    }
    Ok(found)
}

fn nodes(list: Vec<Nodes>, devices: &BTreeSet<&str>) -> Result<Vec<TunedNodes>> {
    let (mut seen, mut named) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (i, n) in list.into_iter().enumerate() {
        let key = format!("nodes[{i}]");
        short(&format!("{key}.signature"), &n.signature)?;
        if !seen.insert(n.signature.clone()) {
            let e = bad(&format!("{key}.signature"), "two entries have the same signature");
            return Err(e.found(format!("{:?}", n.signature)));
        }
        short(&format!("{key}.op"), &n.op)?;
        names(&format!("{key}.names"), &n.names, &mut named)?;
        let mut costs = BTreeMap::new();
        for (id, time) in n.costs {
            let key = format!("{key}.costs.{}", brief(&id));
            if !devices.contains(id.as_str()) {
                let e = bad(&key, "the device is not among those that were measured");
                return Err(e.help(crate::suggest::hint(&id, devices.iter().copied())));
            }
            let time = checked(&key, time)?;
            costs.insert(id, time);
        }
        found.push(TunedNodes { signature: n.signature, op: n.op, nodes: n.names, costs });
    }
    Ok(found)
}

/// A node has a name, and that of no other.
fn names(key: &str, list: &[String], known: &mut BTreeSet<String>) -> Result<()> {
    if list.is_empty() {
        return Err(bad(key, "an entry needs a node").found(0).expected("1 or more"));
    }
    for (i, name) in list.iter().enumerate() {
        let key = format!("{key}[{i}]");
        if name.is_empty() {
            return Err(bad(&key, "a node needs a name"));
        }
        if !known.insert(name.clone()) {
            return Err(bad(&key, "a node is there twice").found(format!("{:?}", brief(name))));
        }
    }
    Ok(())
}

/// A time that can be one.
fn checked(key: &str, t: Time) -> Result<Timing> {
    let ns = |name: &str, us: f64| match us.is_finite() && (0.0..=MAX_US).contains(&us) {
        true => Ok((us * 1e3).round() as u64),
        false => Err(bad(&format!("{key}.{name}"), "this is no time")
            .found(us)
            .expected(format!("microseconds from 0 to {MAX_US}"))),
    };
    let (best_ns, median_ns) = (ns("best_us", t.best_us)?, ns("median_us", t.median_us)?);
    if best_ns > median_ns {
        return Err(bad(&format!("{key}.best_us"), "the least time is above the median").found(t.best_us));
    }
    if t.runs == 0 {
        return Err(bad(&format!("{key}.runs"), "a time needs a run").found(0).expected("1 or more"));
    }
    Ok(Timing { best_ns, median_ns, runs: t.runs as usize })
}

//! B.2: what a device says about itself.

use super::Group;
use crate::kit::Work;
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::{DeviceInfo, Options, Status};
use std::collections::BTreeSet;

pub(super) const GROUP: Group = Group {
    id: "B.2",
    name: "dev.info",
    about: "every field makes sense and never changes; options are what the schema says",
    cases: |_| {
        vec![
            Case::new("B.2", "dev.info.sane", sane),
            Case::new("B.2", "dev.info.constant", constant),
            Case::new("B.2", "dev.info.option_schema", option_schema),
            Case::new("B.2", "dev.info.option_unknown", option_unknown),
        ]
    },
};

fn sane(subject: &Subject) -> Check {
    let device = subject.open()?;
    let info = device.info();
    ensure!(!info.name.is_empty(), "the device has no name");
    ensure!(info.alignment.is_power_of_two(), "the alignment {} is not a power of two", info.alignment);
    ensure!(info.threads > 0, "the number of threads is 0");
    ensure!(
        info.memory_bytes == 0 || info.max_buffer <= info.memory_bytes,
        "the largest buffer has {} bytes, the memory {}",
        info.max_buffer,
        info.memory_bytes
    );
    let peak = info.peak;
    for (what, rate) in [
        ("link", info.link.bytes_per_s),
        ("s8 peak", peak.s8),
        ("s16 peak", peak.s16),
        ("f16 peak", peak.f16),
        ("f32 peak", peak.f32),
    ] {
        ensure!(rate.is_finite() && rate >= 0.0, "the rate of the {what} is {rate}");
    }
    ensure!(info.link.latency_ns < 10_000_000_000, "the latency of the link is {} ns", info.link.latency_ns);
    Ok(())
}

/// Where two descriptions of a device differ.
fn same(a: &DeviceInfo, b: &DeviceInfo, when: &str) -> Check {
    ensure!(a == b, "the information changes: {b:?} {when}, {a:?} at first");
    Ok(())
}

fn constant(subject: &Subject) -> Check {
    let device = subject.open()?;
    let first = device.info().clone();
    same(&first, device.info(), "when it is asked again")?;
    match Work::small(&*device, subject.seed).and_then(|work| work.run(&*device)) {
        Ok(()) | Err(Stop::Unsupported(_)) => {}
        Err(other) => return Err(other),
    }
    same(&first, device.info(), "after a run")?;
    same(&first, subject.open()?.info(), "in another opening")
}

fn option_schema(subject: &Subject) -> Check {
    let (schema, mut keys) = (subject.driver.option_schema(), BTreeSet::new());
    ensure!(schema == subject.driver.option_schema(), "the options are others when they are asked for again");
    for option in &schema {
        let key = &option.key;
        ensure!(!key.is_empty() && keys.insert(key.clone()), "the option `{key}` is listed twice or has no name");
        ensure!(!option.help.is_empty(), "the option `{key}` has no word of help");
        let allowed = option.allowed.is_empty() || option.allowed.contains(&option.default);
        ensure!(allowed, "the default `{}` of `{key}` is not among its allowed values", option.default);
        let mut options = subject.options.clone();
        options.entry(key.clone()).or_insert_with(|| option.default.clone());
        match subject.driver.open(&subject.device, &options) {
            Err(e) if e.status() != Status::NotFound => {
                return Err(Stop::failed(format!(
                    "the default `{}` of option `{key}` is refused: {e}",
                    option.default
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn option_unknown(subject: &Subject) -> Check {
    subject.open()?;
    let unknown = Options::from([("no such option".to_owned(), "1".to_owned())]);
    refused("an unknown option", subject.driver.open(&subject.device, &unknown), Status::InvalidArgument)
}

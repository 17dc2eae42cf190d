//! `ottava devices`: drivers and the devices they find.

use super::{Context, tune};
use crate::failure::{Failure, Result};
use crate::text::{bytes, table};
use crate::ui::Answer;
use ottava::{DeviceEntry, DeviceOptions, DriverReport, OpenDevice};
use serde_json::{Value, json};

/// Drivers and their devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ottava devices --why")]
pub struct Args {
    /// Also show what was refused, and why.
    #[arg(long)]
    why: bool,
}

/// What became of a driver, and why.
fn status(d: &DriverReport) -> (&'static str, Option<String>) {
    match (&d.devices, d.enabled) {
        (_, false) => ("off", Some("the configuration does not list it under `drivers`".to_owned())),
        (Err(e), _) => ("failed", Some(e.to_string())),
        (Ok(list), _) if list.is_empty() => {
            let why = d.absence.as_deref().unwrap_or("it does not say why");
            ("idle", Some(format!("it finds no device here: {why}")))
        }
        (Ok(_), _) => ("ready", None),
    }
}

fn row(name: &str, version: &str, abi: Option<&str>, source: &str, status: &str, why: &str) -> Vec<String> {
    [name, version, abi.unwrap_or("-"), source, status, why].map(str::to_owned).to_vec()
}

/// Instruction sets that the option `isa` of a driver's devices takes here.
fn isas(d: &DriverReport) -> Vec<&str> {
    let options = d.options.iter().filter(|o| o.key == "isa");
    options.flat_map(|o| &o.allowed).map(String::as_str).filter(|isa| *isa != "auto").collect()
}

/// The devices that the configuration names, opened as it says: what is wrong there is told here.
fn configured(cx: &Context) -> Result<(Vec<Value>, Vec<Vec<String>>)> {
    let config = &cx.registry.config;
    if config.devices.is_empty() && config.drivers.is_none() {
        return Ok((Vec::new(), Vec::new()));
    }
    let opened = cx.registry.open(&DeviceOptions::default())?;
    let one = |(entry, open): (&DeviceEntry, &OpenDevice)| {
        let info = open.device.info();
        let row = vec![entry.id.clone(), entry.driver.clone(), info.isa.clone(), info.name.clone()];
        (json!({ "id": entry.id, "driver": entry.driver, "isa": info.isa, "name": info.name }), row)
    };
    Ok(config.devices.iter().zip(&opened).map(one).unzip())
}

/// Lists drivers and devices.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let report = cx.registry.report();
    let (mut drivers, mut devices) = (Vec::new(), Vec::new());
    let (mut driver_rows, mut device_rows) = (Vec::new(), Vec::new());
    for d in &report {
        let (state, reason) = status(d);
        drivers.push(json!({
            "name": d.info.name, "version": d.info.version, "abi": d.abi, "source": d.source,
            "status": state, "reason": reason,
        }));
        if args.why || reason.is_none() {
            let why = reason.unwrap_or_default();
            driver_rows.push(row(&d.info.name, &d.info.version, d.abi.as_deref(), &d.source, state, &why));
        }
        for info in d.devices.iter().flatten().filter(|_| d.enabled) {
            let isas = isas(d);
            devices.push(json!({
                "id": info.id, "driver": d.info.name, "kind": info.kind.name(), "name": info.name, "isa": info.isa, "isas": isas,
                "memory_bytes": info.memory_bytes, "threads": info.threads,
            }));
            let memory = if info.memory_bytes == 0 { "-".to_owned() } else { bytes(info.memory_bytes) };
            device_rows.push(vec![
                info.id.clone(),
                d.info.name.clone(),
                info.kind.name().to_owned(),
                info.isa.clone(),
                if isas.is_empty() { "-".to_owned() } else { isas.join(" ") },
                info.threads.to_string(),
                memory,
                info.name.clone(),
            ]);
        }
    }
    for r in cx.registry.refused() {
        drivers.push(json!({
            "name": r.name, "version": Value::Null, "abi": Value::Null, "source": r.source, "status": "refused",
            "reason": r.reason,
        }));
        if args.why {
            driver_rows.push(row(&r.name, "", None, &r.source, "refused", &r.reason));
        }
    }
    let (configured, configured_rows) = match configured(cx) {
        Err(Failure::Error(e)) if args.why => {
            cx.ui.warn(&e.to_string());
            (Vec::new(), Vec::new())
        }
        other => other?,
    };
    let mut text = table(&["driver", "version", "abi", "source", "status", "reason"], &[], driver_rows);
    text.push('\n');
    text.push_str(&table(
        &["device", "driver", "kind", "isa", "available", "threads", "memory", "name"],
        &[5, 6],
        device_rows,
    ));
    if !configured.is_empty() {
        text.push('\n');
        text.push_str(&table(&["configured", "driver", "isa", "name"], &[], configured_rows));
    }
    let tuning = match cx.registry.tuning() {
        Err(e) if args.why => {
            cx.ui.warn(&e.to_string());
            None
        }
        other => other?,
    };
    if let Some(report) = &tuning {
        text += &format!("\n{}", tune::report_text(report));
    }
    let tuning = tuning.as_ref().map(tune::report_json);
    let json = json!({ "drivers": drivers, "devices": devices, "configured": configured, "tuning": tuning });
    Ok(Answer::new(text, json))
}

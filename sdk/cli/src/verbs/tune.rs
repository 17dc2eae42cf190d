//! `ottava bench --tune`: what a model costs on this machine, as a file; and how other verbs show such a file.

use super::Context;
use crate::failure::Result;
use crate::options::{check_writable, refuse_same, write_file};
use crate::text::{table, time};
use crate::ui::Answer;
use ottava::{Model, Session, SessionOptions, Tensor, TuneOptions, TunedDevice, Tuning, TuningReport, TuningState};
use serde_json::{Value, json};
use std::path::Path;

/// What is measured.
pub struct Job<'a> {
    /// The model.
    pub model: &'a Model,
    /// How its sessions are compiled.
    pub options: &'a SessionOptions,
    /// Most runs of what is compared.
    pub runs: usize,
    /// Files of the inputs.
    pub read: &'a [&'a Path],
    /// Its inputs, for a session.
    pub inputs: &'a dyn Fn(&Session) -> Result<Vec<Tensor>>,
}

/// Measures and writes the file.
pub fn run(file: &Path, job: &Job, cx: &Context) -> Result<Answer> {
    refuse_same(file, job.read, cx)?;
    check_writable(file)?;
    let mut plain = cx.registry.clone();
    plain.config.tuning = None;
    let inputs = (job.inputs)(&Session::new(job.model, &plain, job.options)?)?;
    let bar = cx.ui.bar("tuning");
    let options = TuneOptions { runs: job.runs, ..TuneOptions::default() };
    let tuning = ottava::tune(job.model, &plain, job.options, inputs, &options, &mut bar.callback())?;
    drop(bar);
    write_file(file, tuning.to_ron()?.as_bytes())?;
    Ok(answer(file, &tuning))
}

fn answer(file: &Path, tuning: &Tuning) -> Answer {
    let mut rows = Vec::new();
    for d in &tuning.devices {
        for v in &d.variants {
            let mark = if v.options == d.chosen { "chosen" } else { "" };
            let [best, median] = [v.time.best_ns, v.time.median_ns].map(time);
            rows.push(vec![d.id.clone(), words(&v.options), best, median, v.time.runs.to_string(), mark.to_owned()]);
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        text += &table(&["device", "options", "best", "median", "runs", ""], &[2, 3, 4], rows);
        text.push('\n');
    }
    let sums = tuning.devices.iter().map(|d| {
        let (nodes, ns) = measured(tuning, &d.id);
        vec![d.id.clone(), nodes.to_string(), time(ns), words(&d.chosen)]
    });
    text += &table(&["device", "nodes measured", "their time", "options set"], &[1, 2], sums);
    text += &format!("\nwritten: {}; use it with `tuning: Some(\"FILE\")` in the configuration", file.display());
    let devices: Vec<Value> = tuning.devices.iter().map(|d| device_json(tuning, d)).collect();
    let json = json!({
        "file": file.display().to_string(), "cpu": tuning.machine.model, "model_sha256": tuning.model.sha256,
        "devices": devices, "signatures": tuning.nodes.len(),
    });
    Answer::new(text, json)
}

/// How many nodes were measured on a device, and the sum of their times.
fn measured(tuning: &Tuning, id: &str) -> (usize, u64) {
    let costs = tuning.nodes.iter().filter_map(|n| n.costs.get(id).map(|t| (n.nodes.len(), t.best_ns)));
    costs.fold((0, 0), |(n, sum), (k, ns)| (n + k, sum.saturating_add(ns.saturating_mul(k as u64))))
}

fn device_json(tuning: &Tuning, d: &TunedDevice) -> Value {
    let (nodes, ns) = measured(tuning, &d.id);
    let variants: Vec<Value> = d
        .variants
        .iter()
        .map(|v| {
            let t = v.time;
            json!({ "options": v.options, "best_ns": t.best_ns, "median_ns": t.median_ns, "runs": t.runs })
        })
        .collect();
    json!({ "id": d.id, "nodes": nodes, "total_ns": ns, "chosen": d.chosen, "variants": variants })
}

fn words(options: &std::collections::BTreeMap<String, String>) -> String {
    if options.is_empty() {
        return "as configured".to_owned();
    }
    options.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

/// `{file, used, text, chosen}`.
pub fn report_json(report: &TuningReport) -> Value {
    let used = report.state == TuningState::Used;
    json!({ "file": report.file.display().to_string(), "used": used, "text": report.text, "chosen": report.chosen })
}

/// One line about the file.
pub fn report_text(report: &TuningReport) -> String {
    let state = match report.state {
        TuningState::Used => "used",
        TuningState::Refused => "not used",
    };
    let set: Vec<String> = report.chosen.iter().map(|(id, o)| format!("; `{id}` runs with {}", words(o))).collect();
    format!("tuning file {} ({state}): {}{}", report.file.display(), report.text, set.concat())
}

//! `ottava explain`: where each node runs, why, and what every device said about it.

use super::compile::passes_json;
use super::{Context, tune};
use crate::failure::Result;
use crate::options::NetworkArgs;
use crate::text::{table, time};
use crate::ui::Answer;
use ottava::{Compiled, Opinion, PassReport, Placed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Show for each node the wanted device, the verdicts, the reasons and the costs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava explain model_int8.onnx --config ottava.ron
  ottava explain model_int8.onnx --all --json")]
pub struct Args {
    /// The model, or a plan.
    model: PathBuf,
    /// Also show what the devices said that did not get the node, and what each pass did.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Explains.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = cx.load(&args.model)?;
    let options = args.network.session(&cx.registry, &model)?;
    let compiled = ottava::compile(&model, &cx.registry, &options)?;
    cx.ui.diagnostics(&compiled.diagnostics);
    Ok(answer(&compiled, &model.requant_modes(), args.all))
}

fn answer(compiled: &Compiled, requant: &BTreeMap<&'static str, usize>, all: bool) -> Answer {
    let placed = &compiled.plan.placed;
    let summary = summary(compiled);
    let mut text = format!("{}\n{}", node_table(placed, all), summary_text(&summary));
    if let Some(tuning) = &compiled.tuning {
        text += &format!("\n{}", tune::report_text(tuning));
    }
    if !requant.is_empty() {
        text += &format!("\nrequantization of the file: {}\n", super::inspect::modes(requant));
    }
    let nodes: Vec<Value> = placed.iter().map(node_json).collect();
    let tuning = compiled.tuning.as_ref().map(tune::report_json);
    let passes = passes_json(&compiled.passes);
    if all && !compiled.passes.is_empty() {
        text += &format!("\n{}", pass_table(&compiled.passes));
    }
    Answer::new(
        text,
        json!({
            "nodes": nodes, "summary": summary_json(&summary), "tuning": tuning, "passes": passes, "requant": requant,
        }),
    )
}

/// One row per pass that changed something.
fn pass_table(passes: &[PassReport]) -> String {
    let row = |p: &PassReport| {
        let (phase, effect) = (p.phase.name().into(), p.about.effect.name().into());
        let what = match p.requantizations {
            (before, after) if before != after => format!("{}; requantizations: {before} -> {after}", p.about.what),
            _ => p.about.what.to_owned(),
        };
        vec![phase, p.name.into(), p.changes.to_string(), effect, what]
    };
    table(&["phase", "pass", "changes", "effect", "what"], &[2], passes.iter().map(row))
}

/// One row per node; with `all`, one more per other device.
pub fn node_table(placed: &[Placed], all: bool) -> String {
    let mut rows = Vec::new();
    for p in placed {
        let own = p.opinions.iter().find(|o| o.device == p.device);
        let op = if p.bridge { format!("{} (bridge)", p.op) } else { p.op.clone() };
        let own_cost = own.map_or("-".into(), cost);
        rows.push(vec![p.node.clone(), op, p.device.clone(), p.partition.to_string(), own_cost, p.reason.clone()]);
        for o in p.opinions.iter().filter(|o| all && o.device != p.device) {
            let cost = if o.ok { cost(o) } else { "-".into() };
            let said = if o.text.is_empty() { o.code.clone() } else { format!("{}: {}", o.code, o.text) };
            rows.push(vec![String::new(), String::new(), format!("not {}", o.device), String::new(), cost, said]);
        }
    }
    table(&["node", "op", "device", "partition", "cost", "why"], &[3, 4], rows)
}

/// The time of a node; a measured one is marked.
fn cost(o: &Opinion) -> String {
    let mark = if o.measured { " measured" } else { "" };
    time(o.cost_ns) + mark
}

fn opinion_json(o: &Opinion) -> Value {
    json!({
        "device": o.device, "ok": o.ok, "code": o.code, "text": o.text, "cost_ns": o.cost_ns, "measured": o.measured,
    })
}

fn node_json(p: &Placed) -> Value {
    let verdicts: Vec<Value> = p.opinions.iter().map(opinion_json).collect();
    json!({
        "name": p.node, "op": p.op, "device": p.device, "partition": p.partition, "bridge": p.bridge,
        "reason": p.reason, "verdicts": verdicts,
    })
}

/// What one device got.
#[derive(Default)]
struct Share {
    nodes: usize,
    bridges: usize,
    partitions: usize,
    est_ns: u64,
    /// Refusals of this device by reason code.
    refused: BTreeMap<String, usize>,
}

fn summary(compiled: &Compiled) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    for p in &compiled.plan.placed {
        let share = shares.entry(p.device.clone()).or_default();
        share.nodes += usize::from(!p.bridge);
        share.bridges += usize::from(p.bridge);
        for o in p.opinions.iter().filter(|o| !o.ok && !p.bridge) {
            *shares.entry(o.device.clone()).or_default().refused.entry(o.code.clone()).or_default() += 1;
        }
    }
    for p in &compiled.plan.partitions {
        let share = shares.entry(p.device.clone()).or_default();
        share.partitions += 1;
        share.est_ns = share.est_ns.saturating_add(p.est_ns);
    }
    shares
}

fn refusals(share: &Share) -> String {
    share.refused.iter().map(|(code, n)| format!("{n} {code}")).collect::<Vec<_>>().join(", ")
}

fn summary_text(shares: &BTreeMap<String, Share>) -> String {
    let row = |(device, s): (&String, &Share)| {
        let numbers = [s.nodes, s.bridges, s.partitions].map(|n| n.to_string());
        let [nodes, bridges, partitions] = numbers;
        vec![device.clone(), nodes, bridges, partitions, time(s.est_ns), refusals(s)]
    };
    table(&["device", "nodes", "bridges", "partitions", "estimate", "refused"], &[1, 2, 3, 4], shares.iter().map(row))
}

fn summary_json(shares: &BTreeMap<String, Share>) -> Value {
    let one = |(device, s): (&String, &Share)| {
        let value = json!({
            "nodes": s.nodes, "bridges": s.bridges, "partitions": s.partitions, "est_ns": s.est_ns,
            "refused": s.refused,
        });
        (device.clone(), value)
    };
    Value::Object(shares.iter().map(one).collect())
}

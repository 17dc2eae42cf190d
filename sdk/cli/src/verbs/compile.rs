//! `ottava compile`: a plan for the configured devices.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same, write_file};
use crate::text::{bytes, table, time};
use crate::ui::Answer;
use ottava::{Compiled, DeviceMemory, Diagnostic, GraphText, PassReport, Phase};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Place a model on the configured devices, compile it ahead, and save the plan.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava compile model_int8.onnx -o model.plan
  ottava compile model.onnx --stop-after quantized --emit text")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// The plan.
    #[arg(short, long, value_name = "P.plan", required_unless_present = "stop_after")]
    output: Option<PathBuf>,
    /// Stop after this phase and show the graph instead.
    #[arg(long, value_name = "PHASE", value_enum)]
    stop_after: Option<PhaseArg>,
    /// How the graph is shown.
    #[arg(long, value_name = "FORM", value_enum, requires = "stop_after")]
    emit: Option<Emit>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Phases of a graph by their names.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PhaseArg {
    /// As the file has it.
    Imported,
    /// Folded and fused, in float or with its own Q/DQ nodes.
    Canonical,
    /// Integer operators; quantization is part of the types.
    Quantized,
}

/// Forms of a graph.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Emit {
    /// The text form, which parses back.
    Text,
}

/// Compiles and saves, or shows the graph.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let model = cx.load(&args.model)?;
    let options = args.network.session(&cx.registry, &model)?;
    if let Some(phase) = args.stop_after {
        let phase = match phase {
            PhaseArg::Imported => Phase::Imported,
            PhaseArg::Canonical => Phase::Canonical,
            PhaseArg::Quantized => Phase::Quantized,
        };
        return emit(args, &ottava::graph_text(&model, &cx.registry, &options, phase)?, cx);
    }
    let Some(output) = &args.output else { return Err(Failure::Usage("name the plan: `-o P.plan`".into())) };
    refuse_same(output, &[&args.model], cx)?;
    let compiled = ottava::compile(&model, &cx.registry, &options)?;
    cx.ui.diagnostics(&compiled.diagnostics);
    let saved = compiled.save(output)?;
    let mut answer = answer(&compiled, &saved.memory);
    answer.text += &format!("\nwritten: {} ({})", output.display(), bytes(saved.bytes));
    if saved.ahead < saved.partitions {
        let n = saved.partitions - saved.ahead;
        answer.text += &format!("; {n} of {} partitions are compiled at the start", saved.partitions);
    }
    Ok(answer)
}

/// The graph goes to the file that `-o` names, or to stdout.
fn emit(args: &Args, graph: &GraphText, cx: &Context) -> Result<Answer> {
    let (text, passes) = (&graph.text, passes_json(&graph.passes));
    if let Some(path) = &args.output {
        refuse_same(path, &[&args.model], cx)?;
        write_file(path, text.as_bytes())?;
        let json = json!({ "file": path.display().to_string(), "passes": passes });
        return Ok(Answer::new(format!("written: {}", path.display()), json));
    }
    Ok(Answer::new(text, json!({ "graph": text, "passes": passes })))
}

/// `{code, severity, node, message, help}`.
pub fn diagnostic_json(d: &Diagnostic) -> Value {
    let severity = format!("{:?}", d.severity).to_lowercase();
    json!({ "code": d.code, "severity": severity, "node": d.node, "message": d.message, "help": d.help })
}

/// `{phase, name, changes, what, effect, requantizations {before, after}}` for each pass that changed something.
pub fn passes_json(passes: &[PassReport]) -> Vec<Value> {
    let one = |p: &PassReport| {
        let (before, after) = p.requantizations;
        json!({
            "phase": p.phase.name(), "name": p.name, "changes": p.changes, "what": p.about.what,
            "effect": p.about.effect.name(), "requantizations": { "before": before, "after": after },
        })
    };
    passes.iter().map(one).collect()
}

fn answer(compiled: &Compiled, memory: &[DeviceMemory]) -> Answer {
    let plan = &compiled.plan;
    let row = |(i, p): (usize, &ottava::Partition)| {
        let nodes = p.program.nodes.len() - p.bridges;
        vec![i.to_string(), p.device.clone(), nodes.to_string(), p.bridges.to_string(), time(p.est_ns)]
    };
    let mut text = table(
        &["partition", "device", "nodes", "bridges", "estimate"],
        &[0, 2, 3, 4],
        plan.partitions.iter().enumerate().map(row),
    );
    let (mut rows, mut json_arenas) = (Vec::new(), Vec::new());
    for m in memory {
        let [size, sum, bound] = [m.bytes, m.sum_bytes, m.lower_bound].map(|n| n as u64);
        rows.push(vec![m.device.clone(), bytes(size), bytes(sum), bytes(bound)]);
        json_arenas.push(json!({ "device": m.device, "bytes": size, "sum_bytes": sum, "lower_bound": bound }));
    }
    text.push('\n');
    text += &table(&["arena of", "bytes", "sum of tensors", "lower bound"], &[1, 2, 3], rows);
    let partitions: Vec<Value> = plan
        .partitions
        .iter()
        .map(|p| {
            json!({
                "device": p.device, "nodes": p.program.nodes.len() - p.bridges, "bridges_in": p.bridges,
                "est_ns": p.est_ns,
            })
        })
        .collect();
    let arena_bytes: usize = memory.iter().map(|m| m.bytes).sum();
    let diagnostics: Vec<Value> = compiled.diagnostics.iter().map(diagnostic_json).collect();
    let json = json!({
        "partitions": partitions, "arena_bytes": arena_bytes, "arenas": json_arenas, "diagnostics": diagnostics, "passes": passes_json(&compiled.passes),
        "steps": plan.steps.len(), "alternatives": plan.alternatives.iter().map(|a| &a.lost).collect::<Vec<_>>(),
    });
    Answer::new(text, json)
}

//! The report of a simulation as an HTML page.

use super::Simulated;
use super::elsewhere;
use super::model::{OnChip, energy_text, utilization};
use super::sweep::Swept;
use crate::text::{bytes, count};
use ottava::page::{ChipLayer, Figure, Page, Roof, Status, SweepPoint, Verdict};
use ottava_npu::NpuConfig;
use ottava_npu::layers::Report;
use ottava_npu::sweep::{Figures, Outcome, Row};
use std::collections::BTreeMap;
use std::path::Path;

/// The page of a model.
pub fn of_model(on_chip: &OnChip, config: &NpuConfig) -> Page {
    let figures = on_chip.figures(config);
    let mut page = page(&on_chip.name, config, &figures, &on_chip.simulated());
    let mut elsewhere: Vec<String> = on_chip.elsewhere.iter().map(|e| format!("{} ({})", e.name, e.op)).collect();
    if let Some(n) = elsewhere.len().checked_sub(20).filter(|n| *n > 0) {
        elsewhere.truncate(20);
        elsewhere.push(format!("{n} more"));
    }
    let (status, text) = match figures.elsewhere {
        0 => (Status::Good, "every node runs on the chip".to_owned()),
        n => (Status::Info, format!("{n} nodes run on other devices: {}", elsewhere.join(", "))),
    };
    page.verdicts.push(Verdict { status, text });
    if let Some(text) = elsewhere::mostly(&on_chip.elsewhere, figures.macs) {
        page.verdicts.insert(0, Verdict { status: Status::Bad, text });
    }
    page
}

/// The page of a list of layers.
pub fn of_layers(list: &Path, report: &Report, config: &NpuConfig) -> Page {
    let name = list.file_name().map_or_else(|| "layers".into(), |n| n.to_string_lossy());
    let one = |l: &ottava_npu::layers::LayerReport| {
        let (t, s) = (&l.totals, &l.totals.stall_cycles);
        Simulated {
            name: if l.network.is_empty() { l.name.clone() } else { format!("{}: {}", l.network, l.name) },
            macs: t.macs,
            total: t.total_cycles,
            compute: t.compute_cycles,
            stalls: [("dma_in", s.dma_in), ("dma_out", s.dma_out), ("drain", s.drain)].into(),
            dram_bytes: t.dram_bytes,
            on_vector_unit: l.mapping.starts_with("vector"),
        }
    };
    let layers: Vec<Simulated> = report.layers.iter().map(one).collect();
    let mut page = page(&name, config, &report.figures(config), &layers);
    page.notes.push("layers by closed forms; a layer that a network repeats is drawn once".to_owned());
    page.verdicts.extend(report.warnings.iter().map(|w| Verdict { status: Status::Warning, text: w.clone() }));
    page
}

fn page(name: &str, config: &NpuConfig, f: &Figures, layers: &[Simulated]) -> Page {
    let a = &config.array;
    let layer = |l: &Simulated| ChipLayer {
        name: l.name.clone(),
        macs: l.macs,
        bytes: l.dram_bytes,
        on_vector_unit: l.on_vector_unit,
        busy: l.compute,
        stalls: l.stalls.iter().map(|(reason, n)| ((*reason).to_owned(), *n)).collect(),
    };
    let adds_up = layers.iter().all(|l| l.compute + l.stalls.values().sum::<u64>() == l.total);
    let verdict = match adds_up {
        true => (Status::Good, "busy and waiting cycles add up to the total of every layer"),
        false => (Status::Bad, "busy and waiting cycles do not add up"),
    };
    Page {
        title: format!("{name} on {}", config.name),
        subtitle: format!(
            "{} x {} array, {:?}, {:?}; {} of on-chip memory; {} bytes of memory per cycle at {} MHz",
            a.rows,
            a.cols,
            a.dataflow,
            a.timing,
            bytes(config.sram_bytes()),
            config.dram.bytes_per_cycle(),
            config.clock_hz / 1_000_000
        ),
        verdicts: vec![Verdict { status: verdict.0, text: verdict.1.to_owned() }],
        figures: figures(config, f),
        roofline: Some(Roof {
            chip: format!("`{}`, {} x {}", config.name, a.rows, a.cols),
            macs_per_cycle: config.n_elements() as f64,
            vector_macs_per_cycle: config.vector.lanes.into(),
            bytes_per_cycle: config.dram.bytes_per_cycle(),
        }),
        cycles: layers.iter().map(layer).collect(),
        ..Page::default()
    }
}

fn figures(config: &NpuConfig, f: &Figures) -> Vec<Figure> {
    let figure = |label: &str, value: String, note: String| Figure { label: label.into(), value, note };
    let ms = f.total_cycles as f64 / config.clock_hz as f64 * 1e3;
    let share = 100.0 * utilization(f.macs, f.total_cycles, config);
    let stalled: u64 = f.stalls.iter().sum();
    vec![
        figure("cycles", f.total_cycles.to_string(), format!("{ms:.3} ms")),
        figure("of the array's peak", format!("{share:.1} %"), format!("{} MACs", count(f.macs))),
        figure(
            "waiting",
            format!("{:.1} %", 100.0 * stalled as f64 / f.total_cycles.max(1) as f64),
            "of the cycles".into(),
        ),
        figure("memory traffic", bytes(f.dram_bytes), "both ways".into()),
        energy(config, f.energy_fj),
    ]
}

fn energy(config: &NpuConfig, femtojoules: Option<u128>) -> Figure {
    let text = energy_text(config, femtojoules);
    let value = femtojoules.map_or_else(|| "-".to_owned(), ottava_npu::energy::readable);
    let note = config.energy.as_ref().map_or(text, |table| table.source.clone());
    Figure { label: "energy".into(), value, note }
}

/// The page of a sweep.
pub fn of_sweep(swept: &Swept, base: &NpuConfig) -> Page {
    let rows = swept.rows();
    let names: Vec<&str> = swept.sweep.vary.iter().map(|v| v.name.as_str()).collect();
    let best = rows.iter().filter(|(_, on_front)| *on_front).count();
    let done: Vec<Figures> =
        rows.iter().filter_map(|(r, _)| if let Outcome::Done(f) = &r.outcome { Some(*f) } else { None }).collect();
    let range = |of: fn(&Figures) -> u64| {
        let (lo, hi) = done.iter().map(of).fold((u64::MAX, 0), |(lo, hi), n| (lo.min(n), hi.max(n)));
        format!("{} to {}", lo.min(hi), hi)
    };
    let figure = |label: &str, value: String, note: &str| Figure { label: label.into(), value, note: note.into() };
    let objectives = if base.energy.is_some() { "cycles, SRAM bytes, energy" } else { "cycles, SRAM bytes" };
    let invalid = rows.len() - done.len();
    let workload = rows.first().map_or("", |(row, _)| row.workload.as_str());
    let mut verdicts = Vec::new();
    if invalid > 0 {
        let text = format!("{invalid} points make no chip or do not hold the workload; the table says why");
        verdicts.push(Verdict { status: Status::Info, text });
    }
    let of_base = swept.base.clone().unwrap_or_default();
    let doubts = of_base.verdicts.into_iter().filter(|v| matches!(v.status, Status::Bad | Status::Warning));
    verdicts.extend(doubts.map(|v| Verdict { text: format!("before anything is varied: {}", v.text), ..v }));
    Page {
        title: format!("{workload} on variants of {}", base.name),
        subtitle: format!("varied: {}", names.join(", ")),
        verdicts,
        figures: vec![
            figure("points", rows.len().to_string(), ""),
            figure("on the front", best.to_string(), objectives),
            figure("cycles", range(|f| f.total_cycles), ""),
            figure("on-chip bytes", range(|f| f.sram_bytes), ""),
        ],
        sweep: points(swept, &rows, base, &names),
        notes: vec![match &swept.base {
            Some(_) => format!("Roofline and cycles are those of `{}`, before anything is varied.", base.name),
            None => {
                "Joined tables have no layers, so there is neither a roofline nor where the cycles went.".to_owned()
            }
        }],
        roofline: of_base
            .roofline
            .map(|roof| Roof { chip: format!("{} before anything is varied", roof.chip), ..roof }),
        cycles: of_base.cycles,
        ..Page::default()
    }
}

/// The rows, each with what its own configuration allows.
fn points(swept: &Swept, rows: &[(Row, bool)], base: &NpuConfig, names: &[&str]) -> Vec<SweepPoint> {
    let configs = swept.sweep.points().filter_map(|p| Some((p.number, p.config(base).ok()?)));
    let configs: BTreeMap<u64, NpuConfig> = configs.collect();
    let one = |(row, on_front): &(Row, bool)| {
        let point = point(row, *on_front, names);
        let intensity = point.macs as f64 / point.dram_bytes.max(1) as f64;
        let roof = |c: &NpuConfig| (c.n_elements() as f64).min(intensity * c.dram.bytes_per_cycle());
        SweepPoint { roof: configs.get(&row.number).map(roof), ..point }
    };
    rows.iter().map(one).collect()
}

fn point(row: &Row, on_front: bool, names: &[&str]) -> SweepPoint {
    let pairs: Vec<String> = names.iter().zip(&row.values).map(|(name, value)| format!("{name} {value}")).collect();
    let base = SweepPoint { name: pairs.join(", "), on_front, ..SweepPoint::default() };
    match &row.outcome {
        Outcome::Invalid(reason) => SweepPoint { reason: reason.clone(), ..base },
        Outcome::Done(f) => SweepPoint {
            cycles: f.total_cycles,
            sram_bytes: f.sram_bytes,
            dram_bytes: f.dram_bytes,
            macs: f.macs,
            energy_pj: f.energy_fj.map(|fj| fj as f64 / 1e3),
            ..base
        },
    }
}

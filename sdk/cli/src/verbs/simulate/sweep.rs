//! `simulate --sweep`: a row per configuration, in parallel, in shards, taken up again where it stopped.
//!
//! The table grows by whole lines while points finish, in any order; at the end it is written once more, sorted, with the
//! Pareto front. `--resume` keeps the rows whose key is that of this workload, configuration and point.

use super::merge::{Asked, merge};
use super::model::{Workload, energy_text};
use super::{Args, notes, page, read_list};
use crate::failure::{Failure, Result};
use crate::files::read_text;
use crate::options::{check_writable, write_file};
use crate::text::table;
use crate::ui::Answer;
use crate::verbs::Context;
use ottava::page::Page;
use ottava_npu::NpuConfig;
use ottava_npu::layers::{self, Layer};
use ottava_npu::sweep::{Figures, Key, Outcome, Point, Row, Sweep, Table, fingerprint, front};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// The workload.
pub struct Work {
    /// Name of its file.
    name: String,
    kind: Kind,
}

/// What is simulated at every point.
enum Kind {
    /// A model.
    Model(Box<Workload>),
    /// A list of layers.
    Layers(Vec<Layer>),
}

/// A finished sweep.
pub struct Swept {
    /// The sweep.
    pub sweep: Sweep,
    /// Its rows.
    pub table: Table,
    /// The page of the configuration that is varied, if a page is wanted and the workload is at hand.
    pub base: Option<Page>,
}

impl Swept {
    /// The rows with their places on the front.
    pub fn rows(&self) -> Vec<(Row, bool)> {
        let rows: Vec<Row> = self.table.rows().cloned().collect();
        let on_front = front(&rows);
        rows.into_iter().zip(on_front).collect()
    }
}

pub(super) fn bad(path: &Path, what: impl ToString) -> Failure {
    Failure::Error(ottava::Error::invalid(ottava::codes::DATA_FILE, what.to_string()).in_file(path))
}

/// The text of a regular file that is no larger than a list of layers may be.
pub(super) fn text_of(path: &Path) -> Result<String> {
    read_text(path, layers::MAX_BYTES, ottava::codes::DATA_FILE)
}

/// Sweeps, or merges the tables of shards.
pub fn run(args: &Args, spec: &Path, base: &NpuConfig, cx: &Context) -> Result<(Swept, Answer)> {
    let start = Instant::now();
    let sweep = Sweep::parse(&text_of(spec)?, base).map_err(|e| bad(spec, e))?;
    let (table, computed, base_page) = if args.merge.is_empty() {
        let mut table = Table::new(&sweep);
        let (computed, page) = simulate_points(args, &sweep, &mut table, base, cx)?;
        (table, computed, page)
    } else {
        let asked = Asked { sweep: &sweep, spec, base, chip: &args.npu };
        (merge(&args.merge, &asked)?, 0, None)
    };
    write_file(&args.output, table.csv().as_bytes())?;
    let keys = sweep.vary.iter().flat_map(|v| &v.keys).map(String::as_str);
    let ignored = args.list().and_then(|_| layers::ignored(base, keys));
    let swept = Swept { sweep, table, base: base_page };
    let mut answer = answer(&swept, base, &args.output, computed, start.elapsed().as_secs_f64());
    answer.json["diagnostics"] = notes(ignored, cx);
    Ok((swept, answer))
}

/// Simulates the points of this shard that have no row yet; how many those were.
fn simulate_points(
    args: &Args,
    sweep: &Sweep,
    table: &mut Table,
    base: &NpuConfig,
    cx: &Context,
) -> Result<(usize, Option<Page>)> {
    check_writable(&args.output)?;
    let (work, identity) = workload(args, cx)?;
    let shard = args.shard.unwrap_or(ottava::Shard { index: 0, count: 1 });
    let mine = |p: &Point<'_>| p.number % shard.count as u64 == shard.index as u64;
    let points = sweep.points().filter(mine).map(|p| {
        let key = Key::new(identity, base, sweep, &p);
        (p, key)
    });
    let points: Vec<(Point<'_>, Key)> = points.collect();
    if args.resume && args.output.is_file() {
        keep(args, &work, &points, table)?;
    }
    let open: Vec<&(Point<'_>, Key)> = points.iter().filter(|(p, _)| table.get(p.number).is_none()).collect();
    let mut file = begin(&args.output, table)?;
    evaluate(&open, &work, base, cx, |row| {
        let line = Table::line(&row);
        file.write_all(line.as_bytes()).map_err(|e| bad(&args.output, format!("cannot write: {e}")))?;
        table.insert(row).map_err(|e| bad(&args.output, e))
    })?;
    Ok((open.len(), if args.report.is_some() { base_page(args, &work, base, cx) } else { None }))
}

/// The page of the configuration itself; none if it does not hold the workload, which is no error of a sweep.
fn base_page(args: &Args, work: &Work, base: &NpuConfig, cx: &Context) -> Option<Page> {
    match &work.kind {
        Kind::Model(model) => model.on(base, cx, false).ok().map(|on_chip| page::of_model(&on_chip, base)),
        Kind::Layers(list) => {
            let report = layers::simulate(list, base, None).ok()?;
            Some(page::of_layers(args.list()?, &report, base))
        }
    }
}

/// The workload, and a number that stands for it.
fn workload(args: &Args, cx: &Context) -> Result<(Work, u64)> {
    let path = args.workload()?;
    // What is no file of its own may never end; a network may be larger than a list, and its reader knows how large.
    if !path.is_file() {
        return Err(bad(path, "no such file"));
    }
    let bytes = std::fs::read(path).map_err(|e| bad(path, format!("cannot read: {e}")))?;
    let dims: Vec<u8> = format!("{:?} {:?}", args.network.batch, args.network.dim).into_bytes();
    let identity = fingerprint([bytes.as_slice(), dims.as_slice()]);
    let kind = match args.list() {
        Some(list) => Kind::Layers(read_list(list)?),
        None => Kind::Model(Box::new(Workload::load(args, path, cx)?)),
    };
    let name = path.file_name().map_or_else(|| "workload".into(), |n| n.to_string_lossy().into_owned());
    Ok((Work { name: name.replace(char::is_control, " "), kind }, identity))
}

/// Keeps the rows of an earlier run that are results of the same.
fn keep(args: &Args, work: &Work, points: &[(Point<'_>, Key)], table: &mut Table) -> Result<()> {
    let mut old = table.clone();
    old.read(&text_of(&args.output)?).map_err(|e| bad(&args.output, e))?;
    for (point, key) in points {
        if let Some(row) = old.get(point.number).filter(|row| row.key == *key) {
            let row = Row { workload: work.name.clone(), ..row.clone() };
            table.insert(row).map_err(|e| bad(&args.output, e))?;
        }
    }
    Ok(())
}

/// The file with the rows that are known; what replaces the old one is complete before it does.
fn begin(path: &Path, table: &Table) -> Result<File> {
    let mut text = table.header();
    table.rows().for_each(|row| text += &Table::line(row));
    write_file(path, text.as_bytes())?;
    File::options().append(true).open(path).map_err(|e| bad(path, format!("cannot write: {e}")))
}

/// Simulates on all cores; rows come as they finish.
fn evaluate(
    open: &[&(Point<'_>, Key)],
    work: &Work,
    base: &NpuConfig,
    cx: &Context,
    mut done: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let bar = cx.ui.bar("sweep");
    let mut tick = bar.callback();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..cores.min(open.len()) {
            let (send, next, stop) = (send.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some((point, key)) = open.get(next.fetch_add(1, Ordering::Relaxed)).copied() else { return };
                    if send.send(one(point, *key, work, base, cx)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut result = Ok(());
        for (i, row) in receive.iter().enumerate() {
            tick(i as u64 + 1, open.len() as u64);
            if result.is_ok() {
                result = done(row);
                stop.store(result.is_err(), Ordering::Relaxed);
            }
        }
        result
    })
}

fn one(point: &Point<'_>, key: Key, work: &Work, base: &NpuConfig, cx: &Context) -> Row {
    let figures = point.config(base).and_then(|config| {
        // Points that fail are rows; what a library says about them on the way is of no use here.
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::new(), || figures(work, &config, cx))
    });
    let outcome = figures.map_or_else(Outcome::Invalid, Outcome::Done);
    Row { number: point.number, key, workload: work.name.clone(), values: point.cells(), outcome }
}

fn figures(work: &Work, config: &NpuConfig, cx: &Context) -> std::result::Result<Figures, String> {
    match &work.kind {
        Kind::Model(model) => {
            let on_chip = model.on(config, cx, false).map_err(|e| match e {
                Failure::Error(e) => e.detail().message.clone(),
                Failure::Usage(text) | Failure::Check(text) => text,
            })?;
            if on_chip.rows.is_empty() {
                return Err("the chip runs no node of the model".to_owned());
            }
            Ok(on_chip.figures(config))
        }
        Kind::Layers(list) => {
            layers::simulate(list, config, None).map(|r| r.figures(config)).map_err(|e| e.to_string())
        }
    }
}

fn answer(swept: &Swept, base: &NpuConfig, output: &Path, computed: usize, seconds: f64) -> Answer {
    let rows = swept.rows();
    let best: Vec<&Row> = rows.iter().filter(|(_, on_front)| *on_front).map(|(row, _)| row).collect();
    let mut header: Vec<&str> = swept.sweep.vary.iter().map(|v| v.name.as_str()).collect();
    let first = header.len();
    header.extend(["cycles", "SRAM bytes", "DRAM bytes", "energy"]);
    let cells = |row: &&Row| {
        let mut cells = row.values.clone();
        if let Outcome::Done(f) = &row.outcome {
            cells.extend([f.total_cycles, f.sram_bytes, f.dram_bytes].map(|n| n.to_string()));
            let energy = f.energy_fj.map_or("-".to_owned(), ottava_npu::energy::readable);
            cells.push(energy);
        }
        cells
    };
    let right: Vec<usize> = (first..first + 4).collect();
    let mut text = table(&header, &right, best.iter().map(cells));
    let invalid = rows.iter().filter(|(row, _)| matches!(row.outcome, Outcome::Invalid(_))).count();
    text += &format!(
        "\n{} points, {} on the front of cycles, SRAM bytes{}; {invalid} invalid\n{computed} simulated in {seconds:.1} s\n",
        rows.len(),
        best.len(),
        if base.energy.is_some() { " and energy" } else { "" },
    );
    if base.energy.is_none() {
        text += &format!("energy: {}\n", energy_text(base, None));
    }
    text += &format!("written: {}\n", output.display());
    let front: Vec<u64> = best.iter().map(|row| row.number).collect();
    let json = json!({
        "points": rows.len(), "invalid": invalid, "simulated": computed, "front": front, "seconds": seconds,
        "peak_rss_bytes": crate::verbs::bench::peak_rss_bytes(),
    });
    Answer::new(text, json)
}

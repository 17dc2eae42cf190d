//! The measurement: each device runs all of the model that it takes, and its times are read from the profile.
//!
//! What is compared runs interleaved (A B C A B C ...), so the machine's drift hits all alike; the least time counts, and
//! the median is kept beside it. Phases: for each device and each of its options that tuning may set, the values beside
//! the best choice so far; then all devices under their best options, node by node.
//!
//! Time is bounded: a phase ends after the given number of rounds, earlier when no least time has improved for some
//! rounds, and in any case when its share of time is used up (but every candidate has run [`MIN_ROUNDS`] times).

use super::keys;
use super::{Timing, TunedDevice, TunedNodes, Tuning, Variant};
use crate::config::Placement;
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::{OpenDevice, Registry};
use crate::session::{Session, SessionOptions};
use ottava_compiler::{Cx, NodeSignature, canonicalize, integerize, signatures};
use ottava_hal::{Options, Tensor};
use ottava_plan::{Partition, Plan};
use ottava_runtime::{PartitionTime, RunReport};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rounds that every candidate gets.
const MIN_ROUNDS: usize = 3;
/// A phase ends when no candidate has become faster in so many rounds.
const STALE_ROUNDS: usize = 8;
/// What counts as faster then.
const STALE_GAIN: f64 = 0.005;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuneOptions {
    /// Most runs of each candidate in a phase.
    pub runs: usize,
    /// Longest time of a phase.
    pub phase: Duration,
    /// An option is set only if it makes the device faster by this part of its time.
    pub min_gain: f64,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self { runs: 30, phase: Duration::from_secs(20), min_gain: 0.03 }
    }
}

/// A device under some options, with what it took.
struct Candidate {
    device: String,
    /// Its clock is modelled: the host's clock says nothing about it.
    is_simulated: bool,
    options: Options,
    session: Session,
    totals: Vec<u64>,
    nodes: BTreeMap<String, Vec<u64>>,
}

/// What all phases share.
struct Bench<'a> {
    model: &'a Model,
    registry: Registry,
    session: &'a SessionOptions,
    inputs: Vec<Tensor>,
    options: &'a TuneOptions,
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

/// Measures a model on the devices that the configuration names, with inputs in the model's order. A file that the
/// configuration names is left aside.
pub fn tune(
    model: &Model,
    registry: &Registry,
    session: &SessionOptions,
    inputs: Vec<Tensor>,
    options: &TuneOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Tuning> {
    model.expect_graph()?;
    let mut registry = registry.clone();
    registry.config.tuning = None;
    let devices = match &session.device {
        Some(id) => vec![registry.open_one(id, &session.devices)?],
        None => registry.open(&session.devices)?,
    };
    let (key, nodes) = described(model, &registry, session)?;
    let specs: usize = devices.iter().map(|d| tunable(&registry, d).len()).sum();
    let total = (specs as u64 + 1).saturating_mul(options.runs as u64);
    let mut bench = Bench { model, registry, session, inputs, options, done: 0, total, progress };
    let mut tuned = Vec::with_capacity(devices.len());
    for open in &devices {
        tuned.push(bench.device(open, &devices)?);
    }
    let best: Vec<(&OpenDevice, Options)> =
        devices.iter().zip(&tuned).map(|(open, t)| (open, t.chosen.clone())).collect();
    let candidates = bench.phase(&best, &devices)?;
    let nodes = grouped(&nodes, &candidates);
    Ok(Tuning { machine: keys::machine(), model: key, devices: tuned, nodes })
}

/// The key of the model as it is bound, and its nodes.
fn described(
    model: &Model,
    registry: &Registry,
    session: &SessionOptions,
) -> Result<(super::ModelKey, Vec<NodeSignature>)> {
    let dims = model.dims(session.batch.max(1), &session.dims)?;
    let folder = registry.reference()?;
    let mut cx = Cx::new(folder.as_ref());
    let wrong = |e| model.invalid(e);
    let canonical = canonicalize(&model.bind(&dims)?, &mut cx).map_err(wrong)?;
    let quantized = integerize(&canonical, &mut cx).map_err(wrong)?;
    Ok((keys::model(&canonical), signatures(&quantized)))
}

/// Options of a device that tuning may set: key and values. What the configuration or the caller sets stays.
fn tunable(registry: &Registry, open: &OpenDevice) -> Vec<(String, Vec<String>)> {
    let schema = registry.option_schema(&open.driver.name).into_iter();
    let free = schema.filter(|s| !s.tune.is_empty() && !open.options.contains_key(&s.key));
    free.map(|s| (s.key, s.tune.into_iter().filter(|v| *v != s.default).collect())).collect()
}

impl Bench<'_> {
    /// Finds the best options of a device, one after the other.
    fn device(&mut self, open: &OpenDevice, all: &[OpenDevice]) -> Result<TunedDevice> {
        let key = keys::device(&self.registry, open)?;
        let (mut chosen, mut variants) = (Options::new(), Vec::<Variant>::new());
        for (option, values) in tunable(&self.registry, open) {
            let with = |value: &String| {
                let mut options = chosen.clone();
                options.insert(option.clone(), value.clone());
                (open, options)
            };
            let mut wanted = vec![(open, chosen.clone())];
            wanted.extend(values.iter().map(with));
            let candidates = self.phase(&wanted, all)?;
            let times: Vec<Variant> = candidates
                .iter()
                .filter(|c| c.totals.iter().any(|ns| *ns > 0))
                .map(|c| Variant { options: c.options.clone(), time: c.time() })
                .collect();
            if let Some(best) = better(&times, self.options.min_gain) {
                chosen = best.options.clone();
            }
            variants.retain(|v| !times.iter().any(|t| t.options == v.options));
            variants.extend(times);
        }
        Ok(TunedDevice { id: open.id.clone(), key, chosen, variants })
    }

    /// Runs candidates interleaved.
    fn phase(&mut self, wanted: &[(&OpenDevice, Options)], all: &[OpenDevice]) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::with_capacity(wanted.len());
        for (open, options) in wanted {
            candidates.push(self.candidate(open, options, all)?);
        }
        for c in &candidates {
            c.session.run_ordered(&self.inputs, true)?;
        }
        let begin = Instant::now();
        for round in 1..=self.options.runs {
            for c in &mut candidates {
                c.run(&self.inputs)?;
            }
            (self.progress)(self.done.saturating_add(round as u64), self.total);
            let enough = begin.elapsed() >= self.options.phase || candidates.iter().all(|c| is_stale(&c.totals));
            if round >= MIN_ROUNDS && enough {
                break;
            }
        }
        self.done = self.done.saturating_add(self.options.runs as u64);
        (self.progress)(self.done, self.total);
        Ok(candidates)
    }

    /// A session in which a device gets every node that it takes.
    fn candidate(&self, open: &OpenDevice, options: &Options, all: &[OpenDevice]) -> Result<Candidate> {
        let others = all.iter().map(|d| d.id.clone()).filter(|id| *id != open.id);
        let mut registry = self.registry.clone();
        registry.config.placement = Placement::Priority(std::iter::once(open.id.clone()).chain(others).collect());
        registry.config.pins.clear();
        let mut session = self.session.clone();
        session.devices.tuned.insert(open.id.clone(), options.clone());
        let session = Session::new(self.model, &registry, &session)?;
        let is_simulated = open.device.info().simulated;
        let (device, options) = (open.id.clone(), options.clone());
        Ok(Candidate { device, is_simulated, options, session, totals: Vec::new(), nodes: BTreeMap::new() })
    }
}

impl Candidate {
    /// One run.
    fn run(&mut self, inputs: &[Tensor]) -> Result<()> {
        let report = self.session.run_ordered(inputs, true)?.1;
        let mut total = 0u64;
        for (partition, time) in pairs(self.session.plan(), &report, &self.device)? {
            for (node, ns) in split(self.session.plan(), partition, time, self.is_simulated) {
                total = total.saturating_add(ns);
                self.nodes.entry(node.to_owned()).or_default().push(ns);
            }
        }
        self.totals.push(total);
        Ok(())
    }

    /// Time of all nodes of the device: the sum of each node's own figures, because another program interrupts a long
    /// run almost surely, and the same short node rarely in all of its runs.
    fn time(&self) -> Timing {
        let empty = Timing { best_ns: 0, median_ns: 0, runs: self.totals.len() };
        self.nodes.values().map(|samples| timing(samples)).fold(empty, |sum, t| Timing {
            best_ns: sum.best_ns.saturating_add(t.best_ns),
            median_ns: sum.median_ns.saturating_add(t.median_ns),
            ..sum
        })
    }
}

/// The partitions of a device with their times. A device runs its partitions in the order of the plan.
fn pairs<'a>(plan: &'a Plan, report: &'a RunReport, id: &str) -> Result<Vec<(&'a Partition, &'a PartitionTime)>> {
    let partitions: Vec<&Partition> = plan.partitions.iter().filter(|p| p.device == id).collect();
    let times: Vec<&PartitionTime> = report.partitions.iter().filter(|t| t.device == id).collect();
    if partitions.len() != times.len() {
        let what = format!("the device `{id}` gave no times of its {} partitions", partitions.len());
        return Err(Error::failed(codes::DEVICE_FAILED, what).help("a device was lost meanwhile; measure again"));
    }
    Ok(partitions.into_iter().zip(times).collect())
}

/// The time of each node of a partition. They add up to the time of the partition: what the host's clock says, or, for a
/// simulator, what it models. A node without a time of its own ran inside another; where no node has one, the estimates
/// say how they share the whole.
fn split<'a>(plan: &Plan, partition: &'a Partition, time: &PartitionTime, is_simulated: bool) -> Vec<(&'a str, u64)> {
    let weight = |name: &str| -> u64 {
        if time.nodes.is_empty() {
            let placed = plan.placed.iter().find(|p| p.node == name);
            let own = placed.and_then(|p| p.opinions.iter().find(|o| o.device == partition.device));
            return own.map_or(1, |o| o.cost_ns.max(1));
        }
        time.nodes.iter().filter(|t| t.node == name).fold(0, |n, t| n.saturating_add(t.duration_ns))
    };
    let names = partition.program.nodes.iter().map(|n| n.name.as_str());
    let mut parts: Vec<(&str, u64)> = names.map(|name| (name, weight(name))).collect();
    let sum = parts.iter().map(|(_, w)| u128::from(*w)).sum::<u128>().max(1);
    let whole = if is_simulated { partition.est_ns } else { time.duration_ns };
    let share = |w: u64| u64::try_from(u128::from(whole) * u128::from(w) / sum).unwrap_or(u64::MAX);
    parts.iter_mut().for_each(|(_, w)| *w = share(*w));
    parts
}

/// No run of the last few was clearly faster than those before.
fn is_stale(totals: &[u64]) -> bool {
    let Some(cut) = totals.len().checked_sub(STALE_ROUNDS).filter(|cut| *cut > 0) else { return false };
    let least = |part: &[u64]| part.iter().copied().min().unwrap_or(0) as f64;
    least(&totals[cut..]) >= least(&totals[..cut]) * (1.0 - STALE_GAIN)
}

fn timing(samples: &[u64]) -> Timing {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = |i: usize| sorted.get(i).copied().unwrap_or(0);
    Timing { best_ns: at(0), median_ns: at(sorted.len() / 2), runs: sorted.len() }
}

/// The fastest of the others, if it gains enough over the first.
fn better(times: &[Variant], min_gain: f64) -> Option<&Variant> {
    let (first, others) = times.split_first()?;
    let best = others.iter().min_by_key(|v| v.time.best_ns)?;
    let is_enough = (best.time.best_ns as f64) < first.time.best_ns as f64 * (1.0 - min_gain);
    is_enough.then_some(best)
}

/// Nodes by signature, in the order of the model. A signature costs the mean of its nodes.
fn grouped(nodes: &[NodeSignature], candidates: &[Candidate]) -> Vec<TunedNodes> {
    let mut list: Vec<TunedNodes> = Vec::new();
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    for n in nodes {
        let i = *at.entry(&n.signature).or_insert(list.len());
        if i == list.len() {
            let (signature, op) = (n.signature.clone(), n.op.clone());
            list.push(TunedNodes { signature, op, nodes: Vec::new(), costs: BTreeMap::new() });
        }
        list[i].nodes.push(n.node.clone());
    }
    for group in &mut list {
        for c in candidates {
            let times: Vec<Timing> =
                group.nodes.iter().filter_map(|name| c.nodes.get(name)).map(|s| timing(s)).collect();
            if let Some(time) = mean(&times) {
                group.costs.insert(c.device.clone(), time);
            }
        }
    }
    list
}

fn mean(times: &[Timing]) -> Option<Timing> {
    let runs = times.iter().map(|t| t.runs).min()?;
    let of = |part: fn(&Timing) -> u64| {
        let sum: u128 = times.iter().map(|t| u128::from(part(t))).sum();
        u64::try_from(sum / times.len() as u128).unwrap_or(u64::MAX)
    };
    Some(Timing { best_ns: of(|t| t.best_ns), median_ns: of(|t| t.median_ns), runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_goes_on_while_something_improves() {
        assert!(!is_stale(&[100; STALE_ROUNDS]));
        assert!(is_stale(&[100; STALE_ROUNDS + 1]));
        let mut improving = vec![100; STALE_ROUNDS];
        improving.push(90);
        assert!(!is_stale(&improving));
    }

    #[test]
    fn an_option_is_set_only_for_a_gain() {
        let variant = |value: &str, best_ns| Variant {
            options: Options::from([("threads".into(), value.into())]),
            time: Timing { best_ns, median_ns: best_ns, runs: 1 },
        };
        let times = [variant("2", 1000), variant("1", 980), variant("4", 900)];
        assert_eq!(better(&times, 0.03).map(|v| v.options["threads"].as_str()), Some("4"));
        assert!(better(&times[..2], 0.03).is_none() && better(&[], 0.03).is_none());
    }

    #[test]
    fn times_are_the_least_and_the_middle_of_what_was_measured() {
        assert_eq!(timing(&[5, 3, 9]), Timing { best_ns: 3, median_ns: 5, runs: 3 });
        let (a, b) = (timing(&[10]), timing(&[20, 40]));
        assert_eq!(mean(&[a, b]), Some(Timing { best_ns: 15, median_ns: 25, runs: 1 }));
        assert_eq!(mean(&[]), None);
    }
}

//! `simulate --speed`: how fast the simulator itself is, in multiply-accumulates per second of one core.
//!
//! A figure is the least and the median of several slices; a slice repeats its work until it is long enough for the clock.
//! Time is what the threads of this process were on a processor, where the system tells (Linux), because other load on
//! the machine hardly moves that; elsewhere it is wall time. Work of several threads adds up, so `--threads 1` is right.

use super::model::Workload;
use crate::failure::{Failure, Result};
use crate::ui::Answer;
use crate::verbs::Context;
use crate::verbs::bench::{quantile, random};
use ottava::{Session, Tensor};
use ottava_npu::config::NpuConfig;
use ottava_npu::layers::{self, Layer};
use ottava_npu::timing::Timed;
use ottava_npu::{Stream, Violation};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a slice is at least.
const SLICE: Duration = Duration::from_millis(100);

/// Seconds of one repetition, by slice.
struct Slices {
    seconds: Vec<f64>,
    on_processor: bool,
}

impl Slices {
    /// Measures `n` slices; the first repetition is not counted.
    fn of(n: u32, mut work: impl FnMut() -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        work()?;
        let once = start.elapsed().as_secs_f64().max(1e-9);
        let repetitions = (SLICE.as_secs_f64() / once).ceil().clamp(1.0, 1e6) as u32;
        let mut slices = Self { seconds: Vec::new(), on_processor: true };
        for _ in 0..n {
            let before = on_processor();
            let start = Instant::now();
            (0..repetitions).try_for_each(|_| work())?;
            let wall = start.elapsed().as_secs_f64();
            let spent = before.zip(on_processor()).map(|(before, after)| after.saturating_sub(before));
            slices.on_processor &= spent.is_some();
            let seconds = spent.map_or(wall, |spent| spent.as_secs_f64());
            slices.seconds.push(seconds / f64::from(repetitions));
        }
        slices.seconds.sort_by(f64::total_cmp);
        Ok(slices)
    }

    fn json(&self, macs: u64) -> Value {
        let rate = |seconds: f64| if seconds > 0.0 { macs as f64 / seconds / 1e9 } else { 0.0 };
        let (least, median) = (quantile(&self.seconds, 0.0), quantile(&self.seconds, 0.5));
        json!({
            "min_ms": least * 1e3, "median_ms": median * 1e3, "gmacs_per_s": rate(least),
            "median_gmacs_per_s": rate(median), "slices": self.seconds.len(),
            "clock": if self.on_processor { "processor" } else { "wall" },
        })
    }
}

/// Time of all threads of this process on processors.
fn on_processor() -> Option<Duration> {
    // The system books a thread's time when it stops, so this one stops for a moment.
    std::thread::sleep(Duration::from_millis(1));
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let time = |task: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.map(time).sum::<Option<u64>>().map(Duration::from_nanos)
}

/// Of a list of layers: its closed forms.
pub fn of_layers(list: &[Layer], config: &NpuConfig, n: u32, answer: &mut Answer) -> Result<()> {
    let simulate = || layers::simulate(list, config, None).map_err(|e| super::wrong_list(&e));
    let macs = simulate()?.totals.macs;
    let timing = Slices::of(n, || simulate().map(drop))?;
    say(answer, json!({ "macs": macs, "timing": timing.json(macs) }));
    Ok(())
}

/// Of a model: what a chip's compiler and verifier take, the timing of finished instructions, an inference, and timing and
/// inference together. The outputs of the chip must be those of the reference before anything is measured.
pub fn of_model(workload: &Workload, config: &NpuConfig, n: u32, cx: &Context, answer: &mut Answer) -> Result<()> {
    let placed = workload.place(config, cx, false)?;
    let (macs, streams) = (placed.times()?.counters().macs, placed.streams()?);
    let session = placed.session()?;
    let inputs = inputs(&session)?;
    let run = || -> Result<Vec<Tensor>> { Ok(session.run_ordered(&inputs, false)?.0) };
    if run()? != workload.reference(cx)?.run_ordered(&inputs, false)?.0 {
        answer.failed = Some("the outputs of the chip are not those of the reference; nothing was measured".to_owned());
        answer.json["speed"] = json!({ "equal_to_reference": false });
        return Ok(());
    }
    let time = || -> Result<()> { streams.iter().try_for_each(|stream| timed(config, stream)) };
    let compiled = Slices::of(n, || placed.times().map(drop))?;
    let timing = Slices::of(n, time)?;
    let functional = Slices::of(n, || run().map(drop))?;
    let both = Slices::of(n, || time().and_then(|()| run()).map(drop))?;
    let figures = json!({
        "macs": macs, "equal_to_reference": true, "compile_and_verify": compiled.json(macs), "timing": timing.json(macs),
        "functional": functional.json(macs), "functional_and_timing": both.json(macs),
    });
    say(answer, figures);
    Ok(())
}

fn timed(config: &NpuConfig, stream: &Stream) -> Result<()> {
    let refused = |e: Violation| Failure::Error(ottava::Error::failed(ottava::codes::DEVICE_FAILED, e.to_string()));
    Timed::of(config, stream).map(drop).map_err(refused)
}

/// Random valid data.
fn inputs(session: &Session) -> Result<Vec<Tensor>> {
    let one = |(i, (name, ty)): (usize, &(String, ottava::TensorType))| {
        let open = || Failure::Usage(format!("input `{name}` has open sizes; give them with `--dim` or `--batch`"));
        Ok(random(ty.dtype, &ty.shape.known().ok_or_else(open)?, i as u64)?)
    };
    session.inputs().iter().enumerate().map(one).collect()
}

/// Adds the figures to what was said.
fn say(answer: &mut Answer, figures: Value) {
    for what in ["compile_and_verify", "timing", "functional", "functional_and_timing"] {
        let Some(f) = figures.get(what) else { continue };
        let number = |key: &str| f[key].as_f64().unwrap_or(0.0);
        answer.text += &format!(
            "speed, {}: {:.2} GMAC/s at best, {:.2} in the median ({:.3} and {:.3} ms, {} time)\n",
            what.replace('_', " "),
            number("gmacs_per_s"),
            number("median_gmacs_per_s"),
            number("min_ms"),
            number("median_ms"),
            f["clock"].as_str().unwrap_or("wall"),
        );
    }
    answer.json["speed"] = figures;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_counted_and_sorted() {
        let mut calls = 0;
        let slices = Slices::of(3, || {
            calls += 1;
            std::thread::sleep(Duration::from_millis(60));
            Ok(())
        });
        let slices = slices.unwrap();
        assert!(slices.seconds.len() == 3 && slices.seconds.is_sorted());
        assert!(calls > 3, "{calls} calls");
        assert_eq!(slices.json(0)["gmacs_per_s"], 0.0);
    }
}

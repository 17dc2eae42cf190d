//! What is said about a model on a chip: a table for people, CSV, the JSON document.

use super::elsewhere::{self, Elsewhere};
use super::model::{OnChip, energy_json, energy_text, utilization};
use crate::text::{count, table};
use crate::ui::Answer;
use ottava_driver_npu::NodeCycles;
use ottava_npu::Counters;
use ottava_npu::config::NpuConfig;
use ottava_npu::isa::Queue;
use ottava_npu::sweep;
use ottava_npu::timing::Reason;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

impl OnChip {
    /// One row per node, in the columns that tables of layers have, then the reasons and the other counters.
    pub fn csv(&self, config: &NpuConfig) -> String {
        let mut text = String::from(
            "set,layer,kind,M,N,K,channels,macs_total,array_rows,array_cols,dataflow,Total Cycles,Stall Cycles,\
             Overall Util %,mapping,compute",
        );
        Reason::ALL.iter().for_each(|r| text += &format!(",{}", r.name()));
        text += ",dram_bytes";
        Counters::default().entries().iter().for_each(|(name, _)| text += &format!(",{name}"));
        text += "\n";
        let dataflow = format!("{:?}", config.array.dataflow).to_lowercase();
        for (r, shape) in self.rows.iter().zip(&self.shapes) {
            let util = utilization(r.macs, r.total, config) * 100.0;
            let stalled: u64 = r.stalls.values().sum();
            let [m, n, k] = shape.mnk;
            text += &format!("{},{},{}", cell(&self.name), cell(&r.node), cell(&shape.kind));
            text += &format!(",{m},{n},{k},{}", shape.channels);
            text += &format!(",{},{},{},{dataflow}", r.macs, config.array.rows, config.array.cols);
            text += &format!(",{},{stalled},{util:.3},{},{}", r.total, shape.mapping, r.compute);
            for reason in Reason::ALL {
                text += &format!(",{}", r.stalls.get(reason.name()).copied().unwrap_or(0));
            }
            text += &format!(",{}", r.dram_bytes);
            r.counters.entries().iter().for_each(|(_, n)| text += &format!(",{n}"));
            text += "\n";
        }
        text
    }

    /// What is said about it.
    pub fn answer(&self, config: &NpuConfig, output: &Path) -> Answer {
        let figures = self.figures(config);
        let share = utilization(figures.macs, figures.total_cycles, config);
        let header = ["node", "MACs", "cycles", "computing", "longest stall", "utilization"];
        let mut text = table(&header, &[1, 2, 3, 5], self.rows.iter().map(|r| cells(r, config)));
        let list: Vec<String> =
            self.stalls().iter().filter(|(_, n)| **n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
        text += &format!(
            "\n{}: {} cycles, {} of them computing, {:.1} % of its peak\nstalls: {}\n\
             cold start {}, drain {}, both in the total\n\
             memory: {} bytes moved; of {} nodes {} bytes stay on the chip for the next ones\nenergy: {}\n",
            config.name,
            figures.total_cycles,
            figures.compute_cycles,
            share * 100.0,
            list.join(", "),
            self.edges().0,
            self.edges().1,
            figures.dram_bytes,
            self.kept().0,
            self.kept().1,
            energy_text(config, figures.energy_fj)
        );
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        self.elsewhere.iter().for_each(|e| *kinds.entry(&e.op).or_default() += 1);
        let kinds: Vec<String> = kinds.iter().map(|(op, n)| format!("{n} {op}")).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        let mostly = elsewhere::mostly(&self.elsewhere, figures.macs);
        text += &mostly.map_or_else(String::new, |line| line + "\n");
        text += &format!("{} nodes run on other devices{kinds}\nwritten: {}\n", self.elsewhere.len(), output.display());
        Answer::new(text, self.json(config, &figures, share))
    }

    fn json(&self, config: &NpuConfig, figures: &sweep::Figures, share: f64) -> serde_json::Value {
        let counters = |c: &Counters| c.entries().into_iter().collect::<BTreeMap<_, _>>();
        let layer = |r: &NodeCycles| {
            json!({
                "name": r.node, "macs": r.macs, "total_cycles": r.total, "compute_cycles": r.compute,
                "stall_cycles": r.stalls, "dram_bytes": r.dram_bytes, "kept_on_chip": r.kept_on_chip,
                "counters": counters(&r.counters),
                "utilization": utilization(r.macs, r.total, config),
            })
        };
        json!({
            "total_cycles": figures.total_cycles, "compute_cycles": figures.compute_cycles,
            "stall_cycles": self.stalls(), "dram_bytes": figures.dram_bytes, "macs": figures.macs, "utilization": share,
            "energy": energy_json(config, figures.energy_fj), "queues": self.queues(),
            "cold_start_cycles": self.edges().0, "drain_cycles": self.edges().1,
            "counters": counters(&self.counters()),
            "kept_on_chip": { "layers": self.kept().0, "bytes": self.kept().1 },
            "layers": self.rows.iter().map(layer).collect::<Vec<_>>(),
            "nodes_elsewhere": self.elsewhere.len(),
            "elsewhere": self.elsewhere.iter().map(Elsewhere::json).collect::<Vec<_>>(),
            "macs_elsewhere": elsewhere::macs(&self.elsewhere),
        })
    }

    /// Busy and waiting cycles of each queue.
    fn queues(&self) -> serde_json::Value {
        let one = |queue: Queue| {
            let times = || self.parts.iter().map(|(timed, _)| timed.timing.queue(queue));
            let stalls = |r: &Reason| (r.name(), times().map(|t| t.stalls[*r as usize]).sum::<u64>());
            let stalls: BTreeMap<&str, u64> = Reason::ALL.iter().map(stalls).collect();
            (queue.name(), json!({ "busy": times().map(|t| t.busy).sum::<u64>(), "stall_cycles": stalls }))
        };
        Queue::ALL
            .into_iter()
            .map(one)
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect()
    }
}

fn cells(r: &NodeCycles, config: &NpuConfig) -> Vec<String> {
    let worst = r.stalls.iter().max_by_key(|(_, n)| **n).filter(|(_, n)| **n > 0);
    let worst = worst.map_or("-".to_owned(), |(reason, n)| format!("{reason} {n}"));
    let share = format!("{:.1} %", utilization(r.macs, r.total, config) * 100.0);
    vec![r.node.clone(), count(r.macs), r.total.to_string(), r.compute.to_string(), worst, share]
}

fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

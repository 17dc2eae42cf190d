//! Keys of a configuration that make no difference to a list of layers: closed forms know no instructions, no words of a
//! memory and no rows of a DRAM. Who sets or varies one is told so.

use crate::NpuConfig;
use crate::sweep::{keys, place};
use std::collections::BTreeSet;

/// Keys, or groups of them, that the closed forms do not read.
const IGNORED: [&str; 22] = [
    "crc",
    "dma.channels",
    "dma.in_flight",
    "dma.max_burst",
    "dram.banks",
    "dram.channels",
    "dram.interleave",
    "dram.row_bytes",
    "dram.row_miss",
    "dram.turnaround",
    "fault",
    "fusion",
    "parity",
    "queues",
    "sram.a.banks",
    "sram.a.port_bytes",
    "sram.a.ports",
    "sram.acc.banks",
    "sram.w.banks",
    "sram.w.port_bytes",
    "sram.w.ports",
    "vector.cycles",
];

fn is_ignored(key: &str) -> bool {
    let below = |group: &str| key.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    IGNORED.iter().any(|group| below(group))
}

/// What is said about the keys that a list of layers does not see: those with another value than the default, and those
/// among `varied`. `None` if there is none.
pub fn ignored<'k>(config: &NpuConfig, varied: impl IntoIterator<Item = &'k str>) -> Option<String> {
    let documents = (serde_json::to_value(config), serde_json::to_value(NpuConfig::default()));
    let (Ok(mut own), Ok(mut usual)) = documents else { return None };
    let differs = |key: &String| place(&mut own, key) != place(&mut usual, key);
    let mut found: BTreeSet<String> = keys(config).into_iter().filter(|k| is_ignored(k)).filter(differs).collect();
    found.extend(varied.into_iter().filter(|k| is_ignored(k)).map(str::to_owned));
    let list: Vec<String> = found.iter().map(|key| format!("`{key}`")).collect();
    let text = || {
        format!("a list of layers has closed forms, which do not use {}; a model has cycles that do", list.join(", "))
    };
    (!list.is_empty()).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_effect_are_named() {
        let parse = |text: &str| NpuConfig::parse(text).unwrap();
        let used =
            parse("Npu(array: (rows: 8), sram: (a: (bytes: 65536)), dram: Simple(bytes_per_cycle: 4.0, latency: 9))");
        assert_eq!(ignored(&used, ["array.cols", "dram.latency"]), None);
        let text = ignored(&used, ["queues.decode_cycles", "array.rows"]).unwrap();
        assert!(text.contains("`queues.decode_cycles`;"), "{text}");
        let banked = "dram: Banked(bytes_per_cycle: 4.0, latency: 9, channels: 2, banks: 4, row_bytes: 1024, row_miss: 20, \
                      turnaround: 4)";
        let text = ignored(&parse(&format!("Npu(dma: (in_flight: 3), {banked})")), []).unwrap();
        let list = "use `dma.in_flight`, `dram.banks`, `dram.channels`, `dram.interleave`, `dram.row_bytes`";
        assert!(text.contains(list), "{text}");
    }
}

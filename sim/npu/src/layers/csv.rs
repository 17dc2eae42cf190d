//! The report as CSV: one row per layer, in the columns of SCALE-Sim's reports, then the columns that it does not have.

use super::{LayerReport, Report};
use crate::analytic::utilization;
use std::borrow::Cow;
use std::fmt::Write;

/// The columns, in order.
const COLUMNS: &str = "set,layer,kind,M,N,K,channels,macs_total,array_rows,array_cols,dataflow,\
    closed_form_cycles_per_ch,Total Cycles (incl. prefetch),Total Cycles,Stall Cycles,Overall Util %,\
    Mapping Efficiency %,Compute Util %,SRAM IFMAP Reads,SRAM Filter Reads,SRAM OFMAP Writes,DRAM IFMAP Reads,\
    DRAM Filter Reads,DRAM OFMAP Writes,DRAM Partial Sum Reads,mapping,count";

impl Report {
    /// One row per layer. `Total Cycles` is the last index of the array's cycles, without waiting.
    pub fn csv(&self) -> String {
        let mut text = format!("{COLUMNS}\n");
        for layer in &self.layers {
            self.row(&mut text, layer);
        }
        text
    }

    fn row(&self, text: &mut String, layer: &LayerReport) {
        let LayerReport { kind, m, n, k, channels, totals, dram, mapping, count, .. } = layer;
        let (rows, cols, dataflow) = (self.array_rows, self.array_cols, self.dataflow);
        let [index, total_index] = [totals.compute_cycles, totals.total_cycles].map(|cycles| cycles.saturating_sub(1));
        let percent = |cycles| 100.0 * utilization(totals.macs, cycles, rows, cols);
        let writes = dram.o_writes.saturating_add(dram.psum_writes);
        // Writing to a string cannot fail.
        let _ = write!(text, "{},{},{kind},{m},{n},{k},{channels}", cell(&layer.network), cell(&layer.name));
        let _ = write!(text, ",{},{rows},{cols},{dataflow},{}", totals.macs, layer.channel_cycles);
        let _ = write!(text, ",{total_index},{index},{}", totals.stall_cycles.sum());
        let _ = write!(text, ",{},{}", percent(index), 100.0 * layer.mapping_efficiency);
        let _ = write!(text, ",{}", percent(totals.compute_cycles));
        let _ = write!(text, ",{},{},{}", layer.sram_a_reads, layer.sram_w_reads, layer.sram_o_writes);
        let _ = write!(text, ",{},{},{writes},{}", dram.a_reads, dram.w_reads, dram.psum_reads);
        let _ = writeln!(text, ",{},{count}", cell(mapping));
    }
}

/// A cell, quoted where it has to be.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use crate::NpuConfig;
    use crate::layers::{parse, simulate};

    #[test]
    fn the_columns_are_those_of_the_header_and_cells_are_quoted() {
        let layers = parse("layer,kind,M,N,K\n\"a,b\",gemm,1,1,1\n", "l.csv").unwrap();
        let csv = simulate(&layers, &NpuConfig::default(), None).unwrap().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with(",\"a,b\",gemm,1,1,1,1,1,16,16,ws,47,"), "{}", lines[1]);
        assert_eq!(lines[1].replace("\"a,b\"", "ab").split(',').count(), lines[0].split(',').count());
    }
}

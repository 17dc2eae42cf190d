//! Energy of a run: events times the table of the configuration, as integers.
//!
//! Entries of the table are picojoules; they are rounded once to femtojoules, and sums are exact `u128`. The figures are
//! as good as the table, whose `source` travels with them. Without a table there is no figure: never zero.

use crate::config::Energy;
use crate::machine::Counters;

/// What reports print where a configuration has no table.
pub const NO_TABLE: &str = "no energy table";

/// Energy by kind of event, in femtojoules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Name of the table's entry, events, femtojoules.
    pub items: Vec<(&'static str, u64, u128)>,
}

impl Bill {
    /// All of it.
    pub fn total_fj(&self) -> u128 {
        self.items.iter().fold(0, |sum, (.., fj)| sum.saturating_add(*fj))
    }

    /// All of it in picojoules, rounded down.
    pub fn total_pj(&self) -> u128 {
        self.total_fj() / 1000
    }
}

/// Femtojoules of an entry; checked tables hold 0 to 1e9 pJ.
fn femto(picojoules: f64) -> u64 {
    (picojoules * 1000.0).round() as u64
}

/// The bill of a run or of a part of it.
pub fn bill(table: &Energy, c: &Counters, cycles: u64) -> Bill {
    let macs_s8 = c.macs.saturating_sub(c.macs_s16).saturating_sub(c.macs_f16);
    let dram = c.dram_bytes_read.saturating_add(c.dram_bytes_written);
    let rows = [
        ("mac_s8", macs_s8, table.mac_s8),
        ("mac_s16", c.macs_s16, table.mac_s16),
        ("mac_f16", c.macs_f16, table.mac_f16),
        ("sram_rd_byte", c.sram_bytes_read, table.sram_rd_byte),
        ("sram_wr_byte", c.sram_bytes_written, table.sram_wr_byte),
        ("acc_rd", c.acc_read, table.acc_rd),
        ("acc_wr", c.acc_written, table.acc_wr),
        ("dram_byte", dram, table.dram_byte),
        ("vec_op", c.vector_ops, table.vec_op),
        ("instr", c.instructions, table.instr),
        ("static_per_cycle", cycles, table.static_per_cycle),
    ];
    let item =
        |(name, events, pj): (&'static str, u64, f64)| (name, events, u128::from(events) * u128::from(femto(pj)));
    Bill { items: rows.into_iter().map(item).collect() }
}

/// Picojoules with a unit, for people.
pub fn readable(femtojoules: u128) -> String {
    let fj = femtojoules as f64;
    match fj {
        _ if fj < 1e6 => format!("{:.1} pJ", fj / 1e3),
        _ if fj < 1e9 => format!("{:.2} nJ", fj / 1e6),
        _ if fj < 1e12 => format!("{:.2} µJ", fj / 1e9),
        _ if fj < 1e15 => format!("{:.3} mJ", fj / 1e12),
        _ => format!("{:.3} J", fj / 1e15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Energy {
        Energy {
            source: "made up".into(),
            mac_s8: 0.2,
            mac_s16: 0.8,
            mac_f16: 1.0,
            sram_rd_byte: 1.25,
            sram_wr_byte: 1.5,
            acc_rd: 2.0,
            acc_wr: 2.5,
            dram_byte: 40.0,
            vec_op: 0.5,
            instr: 3.0,
            static_per_cycle: 0.0004,
        }
    }

    #[test]
    fn events_times_entries_are_exact() {
        let c = Counters { macs: 10, macs_s16: 4, dram_bytes_read: 3, dram_bytes_written: 5, ..Counters::default() };
        let bill = bill(&table(), &c, 7);
        // 6 * 200 + 4 * 800 + 8 * 40000 fJ; 0.4 fJ per cycle rounds to nothing.
        assert_eq!(bill.total_fj(), 1200 + 3200 + 320_000);
        assert_eq!((bill.items.len(), bill.total_pj()), (11, 324));
    }

    #[test]
    fn the_largest_counts_fit() {
        let c = Counters { dram_bytes_read: u64::MAX, ..Counters::default() };
        let most = Energy { dram_byte: 1e9, ..table() };
        assert_eq!(bill(&most, &c, u64::MAX).total_fj(), u128::from(u64::MAX) * 1_000_000_000_000);
    }

    #[test]
    fn figures_have_units() {
        let texts = [1_500, 2_000_000, 3_000_000_000, 4_500_000_000_000].map(readable);
        assert_eq!(texts, ["1.5 pJ", "2.00 nJ", "3.00 µJ", "4.500 mJ"]);
    }
}

//! Event counters with stable names.

macro_rules! counters {
    ($($field:ident $doc:literal;)*) => {
        /// Counts of events in a run or in one node of it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $(#[doc = $doc] pub $field: u64,)*
        }

        impl Counters {
            /// Adds another count; sums stick at the greatest u64.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// Name and value of each counter, in the documented order.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}

counters! {
    instructions "Queued instructions.";
    macs "Multiply-accumulate operations.";
    macs_s16 "Those of them with 16-bit operands.";
    macs_f16 "Those of them with floating-point operands.";
    vector_ops "Elementary operations of the vector unit.";
    dram_bytes_read "Bytes read from DRAM.";
    dram_bytes_written "Bytes written to DRAM.";
    sram_bytes_read "Bytes read from the scratchpads.";
    sram_bytes_written "Bytes written to the scratchpads.";
    acc_read "Accumulators read.";
    acc_written "Accumulators written.";
    dma_transfers "Tile transfers.";
    dma_bursts "Bursts on the memory bus.";
    requantized "Elements through the requantizer.";
    saturated_low "Outputs raised to the lower clamp.";
    saturated_high "Outputs lowered to the upper clamp.";
    lut_lookups "Table lookups.";
    tokens "Tokens waited for.";
    events "WAIT and SIGNAL instructions.";
    bank_conflicts "Cycles in which the array or the vector unit waited for a bank of a scratchpad.";
    row_hits "Accesses of rows that the DRAM had open.";
    row_misses "Accesses for which the DRAM opened a row.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_names() {
        let mut a = Counters { macs: 5, ..Counters::default() };
        a.add(&Counters { macs: u64::MAX, lut_lookups: 2, ..Counters::default() });
        assert_eq!((a.macs, a.lut_lookups), (u64::MAX, 2));
        assert_eq!(a.entries()[1], ("macs", u64::MAX));
        assert_eq!(a.entries().len(), 22);
    }
}

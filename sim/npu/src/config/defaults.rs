//! The values of keys that are left out: those of the preset `edge16`.

use super::{
    Accumulator, Array, Dataflow, Depth, Depthwise, Dma, Dram, NpuConfig, NpuType, Overlap, Queues, RequantKind,
    Scratchpad, Sram, Timing, Vector,
};

impl Default for NpuConfig {
    fn default() -> Self {
        Self {
            name: "edge16".to_owned(),
            clock_hz: 500_000_000,
            array: Array::default(),
            sram: Sram::default(),
            vector: Vector::default(),
            dma: Dma::default(),
            queues: Queues::default(),
            dram: Dram::Simple { bytes_per_cycle: 16.0, latency: 100 },
            dtypes: vec![NpuType::S8, NpuType::U8, NpuType::S4, NpuType::S16, NpuType::Bf16],
            requant: vec![RequantKind::Fp32Rne, RequantKind::Q31Double, RequantKind::Q31Single],
            energy: None,
            fault: Vec::new(),
            crc: false,
            parity: false,
            fusion: true,
            watchdog_cycles: None,
            realtime: None,
        }
    }
}

impl Default for Array {
    fn default() -> Self {
        Self {
            rows: 16,
            cols: 16,
            dataflow: Dataflow::Ws,
            timing: Timing::Pipelined,
            depthwise: Depthwise::Best,
            ports: None,
        }
    }
}

impl Default for Scratchpad {
    fn default() -> Self {
        Self { bytes: 262_144, banks: 4, ports: 1, port_bytes: 16 }
    }
}

impl Default for Accumulator {
    fn default() -> Self {
        Self { bytes: 65_536, banks: 2 }
    }
}

impl Default for Vector {
    fn default() -> Self {
        let cycles = [("add", 1), ("lut8", 1), ("exp", 4)];
        Self { lanes: 16, cycles: cycles.map(|(op, c)| (op.to_owned(), c)).into() }
    }
}

impl Default for Dma {
    fn default() -> Self {
        Self { channels: 1, in_flight: 16, max_burst: 64, overlap: Overlap::DoubleBuffer }
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self { depth: Depth::default(), decode_cycles: 1 }
    }
}

impl Default for Depth {
    fn default() -> Self {
        Self { ld: 8, ex: 16, vec: 8, st: 4 }
    }
}

//! The presets, as the text a user could have written: only what differs from `edge16`.
//!
//! `scalesim` and `stonne` reproduce the conventions of those simulators, for the anchors of the validation; the
//! product presets (`nvdla2048`, `ethos_u55`, `gemmini`, `tpu_v1`) take sizes and rates from public documents and use
//! this machine's structure, so they are stand-ins of the same size, not models of those devices' control logic.

/// Name and text of each preset.
pub const PRESETS: &[(&str, &str)] = &[
    ("edge8", EDGE8),
    ("edge16", EDGE16),
    ("edge32", EDGE32),
    ("server128", SERVER128),
    ("scalesim", SCALESIM),
    ("stonne", STONNE),
    ("nvdla2048", NVDLA2048),
    ("ethos_u55", ETHOS_U55),
    ("gemmini", GEMMINI),
    ("tpu_v1", TPU_V1),
];

const EDGE8: &str = r#"Npu(
  name: "edge8", clock_hz: 200_000_000,
  array: (rows: 8, cols: 8),
  sram: (a: (bytes: 65536), w: (bytes: 65536), acc: (bytes: 16384)),
  vector: (lanes: 8),
  dram: Simple(bytes_per_cycle: 4.0, latency: 60),
)"#;

const EDGE16: &str = r#"Npu(
  name: "edge16", clock_hz: 500_000_000,
  array: (rows: 16, cols: 16, dataflow: Ws, timing: Pipelined, depthwise: Best, ports: None),
  sram: (a: (bytes: 262144, banks: 4, ports: 1, port_bytes: 16), w: (bytes: 262144, banks: 4, ports: 1, port_bytes: 16),
         acc: (bytes: 65536, banks: 2)),
  vector: (lanes: 16, cycles: {"add": 1, "lut8": 1, "exp": 4}),
  dma: (channels: 1, in_flight: 16, max_burst: 64, overlap: DoubleBuffer),
  queues: (depth: (ld: 8, ex: 16, vec: 8, st: 4), decode_cycles: 1),
  dram: Simple(bytes_per_cycle: 16.0, latency: 100),
  dtypes: [S8, U8, S4, S16, Bf16], requant: [Fp32Rne, Q31Double, Q31Single],
  energy: None, fault: [], crc: false, watchdog_cycles: None,
)"#;

const EDGE32: &str = r#"Npu(
  name: "edge32", clock_hz: 800_000_000,
  array: (rows: 32, cols: 32),
  sram: (a: (bytes: 524288, banks: 8, port_bytes: 32), w: (bytes: 524288, banks: 8, port_bytes: 32),
         acc: (bytes: 262144, banks: 4)),
  vector: (lanes: 32),
  dma: (channels: 2),
  dram: Simple(bytes_per_cycle: 32.0, latency: 120),
)"#;

const SERVER128: &str = r#"Npu(
  name: "server128", clock_hz: 1_000_000_000,
  array: (rows: 128, cols: 128),
  sram: (a: (bytes: 8388608, banks: 16, port_bytes: 128), w: (bytes: 8388608, banks: 16, port_bytes: 128),
         acc: (bytes: 4194304, banks: 8)),
  vector: (lanes: 128),
  dma: (channels: 4, in_flight: 64, max_burst: 256),
  queues: (depth: (ld: 32, ex: 32, vec: 32, st: 32)),
  dram: Simple(bytes_per_cycle: 256.0, latency: 200),
)"#;

const SCALESIM: &str = r#"Npu(
  name: "scalesim", clock_hz: 1_000_000_000,
  array: (rows: 32, cols: 32, dataflow: Os, timing: FoldSerial, depthwise: PerChannel),
  sram: (a: (bytes: 262144, banks: 1, port_bytes: 32), w: (bytes: 262144, banks: 1, port_bytes: 32),
         acc: (bytes: 262144, banks: 1)),
  dma: (overlap: None),
  queues: (decode_cycles: 0),
  dram: Simple(bytes_per_cycle: 10.0, latency: 0),
)"#;

const STONNE: &str = r#"Npu(
  name: "stonne", clock_hz: 1_000_000_000,
  array: (rows: 16, cols: 16, dataflow: Os, timing: EdgeTrim, depthwise: PerChannel, ports: 32),
  queues: (decode_cycles: 0),
  dram: Simple(bytes_per_cycle: 1024.0, latency: 0),
)"#;

// 2048 multipliers at 1 GHz, 512 kB of convolution buffer, 20 GB/s.
const NVDLA2048: &str = r#"Npu(
  name: "nvdla2048", clock_hz: 1_000_000_000,
  array: (rows: 64, cols: 32),
  sram: (a: (bytes: 262144, banks: 8, port_bytes: 64), w: (bytes: 262144, banks: 8, port_bytes: 64),
         acc: (bytes: 131072, banks: 4)),
  vector: (lanes: 16),
  dma: (channels: 2),
  dram: Simple(bytes_per_cycle: 20.0, latency: 100),
  dtypes: [S8, S16], requant: [Q31Single],
)"#;

// The 256-MAC variant: 256 multiplications per cycle, small internal buffers, a 64-bit system bus.
const ETHOS_U55: &str = r#"Npu(
  name: "ethos_u55", clock_hz: 500_000_000,
  array: (rows: 16, cols: 16),
  sram: (a: (bytes: 32768), w: (bytes: 32768), acc: (bytes: 32768)),
  dma: (channels: 2),
  dram: Simple(bytes_per_cycle: 8.0, latency: 32),
  dtypes: [S8, U8, S16], requant: [Q31Double, Q31Single],
)"#;

// 16 x 16 weight-stationary, 256 kB scratchpad (split evenly), 64 kB accumulators, f32 scaling.
const GEMMINI: &str = r#"Npu(
  name: "gemmini", clock_hz: 1_000_000_000,
  array: (rows: 16, cols: 16, dataflow: Ws),
  sram: (a: (bytes: 131072, banks: 2), w: (bytes: 131072, banks: 2), acc: (bytes: 65536, banks: 2)),
  dma: (in_flight: 16, max_burst: 64),
  dram: Simple(bytes_per_cycle: 16.0, latency: 100),
  dtypes: [S8], requant: [Fp32Rne],
)"#;

// 256 x 256 at 700 MHz, 30 GB/s of weights; the unified buffer is larger than a local address and is cut to 16 MB.
const TPU_V1: &str = r#"Npu(
  name: "tpu_v1", clock_hz: 700_000_000,
  array: (rows: 256, cols: 256, dataflow: Ws),
  sram: (a: (bytes: 16777216, banks: 16, port_bytes: 256), w: (bytes: 262144, banks: 4, port_bytes: 256),
         acc: (bytes: 4194304, banks: 4)),
  vector: (lanes: 256),
  dma: (channels: 2, max_burst: 256),
  dram: Simple(bytes_per_cycle: 43.0, latency: 200),
  dtypes: [S8, U8], requant: [Fp32Rne, Q31Single],
)"#;

//! The presets, as the text a user could have written: only what differs from `edge16`.
//!
//! `scalesim` and `stonne` reproduce the conventions of those simulators, for the anchors of the validation (their values
//! are the columns of the tables); `edge8` to `server128` are made up. The
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

// Every value has its source; `assumed` says that the public documents do not give it. What is left out is `edge16`'s.

// nvdla/hw at 8e06b1b, `spec/defs/nv_full.spec`; nvdla/doc, `primer.rst` and the hardware manual.
const NVDLA2048: &str = r#"Npu(
  name: "nvdla2048",
  clock_hz: 1_000_000_000,                   // nvdla/doc primer.rst: performance table, 1 GHz
  array: (
    rows: 64,                                // nvdla/hw spec/defs/nv_full.spec: MAC_ATOMIC_C_SIZE_64
    cols: 32,                                // nv_full.spec: MAC_ATOMIC_K_SIZE_32
    dataflow: Ws,                            // hardware manual, convolution pipeline: weights stay for a stripe of pixels
    depthwise: PerChannel,                   // hardware manual: no depthwise mode
  ),
  sram: (
    a: (bytes: 262144,                       // nv_full.spec: CBUF of 16 banks, 512 deep, 64 bytes wide; half for data, half for weights
        banks: 8,                            // half of CBUF_BANK_NUMBER_16
        port_bytes: 64),                     // CBUF_BANK_WIDTH_64
    w: (bytes: 262144,                       // as a
        banks: 8,                            // as a
        port_bytes: 64),                     // as a
    acc: (bytes: 131072,                     // assumed: assembly and delivery buffers of the accumulator
          banks: 4),                         // assumed
  ),
  vector: (lanes: 16),                       // nv_full.spec: SDP_BS_THROUGHPUT_16
  dma: (channels: 2),                        // primer.rst: DBB and SRAM interfaces
  dram: Simple(bytes_per_cycle: 20.0,        // primer.rst, performance table: 20 GB/s beside 2048 MACs, at 1 GHz
               latency: 100),                // assumed; nv_full.spec bears up to PRIMARY_MEMIF_LATENCY_1200
  dtypes: [S8, S16],                         // primer.rst: int8, int16 (fp16 is not modelled)
  requant: [Q31Single],                      // hardware manual, SDP: scale, shift, one rounding
)"#;

// ethos-u-vela 5.2.0, `vela.ini` and `architecture_features.py`; Arm's product brief and technical overview.
const ETHOS_U55: &str = r#"Npu(
  name: "ethos_u55",
  clock_hz: 500_000_000,                     // ethos-u-vela vela.ini: Ethos_U55_High_End_Embedded, core_clock=500e6
  array: (
    rows: 16,                                // product brief: 256 MACs per cycle in its largest variant; the shape is assumed
    cols: 16,                                // as rows; architecture_features.py has output blocks of 2 x 2 x 8 instead
    dataflow: Ws,                            // assumed
  ),
  sram: (
    a: (bytes: 16384),                       // architecture_features.py: shram_banks 48 of 1 KiB; a third for each use is assumed
    w: (bytes: 16384),                       // as a
    acc: (bytes: 16384),                     // as a
  ),
  vector: (lanes: 16),                       // assumed
  dma: (channels: 2,                         // technical overview: two AXI ports
        max_burst: 32),                      // vela.ini: Sram_burst_length=32
  dram: Simple(bytes_per_cycle: 8.0,         // vela.ini: SRAM of 4 GB/s at 500 MHz (64-bit AXI, Sram_clock_scale=1.0)
               latency: 32),                 // vela.ini: Sram_read_latency=32
  dtypes: [S8, U8, S16],                     // technical overview: 8-bit weights, 8- and 16-bit activations
  requant: [Q31Double, Q31Single],           // vela: TFLite and NATURAL rounding
)"#;

// Genc et al., "Gemmini: Enabling Systematic Deep-Learning Architecture Evaluation via Full-Stack Integration", DAC 2021;
// ucb-bar/gemmini, README and `Configs.scala` of that time. The default of later commits differs: 0064b94 has 128 KiB
// of scratchpad, 128 KiB of accumulators and 64 requests in flight.
const GEMMINI: &str = r#"Npu(
  name: "gemmini",
  clock_hz: 1_000_000_000,                   // assumed: the generator has no clock; figures are cycles
  array: (
    rows: 16,                                // ucb-bar/gemmini README, default configuration: 16 x 16
    cols: 16,                                // README
    dataflow: Ws,                            // README: both dataflows; WS is the one its library uses for convolutions
  ),
  sram: (
    a: (bytes: 131072,                       // README: 256 KiB of scratchpad, split evenly between both operands
        banks: 2),                           // Configs.scala: sp_banks = 4, half of them
    w: (bytes: 131072,                       // as a
        banks: 2),                           // as a
    acc: (bytes: 65536,                      // README: 64 KiB of accumulators
          banks: 2),                         // Configs.scala: acc_banks = 2
  ),
  dma: (channels: 1,                         // README: one DMA engine
        in_flight: 16,                       // Configs.scala: max_in_flight_mem_reqs = 16
        max_burst: 64),                      // Configs.scala: dma_maxbytes = 64
  dram: Simple(bytes_per_cycle: 16.0,        // Configs.scala: dma_buswidth = 128 bits
               latency: 100),                // assumed
  dtypes: [S8],                              // README: int8 inputs, int32 accumulators
  requant: [Fp32Rne],                        // README: scaling by a float32
)"#;

// Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017.
const TPU_V1: &str = r#"Npu(
  name: "tpu_v1",
  clock_hz: 700_000_000,                     // section 2 and table 2: 700 MHz
  array: (
    rows: 256,                               // section 2: 256 x 256 MACs
    cols: 256,                               // section 2
    dataflow: Ws,                            // section 2: weights are preloaded, data flow in
  ),
  sram: (
    a: (bytes: 16777216,                     // section 2: 24 MiB unified buffer, cut to what a local address reaches
        banks: 16,                           // assumed
        port_bytes: 256),                    // section 2: 256 bytes per cycle into the array
    w: (bytes: 262144,                       // section 2: weight FIFO of four tiles of 64 KiB
        banks: 4,                            // one per tile
        port_bytes: 256),                    // as a
    acc: (bytes: 4194304,                    // section 2: 4 MiB of 32-bit accumulators, 4096 rows of 256
          banks: 4),                         // assumed
  ),
  vector: (lanes: 256),                      // section 2: paths 256 bytes wide, one row of 256 sums per cycle
  dma: (channels: 2,                         // section 2: weight memory and host interface
        max_burst: 256),                     // assumed
  dram: Simple(bytes_per_cycle: 48.6,        // table 2: 34 GB/s of weight memory (two DDR3-2133 channels) at 700 MHz
               latency: 200),                // assumed
  dtypes: [S8, U8],                          // section 2: signed or unsigned 8-bit operands
  requant: [Fp32Rne, Q31Single],             // assumed: the paper does not say how results are scaled
)"#;

//! The rules that a configuration must satisfy beyond its types.
//!
//! Upper limits keep every later product inside u64: they are far above any device and far below an overflow.

use super::{Dram, NpuConfig, Scratchpad};
use crate::fault::Injection;
use crate::isa::vector_op_names;
use crate::suggest::{excerpt, hint};

/// A broken rule: the path of the key, what is wrong, what to do.
pub(super) struct Problem {
    pub path: String,
    pub message: String,
    pub help: String,
}

type Rule = Result<(), Problem>;

/// Local addresses have 24 bits.
const MAX_SRAM: u32 = 1 << 24;
/// Names are printed in the middle of sentences.
const MAX_NAME: usize = 64;

impl NpuConfig {
    /// Tests sizes, banks, rates and names; the first broken rule is reported.
    pub(super) fn check(&self) -> Rule {
        self.check_array()?;
        self.check_sram()?;
        self.check_engines()?;
        self.check_lists()
    }

    fn check_array(&self) -> Rule {
        between(&["clock_hz"], self.clock_hz, 1, 1_000_000_000_000)?;
        between(&["array", "rows"], self.array.rows.into(), 1, 1024)?;
        between(&["array", "cols"], self.array.cols.into(), 1, 1024)?;
        match self.array.ports {
            Some(ports) => between(&["array", "ports"], ports.into(), 1, 1 << 20),
            None => Ok(()),
        }
    }

    fn check_sram(&self) -> Rule {
        check_scratchpad(&self.sram.a, &SPAD_A)?;
        check_scratchpad(&self.sram.w, &SPAD_W)?;
        let acc = self.sram.acc;
        between(&["sram", "acc", "bytes"], acc.bytes.into(), 4, u64::from(MAX_SRAM) * 4)?;
        between(&["sram", "acc", "banks"], acc.banks.into(), 1, 4096)?;
        divides(&["sram", "acc", "banks"], acc.bytes, acc.banks)?;
        if acc.bytes.is_multiple_of(4) {
            return Ok(());
        }
        problem(
            &["sram", "acc", "bytes"],
            format!("`sram.acc.bytes` is {}, which is no whole number of accumulators", acc.bytes),
            "use a multiple of 4",
        )
    }

    fn check_engines(&self) -> Rule {
        between(&["vector", "lanes"], self.vector.lanes.into(), 1, 65_536)?;
        between(&["dma", "channels"], self.dma.channels.into(), 1, 64)?;
        between(&["dma", "in_flight"], self.dma.in_flight.into(), 1, 1 << 16)?;
        between(&["dma", "max_burst"], self.dma.max_burst.into(), 1, 1 << 24)?;
        let depth = self.queues.depth;
        between(&["queues", "depth", "ld"], depth.ld.into(), 1, 65_536)?;
        between(&["queues", "depth", "ex"], depth.ex.into(), 1, 65_536)?;
        between(&["queues", "depth", "vec"], depth.vec.into(), 1, 65_536)?;
        between(&["queues", "depth", "st"], depth.st.into(), 1, 65_536)?;
        between(&["queues", "decode_cycles"], self.queues.decode_cycles.into(), 0, 1 << 20)?;
        self.check_dram()?;
        rate(&["realtime"], self.realtime.unwrap_or(1.0))?;
        between(&["watchdog_cycles"], self.watchdog_cycles.unwrap_or(1), 1, u64::MAX)
    }

    fn check_dram(&self) -> Rule {
        rate(&["dram", "bytes_per_cycle"], self.dram.bytes_per_cycle())?;
        between(&["dram", "latency"], self.dram.latency(), 0, 1 << 32)?;
        let Dram::Banked { channels, banks, interleave, row_bytes, row_miss, turnaround, bytes_per_cycle, .. } =
            self.dram
        else {
            return Ok(());
        };
        between(&["dram", "channels"], channels.into(), 1, 64)?;
        between(&["dram", "banks"], banks.into(), 1, 1024)?;
        between(&["dram", "interleave"], interleave.into(), 16, 1 << 20)?;
        between(&["dram", "row_bytes"], row_bytes.into(), 16, 1 << 20)?;
        between(&["dram", "row_miss"], row_miss.into(), 0, 1 << 20)?;
        between(&["dram", "turnaround"], turnaround.into(), 0, 1 << 20)?;
        // Each channel has its share.
        rate(&["dram", "bytes_per_cycle"], bytes_per_cycle / f64::from(channels))
    }

    fn check_lists(&self) -> Rule {
        printable(&["name"], &self.name)?;
        if self.dtypes.is_empty() {
            return problem(&["dtypes"], "`dtypes` is an empty list".into(), "name at least one, such as S8");
        }
        if self.requant.is_empty() {
            return problem(&["requant"], "`requant` is an empty list".into(), "name at least one, such as Fp32Rne");
        }
        for (op, &cycles) in &self.vector.cycles {
            if !vector_op_names().any(|name| name == op) && op != "exp" {
                let help = hint(op, vector_op_names().chain(["exp"]));
                let message = format!("`vector.cycles`: unknown vector operation \"{}\"", excerpt(op));
                return problem(&["vector", "cycles", op], message, &help);
            }
            between(&["vector", "cycles", op], cycles.into(), 1, 1 << 20)?;
        }
        for spec in &self.fault {
            if let Err((message, help)) = Injection::read(spec) {
                return problem(&["fault"], format!("`fault`: {message}"), &help);
            }
        }
        self.check_energy()
    }

    fn check_energy(&self) -> Rule {
        let Some(e) = &self.energy else { return Ok(()) };
        printable(&["energy", "source"], &e.source)?;
        let figures = [
            ("mac_s8", e.mac_s8),
            ("mac_s16", e.mac_s16),
            ("mac_f16", e.mac_f16),
            ("sram_rd_byte", e.sram_rd_byte),
            ("sram_wr_byte", e.sram_wr_byte),
            ("acc_rd", e.acc_rd),
            ("acc_wr", e.acc_wr),
            ("dram_byte", e.dram_byte),
            ("vec_op", e.vec_op),
            ("instr", e.instr),
            ("static_per_cycle", e.static_per_cycle),
        ];
        match figures.into_iter().find(|(_, v)| !(0.0..=1e9).contains(v)) {
            None => Ok(()),
            Some((key, v)) => {
                let message = format!("`energy.{key}` is {}", shown(v));
                problem(&["energy", key], message, "it must be in 0..=1e9 picojoules per event")
            }
        }
    }
}

/// The paths of one scratchpad's keys.
struct SpadPaths {
    bytes: &'static [&'static str],
    banks: &'static [&'static str],
    ports: &'static [&'static str],
    port_bytes: &'static [&'static str],
}

const SPAD_A: SpadPaths = SpadPaths {
    bytes: &["sram", "a", "bytes"],
    banks: &["sram", "a", "banks"],
    ports: &["sram", "a", "ports"],
    port_bytes: &["sram", "a", "port_bytes"],
};

const SPAD_W: SpadPaths = SpadPaths {
    bytes: &["sram", "w", "bytes"],
    banks: &["sram", "w", "banks"],
    ports: &["sram", "w", "ports"],
    port_bytes: &["sram", "w", "port_bytes"],
};

fn check_scratchpad(spad: &Scratchpad, paths: &SpadPaths) -> Rule {
    between(paths.bytes, spad.bytes.into(), 1, MAX_SRAM.into())?;
    between(paths.banks, spad.banks.into(), 1, 4096)?;
    between(paths.ports, spad.ports.into(), 1, 64)?;
    between(paths.port_bytes, spad.port_bytes.into(), 1, 65_536)?;
    divides(paths.banks, spad.bytes, spad.banks)
}

fn problem<T>(path: &[&str], message: String, help: &str) -> Result<T, Problem> {
    Err(Problem { path: path.join("."), message, help: help.to_owned() })
}

/// A number; hundreds of digits say less than an exponent.
fn shown(value: f64) -> String {
    let plain = (1e-6..1e9).contains(&value.abs()) || value == 0.0 || !value.is_finite();
    if plain { format!("{value}") } else { format!("{value:e}") }
}

fn between(path: &[&str], value: u64, lo: u64, hi: u64) -> Rule {
    if (lo..=hi).contains(&value) {
        return Ok(());
    }
    problem(path, format!("`{}` is {value}", path.join(".")), &format!("it must be in {lo}..={hi}"))
}

fn divides(path: &[&str], bytes: u32, banks: u32) -> Rule {
    if bytes.is_multiple_of(banks) {
        return Ok(());
    }
    problem(path, format!("`{}` is {banks}, which does not divide {bytes} bytes", path.join(".")), "use a divisor")
}

fn rate(path: &[&str], value: f64) -> Rule {
    // 1/256 byte per cycle is the resolution of transfer times.
    if (1.0 / 256.0..=1e6).contains(&value) {
        return Ok(());
    }
    problem(path, format!("`{}` is {}", path.join("."), shown(value)), "it must be in 0.00390625..=1e6")
}

/// A name that reports can print on one line.
fn printable(path: &[&str], text: &str) -> Rule {
    let (key, help) = (path.join("."), format!("use 1 to {MAX_NAME} characters without line breaks"));
    match text.chars().count() {
        0 => problem(path, format!("`{key}` is empty"), &help),
        n if n > MAX_NAME => problem(path, format!("`{key}` has {n} characters: `{}`", excerpt(text)), &help),
        _ if text.contains(char::is_control) => {
            problem(path, format!("`{key}` has control characters: `{}`", excerpt(text)), &help)
        }
        _ => Ok(()),
    }
}

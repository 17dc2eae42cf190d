//! Helpers of the unit tests: random data, and streams whose queues hand over to one another.

use crate::isa::{Inst, Opcode, Queue, Reg, Stream};
use crate::{Memory, NpuConfig, NpuError, Program, RunReport};

/// Xorshift; seeds are arguments.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

/// A stream under construction. An instruction in another queue than the one before waits for it by an event, so the
/// stream runs in its own order on any device.
pub struct Builder {
    pub stream: Stream,
    last: Option<Queue>,
}

impl Builder {
    /// A stream with these region sizes; region 3 is as large as the constants.
    pub fn new(input: usize, output: usize, scratch: usize, constants: Vec<u8>) -> Self {
        let regions = [input as u64, output as u64, scratch as u64, constants.len() as u64];
        Self { stream: Stream { constants, regions, ..Stream::default() }, last: None }
    }

    pub fn set(&mut self, values: &[(Reg, u32)]) -> &mut Self {
        self.stream.commands.extend(values.iter().map(|&(reg, value)| Inst::set(reg, value)));
        self
    }

    pub fn push(&mut self, inst: Inst) -> &mut Self {
        if let Some(last) = self.last.filter(|last| *last != inst.queue && !inst.op.info().is_control()) {
            let event = (last.index() * 4 + inst.queue.index()) as u32;
            self.stream.commands.push(Inst::new(Opcode::Signal, event, 0, 0).on(last));
            self.stream.commands.push(Inst::new(Opcode::Wait, event, 0, 0).on(inst.queue));
        }
        if !inst.op.info().is_control() {
            self.last = Some(inst.queue);
        }
        self.stream.commands.push(inst);
        self
    }

    /// The finished stream for a configuration.
    pub fn finish(&self, config: &NpuConfig) -> Stream {
        let mut stream = self.stream.clone();
        stream.commands.push(Inst::new(Opcode::End, 0, 0, 0));
        stream.config_hash = config.hash64();
        stream
    }
}

/// Loads and runs a stream; returns region `out` and the report.
pub fn run(config: &NpuConfig, stream: Stream, input: &[u8]) -> Result<(Vec<u8>, RunReport), NpuError> {
    let regions = stream.regions;
    let program = Program::load(config, stream)?;
    let (mut output, mut scratch) = (vec![0; regions[1] as usize], vec![0; regions[2] as usize]);
    let mut memory = Memory { input, output: &mut output, scratch: &mut scratch, constants: &[] };
    let report = program.run(&mut memory)?;
    Ok((output, report))
}

/// Signed register bits.
pub fn signed(value: i32) -> u32 {
    value.cast_unsigned()
}

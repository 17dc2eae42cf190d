//! One run with faults beside one without: was the fault noticed?

use crate::{Memory, NpuConfig, NpuError, Program, Stream};

/// What became of a faulty run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The run ended with an error.
    Detected(NpuError),
    /// The run ended well, with the bytes of a run without faults.
    Masked,
    /// The run ended well, with other bytes.
    Silent,
    /// The run never ends: nothing watches over it.
    Hung,
}

impl Outcome {
    /// The name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Detected(_) => "detected",
            Self::Masked => "masked",
            Self::Silent => "silent",
            Self::Hung => "hung",
        }
    }
}

/// A classified run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// What became of it.
    pub outcome: Outcome,
    /// Bytes of the output that differ; 0 unless the outcome is silent.
    pub wrong_bytes: usize,
}

/// Runs a stream on `input` with the faults of `config` and without, and compares. An error of the run without faults is
/// an error here.
pub fn trial(config: &NpuConfig, stream: &Stream, input: &[u8]) -> Result<Trial, NpuError> {
    let clean = NpuConfig { fault: Vec::new(), ..config.clone() };
    let expected = run(&clean, stream, input)?;
    let (outcome, wrong_bytes) = match run(config, stream, input) {
        Ok(found) if found == expected => (Outcome::Masked, 0),
        Ok((bytes, _)) => (Outcome::Silent, bytes.iter().zip(&expected.0).filter(|(a, b)| a != b).count()),
        Err(NpuError::Hung { .. }) => (Outcome::Hung, 0),
        Err(error) => (Outcome::Detected(error), 0),
    };
    Ok(Trial { outcome, wrong_bytes })
}

/// Output bytes and signalled fences.
fn run(config: &NpuConfig, stream: &Stream, input: &[u8]) -> Result<(Vec<u8>, u64), NpuError> {
    let program = Program::load(config, stream.clone())?;
    let bytes = |region: usize| vec![0; usize::try_from(stream.regions[region]).unwrap_or(0)];
    let (mut output, mut scratch) = (bytes(1), bytes(2));
    let mut memory = Memory { input, output: &mut output, scratch: &mut scratch, constants: &[] };
    let report = program.run(&mut memory)?;
    Ok((output, report.fences))
}

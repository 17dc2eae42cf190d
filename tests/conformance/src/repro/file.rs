//! The file of a failure.

use super::Repro;
use crate::{Outcome, Subject};
use ottava_hal::wire::{Reader, Writer, corrupt};
use ottava_hal::{Error, Result};
use std::io::Read;
use std::path::Path;

/// First bytes of a file; the last two count versions.
const MAGIC: &[u8; 8] = b"OREPRO01";

/// Longer files are not read.
const MOST_BYTES: u64 = 256 << 20;

/// A failure with where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct ReproFile {
    /// Group of the case, `G.1`.
    pub group: String,
    /// Name of the case.
    pub case: String,
    /// What was said about the failure.
    pub detail: String,
    /// Name and version of the driver.
    pub driver: String,
    /// Id of the device.
    pub device: String,
    /// Seed of the run.
    pub seed: u64,
    /// Whether the long forms of the cases ran.
    pub stress: bool,
    /// The program, where the case has one.
    pub repro: Option<Repro>,
}

impl ReproFile {
    /// The file of an outcome, without a program.
    pub fn of(subject: &Subject, outcome: &Outcome) -> Self {
        let driver = subject.driver.info();
        Self {
            group: outcome.group.clone(),
            case: outcome.name.clone(),
            detail: outcome.detail.clone(),
            driver: format!("{} {}", driver.name, driver.version),
            device: subject.device.clone(),
            seed: subject.seed,
            stress: subject.stress,
            repro: None,
        }
    }

    /// Reads a file of a reasonable size.
    pub fn read(path: &Path) -> Result<Self, String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let data = std::fs::metadata(path).map_err(|e| said(&e))?;
        if !data.is_file() || data.len() > MOST_BYTES {
            return Err(said(&"no regular file of at most 256 MiB"));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|e| said(&e))?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|e| said(&e))?;
        Self::from_bytes(&bytes).map_err(|e| said(&e))
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut w = Writer::default();
        w.raw(MAGIC);
        [&self.group, &self.case, &self.detail, &self.driver, &self.device].into_iter().for_each(|text| w.str(text));
        w.u64(self.seed);
        w.bool(self.stress);
        w.bool(self.repro.is_some());
        if let Some(repro) = &self.repro {
            repro.write(&mut w)?;
        }
        Ok(w.into_bytes())
    }

    /// Reads a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        if r.raw(MAGIC.len()).ok() != Some(MAGIC) {
            return Err(Error::invalid("this is no repro file of this version: it does not begin with OREPRO01"));
        }
        let mut text = || r.str().map(str::to_owned);
        let (group, case, detail, driver, device) = (text()?, text()?, text()?, text()?, text()?);
        let (seed, stress) = (r.u64()?, r.bool()?);
        let repro = if r.bool()? { Some(Repro::read(&mut r)?) } else { None };
        r.end().map_err(|_| corrupt("there are bytes behind the end of the repro file"))?;
        Ok(Self { group, case, detail, driver, device, seed, stress, repro })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, Node, Program, Tensor, TensorType, Value, ValueId};

    fn file() -> ReproFile {
        let value =
            |name: &str| Value { name: name.into(), ty: TensorType::fixed(DataType::F32, &[2]), constant: None };
        let mut node = Node::new("r", "Relu", 14);
        (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
        let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(1)]);
        let program =
            Program { name: "p".into(), values: vec![value("x"), value("y")], nodes: vec![node], inputs, outputs };
        let tensor = |v: [f32; 2]| vec![Tensor::from_slice(&[2], &v).unwrap()];
        let repro =
            Repro { program, inputs: tensor([-1.0, 2.0]), expected: tensor([0.0, 2.0]), actual: tensor([-1.0, 2.0]) };
        let text = |t: &str| t.to_owned();
        ReproFile {
            group: text("G.1"),
            case: text("num.Relu.0"),
            detail: text("differs"),
            driver: text("d 1"),
            device: text("d0"),
            seed: 7,
            stress: false,
            repro: Some(repro),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for file in [file(), ReproFile { repro: None, ..file() }] {
            assert_eq!(ReproFile::from_bytes(&file.to_bytes().unwrap()).unwrap(), file);
        }
    }

    #[test]
    fn damaged_files_are_errors_and_never_a_panic() {
        let good = file().to_bytes().unwrap();
        for n in 0..good.len() {
            assert!(ReproFile::from_bytes(&good[..n]).is_err(), "{n}");
        }
        for i in 0..good.len() {
            for bit in [1, 0x80] {
                let mut bad = good.clone();
                bad[i] ^= bit;
                // What still reads is a file with other data; nothing else may come of it.
                if let Ok(read) = ReproFile::from_bytes(&bad) {
                    assert!(read.repro.is_some_and(|r| r.check().is_ok()), "{i}");
                }
            }
        }
        let mut long = good;
        long.push(0);
        assert!(ReproFile::from_bytes(&long).unwrap_err().to_string().contains("behind the end"));
    }

    #[test]
    fn tensors_must_be_those_of_the_program() {
        let mut wrong = file();
        if let Some(repro) = &mut wrong.repro {
            repro.inputs.clear();
        }
        let e = ReproFile::from_bytes(&wrong.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(e.contains("0 tensors for 1 inputs"), "{e}");
    }
}

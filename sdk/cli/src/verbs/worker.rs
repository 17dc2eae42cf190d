//! The line protocol of `bench --worker`, which the comparison with other runtimes speaks.
//!
//! `{"ready":1,"load_ms":..,"ready_ms":..}` when loaded (`load_ms` has one inference in it, `ready_ms` has none); then `run N` is answered by `{"lat_us":[..]}`, `out FILE` writes the first output
//! as raw f32 and answers `{"out":count}`, `quit` (or the end of the input) ends it. Anything else, and a file that cannot
//! be written, is answered by `{"error":..}`; a device that fails ends the worker.

use crate::failure::{Failure, Result};
use crate::options::write_file;
use crate::ui::to_stdout;
use ottava::{DataType, Session, Tensor};
use serde_json::json;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

/// An input whose bytes lie in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawInput {
    /// Name of the input.
    pub name: String,
    dtype: DataType,
    shape: Vec<usize>,
    file: PathBuf,
}

impl FromStr for RawInput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // From the right, because names may hold colons.
        let mut parts = text.rsplitn(4, ':');
        let (file, shape, dtype, name) = (parts.next(), parts.next(), parts.next(), parts.next());
        let bad = || format!("`{text}` is not NAME:DTYPE:SHAPE:FILE, for example `x:f32:1x3x224x224:in.bin`");
        let (Some(file), Some(shape), Some(dtype), Some(name)) = (file, shape, dtype, name) else { return Err(bad()) };
        let extents = shape.split('x').filter(|s| !s.is_empty()).map(|s| s.parse::<usize>().map_err(|_| bad()));
        Ok(Self {
            name: name.to_owned(),
            dtype: dtype.parse().map_err(|e| format!("{}: {e}", bad()))?,
            shape: extents.collect::<Result<_, _>>()?,
            file: PathBuf::from(file),
        })
    }
}

impl RawInput {
    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The data.
    pub fn read(&self) -> Result<Tensor> {
        let bad =
            |what: String| Failure::Error(ottava::Error::invalid(ottava::codes::DATA_FILE, what).in_file(&self.file));
        crate::files::check_data(&self.file)?;
        let bytes = std::fs::read(&self.file).map_err(|e| bad(format!("cannot read the file: {e}")))?;
        Tensor::from_bytes(self.dtype, &self.shape, &bytes).map_err(|e| bad(e.to_string()))
    }
}

/// What a worker runs.
pub struct Work<'a> {
    /// The network.
    pub session: &'a Session,
    /// Its inputs.
    pub inputs: &'a [Tensor],
    /// Refuses a file that must not be written over.
    pub may_write: &'a dyn Fn(&Path) -> Result<()>,
}

/// Answers commands until the end. `ready_ms` is the time from `start` until the session was there.
pub fn serve(work: &Work, start: Instant, ready_ms: f64) -> Result<()> {
    let Work { session, inputs, .. } = *work;
    session.run_ordered(inputs, false)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    to_stdout(&format!("{}\n", json!({ "ready": 1, "load_ms": load_ms, "ready_ms": ready_ms })))?;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let mut words = line.split_whitespace();
        let answer = match (words.next(), words.next()) {
            (Some("quit"), _) => break,
            (None, _) => continue,
            (Some("run"), Some(n)) => latencies(session, inputs, n)?,
            (Some("out"), Some(_)) => output(work, Path::new(line.trim()[3..].trim()))?,
            _ => json!({ "error": format!("unknown command `{line}`; known are: run N, out FILE, quit") }),
        };
        to_stdout(&format!("{answer}\n"))?;
    }
    Ok(())
}

fn latencies(session: &Session, inputs: &[Tensor], n: &str) -> Result<serde_json::Value> {
    let Ok(n) = n.parse::<usize>() else { return Ok(json!({ "error": format!("`{n}` is not a number of runs") })) };
    let mut us = Vec::new();
    for _ in 0..n {
        let begin = Instant::now();
        session.run_ordered(inputs, false)?;
        us.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(json!({ "lat_us": us }))
}

fn output(work: &Work, path: &Path) -> Result<serde_json::Value> {
    let outputs = work.session.run_ordered(work.inputs, false)?.0;
    let values = outputs.first().map(Tensor::to_f32s).transpose().map_err(ottava::Error::from)?.unwrap_or_default();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let written = (work.may_write)(path).and_then(|()| write_file(path, &bytes));
    Ok(match written {
        Ok(()) => json!({ "out": values.len() }),
        Err(e) => json!({ "error": e.text() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_inputs_are_read_from_the_right() {
        let raw: RawInput = "in:0:u8:1x3:a/b.bin".parse().unwrap();
        assert_eq!((raw.name.as_str(), raw.dtype, raw.shape.as_slice()), ("in:0", DataType::U8, [1, 3].as_slice()));
        assert!("x:f32:1xq:f".parse::<RawInput>().is_err());
        assert!("x:float:1:f".parse::<RawInput>().is_err());
        assert!("x:f32:1".parse::<RawInput>().is_err());
    }
}

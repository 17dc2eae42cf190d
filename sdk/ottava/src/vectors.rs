//! Test vectors in the layout of the ONNX backend tests: a folder with `model.onnx` and
//! `test_data_set_*/input_<j>.pb, output_<j>.pb`.
//!
//! Integers, booleans and indices must be equal; floats must satisfy `|a - e| <= atol + rtol * |e|`, NaN equals NaN,
//! infinities equal with sign; shapes and element types must be equal. A case ends in exactly one of three states; a
//! panic is a failure of the case, not of the run.

use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use ottava_hal::{Tensor, TensorType};
use ottava_import::ImportError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every output of every data set is right.
    Pass,
    /// Refused; the message names operator, type or attribute.
    Unsupported(String),
    /// Anything else.
    Fail(String),
}

impl Outcome {
    /// `pass`, `unsupported`, `fail`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Unsupported(_) => "unsupported",
            Self::Fail(_) => "fail",
        }
    }

    /// The state as lists of expected states hold it: `pass`, `unsupported(REASON)`, `fail`. The reason is the element type,
    /// the operator or the operator set that is not there.
    pub fn state(&self) -> String {
        match self {
            Self::Unsupported(text) => format!("unsupported({})", reason(text)),
            other => other.name().to_owned(),
        }
    }

    /// The reason or what went wrong; empty for a pass.
    pub fn detail(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Unsupported(text) | Self::Fail(text) => text,
        }
    }
}

/// The word of a message that stays the same when its wording changes: what is missing.
fn reason(message: &str) -> String {
    let word = |before: &str| {
        let rest = message.split(before).nth(1)?;
        Some(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "_.".contains(*c)).collect::<String>())
    };
    let operator = || message.split(" (operator set").next().filter(|head| head.len() < message.len());
    if let Some(name) = word("element type ") {
        return name;
    }
    if let Some(name) = operator().and_then(|head| head.rsplit(' ').next()) {
        return name.to_owned();
    }
    word("operator set ").map_or_else(|| "other".to_owned(), |n| format!("operator set {n}"))
}

/// How close floats must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { rtol: 1e-3, atol: 1e-7 }
    }
}

/// Cases whose expected output holds the rounding noise of a transform in f32 where the exact result is 0, and the
/// absolute tolerance that this noise needs.
const NOISY: &[(&str, f64)] = &[("test_dft_inverse", 1e-6)];

/// Folders below `dir` that hold a case, by name; `dir` itself if it is one.
pub fn cases(dir: &Path) -> Result<Vec<PathBuf>> {
    if dir.join("model.onnx").is_file() {
        return Ok(vec![dir.to_path_buf()]);
    }
    let reading = |e: std::io::Error| Error::reading(codes::DATA_FILE, dir, &e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(reading)? {
        let path = entry.map_err(reading)?.path();
        if path.join("model.onnx").is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Error::invalid(codes::DATA_FILE, "no test vectors here")
            .in_file(dir)
            .expected("folders with a `model.onnx` and `test_data_set_*`"));
    }
    Ok(found)
}

/// Tolerances by case, from the columns `name`, `rtol`, `atol` of a tab-separated manifest.
pub fn tolerances(manifest: &str) -> BTreeMap<String, Tolerance> {
    let mut lines = manifest.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let column = |name: &str| header.iter().position(|h| *h == name);
    let (Some(name), Some(rtol), Some(atol)) = (column("name"), column("rtol"), column("atol")) else {
        return BTreeMap::new();
    };
    let number = |cells: &[&str], i: usize| cells.get(i).and_then(|c| c.parse::<f64>().ok()).filter(|v| *v >= 0.0);
    let one = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let tolerance = Tolerance { rtol: number(&cells, rtol)?, atol: number(&cells, atol)? };
        Some(((*cells.get(name)?).to_owned(), tolerance))
    };
    lines.filter_map(one).collect()
}

/// Runs one case.
pub fn run_case(dir: &Path, registry: &Registry, options: &SessionOptions, tolerance: Tolerance) -> Outcome {
    let run = || check_case(dir, registry, options, tolerance);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => Outcome::Pass,
        Ok(Err(Problem::Wrong(text))) => Outcome::Fail(text),
        Ok(Err(Problem::Refused(error @ Error::Unsupported(_)))) => Outcome::Unsupported(error.detail().to_string()),
        Ok(Err(Problem::Refused(error))) => Outcome::Fail(error.to_string()),
        Err(panic) => Outcome::Fail(format!("panic: {}", panic_text(panic.as_ref()))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

enum Problem {
    Refused(Error),
    Wrong(String),
}

impl From<Error> for Problem {
    fn from(e: Error) -> Self {
        Self::Refused(e)
    }
}

fn check_case(dir: &Path, registry: &Registry, options: &SessionOptions, t: Tolerance) -> Result<(), Problem> {
    let noise = NOISY.iter().find(|(name, _)| dir.ends_with(name)).map_or(0.0, |(_, atol)| *atol);
    let t = Tolerance { atol: t.atol.max(noise), ..t };
    let model = Model::load(dir.join("model.onnx"))?;
    let sets = data_sets(dir)?;
    if sets.is_empty() {
        return Err(Problem::Wrong("the case has no `test_data_set_*`".into()));
    }
    for set in sets {
        let inputs = tensors(&set, "input")?;
        let expected = tensors(&set, "output")?;
        let dims = model.dims_of(&inputs)?;
        let session = Session::new(&model, registry, &SessionOptions { dims, ..options.clone() })?;
        let outputs = session.run_ordered(&inputs, false)?.0;
        if outputs.len() != expected.len() {
            return Err(Problem::Wrong(format!("{} outputs, expected {}", outputs.len(), expected.len())));
        }
        for (i, (found, want)) in outputs.iter().zip(&expected).enumerate() {
            compare(found, want, t).map_err(|e| Problem::Wrong(format!("output {i}: {e}")))?;
        }
    }
    Ok(())
}

fn data_sets(dir: &Path) -> Result<Vec<PathBuf>> {
    let reading = |e: std::io::Error| Error::reading(codes::DATA_FILE, dir, &e);
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(reading)? {
        let path = entry.map_err(reading)?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if name.starts_with("test_data_set_") && path.is_dir() {
            sets.push(path);
        }
    }
    sets.sort();
    Ok(sets)
}

/// `KIND_0.pb`, `KIND_1.pb`, .. up to the first that is missing.
fn tensors(set: &Path, kind: &str) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    loop {
        let path = set.join(format!("{kind}_{}.pb", tensors.len()));
        if !path.is_file() {
            return Ok(tensors);
        }
        tensors.push(read_pb(&path)?);
    }
}

/// Reads a file that holds one ONNX tensor.
pub fn read_pb(path: &Path) -> Result<Tensor> {
    let bytes = std::fs::read(path).map_err(|e| Error::reading(codes::DATA_FILE, path, &e))?;
    let stored = ottava_import::onnx::decode_tensor_file(bytes.into(), &path.display().to_string());
    stored.and_then(|t| t.to_tensor()).map_err(|e| match e {
        ImportError::UnsupportedTensor { .. } => Error::unsupported(codes::DATA_DTYPE, e.to_string()),
        other => Error::invalid(codes::DATA_FILE, other.to_string()),
    })
}

/// Whether a result is right.
pub fn compare(found: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if found.dtype() != want.dtype() || found.shape() != want.shape() {
        let show = |t: &Tensor| TensorType::fixed(t.dtype(), t.shape()).to_string();
        return Err(format!("{}, expected {}", show(found), show(want)));
    }
    let fail = |e: ottava_hal::Error| e.to_string();
    if !want.dtype().is_float() {
        let (a, e) = (found.to_ints().map_err(fail)?, want.to_ints().map_err(fail)?);
        return first_wrong(&a, &e, |a, e| a == e);
    }
    let (a, e) = (reals(found)?, reals(want)?);
    first_wrong(&a, &e, |&a, &e| {
        (a.is_nan() && e.is_nan())
            || a == e
            || (e.is_finite() && (a - e).abs() <= tolerance.atol + tolerance.rtol * e.abs())
    })
}

fn reals(t: &Tensor) -> Result<Vec<f64>, String> {
    match t.as_slice::<f64>() {
        Ok(values) => Ok(values.to_vec()),
        Err(_) => Ok(t.to_f32s().map_err(|e| e.to_string())?.into_iter().map(f64::from).collect()),
    }
}

fn first_wrong<T: std::fmt::Display>(a: &[T], e: &[T], equal: impl Fn(&T, &T) -> bool) -> Result<(), String> {
    let wrong: Vec<usize> = (0..e.len()).filter(|&i| !equal(&a[i], &e[i])).collect();
    match wrong.first() {
        None => Ok(()),
        Some(&i) => Err(format!("element {i} is {}, expected {} ({} of {} differ)", a[i], e[i], wrong.len(), e.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_close_and_nan_and_infinity_are_exact() {
        let t = |v: &[f32]| Tensor::from_slice(&[v.len()], v).unwrap();
        let inf = f32::INFINITY;
        assert_eq!(compare(&t(&[1.0005, f32::NAN, inf]), &t(&[1.0, f32::NAN, inf]), Tolerance::default()), Ok(()));
        assert!(compare(&t(&[1.01]), &t(&[1.0]), Tolerance::default()).unwrap_err().contains("1 of 1 differ"));
        assert!(compare(&t(&[-inf]), &t(&[inf]), Tolerance::default()).is_err());
        assert!(compare(&t(&[0.0]), &t(&[f32::NAN]), Tolerance::default()).is_err());
    }

    #[test]
    fn states_name_what_is_missing() {
        let state = |text: &str| Outcome::Unsupported(text.into()).state();
        assert_eq!(state("m.onnx: value `x` has element type INT2, which is not supported"), "unsupported(INT2)");
        assert_eq!(state("m.onnx: `a b`: DFT (operator set 20): operator DFT is not implemented"), "unsupported(DFT)");
        assert_eq!(state("m.onnx: operator set 1; supported are 7 to 28"), "unsupported(operator set 1)");
        assert_eq!(state("out of luck"), "unsupported(other)");
        assert_eq!(Outcome::Pass.state(), "pass");
    }

    #[test]
    fn integers_and_shapes_are_exact() {
        let t = |v: &[i32]| Tensor::from_slice(&[v.len()], v).unwrap();
        assert!(compare(&t(&[1]), &t(&[2]), Tolerance { rtol: 9.0, atol: 9.0 }).is_err());
        let e = compare(&t(&[1, 1]), &t(&[1]), Tolerance::default()).unwrap_err();
        assert_eq!(e, "s32[2], expected s32[1]");
    }

    #[test]
    fn a_manifest_gives_tolerances_by_name() {
        let text = "archive\tname\trtol\tatol\nnode\ttest_a\t0.01\t1e-05\nnode\tbad\tx\t1\n";
        let found = tolerances(text);
        assert_eq!(found, BTreeMap::from([("test_a".to_owned(), Tolerance { rtol: 0.01, atol: 1e-5 })]));
        assert!(tolerances("no\ttable").is_empty());
    }
}

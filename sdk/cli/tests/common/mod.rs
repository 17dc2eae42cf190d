//! Helpers of the command's tests: run the binary, read its answers.
#![allow(dead_code)] // Each test file uses a part.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run of the command gave back.
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// The JSON document on stdout; the run must have succeeded.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.value()
    }

    /// The JSON document on stdout, whatever the exit code.
    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// The run must have succeeded.
    #[track_caller]
    pub fn succeeds(&self) {
        assert_eq!(self.code, 0, "{}", self.stderr);
    }

    /// Checks exit code and parts of the message.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in: {}", self.stderr);
        }
    }
}

/// The command in a folder.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottava"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the command in a folder.
pub fn ottava(folder: &Path, args: &[&str]) -> Run {
    let output = command(folder, args).output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command speaks UTF-8");
    Run { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A bundled file.
pub fn asset(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name);
    path.to_str().expect("the checkout has a UTF-8 path").to_owned()
}

/// The folder of the external assets, or `None` with a line that says so.
pub fn external(name: &str) -> Option<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("OTTAVA_TEST_ASSETS").map_or(beside, PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return path.to_str().map(str::to_owned);
    }
    println!("skipped: no test assets ({})", path.display());
    None
}

/// A temporary folder.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A field of a protobuf message that holds bytes.
pub fn bytes_field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, content.len() as u8];
    assert!(content.len() < 128, "one length byte is enough for these tests");
    out.extend(content);
    out
}

/// A field of a protobuf message that holds a small number.
pub fn number_field(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// An ONNX model of one node `y = OP(x)` on f32[2].
pub fn unary_model(op: &str) -> Vec<u8> {
    model_of(op, |value| bytes_field(11, &value("x")))
}

/// The same with a constant in place of the input: an ONNX tensor called `x`.
pub fn constant_model(op: &str, tensor: &[u8]) -> Vec<u8> {
    model_of(op, |_| bytes_field(5, tensor))
}

/// The node `y = OP(x)` with the graph's field that gives `x`.
fn model_of(op: &str, source: impl Fn(&dyn Fn(&str) -> Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let dims = bytes_field(1, &number_field(1, 2));
    let tensor = [number_field(1, 1), bytes_field(2, &dims)].concat();
    let value = |name: &str| [bytes_field(1, name.as_bytes()), bytes_field(2, &bytes_field(1, &tensor))].concat();
    let node =
        [bytes_field(1, b"x"), bytes_field(2, b"y"), bytes_field(3, b"n"), bytes_field(4, op.as_bytes())].concat();
    let graph = [bytes_field(1, &node), bytes_field(2, b"g"), source(&value), bytes_field(12, &value("y"))].concat();
    [number_field(1, 8), bytes_field(7, &graph), bytes_field(8, &number_field(2, 17))].concat()
}

/// An ONNX tensor file with two f32 elements.
pub fn tensor_pb(values: [f32; 2]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [number_field(1, 2), number_field(2, 1), bytes_field(9, &raw)].concat()
}

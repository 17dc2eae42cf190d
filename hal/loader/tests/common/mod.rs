//! Shared by the tests: drivers that are compiled on the spot, and programs for the templates.
#![allow(dead_code)] // Each test file uses a part.

use ottava_hal::device::BufferDesc;
use ottava_hal::refmath::quantize::Affine;
use ottava_hal::{
    Binding, DataType, Device, Node, Program, QuantParams, RequantMode, Result, Submission, TensorType, Value, ValueId,
};
use ottava_loader::{Candidate, LibrarySpec, LoadOptions, Search, load_all};
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once};

/// Scale and zero point of the inputs of [`program`].
pub const INPUT: Affine = Affine { scale: 0.5, zp: 3 };
/// Scale and zero point of its output.
pub const OUTPUT: Affine = Affine { scale: 0.25, zp: -5 };

/// Root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says that a test did not run, and why; `tests/run.sh` counts these lines.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped: {line}");
    if let Some(log) = std::env::var_os("OTTAVA_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut f| f.write_all(line.as_bytes())).expect("the skip log can be written");
    }
}

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes to the log of the thread.
struct ThreadLog;

impl Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What this thread logs meanwhile. One subscriber serves all threads: a message that a thread without one meets first
/// would be switched off for the others.
pub fn logged(f: impl FnOnce()) -> String {
    static START: Once = Once::new();
    START.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| ThreadLog).finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber");
    });
    LOG.take();
    f();
    String::from_utf8(LOG.take()).expect("a log is text")
}

/// A folder with a freshly compiled driver.
pub struct Built {
    /// The folder, which nobody else may write to.
    pub dir: tempfile::TempDir,
    /// The library.
    pub library: PathBuf,
}

/// Compiles a source file with macros defined; `None`, and a counted skip, without a compiler.
pub fn build(source: &Path, defines: &[&str]) -> Option<Built> {
    let cpp = source.extension().is_some_and(|e| e == "cpp");
    let compiler = if cpp { "c++" } else { "cc" };
    if Command::new(compiler).arg("--version").output().is_err() {
        skip(&source.display().to_string(), &format!("no compiler `{compiler}`"));
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let library = dir.path().join("libdriver.so");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-w", if cpp { "-std=c++17" } else { "-std=c11" }]);
    for folder in ["sdk/include", "plugins/template-c"] {
        command.arg("-I").arg(repository().join(folder));
    }
    command.args(defines.iter().map(|d| format!("-D{d}"))).arg(source).arg("-o").arg(&library).arg("-lm");
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Built { dir, library })
}

/// A driver of `drivers/variants.c`.
pub fn variant(defines: &[&str]) -> Option<Built> {
    build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/variants.c"), defines)
}

/// The C template as it is.
pub fn template() -> Option<Built> {
    build(&repository().join("plugins/template-c/my_driver.c"), &[])
}

/// A library of `examples`, which `cargo test` builds; `None`, and a counted skip, if it is not there.
pub fn example(name: &str, test: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().expect("the test knows itself");
    let library = exe.ancestors().nth(2).map(|dir| dir.join(format!("examples/lib{name}.so")));
    let found = library.filter(|p| p.is_file());
    if found.is_none() {
        skip(test, &format!("the example {name} is not built"));
    }
    found
}

/// The driver made with the kit.
pub fn kit_driver(test: &str) -> Option<PathBuf> {
    example("kit_driver", test)
}

/// Options that look at nothing but what is named.
pub fn only(libraries: Vec<LibrarySpec>) -> LoadOptions {
    LoadOptions { libraries, search: Search { user: false, system: false }, ..LoadOptions::default() }
}

/// Loads one library.
pub fn load(path: &Path) -> Candidate {
    load_all(&only(vec![LibrarySpec::new(path)])).remove(0)
}

/// The reason why a library is refused.
pub fn reason(path: &Path) -> (i32, String) {
    let candidate = load(path);
    assert!(candidate.driver.is_none(), "{candidate:?}");
    (candidate.code, candidate.reason.expect("a refusal has a reason"))
}

/// Opens the only device of a driver that must load.
pub fn open(path: &Path) -> Arc<dyn Device> {
    let candidate = load(path);
    let driver = candidate.driver.as_ref().unwrap_or_else(|| panic!("{candidate:?}"));
    let id = driver.devices().expect("devices").remove(0).id;
    driver.open(&id, &ottava_hal::Options::new()).expect("the device opens")
}

/// A program of one node: `n_inputs` s8 tensors of `len` elements to one.
pub fn program(op: &str, n_inputs: usize, len: usize) -> Program {
    quantized(op, &vec![INPUT; n_inputs], OUTPUT, len)
}

/// [`program`] with scales and zero points of its own.
pub fn quantized(op: &str, inputs: &[Affine], output: Affine, len: usize) -> Program {
    let ty = |a: Affine| TensorType::fixed(DataType::S8, &[1, len]).quantized(QuantParams::per_tensor(a.scale, a.zp));
    let value = |name: String, ty| Value { name, ty, constant: None };
    let n_inputs = inputs.len();
    let mut values: Vec<Value> = inputs.iter().enumerate().map(|(i, a)| value(format!("x{i}"), ty(*a))).collect();
    values.push(value("y".into(), ty(output)));
    let mut node = Node::new("the node", op, 14);
    node.inputs = (0..n_inputs).map(|i| Some(ValueId(i))).collect();
    node.outputs = vec![ValueId(n_inputs)];
    node.requant = Some(RequantMode::Fp32Rne);
    let inputs = (0..n_inputs).map(ValueId).collect();
    Program { name: "p".into(), values, nodes: vec![node], inputs, outputs: vec![ValueId(n_inputs)] }
}

/// What an Add of [`program`] gives: the numeric contract, section 4, in plain arithmetic, which is exact for its scales.
pub fn add(a: u8, b: u8) -> u8 {
    let real = |x: u8| f64::from(i32::from(x as i8) - 3) * 0.5;
    let q = ((real(a) + real(b)) / 0.25).round_ties_even() - 5.0;
    q.clamp(-128.0, 127.0) as i8 as u8
}

/// A submission that runs a program on inputs; also the buffer of the output.
pub fn submission(
    device: &dyn Device,
    program: &Program,
    inputs: &[Vec<u8>],
) -> Result<(Submission, Arc<dyn ottava_hal::Buffer>)> {
    let executable = device.compile(program, &ottava_hal::CompileOptions::default())?;
    let bytes = executable.outputs()[0].byte_len().expect("a fixed shape");
    let desc = |bytes| BufferDesc { bytes, alignment: 64 };
    let mut bindings = Vec::new();
    for data in inputs {
        let buffer = device.alloc(&desc(data.len()))?;
        buffer.write(0, data)?;
        bindings.push(Binding::whole(buffer));
    }
    let out = device.alloc(&desc(bytes))?;
    Ok((Submission::dispatch(executable, bindings, vec![Binding::whole(out.clone())]), out))
}

/// All bytes of a buffer.
pub fn bytes(buffer: &dyn ottava_hal::Buffer) -> Vec<u8> {
    let mut data = vec![0; buffer.len()];
    buffer.read(0, &mut data).expect("the buffer can be read");
    data
}

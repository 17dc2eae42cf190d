//! What the fuzz targets do with the bytes that they get.
//!
//! A model is a stranger's file: whatever it holds, reading and compiling it ends in a graph or in an error that says
//! why, soon and in bounded memory. Panics, overflows, hangs and large allocations are caught by libFuzzer, with the
//! limits of `run.sh`; what else must hold is asserted here:
//!
//! - a refusal names something: its text is not empty, and neither is that of any of its findings;
//! - what was imported can be bound, made canonical and integer, or is refused; the verifier agrees with each phase;
//! - a canonical graph that can be written as ONNX can be read again.
//!
//! Networks whose work is not small are read and not compiled, so that an input costs milliseconds.

pub mod mutate;

use ottava_compiler::Cx;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::Error;
use ottava_import::{ExportOptions, ImportError, ImportOptions, export_onnx, import_onnx_bytes};
use ottava_reference::ReferenceDevice;
use std::collections::BTreeMap;

/// Elements of all values of a graph that is still compiled.
const MAX_ELEMENTS: usize = 1 << 16;
/// Nodes of a graph that is still compiled.
const MAX_NODES: usize = 64;

/// Reads an ONNX model and compiles it.
pub fn onnx(bytes: &[u8]) {
    match import_onnx_bytes(bytes.to_vec().into(), "fuzz", &ImportOptions::default()) {
        Ok((graph, notes)) => {
            notes.iter().for_each(check_finding);
            compile(&graph);
        }
        Err(e) => check_refusal(&e),
    }
}

fn check_refusal(e: &ImportError) {
    assert!(!e.to_string().trim().is_empty(), "a refusal without a reason");
    if let ImportError::Refused { diagnostics, .. } = e {
        assert!(!diagnostics.is_empty(), "a refusal without a finding");
        diagnostics.iter().for_each(check_finding);
    }
}

fn check_finding(finding: &Diagnostic) {
    assert!(!finding.message.trim().is_empty(), "a finding without a message: {finding:?}");
    assert!(!finding.code.is_empty(), "a finding without a code: {finding:?}");
}

fn check_error(e: &Error) {
    assert!(!e.to_string().trim().is_empty(), "an error without a reason");
}

/// Every phase of a small graph, and the way through a file and back.
fn compile(imported: &Graph) {
    let bound = match ottava_graph::bind(imported, &BTreeMap::new(), 2) {
        Ok(bound) => bound,
        Err(e) => return check_error(&e),
    };
    if !is_small(&bound) {
        return;
    }
    let folder = ReferenceDevice::new();
    let mut cx = Cx::new(&folder);
    let canonical = match ottava_compiler::canonicalize(&bound, &mut cx) {
        Ok(canonical) => canonical,
        Err(e) => return check_error(&e),
    };
    write_and_read(&canonical);
    if let Err(e) = ottava_compiler::integerize(&canonical, &mut cx) {
        check_error(&e);
    }
    cx.diagnostics.iter().for_each(check_finding);
}

fn is_small(graph: &Graph) -> bool {
    let elements = graph.values.iter().map(|v| v.ty.shape.elements().unwrap_or(0)).fold(0, usize::saturating_add);
    graph.nodes.len() <= MAX_NODES && elements <= MAX_ELEMENTS
}

fn write_and_read(graph: &Graph) {
    let Ok(bytes) = export_onnx(graph, &ExportOptions::default()) else { return };
    if let Err(e) = import_onnx_bytes(bytes.into(), "written", &ImportOptions::default()) {
        panic!("what was written cannot be read: {e}");
    }
}

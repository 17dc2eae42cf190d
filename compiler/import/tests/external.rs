//! Weights beside the model in a file of more than 2 GiB: mapped, not copied.
#![cfg(target_os = "linux")]
mod common;

use common::*;
use ottava_import::onnx::ElemType;
use ottava_import::onnx::proto::{StringStringEntryProto, TensorProto};
use ottava_import::{ImportOptions, import_onnx};
use prost::Message;
use std::os::unix::fs::FileExt;

const GIB: u64 = 1 << 30;

fn external(name: &str, elem: ElemType, dims: &[i64], offset: u64) -> TensorProto {
    let entry = |(k, v): (&str, String)| StringStringEntryProto { key: k.into(), value: v };
    TensorProto {
        name: name.into(),
        data_type: elem.code(),
        dims: dims.to_vec(),
        data_location: 1,
        external_data: [("location", "weights.bin".into()), ("offset", offset.to_string())].map(entry).into(),
        ..Default::default()
    }
}

/// Kilobytes of memory of this process that hold no file.
fn anonymous_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_file_of_three_gibibytes_takes_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("weights.bin")).expect("a file");
    file.set_len(3 * GIB).expect("a sparse file");
    let last: Vec<u8> = [1.5f32, -2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    file.write_all_at(&last, 3 * GIB - 8).expect("the last bytes");
    let nodes = vec![node("Gather", "table i", "row"), node("Cast", "row", "f"), node("Add", "f w", "y")];
    let nodes = nodes.into_iter().map(|n| if n.op_type == "Cast" { with(n, int("to", 1)) } else { n }).collect();
    let mut model = simple(13, nodes);
    let graph = model.graph.as_mut().expect("a graph");
    graph.input = vec![info("i", ElemType::S64, "2")];
    graph.initializer = vec![
        external("table", ElemType::U8, &[(5 * GIB / 2) as i64], 0),
        external("w", ElemType::F32, &[2], 3 * GIB - 8),
    ];
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).expect("a model");
    let before = anonymous_kb();
    let (graph, _) = import_onnx(&path, &ImportOptions::default()).expect("it loads");
    let w = graph.find_value("w").and_then(|id| graph.constant(id)).expect("a constant");
    assert_eq!(w.as_slice::<f32>().expect("floats"), [1.5, -2.5]);
    let table = graph.find_value("table").and_then(|id| graph.constant(id)).expect("a constant");
    assert_eq!(table.bytes().len() as u64, 5 * GIB / 2);
    assert!(anonymous_kb() < before + 64 * 1024, "the weights were copied");
}

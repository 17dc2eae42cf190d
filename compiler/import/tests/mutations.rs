//! Damaged models: seeded mutations of good ones are imported or refused; nothing panics, and no small file makes
//! the importer ask for much memory. This file holds one test, so that nothing else allocates beside it.
mod common;

use common::*;
use ottava_import::onnx::proto::*;
use ottava_import::{ExportOptions, ImportOptions, export_onnx, import_onnx_bytes};
use prost::Message;

/// Memory that the import of a small file may take.
const MAX_MEMORY: u64 = 64 << 20;

/// A small generator of numbers (xorshift), so that a failure can be repeated by its seed.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, list: &'a mut [T]) -> Option<&'a mut T> {
        let idx = self.below(list.len());
        list.get_mut(idx)
    }

    /// A number that hurts: huge, negative, or at a border.
    fn nasty(&mut self) -> i64 {
        let values = [0, 1, -1, i64::MAX, i64::MIN, 1 << 31, 1 << 40, 1 << 62, -2, 65, 255, 1 << 20];
        values[self.below(values.len())]
    }
}

fn bytes_changed(model: &ModelProto, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = model.encode_to_vec();
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len())),
        1 => {
            let (at, n) = (rng.below(bytes.len()), rng.below(16));
            bytes.drain(at..(at + n).min(bytes.len()));
        }
        2 => {
            let (at, n) = (rng.below(bytes.len()), rng.below(16));
            let noise: Vec<u8> = (0..n).map(|_| rng.next() as u8).collect();
            bytes.splice(at..at, noise);
        }
        _ => {
            for _ in 0..=rng.below(8) {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
        }
    }
    bytes
}

fn message_changed(mut model: ModelProto, rng: &mut Rng) -> Vec<u8> {
    let nasty = rng.nasty();
    let graph = model.graph.as_mut().expect("a graph");
    let names: Vec<String> = graph.node.iter().flat_map(|n| n.output.iter().chain(&n.input)).cloned().collect();
    let name = names[rng.below(names.len())].clone();
    match rng.below(9) {
        0 => {
            if let Some(dim) = rng.pick(&mut graph.initializer).and_then(|t| t.dims.first_mut()) {
                *dim = nasty;
            }
        }
        1 => {
            if let Some(tensor) = rng.pick(&mut graph.initializer) {
                tensor.dims.extend([nasty; 8]);
            }
        }
        2 => {
            if let Some(tensor) = rng.pick(&mut graph.initializer) {
                tensor.data_type = nasty as i32;
            }
        }
        3 => {
            // Often a cycle or a double definition.
            if let Some(input) = rng.pick(&mut graph.node).and_then(|n| n.input.first_mut()) {
                *input = name;
            }
        }
        4 => {
            if let Some(output) = rng.pick(&mut graph.node).and_then(|n| n.output.first_mut()) {
                *output = name;
            }
        }
        5 => {
            if let Some(attribute) = rng.pick(&mut graph.node).and_then(|n| n.attribute.first_mut()) {
                attribute.r#type = nasty as i32;
            }
        }
        6 => {
            if let Some(attribute) = rng.pick(&mut graph.node).and_then(|n| n.attribute.first_mut()) {
                attribute.i = attribute.i.map(|_| nasty);
                attribute.ints.iter_mut().for_each(|i| *i = nasty);
            }
        }
        7 => model.opset_import[0].version = nasty,
        _ => {
            let shape = TensorShapeProto {
                dim: vec![
                    tensor_shape_proto::Dimension {
                        value: Some(tensor_shape_proto::dimension::Value::DimValue(nasty)),
                        ..Default::default()
                    };
                    1 + rng.below(40)
                ],
            };
            let tensor = type_proto::Tensor { elem_type: 1 + rng.below(30) as i32, shape: Some(shape) };
            let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
            if let Some(input) = rng.pick(&mut graph.input) {
                input.r#type = Some(ty);
            }
        }
    }
    model.encode_to_vec()
}

/// Imports, and writes what could be imported. Whether it was.
fn survives(bytes: Vec<u8>) -> bool {
    match import_onnx_bytes(bytes.into(), "mutated.onnx", &ImportOptions::default()) {
        Ok((graph, _)) => {
            // A graph that came in may hold what ONNX cannot say, but writing it must not panic.
            let _ = export_onnx(&graph, &ExportOptions::default());
            true
        }
        Err(e) => {
            assert!(e.to_string().contains("mutated.onnx") || e.to_string().contains("tensor"), "{e}");
            false
        }
    }
}

/// The largest address space that the process has had, where the system says so.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmPeak:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn damaged_models_are_refused_without_panic_and_in_bounded_memory() {
    let models = [old_network(), qdq_network(), function_network()];
    // The first import sets up what the process keeps (the allocator's arena).
    assert!(models.iter().all(|m| survives(m.encode_to_vec())));
    let before = peak_memory();
    let (mut imported, mut refused) = (0, 0);
    for seed in 1..=400u64 {
        for model in &models {
            let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            rng.next();
            let changed = [bytes_changed(model, &mut rng), message_changed(model.clone(), &mut rng)];
            for bytes in changed {
                if survives(bytes) { imported += 1 } else { refused += 1 }
            }
        }
    }
    assert!(imported > 100 && refused > 1000, "{imported} imported, {refused} refused: the mutations miss the point");
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before <= MAX_MEMORY, "the peak grew by {} bytes", after - before);
    }
}

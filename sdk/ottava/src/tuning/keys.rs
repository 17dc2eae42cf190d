//! What a measurement holds for: a processor, a driver with its options, a model.

use super::{DeviceKey, Machine, ModelKey};
use crate::error::{Error, Result, codes};
use crate::registry::{BUILT_IN, OpenDevice, Registry};
use ottava_graph::Graph;
use sha2::{Digest, Sha256};
use std::path::Path;

/// The processor of this machine.
pub(super) fn machine() -> Machine {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        text.lines().find_map(value)
    };
    let or_unknown = |found: Option<String>| found.unwrap_or_else(|| "unknown".to_owned());
    let numbers: Vec<String> = ["cpu family", "model", "stepping", "CPU part", "CPU revision"]
        .iter()
        .filter_map(|name| Some(format!("{name} {}", field(name)?)))
        .collect();
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let model = if numbers.is_empty() { name } else { format!("{name} ({})", numbers.join(", ")) };
    let vendor = or_unknown(field("vendor_id").or_else(|| field("CPU implementer")));
    Machine { vendor, model, features: features() }
}

/// The extensions that are there, of those that kernels know.
macro_rules! detected {
    ($is_there:ident: $($name:tt),*) => {
        vec![$(($name, std::arch::$is_there!($name))),*]
    };
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<String> {
    let all = detected!(is_x86_feature_detected:
        "avx", "avx2", "avx512bw", "avx512f", "avx512vl", "avx512vnni", "avxvnni", "f16c", "fma", "sse4.1");
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<String> {
    let all = detected!(is_aarch64_feature_detected: "dotprod", "fp16", "i8mm", "neon", "sve", "sve2");
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<String> {
    Vec::new()
}

/// What stands for a model: the SHA-256 of its canonical graph, structure and constants.
pub(crate) fn model(canonical: &Graph) -> ModelKey {
    let mut hash = Sha256::new();
    let mut bare = canonical.clone();
    bare.values.iter_mut().for_each(|v| v.constant = None);
    hash.update(ottava_graph::text::print(&bare));
    for value in &canonical.values {
        if let Some(data) = &value.constant {
            hash.update(format!("\n{} {} {}\n", value.name, value.ty, data.bytes().len()));
            hash.update(data.bytes());
        }
    }
    ModelKey { name: canonical.name.clone(), sha256: hex(&hash.finalize()) }
}

/// The driver of an open device with what its speed depends on; tuned options do not belong to it.
pub(super) fn device(registry: &Registry, open: &OpenDevice) -> Result<DeviceKey> {
    let source = registry.source(&open.driver.name).filter(|source| *source != BUILT_IN);
    Ok(DeviceKey {
        driver: open.driver.name.clone(),
        version: open.driver.version.clone(),
        library: source.map(|path| library(Path::new(path))).transpose()?,
        isa: open.device.info().isa.clone(),
        options: open.options.clone(),
    })
}

/// The SHA-256 of a library.
fn library(path: &Path) -> Result<String> {
    let failed = |e| Error::reading(codes::DRIVER_REFUSED, path, &e);
    let mut hash = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path).map_err(failed)?, &mut hash).map_err(failed)?;
    Ok(hex(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, Tensor, TensorType};

    fn graph(weight: f32, width: usize) -> Graph {
        let mut g = Graph::new("g");
        g.add_input("x", TensorType::fixed(DataType::F32, &[1, width]));
        g.add_const("w", Tensor::scalar(weight));
        g
    }

    #[test]
    fn shapes_and_weights_change_the_key() {
        let key = |w, n| model(&graph(w, n)).sha256;
        assert_eq!(key(1.0, 2), key(1.0, 2));
        assert_ne!(key(1.0, 2), key(1.5, 2));
        assert_ne!(key(1.0, 2), key(1.0, 3));
        assert_eq!(key(1.0, 2).len(), 64);
    }

    #[test]
    fn the_machine_says_the_same_twice() {
        assert_eq!(machine(), machine());
        assert!(!machine().model.is_empty() && machine().features.is_sorted());
    }
}

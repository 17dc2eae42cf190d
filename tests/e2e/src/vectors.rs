//! The ONNX backend node vectors that lie beside the tests (`onnx_node/README.md`), unpacked into a folder of the build.

use std::path::{Path, PathBuf};

/// Unpacks the archives, once per process, and returns the folders that hold cases with the path of the manifest.
pub fn unpack(into: &Path) -> (Vec<PathBuf>, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx_node");
    let mut folders = Vec::new();
    for archive in ["node", "qdq24"] {
        let to = into.join(archive);
        let packed = std::fs::File::open(source.join(format!("{archive}.tar.gz"))).expect("the archive is there");
        tar::Archive::new(flate2::read::GzDecoder::new(packed)).unpack(&to).expect("the archive unpacks");
        folders.push(case_folder(&to));
    }
    (folders, source.join("MANIFEST.tsv"))
}

/// The folder below `at` whose children hold `model.onnx`.
fn case_folder(at: &Path) -> PathBuf {
    let mut folder = at.to_path_buf();
    loop {
        let children: Vec<PathBuf> =
            std::fs::read_dir(&folder).expect("a folder").flatten().map(|e| e.path()).collect();
        if children.len() != 1 || children[0].join("model.onnx").is_file() {
            return folder;
        }
        folder.clone_from(&children[0]);
    }
}

//! Writes `compiler/import/src/onnx/proto.rs` from `compiler/import/proto/onnx.proto`.
//!
//! A developer's tool: see `compiler/import/proto/README.md`.
use std::error::Error;
use std::path::Path;

const HEADER: &str = "\
//! The messages of the ONNX format as Rust types.
//!
//! Generated from `compiler/import/proto/onnx.proto`; see the `README.md` beside it. Do not edit.
#![allow(missing_docs, clippy::all, clippy::pedantic)]
";

fn main() -> Result<(), Box<dyn Error>> {
    let proto_dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the tool lies below the proto folder")?;
    let out = std::env::temp_dir().join(format!("ottava-onnx-proto-{}", std::process::id()));
    std::fs::create_dir_all(&out)?;
    let files = protox::compile([proto_dir.join("onnx.proto")], [proto_dir])?;
    prost_build::Config::new()
        .bytes([".onnx.TensorProto.raw_data"])
        .disable_comments(["."])
        .out_dir(&out)
        .compile_fds(files)?;
    let generated = std::fs::read_to_string(out.join("onnx.rs"))?;
    std::fs::write(proto_dir.join("../src/onnx/proto.rs"), format!("{HEADER}\n{generated}"))?;
    std::fs::remove_dir_all(&out)?;
    Ok(())
}

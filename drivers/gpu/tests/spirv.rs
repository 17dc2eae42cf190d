//! The SPIR-V beside the kernels is what their text compiles to. `OTTAVA_WRITE_SPIRV=1` writes it anew.

use ottava_gpu::testing::skip;
use ottava_gpu::{ARITHMETIC, KERNELS, Kernel, PRELUDE_GLSL};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler whose bytes are checked in: another version arranges them in another way.
const COMPILER: &str = "Glslang Version: 11:12.0.0";

fn compiler() -> Option<String> {
    let out = Command::new("glslangValidator").arg("--version").output().ok()?;
    String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_owned)
}

fn text(kernel: &Kernel) -> String {
    let defines: String = kernel.defines.iter().map(|d| format!("#define {d}\n")).collect();
    format!("#version 450\n{defines}{PRELUDE_GLSL}{ARITHMETIC}{}", kernel.text)
}

fn compiled(kernel: &Kernel, folder: &Path) -> Vec<u8> {
    let (source, result) = (folder.join("kernel.comp"), folder.join("kernel.spv"));
    std::fs::write(&source, text(kernel)).expect("the text is written");
    let mut command = Command::new("glslangValidator");
    let out = command.args(["-V", "--target-env", "vulkan1.1", "-o"]).arg(&result).arg(&source).output();
    let out = out.expect("the compiler runs");
    assert!(out.status.success(), "{}: {}", kernel.full_name(), String::from_utf8_lossy(&out.stdout));
    std::fs::read(&result).expect("the compiler wrote a file")
}

#[test]
fn spirv_is_that_of_the_text() {
    let found = compiler();
    if found.as_deref() != Some(COMPILER) {
        let found = found.unwrap_or_else(|| "no glslangValidator".into());
        skip("SPIR-V of the kernels", &format!("found {found}, the files were made with {COMPILER}"));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let write = std::env::var_os("OTTAVA_WRITE_SPIRV").is_some();
    let spirv = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kernels/spirv");
    let mut stale = Vec::new();
    for kernel in KERNELS {
        let bytes = compiled(kernel, folder.path());
        if write {
            std::fs::write(spirv.join(kernel.full_name() + ".spv"), &bytes).expect("the SPIR-V is written");
        } else if bytes != kernel.spirv {
            stale.push(kernel.full_name());
        }
    }
    assert!(stale.is_empty(), "stale: {stale:?}; OTTAVA_WRITE_SPIRV=1 cargo test -p ottava-gpu --test spirv");
}

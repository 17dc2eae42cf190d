//! Writes `sdk/include/ottava_driver.h`; with `--freeze` also the snapshot of this version in `hal/abi/frozen`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = ottava_abi::header::c_header();
    std::fs::write(here.join("../../sdk/include/ottava_driver.h"), &header)?;
    if std::env::args().any(|a| a == "--freeze") {
        let [major, minor, _] = ottava_abi::note::SDK_VERSION;
        let folder = here.join(format!("frozen/{major}.{minor}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("ottava_driver.h"), &header)?;
        std::fs::write(folder.join("layout.json"), ottava_abi::header::layout_json())?;
    }
    Ok(())
}

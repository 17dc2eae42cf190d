//! One network over several devices: configurations that force a split, and runs whose bits are compared.

use crate::assets::registry;
use crate::devices::FloatsOnly;
use ottava::{
    Affine, Config, Data, DeviceEntry, DriverEntry, Feed, Model, Pending, Placement, Registry, RunOptions, Session,
    SessionOptions, Tensor, compile,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A device of the configuration.
pub fn device(id: &str, driver: &str, options: &[(&str, &str)]) -> DeviceEntry {
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    DeviceEntry { id: id.into(), driver: driver.into(), options: options.iter().map(own).collect() }
}

/// The devices in this order, the first that can run a node gets it.
pub fn priority(devices: Vec<DeviceEntry>) -> Config {
    let order = devices.iter().map(|d| d.id.clone()).collect();
    Config { placement: Placement::Priority(order), devices, ..Config::default() }
}

/// Built-in drivers under a configuration.
pub fn configured(config: &Config) -> Registry {
    registry().with(Arc::new(FloatsOnly)).configured(config.clone()).load_libraries()
}

/// The configuration with every second node of the first device banned from it.
pub fn alternating(model: &Model, mut config: Config) -> Config {
    let first = config.devices[0].id.clone();
    let plan = compile(model, &configured(&config), &SessionOptions::default()).expect("compiles").plan;
    let on_first = plan.placed.iter().filter(|p| p.device == first && !p.bridge);
    config.bans = on_first.skip(1).step_by(2).map(|p| (p.node.clone(), first.clone())).collect();
    config
}

/// Single-row inputs of the first rows.
pub fn rows(model: &Model, data: &Data, affine: Affine, limit: usize) -> Vec<Vec<Tensor>> {
    let feed = Feed::new(data, &model.inputs(), Some(affine)).expect("the data fits");
    (0..feed.n_rows.min(limit)).map(|i| feed.batch(i, 1, 1).expect("a row")).collect()
}

/// A session on a configuration.
pub fn session(model: &Model, config: &Config, options: &SessionOptions) -> Session {
    Session::new(model, &configured(config), options).expect("compiles for the devices")
}

/// Outputs of every row, one after the other.
pub fn one_by_one(session: &Session, rows: &[Vec<Tensor>]) -> Vec<Vec<Tensor>> {
    rows.iter().map(|r| session.run_ordered(r, false).expect("runs").0).collect()
}

/// Outputs of every row, all in flight at once (up to the configured number).
pub fn in_flight(session: &Session, rows: &[Vec<Tensor>]) -> Vec<Vec<Tensor>> {
    let start = |r: &Vec<Tensor>| session.run_async(r.clone(), RunOptions::default(), None).expect("starts");
    let pending: Vec<Pending> = rows.iter().map(start).collect();
    pending.into_iter().map(|p| p.wait().expect("runs").0).collect()
}

/// The cdylib of a driver, built like this test.
pub fn plugin(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", &format!("ottava-plugin-{name}")]);
    if profile.file_name().is_some_and(|p| p == "release") {
        cargo.arg("--release");
    }
    cargo.arg("--target-dir").arg(profile.parent().expect("the target folder"));
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "the plugin `{name}` builds");
    profile.join(format!("libottava_{name}.so"))
}

/// The configuration with a driver from its library instead of the built-in one.
pub fn from_library(mut config: Config, name: &str) -> Config {
    let library = DriverEntry::Library { path: plugin(name), sha256: None };
    let others = ["cpu", "npu"].into_iter().filter(|n| *n != name).map(|n| DriverEntry::Builtin(n.into()));
    config.drivers = Some(others.chain([library]).collect());
    config
}

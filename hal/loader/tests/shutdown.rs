//! The last call into a driver. In a process of its own, because it concerns every driver of the process.

mod common;

use common::*;
use ottava_hal::{Options, Status};

#[test]
fn a_driver_is_shut_down_when_nothing_uses_it_and_never_called_again() {
    let Some(built) = variant(&["VARIANT_SHUTDOWN"]) else { return };
    let mark = built.dir.path().join("was_shut_down");
    let driver = load(&built.library).driver.unwrap();
    let device = driver.open("variant", &Options::new()).unwrap();
    let buffer = device.alloc(&ottava_hal::BufferDesc { bytes: 8, alignment: 1 }).unwrap();
    drop(device);
    // The buffer still holds the device.
    assert_eq!(ottava_loader::shutdown(), ["variant"]);
    assert!(!mark.exists());
    drop(buffer);
    assert!(ottava_loader::shutdown().is_empty());
    assert!(mark.exists());
    assert_eq!(driver.devices().unwrap_err().status(), Status::NotFound);
    assert!(driver.open("variant", &Options::new()).is_err());
    assert!(reason(&built.library).1.contains("shut down"));
}

/// The library that [`child`] loads.
const LIBRARY: &str = "OTTAVA_TEST_LIBRARY";

/// Does nothing unless it is started by the test below: loads a driver and ends.
#[test]
fn child() {
    let Some(library) = std::env::var_os(LIBRARY) else { return };
    assert!(load(library.as_ref()).driver.is_some());
}

#[test]
fn a_driver_is_shut_down_at_the_end_of_the_process() {
    let Some(built) = variant(&["VARIANT_SHUTDOWN"]) else { return };
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", "child"]).env(LIBRARY, &built.library).output().unwrap().status;
    assert!(status.success());
    assert!(built.dir.path().join("was_shut_down").exists());
}

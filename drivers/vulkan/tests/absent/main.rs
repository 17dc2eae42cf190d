//! A machine whose Vulkan has no device: the driver has none either, says why, and does not fail.
#![allow(unsafe_code)] // the loader takes the driver's file from the environment alone

use ottava_driver_vulkan::VulkanDriver;
use ottava_hal::{Driver, Options, Status};

#[test]
fn without_a_device_there_is_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.json");
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        // SAFETY: this process has no other test, and Vulkan has not been reached yet.
        unsafe { std::env::set_var(variable, &none) };
    }
    let driver = VulkanDriver::new();
    assert_eq!(driver.devices(), Ok(Vec::new()));
    let why = driver.absence().expect("there is no device");
    assert!(why.contains("Vulkan"), "{why}");
    println!("{why}");
    let refused = driver.open("vulkan", &Options::new()).err().expect("it cannot be opened");
    assert_eq!((refused.status(), refused.to_string()), (Status::Unsupported, why));
    let wrong = Options::from([("dots".to_owned(), "x".to_owned())]);
    assert!(driver.open("vulkan", &wrong).err().unwrap().to_string().contains("no option `dots`"));
}

//! Mistakes that the validation layers must notice: without these tests their silence would prove nothing.

use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::memory::{Memory, Use};
use crate::options::Settings;
use crate::probe;
use crate::record::{Commands, copy};
use ash::vk;
use ottava_gpu::testing::skip;
use std::sync::Arc;
use std::time::Duration;

fn gpu(what: &str) -> Option<Arc<Gpu>> {
    let opened = Instance::validated().and_then(|instance| {
        let found = probe::find(&instance)?.swap_remove(0);
        Gpu::new(instance, found, &Settings::default())
    });
    opened.inspect_err(|e| skip(what, &e.to_string())).ok()
}

#[test]
fn a_wrong_call_is_an_error_of_the_next() {
    let Some(gpu) = gpu("validation layers on Vulkan") else { return };
    assert_eq!(gpu.check_messages(), Ok(()));
    let info = vk::BufferCreateInfo::default().usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    // SAFETY: none: a buffer without bytes is what must be noticed; the software driver survives it.
    unsafe {
        if let Ok(buffer) = gpu.raw.create_buffer(&info, None) {
            gpu.raw.destroy_buffer(buffer, None);
        }
    }
    let said = gpu.check_messages().unwrap_err().to_string();
    assert!(said.contains("validation layers object") && said.contains("VUID"), "{said}");
}

#[test]
fn a_missing_barrier_is_noticed() {
    let Some(gpu) = gpu("synchronization validation on Vulkan") else { return };
    let buffers = [(); 3].map(|()| Memory::new(&gpu, 64, Use::Device).unwrap());
    let [a, b, c] = buffers.each_ref().map(|m| (m.buffer, 0));
    let two_copies = |with_barrier: bool| {
        let commands = Commands::record(&gpu, |raw, commands| {
            copy(raw, commands, a, b, 64);
            if with_barrier {
                crate::record::barrier(raw, commands);
            }
            copy(raw, commands, b, c, 64);
            Ok(())
        })
        .unwrap();
        let progress = gpu.lanes[0].progress;
        // SAFETY: the semaphore lives as long as the device.
        let before = unsafe { gpu.raw.get_semaphore_counter_value(progress) }.unwrap();
        gpu.submit(0, &[commands.buffer], &[], &[(progress, before + 1)]).unwrap();
        assert_eq!(gpu.wait(&[progress], &[before + 1], Duration::from_secs(60)), Ok(true));
    };
    two_copies(true);
    assert_eq!(gpu.check_messages(), Ok(()));
    two_copies(false);
    let said = gpu.check_messages().unwrap_err().to_string();
    assert!(said.contains("SYNC-HAZARD-READ-AFTER-WRITE") || said.contains("SYNC-HAZARD-READ_AFTER_WRITE"), "{said}");
}

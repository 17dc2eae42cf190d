//! A steady state allocates nothing: the same program on the same buffers, again and again.
#![allow(unsafe_code)] // A global allocator cannot be written without.

#[path = "../vulkan/common.rs"]
#[allow(dead_code)] // what the other tests need of it
mod common;

use common::{LONG, compile, contents, dequantize, reference, submission, unchecked};
use ottava_hal::Device;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn submissions_of_the_same_work_allocate_and_compile_nothing() {
    let Some(device) = unchecked("steady state on Vulkan", &[]) else { return };
    let (program, x) = dequantize(4096);
    let exe = compile(device.as_ref(), &program);
    let (mut run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    let (queue, fence) = (device.create_queue().unwrap(), device.create_fence(0).unwrap());
    run.signals = vec![(Arc::clone(&fence), 0)];
    run.waits = vec![(Arc::clone(&fence), 0)];
    let mut value = 0;
    let mut round = |rounds: u64| {
        for _ in 0..rounds {
            run.waits[0].1 = value;
            value += 1;
            run.signals[0].1 = value;
            queue.submit(&run).unwrap();
            // Up to four are in flight, each waiting for the one before on the device.
            fence.wait(value.saturating_sub(4), LONG).unwrap();
        }
        fence.wait(value, LONG).unwrap();
    };
    round(50);
    let (before, compiled) = (COUNT.load(Ordering::SeqCst), device.compiled());
    round(200);
    let after = COUNT.load(Ordering::SeqCst);
    assert_eq!(device.compiled(), compiled);
    assert_eq!(after - before, 0, "allocations in 200 submissions");
    assert_eq!(contents(&outs), reference(&program, &[x]));
}

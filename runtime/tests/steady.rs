//! In the steady state an inference allocates nothing but its outputs.

mod fakes;

use fakes::{Fake, Net, bytes, devices, expected, inputs};
use ottava_hal::CompileOptions;
use ottava_runtime::{RunOptions, Runner};

/// Counts the allocations of each thread.
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub struct Counting;

    pub fn count() -> u64 {
        COUNT.with(Cell::get)
    }

    #[allow(unsafe_code)] // A global allocator cannot be written without.
    // SAFETY: every call goes to the system's allocator with the arguments that came in.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // A thread that ends has no counter any more; nobody asks for it then.
            let _ = COUNT.try_with(|c| c.set(c.get() + 1));
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract of `dealloc`; the memory is the system's.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn a_synchronous_plan_allocates_nothing_in_the_steady_state() {
    let a = Fake::sync("a");
    let runner = Runner::new(Net::zigzag("a", "a"), &devices(&[&a]), &CompileOptions::default()).expect("loads");
    let given = inputs(4);
    let (mut outputs, _) = runner.run(&given, RunOptions::default()).expect("runs");
    let before = counting::count();
    for _ in 0..100 {
        runner.run_into(&given, &mut outputs, RunOptions::default(), None).expect("runs");
    }
    assert_eq!(counting::count() - before, 0);
    assert_eq!(bytes(&outputs), expected(runner.plan(), &given));
}

#[test]
fn the_thread_of_an_inference_allocates_nothing_for_queued_steps_either() {
    fakes::COUNTER.set(counting::count).expect("set once");
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let runner = Runner::new(Net::zigzag("a", "b"), &devices(&[&a, &b]), &CompileOptions::default()).expect("loads");
    let given = inputs(4);
    let (mut outputs, _) = runner.run(&given, RunOptions::default()).expect("runs");
    let before = (counting::count(), fakes::own_allocations());
    for _ in 0..100 {
        runner.run_into(&given, &mut outputs, RunOptions::default(), None).expect("runs");
    }
    let (all, fakes) = (counting::count() - before.0, fakes::own_allocations() - before.1);
    assert!(fakes > 0, "the queue of the fake clones submissions");
    assert_eq!(all, fakes);
    assert_eq!(bytes(&outputs), expected(runner.plan(), &given));
}

